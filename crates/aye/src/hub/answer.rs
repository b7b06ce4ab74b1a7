use super::change::change;
use super::credentials::still_counts;
use super::passkeys::{Presented, SignedAct};
use super::{Hub, Problem, grants, outline};
use crate::store::{AskNames, Tx, Unsure};
use crate::webauthn::{Assertion, Purpose};
use aye_core::{
    Answer, AnswerKey, Ask, AskEvent, AskId, By, Digest, Expiry, Invalid, Proof, Refused, State, step,
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// An answer as a surface sends it.
#[derive(Debug, Clone)]
pub struct AnswerCall {
    pub ask: AskId,
    pub answer: Value,
    /// Of what the person was shown.
    pub digest: Digest,
    pub key: Option<AnswerKey>,
    pub by: By,
    /// The id of the token that the caller showed; none for a surface of the hub itself.
    pub token: Option<String>,
    /// By a passkey, for exactly this answer.
    pub assertion: Option<Assertion>,
}

/// How a program that does not know our asks names one without saying what it showed.
#[derive(Debug, Clone)]
pub struct AskReference {
    /// The agent's id, its session's, or the tmux session it runs in.
    pub agent: String,
    pub tool_call: Option<String>,
}

impl AskReference {
    /// An agent can take an ask back and raise another by the same name: the answer to the first must not count
    /// for the second. Looked at in the transaction of the answer, so that nothing is raised in between.
    fn is_certain(&self, tx: &Tx, id: &AskId, names: &AskNames) -> Result<(), Problem> {
        let ask = tx.ask(id)?.ok_or(Problem::NoSuchAsk)?;
        // What has ended stays as it is, whichever was meant.
        if !ask.state.is_open() {
            return Ok(());
        }
        let (field, why) = match names.means(&ask, &self.agent, self.tool_call.as_deref()) {
            Ok(()) => return Ok(()),
            Err(Unsure::UsedTwice) => (
                "digest",
                "this tool call has named more than one request, so say which one was shown: \
                 send the digest that pending-questions lists beside it",
            ),
            Err(Unsure::OtherQuestions) => (
                "tool_call_id",
                "this agent has asked other questions that were not answered, so say which one was shown: \
                 send its tool_call_id, or the digest that pending-questions lists beside it",
            ),
            Err(Unsure::Unknown) if self.is_unique(tx)? => return Ok(()),
            Err(Unsure::Unknown) => (
                "digest",
                "the hub cannot tell for sure what else was asked under this name, so say which request was shown: \
                 send the digest that pending-questions lists beside it",
            ),
        };
        Err(Invalid::new(field, why).into())
    }

    /// Who had which session before this process began is not known, so no other agent may have used the name either.
    fn is_unique(&self, tx: &Tx) -> Result<bool, Problem> {
        match &self.tool_call {
            Some(tool_call) => Ok(tx.asks_called(tool_call)? == Some(1)),
            None => Ok(false),
        }
    }
}

impl Hub {
    /// Returns once the answer is on disk.
    pub async fn answer(&self, call: AnswerCall) -> Result<Ask, Problem> {
        self.answer_if(call, |_| Ok(())).await
    }

    /// The same for an answer that was found by this name alone, which must belong to no other ask.
    pub async fn answer_named(&self, call: AnswerCall, named: AskReference) -> Result<Ask, Problem> {
        let (store, id) = (self.inner.store.clone(), call.ask.clone());
        self.answer_if(call, move |tx| named.is_certain(tx, &id, store.ask_names())).await
    }

    async fn answer_if(
        &self,
        call: AnswerCall,
        may: impl FnOnce(&Tx) -> Result<(), Problem> + Send + 'static,
    ) -> Result<Ask, Problem> {
        let now = self.inner.clock.now();
        let places = self.inner.policy.places();
        let proof = self.proof_now(&call.ask, &call.answer).await?;
        let presented = self.present(call.assertion.clone(), format!("#/asks/{}", call.ask)).await?;
        let work = move |tx: &mut Tx| {
            still_counts(tx, call.token.as_deref())?;
            may(tx)?;
            record(tx, call, (proof, presented), &places, now)
        };
        let (ask, new) = self.inner.store.write(work).await??;
        if new {
            self.inner.meters.answered(&ask);
            self.inner.store.ask_names().answered(&ask);
        }
        Ok(ask)
    }
}

/// The ask, and whether this call answered it. The inner result may be a refusal that still leaves
/// something written: an ask found past its deadline.
fn record(
    tx: &mut Tx,
    call: AnswerCall,
    (proof, presented): (Proof, Presented),
    places: &aye_policy::OwnPlaces,
    now: Timestamp,
) -> Result<Result<(Ask, bool), Problem>, Problem> {
    let ask = tx.ask(&call.ask)?.ok_or(Problem::NoSuchAsk)?;
    let answer = if ask.state.is_open() {
        if ask.digest != call.digest {
            return Err(Problem::OtherDigest { ask: Box::new(ask) });
        }
        Answer::read(&ask.body, call.answer).and_then(|answer| {
            ask.extras.can.take(&answer)?;
            match call.by.surface().and_then(|surface| ask.body.why_not_on(surface)) {
                Some(why) => Err(Invalid::new("", why)),
                None => Ok(answer),
            }
        })
    } else {
        Answer::decode(ask.body.kind(), call.answer)
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(invalid) if ask.state.is_open() => return Err(invalid.under("answer").into()),
        Err(_) => return Err(already_ended(ask)),
    };
    let who = call.by.to_string();
    let was_open = ask.state.is_open();
    let proof = proof.max(ask.proof);
    let subject = allow_subject(&ask, &answer);
    let allows = was_open && answer.allows(&ask.body);
    let given = answer;
    let answer = tx.seal(&ask, &given)?;
    let event = AskEvent::Answer { answer, by: call.by, key: call.key };
    let comes_late = matches!(step(&ask.state, ask.deadline, event.clone(), now), Err(Refused::Expired));
    if allows && proof == Proof::Passkey && !comes_late {
        let (agent, ask) = (Some(&ask.agent), Some(&ask.id));
        presented.check(tx, &SignedAct { purpose: Purpose::Allow, subject, agent, ask, who: &who }, now)?;
    }
    match change(tx, ask, event, &who, now) {
        Err(Problem::Refused { refused: Refused::Expired, ask }) if ask.state.is_open() => {
            let ask = change(tx, *ask, AskEvent::Expire(Expiry::Deadline), "hub", now)?;
            Ok(Err(Problem::Refused { refused: Refused::Expired, ask: Box::new(ask) }))
        }
        Ok(ask) if was_open => {
            if ask.state.answer() != Some(&given) {
                tx.put_secret(&ask.id, &given)?;
            }
            remember(tx, &ask, proof, places, now)?;
            Ok(Ok((ask, true)))
        }
        other => other.map(|ask| Ok((ask, false))),
    }
}

/// What a passkey signs to allow an ask: this ask, as it was shown, with exactly this answer.
pub(super) fn allow_subject(ask: &Ask, answer: &Answer) -> Value {
    json!({ "ask": ask.id, "digest": ask.digest, "answer": answer.to_json() })
}

/// What the answer means beyond this ask: a grant, or an outline that is now awaited.
fn remember(
    tx: &mut Tx,
    ask: &Ask,
    proof: Proof,
    places: &aye_policy::OwnPlaces,
    now: Timestamp,
) -> Result<(), Problem> {
    if let (Some(answer), Some(by)) = (ask.state.answer(), ask.state.by()) {
        grants::keep(tx, ask, answer, (by, proof), places, now)?;
    }
    outline::note_answer(tx, ask, now)
}

fn already_ended(ask: Ask) -> Problem {
    let refused = match ask.state {
        State::Expired { .. } => Refused::Expired,
        State::Open | State::Answered { .. } | State::Withdrawn { .. } => Refused::Ended,
    };
    Problem::Refused { refused, ask: Box::new(ask) }
}
