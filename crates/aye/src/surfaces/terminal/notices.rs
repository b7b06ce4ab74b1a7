//! What the hub's own terminal shows while it runs: a line for each ask that comes or ends.

use super::style::{DIM, GOOD, NAME, paint};
use super::summary;
use crate::hub::{Hub, Large, Subject};
use aye_core::visible::one_line;
use aye_core::{Ask, State};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

pub async fn run(hub: Hub, stop: CancellationToken) {
    let mut changes = hub.changes();
    loop {
        let change = tokio::select! {
            () = stop.cancelled() => return,
            change = changes.recv() => change,
        };
        let line = match change.as_ref().map(|change| &change.subject) {
            Ok(Subject::Ask(ask)) => notice(ask),
            Ok(Subject::Large(Large::Ask { id, .. })) => hub.ask(id).await.ok().and_then(|ask| notice(&ask)),
            // A terminal that lags has missed lines, not asks: `aye list` has them all.
            Ok(Subject::Agent(_) | Subject::Event(..) | Subject::Notice(_) | Subject::Large(_))
            | Err(RecvError::Lagged(_)) => None,
            Err(RecvError::Closed) => return,
        };
        if let Some(line) = line {
            anstream::println!("{line}");
        }
    }
}

fn notice(ask: &Ask) -> Option<String> {
    let id = paint(NAME, &ask.id);
    match (&ask.state, ask.state.receipt()) {
        (State::Open, _) => {
            let hint = paint(DIM, format!("aye show {}", ask.id));
            Some(format!("? {id}  {}   {hint}", summary(&ask.body, 60)))
        }
        (State::Answered { by, .. }, Some(aye_core::Receipt::Pending)) => {
            Some(format!("{} {id}  answered by {}", paint(GOOD, "✓"), one_line(&by.to_string())))
        }
        (State::Expired { .. } | State::Withdrawn { .. }, None | Some(aye_core::Receipt::Pending)) => {
            Some(format!("{} {id}  {}", paint(DIM, "–"), ask.state.note().unwrap_or(ask.state.name())))
        }
        (State::Answered { .. } | State::Expired { .. } | State::Withdrawn { .. }, _) => None,
    }
}
