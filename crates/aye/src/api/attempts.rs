//! Wrong tokens, counted. A right token is never held up by somebody else's wrong ones: it is
//! checked first, and only then does the count matter.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const WRONG_IN_A_WINDOW: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);
const MOST_ADDRESSES: usize = 1024;

#[derive(Default)]
pub struct Attempts {
    wrong: Mutex<HashMap<Option<IpAddr>, (Instant, u32)>>,
    refused: AtomicU64,
}

impl Attempts {
    /// Counts a wrong token from this address (none for the Unix socket), and says whether there were too many.
    pub fn too_many(&self, from: Option<IpAddr>, now: Instant) -> bool {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() >= MOST_ADDRESSES {
            wrong.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        }
        if wrong.len() >= MOST_ADDRESSES && !wrong.contains_key(&from) {
            return true;
        }
        let (since, count) = wrong.entry(from).or_insert((now, 0));
        if now.duration_since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count > WRONG_IN_A_WINDOW
    }

    /// Wrong tokens since the start, from anywhere.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tokens_are_limited_by_address_and_forgotten_with_time() {
        let attempts = Attempts::default();
        let start = Instant::now();
        let from = Some(IpAddr::from([127, 0, 0, 1]));
        let refused = (0..30).filter(|_| attempts.too_many(from, start)).count();
        assert_eq!(refused, 10);
        assert_eq!(attempts.refused(), 30);
        assert!(!attempts.too_many(None, start));
        assert!(!attempts.too_many(from, start + WINDOW));
    }

    #[test]
    fn a_flood_of_addresses_does_not_grow_without_end() {
        let attempts = Attempts::default();
        let start = Instant::now();
        for n in 0..5000u32 {
            attempts.too_many(Some(IpAddr::from(n.to_be_bytes())), start);
        }
        assert_eq!(attempts.wrong.lock().unwrap().len(), MOST_ADDRESSES);
    }
}
