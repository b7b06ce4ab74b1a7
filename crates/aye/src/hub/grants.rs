//! "Allow for the session" and "always", kept by the hub where the agent has no rule of its own for it.

use super::{Hub, Problem};
use crate::protocol::GrantInfo;
use crate::store::{Reader, Tx, grant_digest};
use aye_core::{Answer, Ask, Body, By, Invalid, Keeper, Proof, Scope, Verdict};
use aye_policy::{Folder, Grant, ToolCall, tool_and_input};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// A session's grants end with it, and with the working day at the latest.
pub(super) const SESSION: SignedDuration = SignedDuration::from_hours(12);
/// Days that "always" lasts if the hub keeps it.
pub const ALWAYS_DAYS: i64 = 90;
pub(super) const ALWAYS: SignedDuration = SignedDuration::from_hours(24 * ALWAYS_DAYS);

/// Keeps what a person just allowed for longer than once.
pub fn keep(
    tx: &mut Tx,
    ask: &Ask,
    answer: &Answer,
    (by, proof): (&By, Proof),
    places: &aye_policy::OwnPlaces,
    now: Timestamp,
) -> Result<(), Problem> {
    let (Body::Permission(permission), Answer::Permission(Verdict::Allow { scope, input })) =
        (&ask.body, answer)
    else {
        return Ok(());
    };
    let Some(offer) = permission.offer(*scope).filter(|offer| offer.keeper() == Keeper::Hub) else {
        return Ok(());
    };
    let (only, lasts) = match scope {
        Scope::Once => return Ok(()),
        Scope::Session => (Some(ask.agent.clone()), SESSION),
        Scope::Always => (None, ALWAYS),
    };
    let agent = tx.agent(&ask.agent)?.ok_or(Problem::NoSuchAgent)?;
    let (tool, shown) = tool_and_input(&ask.body);
    let call = ToolCall {
        agent_kind: &agent.profile.kind,
        cwd: &ask.cwd,
        folder: Folder::Claimed,
        tool: &tool,
        input: &shown,
        places,
    };
    let granted = match input {
        Some(_) => Err("the input was edited".to_owned()),
        None => Grant::of(&call, only, now.saturating_add(lasts).ok(), by.clone(), now)
            .map_err(|why| why.to_string()),
    };
    let grant = match granted {
        Ok(grant) => Grant { proof, ..grant },
        // Promised to the person, so it is refused rather than forgotten.
        Err(why) if offer.kept_by.is_some() => {
            let problem = format!("this can be allowed once, not for longer: {why}");
            return Err(Invalid::new("answer.scope", problem).into());
        }
        Err(_) => return Ok(()),
    };
    // The ask that made it names it: one ask makes at most one grant.
    let id = format!("g-{}", ask.id);
    tx.put_grant(&id, &grant)?;
    let detail = json!({ "grant": id, "words": grant.words(), "digest": grant_digest(&grant) });
    Ok(tx.audit(grant.at, "grant.made", &grant.by.to_string(), Some(&ask.agent), Some(&ask.id), detail)?)
}

impl Hub {
    pub async fn grants(&self) -> Result<Vec<GrantInfo>, Problem> {
        let now = self.inner.clock.now();
        let rows = self.inner.store.read(Reader::grants_in_force).await?;
        let live = rows.into_iter().filter(|(_, grant)| grant.expires_at.is_none_or(|end| now < end));
        let info = |(id, grant): (String, Grant)| GrantInfo {
            id,
            words: grant.words(),
            tool: grant.tool,
            folder: grant.folder,
            agent: grant.agent.map(String::from),
            expires_at: grant.expires_at,
            by: grant.by,
            at: grant.at,
        };
        Ok(live.map(info).collect())
    }

    pub async fn revoke_grant(&self, id: String, who: String) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        let work = move |tx: &mut Tx| match tx.revoke_grant(&id, &who, now)? {
            true => Ok(()),
            false => Err(Problem::NoSuchGrant),
        };
        self.inner.store.write(work).await
    }
}
