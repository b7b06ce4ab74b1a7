//! What may be decided without asking a person: rules from `config.toml`, and grants given while answering. Nothing here
//! does I/O, reads a clock or looks at the environment. In case of doubt, a person is asked.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod call;
mod carried;
pub mod command;
pub mod coverage;
pub mod decision;
pub mod file;
pub mod grants;
pub mod mistake;
pub mod names;
mod options;
pub mod own_places;
pub mod pattern;
pub mod policy;
pub mod rule;
pub mod shell;
pub mod url;

pub use call::{Folder, ToolCall, tool_and_input};
pub use command::{Advice, CommandPattern};
pub use coverage::{Lost, NearMiss};
pub use decision::{Action, Decision, Source};
pub use file::{OutlinePreapproval, PolicyFile, Timeout, Timeouts, WhenUnattended};
pub use grants::{Exactly, Grant, NotGrantable};
pub use mistake::{Flaw, Mistake};
pub use names::{Name, Names};
pub use own_places::OwnPlaces;
pub use policy::{Policy, Reading};
pub use rule::{Example, ExampleCall, Rule, RuleDraft, RuleId, Verb};
pub use shell::Script;
