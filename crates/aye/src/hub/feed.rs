//! Who is told of changes: everybody who follows them all, and those who wait for one thing.

use crate::store::{Change, Subject};
use aye_core::Receipt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{broadcast, oneshot};

/// Followers further behind than this catch up from the store instead of from memory.
const KEPT_IN_MEMORY: usize = 1024;

pub struct Feed {
    changes: broadcast::Sender<Arc<Change>>,
    waiting: Mutex<HashMap<String, Vec<oneshot::Sender<()>>>>,
}

impl Feed {
    pub fn new() -> Self {
        Self { changes: broadcast::Sender::new(KEPT_IN_MEMORY), waiting: Mutex::default() }
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Change>> {
        self.changes.subscribe()
    }

    pub fn publish(&self, changes: Vec<Change>) {
        for change in changes {
            if let Subject::Ask(ask) = &change.subject {
                let (state, receipt) = (ask.state.name(), ask.state.receipt().map(Receipt::as_str));
                tracing::info!(ask = %ask.id, kind = %ask.body.kind(), agent = %ask.agent, state, receipt, "ask");
                if !ask.state.is_open() {
                    self.wake(ask.id.as_str());
                }
            }
            // Nobody following is not an error.
            drop(self.changes.send(Arc::new(change)));
        }
    }

    /// Ends when `subject` is woken. Register first and look afterwards, so that no change falls between.
    pub fn wait_for(&self, subject: &str) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiters = waiting.entry(subject.to_owned()).or_default();
        waiters.retain(|waiter| !waiter.is_closed());
        waiters.push(wake);
        woken
    }

    /// Dropping a waiter's sender ends its wait.
    pub fn wake(&self, subject: &str) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(subject);
    }
}
