//! What allow rules nearly cover, and what they covered when commands were matched as globs.

use crate::call::ToolCall;
use crate::command::Advice;
use crate::decision::Action;
use crate::policy::Policy;
use crate::rule::{Rule, RuleId, Syntax, Verb};
use crate::shell::Part;
use aye_core::visible::one_line;
use std::cmp::Reverse;

/// A rule that covers the beginning of a command but not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearMiss {
    pub rule: RuleId,
    /// The command that is not covered.
    pub line: String,
    pub advice: Advice,
}

impl Policy {
    /// For each part of a command that no rule decides, the rule that comes closest to allowing it.
    pub fn near_misses(&self, call: &ToolCall) -> Vec<NearMiss> {
        let Some(script) = call.script().filter(|script| script.plain.is_ok()) else { return vec![] };
        let undecided = self.judge(call, Some(&script)).into_iter().filter(|part| part.rule.is_none());
        let closest = |part: &Part| {
            let fitting = self.rules.iter().filter(|rule| rule.applies_to(call));
            let advised = fitting.filter_map(|rule| {
                let advice = rule.words.as_ref()?.advise(&part.words)?;
                Some(NearMiss { rule: rule.id.clone(), line: part.line.clone(), advice })
            });
            advised.max_by_key(|miss| (miss.advice.covered, Reverse(miss.rule.number)))
        };
        undecided.filter_map(|part| closest(part.part?)).collect()
    }

    /// The rules that allowed this call when commands were matched as globs, each with what it no longer covers.
    /// Empty if the policy still allows the call.
    pub fn lost(&self, call: &ToolCall) -> Vec<Lost<'_>> {
        if self.decide(call).action == Action::Allow {
            return vec![];
        }
        let script = call.script();
        let mut lost = vec![];
        for rule in self.rules.iter().filter(|rule| rule.verb == Verb::Allow) {
            if !rule.applies_as(call, Syntax::Glob) {
                continue;
            }
            match &script {
                None if !rule.applies_to(call) => {
                    lost.push(Lost { rule, line: one_line(call.tool).into_owned(), advice: None });
                }
                None => {}
                Some(script) => lost.extend(script.parts.iter().filter_map(|part| {
                    let once = rule.decides_as(part, script, Syntax::Glob);
                    let still = rule.applies_to(call) && rule.decides(part, script);
                    let advice = rule.words.as_ref().and_then(|pattern| pattern.advise(&part.words));
                    (once && !still).then(|| Lost { rule, line: part.line.clone(), advice })
                })),
            }
        }
        lost
    }
}

/// Something that a rule used to allow and no longer does.
#[derive(Debug)]
pub struct Lost<'a> {
    pub rule: &'a Rule,
    pub line: String,
    pub advice: Option<Advice>,
}
