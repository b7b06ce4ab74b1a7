//! The policy in force, as people read it, and what it decided.

use super::App;
use super::json::{Failure, Reply, ok};
use crate::protocol::{PolicyView, RuleCount, RuleView, TimeoutView};
use axum::extract::State;
use aye_core::Kind;
use aye_policy::{OutlinePreapproval, Policy, Rule, Verb};
use jiff::SignedDuration;

pub async fn view(State(app): State<App>) -> Result<Reply<PolicyView>, Failure> {
    let (policy, trouble) = (app.hub.policy(), app.hub.policy_trouble());
    let decided = app.hub.decided_by_rules().await?.into_iter();
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
        }
        .to_owned(),
        proof: policy.proof,
        meanwhile: trouble.as_ref().map(|trouble| trouble.meanwhile.to_owned()),
        problem: trouble.map(|trouble| trouble.problem),
        decided: decided.map(|count| RuleCount { rule: count.rule, asks: count.asks }).collect(),
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
        }
        .to_owned(),
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
