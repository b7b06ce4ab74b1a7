//! What is decided without asking a person: by a rule, by a grant, or because an outline is awaited.

use super::Problem;
use super::alive::AskingProcesses;
use super::change::{apply, publish_agent};
use super::folder::AgentFolder;
use crate::processes::host;
use crate::store::{AgentRow, Profile, Tx};
use aye_core::answer::Yes;
use aye_core::outline::PlanRuling;
use aye_core::{Answer, Ask, AskEvent, Body, By, PlanVerdict, Proof, Reply, Scope, Text, Verdict};
use aye_policy::{Action, Names, Policy, Source, ToolCall, tool_and_input};
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;

/// Inputs up to this size are evaluated on the reader's thread; larger ones get a thread of their own.
const QUICKLY_READ: usize = 1024;

/// What the policy is read with.
#[derive(Clone)]
pub struct Lookup {
    pub policy: Arc<Policy>,
    pub places: Arc<aye_policy::OwnPlaces>,
    pub processes: Arc<AskingProcesses>,
}

impl Lookup {
    /// True if evaluating the policy here is cheaper than handing it to another thread.
    pub fn is_quick(&self, body: &Body) -> bool {
        match body {
            Body::Permission(permission) => {
                let texts = permission.input.iter().map(|(name, value)| name.len() + weight(value));
                texts.sum::<usize>() <= QUICKLY_READ
            }
            Body::Question(_) | Body::Plan(_) => false,
        }
    }

    /// `told` is the folder that was named with the ask.
    pub fn read(&self, body: &Body, agent: &AgentRow, told: Option<&str>) -> PolicyReading {
        let profile = &agent.profile;
        let folder = AgentFolder::of(profile, told, &self.processes);
        let (tool, input) = tool_and_input(body);
        let call = ToolCall {
            agent_kind: &profile.kind,
            cwd: &profile.cwd,
            folder: folder.folder(),
            tool: &tool,
            input: &input,
            places: &self.places,
        };
        let mut policy = self.policy.read(&call);
        if !agent.ours {
            tracing::error!(agent = %profile.id, "this agent's row was changed, and not by the hub; every request goes to a person");
            policy.goes_to_a_person("what the database says of this agent was not written by the hub");
        }
        PolicyReading {
            policy,
            about: (profile.kind.clone(), profile.cwd.clone()),
            bases: is_here(profile).then(|| folder.bases(profile)),
            cwd_is_checked: folder.is_checked(),
        }
    }
}

/// Files can be looked at for agents on this machine. One whose process we know is here, whatever it says.
fn is_here(agent: &Profile) -> bool {
    agent.process.is_some() || agent.host.is_empty() || agent.host == host()
}

/// About as many bytes as it takes to write it.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + items.len(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + weight(value)).sum(),
    }
}

/// What the policy says of a call. It is evaluated before the transaction, because a long command takes long to parse.
pub struct PolicyReading {
    policy: aye_policy::Reading,
    /// The agent's kind and folder that it was read for.
    about: (String, String),
    /// The folders that relative names start from, for an agent on this machine.
    bases: Option<Vec<String>>,
    cwd_is_checked: bool,
}

impl PolicyReading {
    /// What must be looked at on the disk before this may be allowed, and from which folders.
    pub fn take_names(&mut self) -> Option<(Names, Vec<String>)> {
        Some((std::mem::take(&mut self.policy.names), self.bases.take()?))
    }

    /// Neither a rule nor a grant allows it.
    pub fn goes_to_a_person(&mut self, why: &str) {
        self.policy.goes_to_a_person(why);
    }

    /// Whether the system told that the agent works where it is now said to.
    pub fn has_checked(&self, agent: &AgentRow) -> bool {
        self.cwd_is_checked && self.about.1 == agent.profile.cwd
    }

    /// The answer, if the policy by itself allows this.
    pub fn allows(&self, body: &Body) -> Option<ByRule> {
        match self.policy.decision.action == Action::Allow {
            true => allowed_by(body, &self.policy.decision.source.to_string()),
            false => None,
        }
    }

    /// What a person's allow takes. What a rule decides needs none, and few questions allow anything. A question stays
    /// open in spite of a rule that denies it, where its agent knows no refusal.
    pub fn proof_for(&self, body: &Body) -> Proof {
        match (body, &self.policy.decision.action) {
            (Body::Question(_), _) if !body.has_allowing_option() => Proof::None,
            (Body::Question(_), _) | (_, Action::Ask) => self.policy.decision.proof,
            (Body::Permission(_) | Body::Plan(_), Action::Allow | Action::Deny { .. }) => Proof::None,
        }
    }

    /// Whether the agent is still what it was when this was read.
    pub fn is_about(&self, agent: &AgentRow) -> bool {
        (&agent.profile.kind, &agent.profile.cwd) == (&self.about.0, &self.about.1)
    }

    /// The rule that wants a person asked, which no answer will name.
    pub fn rule_that_asks(&self) -> Option<String> {
        let by_rule =
            self.policy.decision.action == Action::Ask && self.policy.decision.source != Source::Nothing;
        by_rule.then(|| self.policy.decision.source.to_string())
    }
}

/// An answer given by a rule, and the name recorded for it.
#[derive(Clone)]
pub struct ByRule {
    pub event: AskEvent,
    pub who: String,
    pub rule: String,
}

/// The answer of a rule that allows this.
pub fn allowed_by(body: &Body, rule: &str) -> Option<ByRule> {
    allowed(body).map(|answer| ByRule::new(answer, rule))
}

impl ByRule {
    fn new(answer: Answer, rule: &str) -> Self {
        let by = By::Rule { rule: Text::from_displayed(&rule) };
        let who = by.to_string();
        Self { event: AskEvent::Answer { answer, by, key: None }, who, rule: rule.to_owned() }
    }
}

/// Decides a new ask if it can be; else it stays open for a person.
pub fn decide(
    tx: &mut Tx,
    ask: Ask,
    agent: &AgentRow,
    reading: PolicyReading,
    now: Timestamp,
) -> Result<Ask, Problem> {
    // The agent moved while its call was read: what was read is not what was asked.
    if !reading.is_about(agent) {
        return Ok(ask);
    }
    // What cannot be delivered is not decided here, by rules neither.
    if !ask.extras.can.answer {
        return Ok(ask);
    }
    let rule = reading.policy.decision.source.to_string();
    let verdict = match (&reading.policy.decision.action, reading.policy.exactly) {
        (Action::Allow, _) => allowed(&ask.body).map(|answer| (answer, rule)),
        (Action::Deny { message }, _) => denied(&ask, message).map(|answer| (answer, rule)),
        (Action::Ask, Some(exactly)) => {
            let (tool, _) = tool_and_input(&ask.body);
            let grants = tx.grants_for(&ask.cwd, &tool)?;
            let mut covering =
                grants.iter().filter(|(_, grant)| grant.covers(&ask.cwd, &tool, &exactly, &ask.agent, now));
            // A grant that was given without a passkey does not cover a request that needs one.
            let mut covering = covering.by_ref().filter(|(_, grant)| grant.proof >= ask.proof);
            let grant = covering.next().map(|(id, _)| format!("grant {id}"));
            allowed(&ask.body).zip(grant)
        }
        (Action::Ask, None) => None,
    };
    match verdict {
        Some((answer, rule)) => answered(tx, ask, answer, &rule, now),
        None => behind_an_outline(tx, ask, now),
    }
}

/// A plan that comes while an outline is awaited.
fn behind_an_outline(tx: &mut Tx, ask: Ask, now: Timestamp) -> Result<Ask, Problem> {
    if !matches!(ask.body, Body::Plan(_)) {
        return Ok(ask);
    }
    let before = tx.outline(&ask.agent)?;
    let mut outline = before.clone();
    let ruling = outline.plan_comes(&ask.id, &ask.digest, now);
    if outline != before {
        tx.put_outline(&ask.agent, &outline)?;
        publish_agent(tx, &ask.agent)?;
    }
    match ruling {
        PlanRuling::AskAPerson => Ok(ask),
        PlanRuling::Refused { left } => {
            let message = format!(
                "Not yet: a written outline was asked for first. Write it as plain text, and send no plan for another {} seconds.",
                left.as_secs().max(1)
            );
            match denied(&ask, &message) {
                Some(answer) => answered(tx, ask, answer, "outline", now),
                None => Ok(ask),
            }
        }
        // The policy became stricter since it was approved, so that approval does not suffice any more.
        PlanRuling::Passes { proof, .. } if proof < ask.proof => Ok(ask),
        PlanRuling::Passes { by, .. } => {
            let answer = Answer::Plan(PlanVerdict::Allow { plan: None });
            answered(tx, ask, answer, &format!("approved in advance by {by}"), now)
        }
    }
}

fn answered(tx: &mut Tx, ask: Ask, answer: Answer, rule: &str, now: Timestamp) -> Result<Ask, Problem> {
    let ByRule { event, who, .. } = ByRule::new(answer, rule);
    apply(tx, ask, event, &who, now)
}

/// Nothing but a permission is ever allowed without a person.
fn allowed(body: &Body) -> Option<Answer> {
    match body {
        Body::Permission(_) => Some(Answer::Permission(Verdict::Allow { scope: Scope::Once, input: None })),
        Body::Question(_) | Body::Plan(_) => None,
    }
}

/// A refusal as far as the agent can take one: without the words where it takes none, and none at all for a question
/// that cannot be skipped.
fn denied(ask: &Ask, message: &str) -> Option<Answer> {
    let can = &ask.extras.can;
    let message = can.reason.then(|| Text::from_displayed(&message));
    let answer = match &ask.body {
        Body::Question(_) => Answer::Question(Reply::Skip { skip: Yes, message }),
        Body::Permission(_) => Answer::Permission(Verdict::Deny { message, interrupt: false }),
        Body::Plan(_) => Answer::Plan(PlanVerdict::Deny { message }),
    };
    can.take(&answer).is_ok().then_some(answer)
}
