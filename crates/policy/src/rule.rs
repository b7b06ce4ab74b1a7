//! One rule: when it applies, and what it decides.

use crate::call::{COMMAND_FIELD, Folder, ToolCall, unusual_field};
use crate::carried;
use crate::command::CommandPattern;
use crate::options::OptionPattern;
use crate::own_places::OwnPlaces;
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
    /// The command of a deny or ask rule, if it names options.
    pub(crate) options: Option<OptionPattern>,
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
    /// rules normalise paths first, and count in every folder that the agent may be in. To them, `Bash` is every tool
    /// that runs a command.
    pub(crate) fn applies_to(&self, call: &ToolCall) -> bool {
        self.suspended.is_none() && self.applies_as(call, Syntax::Words)
    }

    pub(crate) fn applies_as(&self, call: &ToolCall, syntax: Syntax) -> bool {
        let runs_command = call.runs_command();
        self.agent.as_ref().is_none_or(|agent| agent == call.agent_kind)
            && self.tool.as_ref().is_none_or(|tool| self.fits_tool(tool, call))
            && (self.command.is_none() || runs_command || (self.stops() && call.carries_command()))
            && self.cwd.as_ref().is_none_or(|cwd| self.fits_folder(cwd, call))
            && self.input.iter().all(|field| self.fits_field(field, call, syntax))
            && (self.verb != Verb::Allow || !runs_command || self.accepts_fields(call.input))
    }

    /// Whether it denies or asks.
    fn stops(&self) -> bool {
        match self.verb {
            Verb::Deny | Verb::Ask => true,
            Verb::Allow => false,
        }
    }

    fn fits_tool(&self, glob: &Glob, call: &ToolCall) -> bool {
        let is_shell = || self.stops() && glob.matches(Tool::Command.name()) && call.carries_command();
        glob.matches(call.tool) || is_shell()
    }

    fn fits_folder(&self, glob: &FolderGlob, call: &ToolCall) -> bool {
        match self.verb {
            Verb::Allow => glob.matches(call.cwd),
            Verb::Deny | Verb::Ask => {
                call.has_no_folder() || call.folders().iter().any(|folder| glob.matches(folder))
            }
        }
    }

    fn fits_field(&self, field: &Field, call: &ToolCall, syntax: Syntax) -> bool {
        let Some(value) = call.input.get(&field.name) else { return false };
        let text = value.as_str().map_or_else(|| Cow::Owned(canonical(value)), Cow::Borrowed);
        let glob = &field.glob;
        let is_path = glob.as_str().contains('/');
        let detours = is_path && text.split(['/', '\\']).any(|name| name == "..");
        match (self.verb, syntax) {
            (Verb::Allow, Syntax::Words) => field.allows(&text) && !detours,
            (Verb::Allow, Syntax::Glob) => glob.matches(&text) && !detours,
            (Verb::Deny | Verb::Ask, _) => {
                let in_folder = |folder: &String| glob.matches(&settle_path(folder, &text));
                glob.matches(&text) || (is_path && call.folders().iter().any(in_folder))
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

    /// The same for a command that a tool other than a shell carries. An allow rule for such a tool is about the tool, and
    /// allows it whatever the command.
    pub(crate) fn decides_carried(&self, part: &Part) -> bool {
        self.verb == Verb::Allow || self.command.is_none() || self.reached(part).is_some()
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
        let fits = |text: &str| {
            glob.matches(text) || self.options.as_ref().is_some_and(|options| options.matches(text))
        };
        part.reaches.iter().map(String::as_str).find(|text| fits(text))
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
        let (places, nothing) = (OwnPlaces::default(), Map::new());
        let example = ToolCall {
            agent_kind: call.agent.as_deref().unwrap_or_default(),
            cwd: call.cwd.as_deref().unwrap_or("/"),
            folder: Folder::Claimed,
            tool: call.tool.as_deref().unwrap_or(Tool::Command.name()),
            input: call.input.as_ref().unwrap_or(&nothing),
            places: &places,
        };
        // An example need not have a command, not even for a shell tool.
        let command = || match (example.input.get(COMMAND_FIELD), self.stops()) {
            (Some(command), _) if self.may_be_about_commands() => Some(Script::read(command.as_str()?)),
            (_, true) if !example.runs_command() => carried::script(example.tool, example.input),
            (Some(_) | None, _) => None,
        };
        let fields_fit = |_: &Map<String, Value>| {
            self.input.iter().all(|field| self.fits_field(field, &example, syntax))
                && command().is_none_or(|script| self.settles(&script, syntax))
        };
        fits(self.agent.as_ref(), call.agent.as_ref(), |agent, kind| agent == kind)
            && fits(self.tool.as_ref(), call.tool.as_ref(), |glob, _| self.fits_tool(glob, &example))
            && fits(self.cwd.as_ref(), call.cwd.as_ref(), |glob, _| self.fits_folder(glob, &example))
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
