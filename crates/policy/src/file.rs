//! The policy as it is written in the configuration, and the check that turns it into a [`Policy`].

use crate::call::COMMAND_FIELD;
use crate::command::CommandPattern;
use crate::mistake::{Flaw, Mistake};
use crate::options::OptionPattern;
use crate::pattern::{BadPattern, FolderGlob, Glob};
use crate::policy::Policy;
use crate::rule::{Example, Field, Rule, RuleDraft, RuleId, Syntax, Verb};
use crate::url::UrlPattern;
use aye_core::body::Kind;
use aye_core::proof::Proof;
use aye_core::tool::Tool;
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyFile {
    pub auto_approve: Vec<String>,
    pub timeout: Timeouts,
    pub when_unattended: WhenUnattended,
    pub outline_preapproval: OutlinePreapproval,
    /// What allowing anything requires.
    pub proof: Proof,
    pub rules: Vec<RuleDraft>,
}

/// How long an ask of each kind waits for a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    pub question: Timeout,
    pub permission: Timeout,
    pub plan: Timeout,
}

impl Timeouts {
    pub fn of(&self, kind: Kind) -> Option<SignedDuration> {
        let Timeout(after) = match kind {
            Kind::Question => self.question,
            Kind::Permission => self.permission,
            Kind::Plan => self.plan,
        };
        after
    }
}

/// `never`, or a duration such as `300s` or `1h 30m`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct Timeout(pub Option<SignedDuration>);

impl TryFrom<String> for Timeout {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        if written == "never" {
            return Ok(Timeout(None));
        }
        match written.parse::<SignedDuration>() {
            Ok(after) if after.is_positive() => Ok(Timeout(Some(after))),
            Ok(_) => Err(format!("{written:?} leaves no time to answer")),
            Err(error) => Err(format!("must be \"never\" or a duration such as \"300s\": {error}")),
        }
    }
}

/// `wait`, `reject`, or `reject after 5m`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub enum WhenUnattended {
    #[default]
    Wait,
    /// Once nobody has been there for so long.
    Reject(SignedDuration),
}

impl WhenUnattended {
    /// How long nobody must have been there unless the file says otherwise.
    pub const USUAL: SignedDuration = SignedDuration::from_secs(30);
}

impl TryFrom<String> for WhenUnattended {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        let time = match written.as_str() {
            "wait" => return Ok(Self::Wait),
            "reject" => return Ok(Self::Reject(Self::USUAL)),
            other => other.strip_prefix("reject after ").and_then(|time| time.parse::<SignedDuration>().ok()),
        };
        match time.filter(|time| !time.is_negative()) {
            Some(time) => Ok(Self::Reject(time)),
            None => Err("must be \"wait\", \"reject\", or such as \"reject after 5m\"".to_owned()),
        }
    }
}

impl fmt::Display for WhenUnattended {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Wait => f.write_str("wait"),
            Self::Reject(time) if *time == Self::USUAL => f.write_str("reject"),
            Self::Reject(time) => write!(f, "reject after {time:#}"),
        }
    }
}

/// Which plan an approval in advance is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutlinePreapproval {
    #[default]
    Same,
    Next,
}

impl PolicyFile {
    /// Expands a leading `~`, which patterns do not support.
    pub fn expand_home(&mut self, user_home: &str) {
        let expand = |path: &mut String| match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => *path = format!("{user_home}{rest}"),
            Some(_) | None => {}
        };
        for rule in &mut self.rules {
            rule.cwd.iter_mut().chain(rule.input.values_mut()).for_each(expand);
            for example in rule.matches.iter_mut().chain(&mut rule.not_matches) {
                if let Example::Call(call) = example {
                    call.cwd.iter_mut().for_each(expand);
                }
            }
        }
    }

    /// Returns all problems at once, so that they can be fixed at once.
    pub fn check(self) -> Result<Policy, Vec<Mistake>> {
        let mut problems = vec![];
        let mut auto_approve = vec![];
        for pattern in self.auto_approve {
            match approvable(pattern) {
                Ok(glob) => auto_approve.push(glob),
                Err(problem) => problems.push(problem),
            }
        }
        let mut rules = vec![];
        for (i, draft) in self.rules.into_iter().enumerate() {
            let id = RuleId { number: i + 1, name: draft.name.clone() };
            match check_rule(id.clone(), draft) {
                Ok(rule) => rules.push(rule),
                Err(flaws) => {
                    problems.extend(flaws.into_iter().map(|flaw| Mistake::Rule { rule: id.clone(), flaw }));
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let (timeout, when_unattended) = (self.timeout, self.when_unattended);
        Ok(Policy {
            auto_approve,
            rules,
            timeout,
            when_unattended,
            outline_preapproval: self.outline_preapproval,
            proof: self.proof,
        })
    }
}

/// Accepts `*`, or a pattern that matches no tool whose purpose is to ask a person.
fn approvable(pattern: String) -> Result<Glob, Mistake> {
    match Glob::new(&pattern) {
        Err(source) => Err(Mistake::AutoApprovePattern { pattern, source }),
        Ok(glob) => match person_only(&glob) {
            Some(tool) => Err(Mistake::AutoApprovePersonOnly { pattern, tool }),
            None => Ok(glob),
        },
    }
}

/// A tool that asks a person and that the pattern names. `*` does not count: it means all other tools.
fn person_only(glob: &Glob) -> Option<&'static str> {
    let for_people = Tool::ALL.into_iter().filter(|tool| tool.needs_a_person()).map(Tool::name);
    for_people.into_iter().find(|tool| glob.matches(tool) && !glob.matches_everything())
}

fn check_rule(id: RuleId, draft: RuleDraft) -> Result<Rule, Vec<Flaw>> {
    let mut flaws = vec![];
    let mut rule = compile(id, &draft, &mut flaws);
    let unconditional = draft.agent.is_none()
        && draft.cwd.is_none()
        && draft.tool.is_none()
        && draft.command.is_none()
        && draft.input.is_empty();
    if unconditional && draft.action == Verb::Allow {
        flaws.push(Flaw::Unconditional);
    }
    if draft.action == Verb::Allow
        && let Some(tool) = rule.tool.as_ref().and_then(person_only)
    {
        flaws.push(Flaw::PersonOnly { tool });
    }
    if draft.message.is_some() && draft.action != Verb::Deny {
        flaws.push(Flaw::StrayMessage);
    }
    if !draft.proof.is_none() && draft.action != Verb::Ask {
        flaws.push(Flaw::StrayProof);
    }
    // Deny and ask rules also see the commands of tools that are not in the vocabulary.
    let is_known = |tool: &Glob| Tool::ALL.iter().any(|known| tool.matches(known.name()));
    match (&rule.tool, rule.may_be_about_commands()) {
        (Some(tool), false) if draft.command.is_some() && (draft.action == Verb::Allow || is_known(tool)) => {
            flaws.push(Flaw::NotAShell { tool: tool.to_string() });
        }
        (_, true) if draft.input.contains_key(COMMAND_FIELD) => {
            flaws.push(Flaw::CommandAsInput { tool: Tool::Command.name(), field: COMMAND_FIELD.to_owned() });
        }
        (Some(_) | None, _) => {}
    }
    // Examples of a rule that is already wrong would only repeat the error.
    if flaws.is_empty() {
        flaws.extend(check_examples(&mut rule, &draft));
    }
    if flaws.is_empty() { Ok(rule) } else { Err(flaws) }
}

fn compile(id: RuleId, draft: &RuleDraft, flaws: &mut Vec<Flaw>) -> Rule {
    let mut glob = |field: &str, pattern: &String| kept(field, pattern, Glob::new(pattern), flaws);
    let tool = draft.tool.as_ref().and_then(|pattern| glob("tool", pattern));
    let command = draft.command.as_ref().and_then(|pattern| glob("command", pattern));
    let allows = draft.action == Verb::Allow;
    let field = |(name, pattern): (&String, &String)| {
        let glob = glob(&format!("input.{name}"), pattern)?;
        let url = if allows { UrlPattern::new(pattern) } else { None };
        Some(Field { name: name.clone(), glob, url })
    };
    let input = draft.input.iter().filter_map(field).collect();
    let cwd = draft.cwd.as_ref().and_then(|pattern| kept("cwd", pattern, FolderGlob::new(pattern), flaws));
    let (agent, message) = (draft.agent.clone(), draft.message.clone());
    let words = command.as_ref().filter(|_| allows).map(|glob| CommandPattern::new(glob.as_str()));
    let options = command.as_ref().filter(|_| !allows).and_then(OptionPattern::new);
    Rule {
        id,
        agent,
        cwd,
        tool,
        command,
        words,
        options,
        input,
        verb: draft.action,
        message,
        proof: draft.proof,
        lost_examples: vec![],
        suspended: None,
    }
}

fn kept<T>(field: &str, pattern: &str, made: Result<T, BadPattern>, flaws: &mut Vec<Flaw>) -> Option<T> {
    let flaw = |source| Flaw::Pattern { field: field.to_owned(), pattern: pattern.to_owned(), source };
    made.map_err(|source| flaws.push(flaw(source))).ok()
}

/// A rule written when commands were matched as globs is not refused for that: examples that held then and do not hold
/// now are recorded in the rule.
fn check_examples(rule: &mut Rule, draft: &RuleDraft) -> Vec<Flaw> {
    let vague = |example: &&Example| {
        matches!(example, Example::Text(_)) && rule.command.is_none() && rule.tool.is_none()
    };
    if draft.matches.iter().chain(&draft.not_matches).any(|example| vague(&example)) {
        return vec![Flaw::VagueExample];
    }
    let matches = |rule: &Rule, example: &Example| rule.matches_example(example, Syntax::Words);
    let matched = |rule: &Rule, example: &Example| rule.matches_example(example, Syntax::Glob);
    let mut flaws = vec![];
    for example in draft.matches.iter().filter(|example| !matches(rule, example)).collect::<Vec<_>>() {
        match matched(rule, example) {
            true => rule.lost_examples.push(example.to_string()),
            false => flaws.push(Flaw::MissesExample(example.to_string())),
        }
    }
    for example in draft.not_matches.iter().filter(|example| matches(rule, example)).collect::<Vec<_>>() {
        let is_old = !rule.words.as_ref().is_some_and(CommandPattern::has_brackets);
        match is_old && !matched(rule, example) {
            true => rule.suspended = Some(example.to_string()),
            false => flaws.push(Flaw::MatchesCounterexample(example.to_string())),
        }
    }
    flaws
}

#[cfg(test)]
mod tests;
