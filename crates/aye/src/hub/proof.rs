//! What an answer takes by the policy as it is now. An ask keeps what it took when it was raised, and the
//! stricter of the two counts.

use super::problem::on_another_thread;
use super::{Hub, Problem};
use crate::webauthn::Purpose;
use aye_core::{AgentId, Answer, Ask, AskId, Body, Digest, Keeper, PlanVerdict, Proof, Scope, Verdict};
use aye_policy::{Folder, OutlinePreapproval, OwnPlaces, Policy, ToolCall, tool_and_input};
use serde_json::{Map, Value};
use std::borrow::Cow;

impl Hub {
    /// Rules are read again only if one of them wants a passkey.
    pub(super) async fn proof_now(&self, ask: &AskId, answer: &Value) -> Result<Proof, Problem> {
        let policy = self.policy();
        if policy.strictest_rule().is_none() {
            return Ok(policy.proof);
        }
        let ask = self.ask(ask).await?;
        let Ok(answer) = Answer::decode(ask.body.kind(), answer.clone()) else { return Ok(policy.proof) };
        let kind = self.agent(ask.agent.as_str()).await?.kind;
        let places = self.inner.policy.places();
        // A long command takes long to parse.
        let read = move || proof_of(&policy, &ask, &answer, &kind, &places);
        on_another_thread("the policy could not be read for this answer", read).await
    }

    /// What a passkey has to sign for each purpose, as the caller means it; a mistake in it is told before anybody
    /// is asked for a fingerprint.
    pub async fn subject_of_allow(
        &self,
        ask: &AskId,
        digest: &Digest,
        answer: Value,
    ) -> Result<(Purpose, Value), Problem> {
        let ask = self.ask(ask).await?;
        if ask.digest != *digest {
            return Err(Problem::OtherDigest { ask: Box::new(ask) });
        }
        let answer = Answer::read(&ask.body, answer).map_err(|invalid| invalid.under("answer"))?;
        Ok((Purpose::Allow, super::answer::allow_subject(&ask, &answer)))
    }

    pub fn subject_of_approval(&self, agent: &AgentId, digest: &Digest) -> (Purpose, Value) {
        let any_next = self.policy().outline_preapproval == OutlinePreapproval::Next;
        (Purpose::ApprovePlan, super::outline::approval_subject(agent, digest, any_next))
    }

    pub fn subject_of_run(&self, run: &super::NewRun) -> (Purpose, Value) {
        (Purpose::StartRun, super::launch::run_subject(run))
    }
}

fn proof_of(policy: &Policy, ask: &Ask, answer: &Answer, kind: &str, places: &OwnPlaces) -> Proof {
    let (tool, shown) = tool_and_input(&ask.body);
    let of = |input: &Map<String, Value>| {
        // A folder-bound allow rule does not waive the passkey: the folder is only what the agent claims.
        let folder = Folder::Unproven;
        policy.decide(&ToolCall { agent_kind: kind, cwd: &ask.cwd, folder, tool: &tool, input, places }).proof
    };
    let edited: Option<Cow<Map<String, Value>>> = match answer {
        Answer::Permission(Verdict::Allow { input, .. }) => input.as_ref().map(Cow::Borrowed),
        Answer::Plan(PlanVerdict::Allow { plan: Some(plan) }) => {
            Some(Cow::Owned(Map::from_iter([("plan".to_owned(), Value::from(plan.as_str()))])))
        }
        Answer::Question(_) | Answer::Permission(_) | Answer::Plan(_) => None,
    };
    let edited = edited.map_or(Proof::None, |input| of(&input));
    // A rule that the agent keeps lets later calls pass that never come here.
    let kept = match (&ask.body, answer) {
        (Body::Permission(permission), Answer::Permission(Verdict::Allow { scope, .. })) => {
            let by_agent = permission.offer(*scope).is_some_and(|offer| offer.keeper() == Keeper::Agent);
            if by_agent && *scope != Scope::Once { policy.strictest_rule() } else { Proof::None }
        }
        _ => Proof::None,
    };
    of(&shown).max(edited).max(kept)
}
