//! Following the hub from inside its process: every change in order, each once, however far behind one falls.

use super::conversations::Piece;
use super::feed::FeedItem;
use super::{Hub, Problem, StoreError};
use crate::store::{CatchUp, Change, Subject};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

pub struct Follower {
    hub: Hub,
    changes: Receiver<FeedItem>,
    /// The last change that was handed on; none before the first.
    seq: Option<u64>,
    ready: VecDeque<FeedItem>,
    /// There are changes that only the store has.
    behind: bool,
}

pub enum Followed {
    /// Whole, however large it is.
    Change(Arc<Change>),
    /// More of a text that streams. Some may be missed: the text so far comes as a change.
    Piece(Arc<Piece>),
    /// What was missed is not known any more, so a snapshot must be read. Changes go on from here.
    Lost,
}

impl Hub {
    /// Changes from now on. To be called before a snapshot is read, so that nothing falls between the two.
    pub fn follow(&self) -> Follower {
        let (hub, changes, ready) = (self.clone(), self.changes(), VecDeque::new());
        Follower { hub, changes, seq: None, ready, behind: false }
    }
}

impl Follower {
    /// Changes up to this number are known from a snapshot.
    pub fn has_seen(&mut self, seq: u64) {
        self.seq = Some(seq);
        self.ready.retain(|told| !matches!(told, FeedItem::Change(change) if change.seq <= seq));
    }

    /// Begins with what came after this number.
    pub fn go_on_after(&mut self, seq: u64) {
        self.has_seen(seq);
        self.behind = true;
    }

    /// May be dropped while it waits: nothing is lost.
    pub async fn next(&mut self) -> Result<Followed, Problem> {
        loop {
            if let Some(next) = self.next_known().await? {
                return Ok(next);
            }
            match self.changes.recv().await {
                Ok(told) => self.take(told),
                Err(RecvError::Lagged(_)) => self.behind = true,
                Err(RecvError::Closed) => return Err(StoreError::Closed.into()),
            }
        }
    }

    /// The same, if there is something by now.
    pub async fn next_if_any(&mut self) -> Result<Option<Followed>, Problem> {
        loop {
            if let Some(next) = self.next_known().await? {
                return Ok(Some(next));
            }
            match self.changes.try_recv() {
                Ok(told) => self.take(told),
                Err(TryRecvError::Lagged(_)) => self.behind = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(None),
            }
        }
    }

    fn take(&mut self, told: FeedItem) {
        let change = match told {
            FeedItem::Change(change) => change,
            FeedItem::Piece(_) => return self.ready.push_back(told),
            FeedItem::Skipped => {
                self.behind = true;
                return;
            }
        };
        match change.subject {
            // Between a snapshot and the first change, some may come twice.
            _ if self.seq.is_some_and(|seq| change.seq <= seq) => {}
            // Too large to be held for everybody.
            Subject::Large(_) => {
                self.seq.get_or_insert(change.seq.saturating_sub(1));
                self.behind = true;
            }
            Subject::Ask(_) | Subject::Agent(_) | Subject::Event(..) | Subject::Notice(_) => {
                self.ready.push_back(FeedItem::Change(change));
            }
        }
    }

    async fn next_known(&mut self) -> Result<Option<Followed>, Problem> {
        loop {
            match self.ready.pop_front() {
                Some(FeedItem::Change(change)) => {
                    self.seq = Some(change.seq);
                    return Ok(Some(Followed::Change(change)));
                }
                Some(FeedItem::Piece(piece)) => return Ok(Some(Followed::Piece(piece))),
                Some(FeedItem::Skipped) | None => {}
            }
            if !self.behind {
                return Ok(None);
            }
            let missed = match self.seq {
                Some(seq) => self.hub.catch_up(seq).await?,
                None => CatchUp::Unknown,
            };
            match missed {
                CatchUp::Missed { changes, through, more } => {
                    if changes.is_empty() {
                        self.seq = Some(through);
                    }
                    self.ready.extend(changes.into_iter().map(|change| FeedItem::Change(Arc::new(change))));
                    self.behind = more;
                }
                CatchUp::Unknown => {
                    (self.changes, self.seq, self.behind) = (self.hub.changes(), None, false);
                    return Ok(Some(Followed::Lost));
                }
            }
        }
    }
}
