//! Revokes what would allow something without a person, when the database is not as the hub left it.

use super::Problem;
use crate::store::{DOUBTED, Doubt, Store, Tx};
use jiff::Timestamp;
use serde_json::{Value, json};

const MEANWHILE: &str = "All grants, approvals in advance, tokens of operators and browser sessions were ended; operator.token holds a \
    new token. Every request of agents that were known before goes to a person. \
    `aye verify` says more; if you put the database back yourself, stop the hub and remove chain.key.";

/// Returns what people are told of it.
pub async fn end_live_rows(store: &Store, now: Timestamp) -> Result<Option<Value>, Problem> {
    let Some(doubt) = store.doubt() else { return Ok(None) };
    let problem = match doubt {
        Doubt::TrailWasCut => "Lines that the hub had written are missing from the trail.",
        Doubt::RowsWereChanged => {
            "While the hub was not running, somebody changed what the database says of agents, grants, tokens or passkeys."
        }
    };
    tracing::error!("{problem} {MEANWHILE}");
    let notice = json!({ "about": "database", "problem": problem, "meanwhile": MEANWHILE });
    let told = notice.clone();
    let work = move |tx: &mut Tx| {
        let grants = tx.end_all_grants("hub", now)?;
        tx.forget_all_outlines()?;
        tx.revoke_operators("hub", now)?;
        tx.doubt_agents()?;
        tx.audit(now, DOUBTED, "hub", None, None, json!({ "why": problem, "grants": grants }))?;
        Ok::<_, Problem>(tx.publish_notice(told)?)
    };
    store.write(work).await?;
    Ok(Some(notice))
}
