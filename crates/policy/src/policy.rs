//! The policy: what happens to a tool call before a person is asked.
//!
//! Rules come first, in order, then `auto_approve`. If neither decides, a person is asked.
//!
//! A shell command is evaluated part by part. For each part the first rule that matches decides; across parts, deny beats
//! ask, and ask beats allow. So a compound command is allowed only if each part is allowed by a rule that comes before any
//! rule that would deny or ask about it. For a part that no rule matches a person is asked, unless `auto_approve` names
//! the shell tool. Rules that deny or ask also see the commands of every other tool (see [`crate::carried`]). A command that is not plain (see [`crate::shell`]) matches no allow rule, not even one without a
//! `command`. Only `auto_approve`, which does not look at commands, can allow it, and only if no rule denies or asks about
//! commands: such a rule could not see what it is meant to stop.
//!
//! Questions, plans and inputs that name aye's own files (see [`crate::own_places`]) are never approved here.

use crate::call::{Folder, ToolCall};
use crate::decision::{Action, Decision, Source};
use crate::file::{OutlinePreapproval, Timeouts, WhenUnattended};
use crate::grants::Exactly;
use crate::names::Names;
use crate::pattern::{FolderGlob, Glob};
use crate::rule::{Rule, Verb};
use crate::shell::{Opaque, Part, Script};
use aye_core::proof::Proof;
use aye_core::tool::Tool;
use aye_core::visible::{one_line, shorten};

/// A checked policy. The default decides nothing: a person is asked about everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub(crate) auto_approve: Vec<Glob>,
    pub(crate) rules: Vec<Rule>,
    pub timeout: Timeouts,
    pub when_unattended: WhenUnattended,
    pub outline_preapproval: OutlinePreapproval,
    /// What allowing anything requires.
    pub proof: Proof,
}

impl Policy {
    pub fn auto_approve(&self) -> impl Iterator<Item = &Glob> {
        self.auto_approve.iter()
    }

    /// In the order in which they are tried.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether anything requires proof to be allowed.
    pub fn asks_for_proof(&self) -> bool {
        self.strictest() != Proof::None
    }

    /// The strictest proof that anything requires.
    pub fn strictest(&self) -> Proof {
        self.proof.max(self.strictest_rule())
    }

    /// The proof for letting an agent bypass the rules, by starting it in a mode that asks for less or by letting it
    /// remember an approval itself.
    pub fn strictest_rule(&self) -> Proof {
        self.rules.iter().map(|rule| rule.proof).max().unwrap_or_default()
    }

    /// The proof for approving a plan in advance, whatever plan it will be.
    pub fn proof_for_plans(&self) -> Proof {
        let about_plans =
            |rule: &&Rule| rule.tool.as_ref().is_none_or(|tool| tool.matches(Tool::Plan.name()));
        let rules = self.rules.iter().filter(|rule| rule.command.is_none()).filter(about_plans);
        rules.map(|rule| rule.proof).max().unwrap_or_default().max(self.proof)
    }

    pub fn decide(&self, call: &ToolCall) -> Decision {
        self.read(call).decision
    }

    /// Evaluates a call, and determines what a grant for it would cover. The command is parsed once.
    pub fn read(&self, call: &ToolCall) -> Reading {
        let carried = call.carried_script();
        let judged = self.judge(call, carried.as_ref());
        let proof = self.proof_for(call, carried.as_ref(), &judged);
        let decision = Decision { proof, ..self.conclude(call, carried.as_ref(), &judged) };
        let mut reading = Reading { decision, exactly: None, names: Names::default() };
        if matches!(call.folder, Folder::Disputed(_)) {
            reading.goes_to_a_person("the agent is not where it says it is");
            return reading;
        }
        let allows = reading.decision.action == Action::Allow;
        if !allows && !reading.decision.is_open_to_grants() {
            return reading;
        }
        let script = carried.filter(|_| call.runs_command());
        if call.names_home() {
            if allows {
                reading.goes_to_a_person("the input names a place that belongs to aye");
            }
            return reading;
        }
        if !allows {
            reading.exactly = Exactly::of_script(call, script.as_ref()).ok();
        }
        if allows || reading.exactly.is_some() {
            reading.names = Names::of(call, script.as_ref());
        }
        reading
    }

    /// All parts count, not only the one that is given as the reason. A command that is not plain may hide what a rule about
    /// commands is meant for, so those rules count as well; an unclear call, or one from an unclear folder, may be what
    /// any rule is meant for.
    fn proof_for(&self, call: &ToolCall, script: Option<&Script>, judged: &[Judged]) -> Proof {
        let is_unclear = Tool::named(call.tool) == Some(Tool::Unclear);
        let may_be_elsewhere =
            judged.iter().any(|part| part.rule.is_some_and(|rule| is_for_some_folder(rule, call)));
        if is_unclear || matches!(call.folder, Folder::Disputed(_)) || may_be_elsewhere {
            return self.strictest();
        }
        let by_parts = judged.iter().filter_map(|part| part.rule);
        let is_opaque = script.is_some_and(|script| script.plain.is_err());
        let hidden =
            self.rules.iter().filter(|rule| is_opaque && rule.command.is_some() && rule.applies_to(call));
        by_parts.chain(hidden).map(|rule| rule.proof).max().unwrap_or_default().max(self.proof)
    }

    /// The first rule that matches each part. A call that runs no shell is a single part.
    pub(crate) fn judge<'a>(&'a self, call: &ToolCall, script: Option<&'a Script>) -> Vec<Judged<'a>> {
        let may_decide = |rule: &&Rule| {
            let elsewhere = |folders: &FolderGlob| !call.folder.may_be_in(folders);
            let may_not_allow = call.is_person_only() || rule.cwd.as_ref().is_some_and(elsewhere);
            !(rule.verb == Verb::Allow && may_not_allow) && rule.applies_to(call)
        };
        let rules: Vec<&Rule> = self.rules.iter().filter(may_decide).collect();
        match script {
            None => vec![Judged { part: None, rule: rules.first().copied() }],
            Some(script) => script
                .parts
                .iter()
                .map(|part| Judged {
                    part: Some(part),
                    rule: rules.iter().copied().find(|rule| match call.runs_command() {
                        true => rule.decides(part, script),
                        false => rule.decides_carried(part),
                    }),
                })
                .collect(),
        }
    }

    fn conclude(&self, call: &ToolCall, script: Option<&Script>, judged: &[Judged]) -> Decision {
        let verb_of = |rule: &Rule| match rule.verb {
            Verb::Deny if is_for_some_folder(rule, call) => Verb::Ask,
            Verb::Allow | Verb::Ask | Verb::Deny => rule.verb,
        };
        let first = |verb: Verb| {
            judged.iter().find_map(|part| Some((part, part.rule.filter(|rule| verb_of(rule) == verb)?)))
        };
        if let Some((part, rule)) = first(Verb::Deny) {
            let message = rule.message.as_ref().map_or_else(
                || format!("Denied by rule {} of the policy; no person was asked.", rule.id),
                ToString::to_string,
            );
            let because = format!("rule {} denies {}", rule.id, part.words(call, rule));
            return Decision {
                action: Action::Deny { message },
                source: Source::of([rule]),
                because,
                proof: Proof::None,
            };
        }
        if let Some((part, rule)) = first(Verb::Ask) {
            let words = part.words(call, rule);
            let because = match is_for_some_folder(rule, call) {
                true => format!("rule {} is about {words} in a folder, and this agent names none", rule.id),
                false => format!("rule {} asks about {words}", rule.id),
            };
            return Decision { action: Action::Ask, source: Source::of([rule]), because, proof: Proof::None };
        }
        if call.is_person_only() {
            return Decision::ask(format!("{} always goes to a person", one_line(call.tool)));
        }
        let opaque = script.and_then(|script| script.plain.as_ref().err());
        // A rule that denies or asks, and that might have if the command were plain.
        let misses = |rules: &[Rule]| {
            let watches =
                |rule: &&Rule| rule.verb != Verb::Allow && rule.command.is_some() && rule.applies_to(call);
            let (opaque, rule) = (opaque?, rules.iter().find(watches)?);
            let because = format!(
                "rule {} watches commands, and might not see all that this one runs: {opaque}",
                rule.id
            );
            Some(Decision::ask(because))
        };
        let Some(undecided) = judged.iter().find(|part| part.rule.is_none()) else {
            let rules: Vec<&Rule> = judged.iter().filter_map(|part| part.rule).collect();
            let last = rules.iter().map(|rule| rule.id.number).max().unwrap_or_default();
            if let Some(asked) = misses(&self.rules[..last.min(self.rules.len())]) {
                return asked;
            }
            let source = Source::of(rules);
            let because = match judged.len() {
                1 => format!("{source} allows it"),
                _ => format!("every part of it is allowed by {source}"),
            };
            return Decision { action: Action::Allow, source, because, proof: Proof::None };
        };
        if call.runs_command() && opaque.is_some_and(Opaque::is_oversize) {
            return Decision::ask(undecided.why(call, script));
        }
        if let Some(glob) = self.auto_approve.iter().find(|glob| glob.matches(call.tool)) {
            if let Some(asked) = misses(&self.rules) {
                return asked;
            }
            let because = format!("auto_approve has {glob:?}", glob = glob.as_str());
            return Decision {
                action: Action::Allow,
                source: Source::AutoApprove,
                because,
                proof: Proof::None,
            };
        }
        Decision::ask(undecided.why(call, script))
    }
}

/// The result of evaluating one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub decision: Decision,
    /// What a grant must cover, if one may still allow the call.
    pub exactly: Option<Exactly>,
    /// If the call may be allowed: the names to resolve first. None may lead to aye's own files.
    pub names: Names,
}

impl Reading {
    /// Lets neither rules nor grants allow it, for this reason.
    pub fn goes_to_a_person(&mut self, why: &str) {
        if self.decision.action == Action::Allow {
            let because = format!("{}, but {why}, and that always goes to a person", self.decision.because);
            self.decision = Decision { proof: self.decision.proof, ..Decision::ask(because) };
        }
        self.exactly = None;
        self.names = Names::default();
    }
}

/// A part of a call, and the rule that decides for it.
pub(crate) struct Judged<'a> {
    pub part: Option<&'a Part>,
    pub rule: Option<&'a Rule>,
}

impl Judged<'_> {
    /// The text in this part that the rule matched.
    fn words(&self, call: &ToolCall, rule: &Rule) -> String {
        let Some(part) = self.part else { return one_line(call.tool).into_owned() };
        match rule.reached(part) {
            Some(reached) if reached != part.line => {
                format!("{}, which {} leads to", code(reached), code(&part.line))
            }
            Some(_) | None => code(&part.line),
        }
    }

    fn why(&self, call: &ToolCall, script: Option<&Script>) -> String {
        let part = self.part.filter(|_| call.runs_command());
        match (part, script.map(|script| &script.plain)) {
            (Some(_), Some(Err(opaque))) => format!("no rule can allow this command: {opaque}"),
            (Some(part), _) => format!("no rule covers {}", code(&part.line)),
            (None, _) => format!("no rule covers {}", one_line(call.tool)),
        }
    }
}

/// Whether a rule that denies or asks is for a folder, and nobody knows which one the agent works in.
fn is_for_some_folder(rule: &Rule, call: &ToolCall) -> bool {
    rule.verb != Verb::Allow && rule.cwd.is_some() && call.has_no_folder()
}

/// A command for use in a sentence. Nobody approves by that sentence, so a long command may be cut.
fn code(command: &str) -> String {
    const LONGEST: usize = 200;
    format!("`{}`", shorten(&one_line(command), LONGEST))
}

#[cfg(test)]
mod tests;
