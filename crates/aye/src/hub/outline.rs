//! The refused plan behind an outline: a person may approve or deny it while the clock runs.

use super::change::publish_agent;
use super::credentials::still_counts;
use super::passkeys::SignedAct;
use super::{Hub, Problem};
use crate::protocol::PlanApproval;
use crate::store::Tx;
use crate::webauthn::{Assertion, Purpose};
use aye_core::outline::NotNow;
use aye_core::{Agent, AgentId, Answer, Ask, By, Digest, PlanVerdict, Proof, Text};
use aye_policy::OutlinePreapproval;
use jiff::Timestamp;
use serde_json::{Value, json};

impl From<NotNow> for Problem {
    fn from(not_now: NotNow) -> Self {
        match not_now {
            NotNow::NothingAwaited => {
                Problem::Conflict("no outline is awaited, so there is no refused plan to decide on")
            }
            NotNow::OtherPlan => Problem::OtherPlan,
        }
    }
}

/// What a person's answer to a plan means for outlines to come.
pub fn note_answer(tx: &mut Tx, ask: &Ask, now: Timestamp) -> Result<(), Problem> {
    let (Some(Answer::Plan(verdict)), Some(By::Person { .. })) = (ask.state.answer(), ask.state.by()) else {
        return Ok(());
    };
    let before = tx.outline(&ask.agent)?;
    let mut outline = before.clone();
    match verdict {
        PlanVerdict::Outline => outline.asked_for(ask.id.clone(), ask.digest.clone(), now),
        PlanVerdict::Allow { .. } | PlanVerdict::Deny { .. } => outline.plan_decided(),
    }
    if outline != before {
        tx.put_outline(&ask.agent, &outline)?;
        publish_agent(tx, &ask.agent)?;
    }
    Ok(())
}

impl Hub {
    pub async fn approve_plan(
        &self,
        agent: AgentId,
        approval: PlanApproval,
        digest: Digest,
        (name, who, token): (Text, String, Option<String>),
        assertion: Option<Assertion>,
    ) -> Result<Agent, Problem> {
        let now = self.inner.clock.now();
        let policy = self.policy();
        let any_next = policy.outline_preapproval == OutlinePreapproval::Next;
        let proof = policy.proof_for_plans();
        let presented = self.present(assertion, format!("#/agents/{agent}")).await?;
        let work = move |tx: &mut Tx| {
            still_counts(tx, token.as_deref())?;
            tx.agent(&agent)?.ok_or(Problem::NoSuchAgent)?;
            let mut outline = tx.outline(&agent)?;
            let refused = outline.pause().map(|pause| tx.ask(&pause.ask)).transpose()?.flatten();
            let proof = proof.max(refused.map_or(Proof::None, |ask| ask.proof));
            let mut detail = json!({ "digest": digest, "any_next": any_next });
            let kind = match approval {
                PlanApproval::Allow => {
                    outline.approve(&digest, any_next, (name, proof), now)?;
                    if proof == Proof::Passkey {
                        let subject = approval_subject(&agent, &digest, any_next);
                        let (purpose, agent) = (Purpose::ApprovePlan, Some(&agent));
                        presented.check(
                            tx,
                            &SignedAct { purpose, subject, agent, ask: None, who: &who },
                            now,
                        )?;
                        detail["proof"] = json!(proof);
                    }
                    "plan.approved"
                }
                PlanApproval::Deny => {
                    outline.deny(&digest, now)?;
                    "plan.denied"
                }
            };
            tx.put_outline(&agent, &outline)?;
            tx.audit(now, kind, &who, Some(&agent), None, detail)?;
            publish_agent(tx, &agent)?;
            Ok(tx.agent(&agent)?.ok_or(Problem::NoSuchAgent)?.agent())
        };
        self.inner.store.write(work).await
    }
}

/// What a passkey signs to approve a refused plan: that plan, or whichever comes next.
pub(super) fn approval_subject(agent: &AgentId, digest: &Digest, any_next: bool) -> Value {
    json!({ "agent": agent, "digest": digest, "any_next": any_next })
}
