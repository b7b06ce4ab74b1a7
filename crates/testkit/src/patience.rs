//! Waiting for what another process does.

use std::time::{Duration, Instant};

/// Longer than anything in a test should take, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Waits for something that another process does, and fails loudly if it never happens.
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, look)
}

pub fn eventually_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited {limit:?} for {what}");
}
