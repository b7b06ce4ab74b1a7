//! One rule: when it applies, and what it decides.

use crate::call::{COMMAND_FIELD, ToolCall, unusual_field};
use crate::command::CommandPattern;
use crate::pattern::{FolderGlob, Glob, settle_path};
use crate::shell::{Part, Script};
use crate::url::{UrlPattern, is_address_field, looks_like_address};
use aye_core::digest::canonical;
use aye_core::ids::Text;
use aye_core::proof::Proof;
use aye_core::tool::Tool;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// A rule as a person writes it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleDraft {
    pub name: Option<Text>,
    /// The kind of agent, exactly.
    pub agent: Option<String>,
    pub cwd: Option<String>,
    pub tool: Option<String>,
    pub command: Option<String>,
    /// A pattern for each input field that matters.
    #[serde(default)]
    pub input: BTreeMap<String, String>,
    pub action: Verb,
    /// What the agent is told when the rule denies.
    pub message: Option<Text>,
    /// What allowing it requires, for a rule that asks.
    #[serde(default)]
    pub proof: Proof,
    #[serde(default)]
    pub matches: Vec<Example>,
    #[serde(default)]
    pub not_matches: Vec<Example>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    Allow,
    Deny,
    Ask,
}

/// A call that a rule must match, or must not. A plain text is a command if the rule has a `command`, else the name of a
/// tool. Conditions that an example does not mention count as met.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Example {
    Text(String),
    Call(ExampleCall),
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Example::Text(text) => write!(f, "{text:?}"),
            Example::Call(ExampleCall { agent, cwd, tool, input }) => {
                write!(f, "{}", json!({ "agent": agent, "cwd": cwd, "tool": tool, "input": input }))
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExampleCall {
    pub agent: Option<String>,
    pub cwd: Option<String>,
    pub tool: Option<String>,
    pub input: Option<Map<String, Value>>,
}

/// A rule by its position in the file, from 1, and its name if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleId {
    pub number: usize,
    pub name: Option<Text>,
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} ({name})", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

/// A checked rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub id: RuleId,
    pub agent: Option<String>,
    pub cwd: Option<FolderGlob>,
    pub tool: Option<Glob>,
    /// As written, and as deny and ask rules match it.
    pub command: Option<Glob>,
    /// The command as an allow rule interprets it.
    pub words: Option<CommandPattern>,
    pub input: Vec<Field>,
    pub verb: Verb,
    pub message: Option<Text>,
    pub proof: Proof,
    /// Examples that the rule matches only with [`Syntax::Glob`].
    pub lost_examples: Vec<String>,
    /// A counterexample that the rule matches now but not with [`Syntax::Glob`]. Such a rule allows nothing.
    pub suspended: Option<String>,
}

/// A condition on one field of a tool's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub glob: Glob,
    /// The pattern as an allow rule interprets it, if it is an address.
    pub url: Option<UrlPattern>,
}

/// How the patterns of an allow rule are interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Word by word, and addresses by host. This is in force.
    Words,
    /// As globs over the whole text, as in earlier versions, to find out what a rule no longer covers.
    Glob,
}

impl Rule {
    /// Checks everything but the command. Allow rules match only normalised paths, so `..` cannot widen them; deny and ask
    /// rules normalise paths first.
    pub(crate) fn applies_to(&self, call: &ToolCall) -> bool {
        self.suspended.is_none() && self.applies_as(call, Syntax::Words)
    }

    pub(crate) fn applies_as(&self, call: &ToolCall, syntax: Syntax) -> bool {
        let runs_command = call.runs_command();
        self.agent.as_ref().is_none_or(|agent| agent == call.agent_kind)
            && self.tool.as_ref().is_none_or(|tool| tool.matches(call.tool))
            && (self.command.is_none() || runs_command)
            && self.cwd.as_ref().is_none_or(|cwd| self.fits_folder(cwd, call.cwd))
            && self.input.iter().all(|field| self.fits_field(field, call.input, call.cwd, syntax))
            && (self.verb != Verb::Allow || !runs_command || self.accepts_fields(call.input))
    }

    fn fits_folder(&self, glob: &FolderGlob, cwd: &str) -> bool {
        match self.verb {
            Verb::Allow => glob.matches(cwd),
            Verb::Deny | Verb::Ask => glob.matches(&settle_path("/", cwd)),
        }
    }

    fn fits_field(&self, field: &Field, input: &Map<String, Value>, cwd: &str, syntax: Syntax) -> bool {
        let Some(value) = input.get(&field.name) else { return false };
        let text = value.as_str().map_or_else(|| Cow::Owned(canonical(value)), Cow::Borrowed);
        let glob = &field.glob;
        let is_path = glob.as_str().contains('/');
        let detours = is_path && text.split(['/', '\\']).any(|name| name == "..");
        match (self.verb, syntax) {
            (Verb::Allow, Syntax::Words) => field.allows(&text) && !detours,
            (Verb::Allow, Syntax::Glob) => glob.matches(&text) && !detours,
            (Verb::Deny | Verb::Ask, _) => {
                glob.matches(&text) || (is_path && glob.matches(&settle_path(cwd, &text)))
            }
        }
    }

    fn accepts_fields(&self, input: &Map<String, Value>) -> bool {
        let named_by_rule = |field: &str| self.input.iter().any(|named| named.name == field);
        unusual_field(input, named_by_rule).is_none()
    }

    /// Whether the rule decides for this part of a script. If a script changes its folder, rules for a folder allow nothing
    /// in it.
    pub(crate) fn decides(&self, part: &Part, script: &Script) -> bool {
        self.decides_as(part, script, Syntax::Words)
    }

    pub(crate) fn decides_as(&self, part: &Part, script: &Script, syntax: Syntax) -> bool {
        match self.verb {
            Verb::Allow => {
                let stays = self.cwd.is_none() || !script.parts.iter().any(|part| part.moves);
                let covers = match syntax {
                    Syntax::Words => self.words.as_ref().is_none_or(|pattern| pattern.covers(&part.words)),
                    Syntax::Glob => self.command.as_ref().is_none_or(|glob| glob.matches(&part.line)),
                };
                script.plain.is_ok() && stays && covers
            }
            Verb::Deny | Verb::Ask => self.command.is_none() || self.reached(part).is_some(),
        }
    }

    /// The text of this part, or of a command that it runs, that the rule matches.
    pub(crate) fn reached<'a>(&self, part: &'a Part) -> Option<&'a str> {
        let glob = self.command.as_ref()?;
        part.reaches.iter().find(|text| glob.matches(text)).map(String::as_str)
    }

    /// Whether the rule alone decides the whole script.
    fn settles(&self, script: &Script, syntax: Syntax) -> bool {
        let mut decided = script.parts.iter().map(|part| self.decides_as(part, script, syntax));
        match self.verb {
            Verb::Allow => decided.all(|it| it),
            Verb::Deny | Verb::Ask => decided.any(|it| it),
        }
    }

    pub(crate) fn matches_example(&self, example: &Example, syntax: Syntax) -> bool {
        match example {
            Example::Text(command) if self.command.is_some() => self.settles(&Script::read(command), syntax),
            Example::Text(tool) => self.tool.as_ref().is_none_or(|glob| glob.matches(tool)),
            Example::Call(call) => self.matches_call(call, syntax),
        }
    }

    fn matches_call(&self, call: &ExampleCall, syntax: Syntax) -> bool {
        /// True unless both the condition and a value exist and do not match.
        fn fits<C, V: ?Sized>(
            condition: Option<&C>,
            value: Option<&V>,
            fit: impl Fn(&C, &V) -> bool,
        ) -> bool {
            condition.zip(value).is_none_or(|(condition, value)| fit(condition, value))
        }
        let command = |input: &Map<String, Value>| {
            let command = input.get(COMMAND_FIELD).filter(|_| self.may_be_about_commands())?;
            Some(command.as_str()?.to_owned())
        };
        let fields_fit = |input: &Map<String, Value>| {
            let cwd = call.cwd.as_deref().unwrap_or("/");
            self.input.iter().all(|field| self.fits_field(field, input, cwd, syntax))
                && command(input).is_none_or(|command| self.settles(&Script::read(&command), syntax))
        };
        fits(self.agent.as_ref(), call.agent.as_ref(), |agent, kind| agent == kind)
            && fits(self.tool.as_ref(), call.tool.as_ref(), |glob, tool| glob.matches(tool))
            && fits(self.cwd.as_ref(), call.cwd.as_ref(), |glob, cwd| self.fits_folder(glob, cwd))
            && call.input.as_ref().is_none_or(fields_fit)
    }

    /// Warnings for the person who wrote the rule.
    pub fn cautions(&self) -> Vec<String> {
        if self.verb != Verb::Allow {
            return vec![];
        }
        let mut cautions: Vec<String> = self.words.iter().flat_map(CommandPattern::dangers).collect();
        cautions.extend(self.input.iter().filter_map(|field| field.url.as_ref()?.danger()));
        if self.command.is_none() && self.may_be_about_commands() {
            cautions.push("dangerous: without `command` it covers every plain command".to_owned());
        }
        if let Some(example) = &self.suspended {
            cautions.push(format!(
                "it allows nothing: it would match its counterexample {example}; change the rule or the example"
            ));
        }
        cautions
    }

    /// The rule's command as it is interpreted, if that differs from how it is written.
    pub fn read_as(&self) -> Option<String> {
        let read = self.words.as_ref()?.to_string();
        let written = self.command.as_ref()?.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
        (read != written).then_some(read)
    }

    pub(crate) fn may_be_about_commands(&self) -> bool {
        self.tool.as_ref().is_none_or(|tool| tool.matches(Tool::Command.name()))
    }
}

impl Field {
    /// Addresses are matched only as addresses, or by `*`.
    fn allows(&self, text: &str) -> bool {
        let is_address = is_address_field(&self.name) || looks_like_address(text);
        match &self.url {
            Some(url) => url.matches(text),
            None => {
                let loose = self.glob.has_star() && !self.glob.matches_everything();
                self.glob.matches(text) && !(is_address && loose)
            }
        }
    }
}
