//! The policy in force, as people read it, and what it decided.

use super::App;
use super::json::{Failure, Reply, ok};
use crate::hub::RuleCount;
use axum::extract::State;
use aye_core::{Kind, Proof};
use aye_policy::{OutlinePreapproval, Policy, Rule, Verb};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize, JsonSchema)]
pub struct PolicyView {
    auto_approve: Vec<String>,
    /// In order: the first that matches decides.
    rules: Vec<RuleView>,
    timeout: TimeoutView,
    /// `wait`, `reject`, or such as `reject after 5m`.
    when_unattended: String,
    outline_preapproval: &'static str,
    /// What every allow by a person takes.
    proof: Proof,
    /// What is wrong with `config.toml`.
    problem: Option<String>,
    /// What is in force until that is fixed, in a sentence.
    meanwhile: Option<&'static str>,
    /// Which rules and grants decided how many of the latest asks.
    decided: Vec<RuleCount>,
}

#[derive(Serialize, JsonSchema)]
pub struct RuleView {
    number: usize,
    name: Option<String>,
    action: &'static str,
    agent: Option<String>,
    cwd: Option<String>,
    tool: Option<String>,
    command: Option<String>,
    /// How an allow rule's command is read, where that differs from how it is written.
    read_as: Option<String>,
    input: BTreeMap<String, String>,
    /// What is dangerous about the rule.
    cautions: Vec<String>,
    message: Option<String>,
    /// What allowing it takes, for a rule that asks.
    proof: Proof,
}

/// How long an ask of each kind waits; without it, forever.
#[derive(Serialize, JsonSchema)]
pub struct TimeoutView {
    question: Option<String>,
    permission: Option<String>,
    plan: Option<String>,
}

pub async fn view(State(app): State<App>) -> Result<Reply<PolicyView>, Failure> {
    let (policy, trouble) = (app.hub.policy(), app.hub.policy_trouble());
    let decided = app.hub.decided_by_rules().await?;
    Ok(ok(PolicyView {
        auto_approve: policy.auto_approve().map(ToString::to_string).collect(),
        rules: policy.rules().iter().map(rule).collect(),
        timeout: TimeoutView {
            question: timeout(&policy, Kind::Question),
            permission: timeout(&policy, Kind::Permission),
            plan: timeout(&policy, Kind::Plan),
        },
        when_unattended: policy.when_unattended.to_string(),
        outline_preapproval: match policy.outline_preapproval {
            OutlinePreapproval::Same => "same",
            OutlinePreapproval::Next => "next",
        },
        proof: policy.proof,
        meanwhile: trouble.as_ref().map(|trouble| trouble.meanwhile),
        problem: trouble.map(|trouble| trouble.problem),
        decided,
    }))
}

fn timeout(policy: &Policy, kind: Kind) -> Option<String> {
    policy.timeout.of(kind).map(|after: SignedDuration| format!("{after:#}"))
}

fn rule(rule: &Rule) -> RuleView {
    RuleView {
        number: rule.id.number,
        name: rule.id.name.as_ref().map(ToString::to_string),
        action: match rule.verb {
            Verb::Allow => "allow",
            Verb::Deny => "deny",
            Verb::Ask => "ask",
        },
        agent: rule.agent.clone(),
        cwd: rule.cwd.as_ref().map(ToString::to_string),
        tool: rule.tool.as_ref().map(ToString::to_string),
        command: rule.command.as_ref().map(ToString::to_string),
        read_as: rule.read_as(),
        input: rule.input.iter().map(|field| (field.name.clone(), field.glob.to_string())).collect(),
        cautions: rule.cautions(),
        message: rule.message.as_ref().map(ToString::to_string),
        proof: rule.proof,
    }
}
