//! What the hub's own terminal shows while it runs: a line for each ask that comes or ends.

use super::style::{DIM, GOOD, NAME, paint};
use super::summary;
use crate::hub::{Followed, Hub, Subject};
use aye_core::visible::one_line;
use aye_core::{Ask, State};
use tokio_util::sync::CancellationToken;

pub async fn run(hub: Hub, stop: CancellationToken) {
    let mut changes = hub.follow();
    loop {
        let followed = tokio::select! {
            () = stop.cancelled() => return,
            followed = changes.next() => followed,
        };
        match followed {
            Ok(Followed::Change(change)) => {
                if let Subject::Ask(ask) = &change.subject
                    && let Some(line) = notice(ask)
                {
                    anstream::println!("{line}");
                }
            }
            // Lines were missed, not asks: `aye list` has them all.
            Ok(Followed::Piece(_) | Followed::Lost) => {}
            Err(error) => return tracing::error!(%error, "what comes and ends is not shown here any more"),
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
