//! What can be wrong with a policy file, in sentences for the person who wrote it.

use crate::pattern::BadPattern;
use crate::rule::RuleId;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    #[error("auto_approve: {pattern:?}: {source}")]
    AutoApprovePattern { pattern: String, source: BadPattern },
    #[error(
        "auto_approve: {pattern:?} would answer {tool} in a person's place; questions and plans always go to a person"
    )]
    AutoApprovePersonOnly { pattern: String, tool: &'static str },
    #[error("rule {rule}: {flaw}")]
    Rule { rule: RuleId, flaw: Flaw },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("{field} = {pattern:?}: {source}")]
    Pattern { field: String, pattern: String, source: BadPattern },
    #[error("an allow rule needs a condition; to allow every tool, write tool = \"*\"")]
    Unconditional,
    #[error("{tool} cannot be allowed by a rule: questions and plans always go to a person")]
    PersonOnly { tool: &'static str },
    #[error("tool = {tool:?} runs no shell commands, so command = … never matches; use input = {{ … }}")]
    NotAShell { tool: String },
    #[error(
        "input.{field} of {tool} is a command line, where a pattern would match past a `;`; use command = …, or name another tool"
    )]
    CommandAsInput { tool: &'static str, field: String },
    #[error("only a rule that denies has a message")]
    StrayMessage,
    #[error("only a rule that asks has a proof: what a rule decides by itself, nobody proves")]
    StrayProof,
    #[error("an example must be a table here, because the rule is about neither a command nor a tool")]
    VagueExample,
    #[error("must match its example {0}, and does not")]
    MissesExample(String),
    #[error("must not match its example {0}, and does")]
    MatchesCounterexample(String),
}
