//! Answers that the agent did not follow, and requests that somebody else answered. Each is an alarm until a person has
//! marked it as seen.

use super::{Hub, Problem};
use crate::store::Tx;
use aye_core::{Ask, AskId, Receipt, State, Surface, Withdrawal};
use serde_json::json;

const KIND: &str = "alarm";

/// Raises the alarm if the agent has just been seen to go by another answer than ours, or by one where there was none.
pub fn note(tx: &mut Tx, ask: &Ask) -> Result<(), Problem> {
    let by_somebody_else = matches!(ask.state, State::Withdrawn { why: Withdrawal::SomebodyElse, .. });
    if by_somebody_else || ask.state.receipt() == Some(Receipt::Disputed) {
        tx.put_memory(Surface::Web, KIND, ask.id.as_str(), &json!({}))?;
    }
    if by_somebody_else {
        // Pages ask for alarms when an answer is disputed, which this ask does not have.
        tx.publish_notice(json!({ "about": "alarms", "problem": null }))?;
    }
    Ok(())
}

impl Hub {
    /// The asks whose alarm nobody has marked as seen, oldest first.
    pub async fn alarms(&self) -> Result<Vec<Ask>, Problem> {
        let noted = self.inner.store.read(|db| db.recall(Surface::Web, KIND)).await?;
        let mut asks = Vec::with_capacity(noted.len());
        for (id, _) in noted {
            if let Ok(id) = AskId::try_from(id) {
                asks.push(self.ask(&id).await?);
            }
        }
        Ok(asks)
    }

    pub async fn mark_seen(&self, id: AskId, who: String) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        let work = move |tx: &mut Tx| {
            let ask = tx.ask(&id)?.ok_or(Problem::NoSuchAsk)?;
            tx.forget_memory(Surface::Web, KIND, id.as_str())?;
            tx.audit(now, "alarm.seen", &who, Some(&ask.agent), Some(&id), json!({}))?;
            // Pages that show the alarm elsewhere ask for what is left of them.
            Ok(tx.publish_notice(json!({ "about": "alarms", "problem": null }))?)
        };
        self.inner.store.write(work).await
    }
}
