//! What hubs on one server do together, beside the asks: who is there, what one of them does for all, and what the page is
//! shown at whichever of them it asks.

use super::{Hub, Problem};
use crate::processes::host;
use crate::store::{Kept, Ticket, TicketFor, TicketLimits};
use aye_core::AskId;
use jiff::SignedDuration;

const PREVIEW_LASTS: SignedDuration = SignedDuration::from_mins(1);
const MOST_PREVIEWS: usize = 256;
/// How long a hub's report that somebody is there counts. Hubs repeat it more often than this, so only one that is gone
/// lets it run out.
const ATTENDED_FOR: SignedDuration = SignedDuration::from_secs(15);

impl Hub {
    /// Whether other hubs may use the same database.
    pub fn is_one_of_several(&self) -> bool {
        self.inner.store.is_on_server()
    }

    /// Keeps which option of which question is to be shown by this ticket.
    pub async fn keep_preview(&self, ticket: &str, ask: &AskId, place: [usize; 2]) -> Result<(), Problem> {
        let (secret, by) = (ticket.to_owned(), String::new());
        let detail = serde_json::json!([ask, place]).to_string();
        let ticket = Ticket { purpose: TicketFor::Preview, secret, by, detail, lasts: PREVIEW_LASTS };
        match self.inner.store.put_ticket(ticket, TicketLimits::of_all(MOST_PREVIEWS)).await? {
            Kept::Yes => Ok(()),
            Kept::Known | Kept::NoRoom => Err(Problem::Conflict("too many previews are waiting to be shown")),
        }
    }

    pub async fn take_preview(&self, ticket: &str) -> Result<Option<(AskId, [usize; 2])>, Problem> {
        let found = self.inner.store.take_ticket(TicketFor::Preview, ticket).await?;
        Ok(found.and_then(|(_, detail)| serde_json::from_str(&detail).ok()))
    }

    /// Whether this hub does that from now on, for so long. A hub that is alone always does.
    pub async fn take_lease(&self, name: &'static str, lasts: SignedDuration) -> Result<bool, Problem> {
        if !self.is_one_of_several() {
            return Ok(true);
        }
        Ok(self.inner.store.take_lease(name, &self.inner.id, lasts).await?)
    }

    /// What the hub before wrote while it had the lease is there when this returns.
    pub async fn await_earlier_changes(&self) -> Result<(), Problem> {
        Ok(self.inner.store.catch_up().await?)
    }

    pub async fn give_lease_back(&self, name: &'static str) -> Result<(), Problem> {
        Ok(self.inner.store.give_lease_back(name, &self.inner.id).await?)
    }

    /// Tells the other hubs which agents and people are here.
    pub(super) async fn tell_who_is_here(&self) -> Result<(), Problem> {
        if !self.is_one_of_several() {
            return Ok(());
        }
        let (operators, _) = self.inner.attendance.connected();
        self.inner.store.note_hub(&self.inner.id, &host(), operators > 0).await?;
        let (life, now) = (&self.inner.life, self.inner.clock.now());
        let heard = life.take_unsaid();
        match self.inner.store.note_life(heard.clone()).await {
            Ok(()) => {
                life.was_said(now);
                Ok(())
            }
            Err(error) => {
                life.was_not_said(heard);
                Err(error.into())
            }
        }
    }

    /// Whether somebody who can answer is at another hub, or was within this time.
    pub(super) async fn is_attended_elsewhere(&self, within: SignedDuration) -> Result<bool, Problem> {
        if !self.is_one_of_several() {
            return Ok(false);
        }
        Ok(self.inner.store.is_attended_elsewhere(&self.inner.id, within.max(ATTENDED_FOR)).await?)
    }
}
