//! What is shown beside a permission while a person decides: its parts, what to look out for, and what the hub would
//! grant. All of it comes from the tool and its input; only `before` is what the agent's machine says.

use super::Hub;
use super::grants::{ALWAYS, SESSION};
use crate::store::{AgentRow, StoreError, Tx};
use aye_core::visible::one_line;
use aye_core::{Before, Body, Extras, Grants, Keeper, Permission, Remarks, Scope};
use aye_policy::{Exactly, Folder, Grant, ToolCall};

/// A longer command is not repeated: it is shown above.
const LONGEST_REPEATED: usize = 200;

pub fn of(body: &Body, before: Option<Before>, agent: &AgentRow, places: &aye_policy::OwnPlaces) -> Extras {
    let Body::Permission(permission) = body else { return Extras::default() };
    let call = ToolCall {
        agent_kind: &agent.profile.kind,
        cwd: &agent.profile.cwd,
        folder: Folder::Claimed,
        tool: &permission.tool,
        input: &permission.input,
        places,
    };
    let remarks = Remarks { grants: grants(permission, &call), ..Remarks::default() };
    let mut extras = Extras { before, remarks, ..Extras::default() };
    if let Some(script) = call.script() {
        match script.plain {
            // Taken apart only where every shell takes it apart like this.
            Ok(_) if script.parts.len() > 1 => {
                extras.remarks.parts = script.parts.into_iter().map(|part| part.line).collect();
            }
            Ok(_) => {}
            Err(why) => extras.remarks.caution = Some(why.to_string()),
        }
    }
    extras
}

fn grants(permission: &Permission, call: &ToolCall) -> Grants {
    let kept = |scope: Scope| permission.offer(scope).is_some_and(|offer| offer.keeper() == Keeper::Hub);
    if !kept(Scope::Session) && !kept(Scope::Always) {
        return Grants::default();
    }
    let Ok(exactly) = Grant::exactly(call) else { return Grants::default() };
    let what = match &exactly {
        Exactly::Command(command) if command.len() > LONGEST_REPEATED => {
            "run exactly this command".to_owned()
        }
        Exactly::Command(_) | Exactly::Input(_) => exactly.words(call.tool),
    };
    let what = format!("{what} in {}", one_line(call.cwd));
    let (hours, days) = (SESSION.as_hours(), ALWAYS.as_hours() / 24);
    let session = format!("{what}, by this agent, for the rest of its session ({hours} hours at most)");
    let always = format!("{what}, by every agent, for {days} days");
    Grants { session: kept(Scope::Session).then_some(session), always: kept(Scope::Always).then_some(always) }
}

impl Hub {
    /// For permissions that were open when an older version, which kept none of this, was last at work.
    pub(super) async fn fill_in_extras(&self) -> Result<(), StoreError> {
        let places = self.inner.policy.places();
        let work = move |tx: &mut Tx| {
            for ask in tx.permissions_without_extras()? {
                if let Some(agent) = tx.agent(&ask.agent)? {
                    tx.set_extras(&ask.id, &of(&ask.body, None, &agent, &places))?;
                }
            }
            Ok(())
        };
        self.inner.store.write(work).await
    }
}
