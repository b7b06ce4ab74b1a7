//! What a policy decided, by which rule, and why.

use crate::rule::{Rule, RuleId};
use aye_core::proof::Proof;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub action: Action,
    pub source: Source,
    /// The reason, in a sentence for people.
    pub because: String,
    /// The proof that a person needs to allow it.
    pub proof: Proof,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Allow,
    /// The message is for the agent.
    Deny {
        message: String,
    },
    Ask,
}

/// Which part of the policy decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In the order of the file, without duplicates. Several if different rules allowed different parts of one command.
    Rules(Vec<RuleId>),
    AutoApprove,
    /// None of it, so a person is asked.
    Nothing,
}

impl Decision {
    pub(crate) fn ask(because: String) -> Self {
        Self { action: Action::Ask, source: Source::Nothing, because, proof: Proof::None }
    }

    /// Whether a grant may still allow it. A rule that asks means every time, so grants do not override it.
    pub fn is_open_to_grants(&self) -> bool {
        self.action == Action::Ask && self.source == Source::Nothing
    }
}

impl Source {
    pub(crate) fn of<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Self {
        let mut ids: Vec<RuleId> = rules.into_iter().map(|rule| rule.id.clone()).collect();
        ids.sort_by_key(|id| id.number);
        ids.dedup();
        Source::Rules(ids)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Source::Rules(ids) => {
                let ids: Vec<String> = ids.iter().map(|id| format!("rule {id}")).collect();
                f.write_str(&ids.join(" and "))
            }
            Source::AutoApprove => f.write_str("auto_approve"),
            Source::Nothing => f.write_str("no rule"),
        }
    }
}
