//! Who is told of changes: everybody who follows them all, and those who wait for one thing.

use super::conversations::Piece;
use crate::store::{Change, Large, Subject};
use aye_core::{Ask, By, Receipt, State};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{broadcast, oneshot};

/// Followers further behind than this catch up from the store instead of from memory.
const KEPT_IN_MEMORY: usize = 1024;

/// What followers are told.
#[derive(Debug, Clone)]
pub enum FeedItem {
    Change(Arc<Change>),
    Piece(Arc<Piece>),
    /// There were changes of other hubs that only the store has.
    Skipped,
}

pub struct Feed {
    changes: broadcast::Sender<FeedItem>,
    waiting: Mutex<HashMap<String, Vec<oneshot::Sender<()>>>>,
}

impl Feed {
    pub fn new() -> Self {
        Self { changes: broadcast::Sender::new(KEPT_IN_MEMORY), waiting: Mutex::default() }
    }

    pub fn subscribe(&self) -> broadcast::Receiver<FeedItem> {
        self.changes.subscribe()
    }

    pub fn publish(&self, changes: Vec<Change>) {
        for change in changes {
            match &change.subject {
                Subject::Ask(ask) => {
                    log(ask);
                    if !ask.state.is_open() {
                        self.wake(ask.id.as_str());
                    }
                }
                Subject::Large(Large::Ask { id, ended }) => {
                    tracing::info!(ask = %id, ended, "large ask");
                    if *ended {
                        self.wake(id.as_str());
                    }
                }
                Subject::Agent(_) | Subject::Event(..) | Subject::Notice(_) | Subject::Large(_) => {}
            }
            // Nobody following is not an error.
            drop(self.changes.send(FeedItem::Change(Arc::new(change))));
        }
    }

    /// Other hubs changed more than is told one by one: whoever follows or waits looks for themselves.
    pub fn skip(&self) {
        drop(self.changes.send(FeedItem::Skipped));
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn pass_on(&self, pieces: Vec<Piece>) {
        for piece in pieces {
            drop(self.changes.send(FeedItem::Piece(Arc::new(piece))));
        }
    }

    /// Register first and look afterwards, so that no change falls between.
    pub fn wait_for(&self, subject: &str) -> Waiter<'_> {
        let (wake, woken) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry(subject.to_owned()).or_default().push(wake);
        Waiter { feed: self, subject: subject.to_owned(), woken }
    }

    /// Dropping a waiter's sender ends its wait.
    pub fn wake(&self, subject: &str) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(subject);
    }
}

fn log(ask: &Ask) {
    let (kind, state, receipt) =
        (ask.body.kind(), ask.state.name(), ask.state.receipt().map(Receipt::as_str));
    match is_routine(&ask.state) {
        true => tracing::debug!(ask = %ask.id, %kind, agent = %ask.agent, state, receipt, "ask"),
        false => tracing::info!(ask = %ask.id, %kind, agent = %ask.agent, state, receipt, "ask"),
    }
}

/// True if what a rule decided got where it should. That it was decided was logged before, and this comes with every call
/// of an agent.
fn is_routine(state: &State) -> bool {
    let by_rule = matches!(state.by(), Some(By::Rule { .. }));
    by_rule && matches!(state.receipt(), Some(Receipt::Delivered | Receipt::Confirmed))
}

/// Somebody who waits for a subject, and is forgotten when they stop.
pub struct Waiter<'a> {
    feed: &'a Feed,
    subject: String,
    woken: oneshot::Receiver<()>,
}

impl Waiter<'_> {
    pub async fn woken(&mut self) {
        // An error is the wake-up: the sender was dropped.
        (&mut self.woken).await.unwrap_or_default();
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.woken.close();
        let mut waiting = self.feed.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiters) = waiting.get_mut(&self.subject) {
            waiters.retain(|waiter| !waiter.is_closed());
            if waiters.is_empty() {
                waiting.remove(&self.subject);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::lifecycle::Delivery;
    use aye_core::{Answer, Scope, Surface, Verdict};
    use jiff::Timestamp;

    #[test]
    fn only_that_a_rules_decision_got_there_is_routine() {
        let is_routine = |by: &By, receipt| {
            let delivery = Delivery { receipt, evidence: None };
            let answer = Answer::Permission(Verdict::Allow { scope: Scope::Once, input: None });
            is_routine(&State::Answered {
                answer,
                by: by.clone(),
                key: None,
                at: Timestamp::UNIX_EPOCH,
                delivery,
            })
        };
        let rule = By::Rule { rule: "r".try_into().unwrap() };
        let person = By::Person { name: "p".try_into().unwrap(), surface: Surface::Web };
        for receipt in [Receipt::Delivered, Receipt::Confirmed] {
            assert!(is_routine(&rule, receipt) && !is_routine(&person, receipt));
        }
        for receipt in [Receipt::Pending, Receipt::Undelivered, Receipt::Disputed, Receipt::Unknown] {
            assert!(!is_routine(&rule, receipt), "{receipt:?}");
        }
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_and_whoever_stops_waiting_is_forgotten() {
        let feed = Feed::new();
        let (mut first, second) = (feed.wait_for("a"), feed.wait_for("a"));
        drop(second);
        drop(feed.wait_for("made up"));
        assert_eq!(feed.waiting.lock().unwrap().values().map(Vec::len).sum::<usize>(), 1);
        feed.wake("a");
        first.woken().await;
        drop(first);
        assert!(feed.waiting.lock().unwrap().is_empty());
    }
}
