//! The policy in force, as people read it.

use aye_core::Proof;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyView {
    pub auto_approve: Vec<String>,
    /// In order: the first that matches decides.
    pub rules: Vec<RuleView>,
    pub timeout: TimeoutView,
    /// `wait`, `reject`, or such as `reject after 5m`.
    pub when_unattended: String,
    pub outline_preapproval: String,
    /// What every allow by a person takes.
    pub proof: Proof,
    /// What is wrong with `config.toml`.
    pub problem: Option<String>,
    /// What is in force until that is fixed, in a sentence.
    pub meanwhile: Option<String>,
    /// Which rules and grants decided how many of the latest asks.
    pub decided: Vec<RuleCount>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RuleView {
    pub number: usize,
    pub name: Option<String>,
    pub action: String,
    pub agent: Option<String>,
    pub cwd: Option<String>,
    pub tool: Option<String>,
    pub command: Option<String>,
    /// How an allow rule's command is read, where that differs from how it is written.
    pub read_as: Option<String>,
    pub input: BTreeMap<String, String>,
    /// What is dangerous about the rule.
    pub cautions: Vec<String>,
    pub message: Option<String>,
    /// What allowing it takes, for a rule that asks.
    pub proof: Proof,
}

/// How long an ask of each kind waits; without it, forever.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TimeoutView {
    pub question: Option<String>,
    pub permission: Option<String>,
    pub plan: Option<String>,
}

/// How many asks a rule or a grant decided.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RuleCount {
    pub rule: String,
    pub asks: u64,
}
