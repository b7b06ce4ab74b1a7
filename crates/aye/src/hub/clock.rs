//! The hub's time: it begins with the wall clock, never runs backwards, and follows it forwards, so
//! that a laptop that slept finds its deadlines passed, and a clock set back does not stop them.

use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

#[derive(Clone)]
pub enum Clock {
    System(Arc<Mutex<Anchor>>),
    /// Time as a test sets it, in milliseconds.
    Manual(Arc<AtomicI64>),
}

pub struct Anchor {
    wall: Timestamp,
    since: Instant,
}

impl Clock {
    pub fn system() -> Self {
        let anchor = Anchor { wall: Timestamp::now(), since: Instant::now() };
        Clock::System(Arc::new(Mutex::new(anchor)))
    }

    pub fn manual(start: Timestamp) -> Self {
        Clock::Manual(Arc::new(AtomicI64::new(start.as_millisecond())))
    }

    /// To the millisecond, which is what the store keeps.
    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System(anchor) => {
                let mut anchor = anchor.lock().unwrap_or_else(PoisonError::into_inner);
                anchor.read(Timestamp::now(), Instant::now())
            }
            Clock::Manual(millis) => {
                Timestamp::from_millisecond(millis.load(Ordering::SeqCst)).unwrap_or(Timestamp::UNIX_EPOCH)
            }
        }
    }

    pub fn advance(&self, by: SignedDuration) {
        if let Clock::Manual(millis) = self {
            let step = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            millis.fetch_add(step, Ordering::SeqCst);
        }
    }
}

impl Anchor {
    fn read(&mut self, wall: Timestamp, instant: Instant) -> Timestamp {
        let elapsed =
            SignedDuration::try_from(instant.saturating_duration_since(self.since)).unwrap_or_default();
        let steady = self.wall.saturating_add(elapsed).unwrap_or(self.wall);
        let now = steady.max(wall);
        *self = Anchor { wall: now, since: instant };
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_clock_set_back_neither_turns_time_back_nor_stops_it() {
        let start = Instant::now();
        let mut anchor = Anchor { wall: at(1000), since: start };
        assert_eq!(anchor.read(at(1001), start + Duration::from_secs(1)), at(1001));
        assert_eq!(anchor.read(at(400), start + Duration::from_secs(2)), at(1002));
        assert_eq!(anchor.read(at(403), start + Duration::from_secs(5)), at(1005));
    }

    #[test]
    fn time_that_passed_in_sleep_has_passed() {
        let start = Instant::now();
        let mut anchor = Anchor { wall: at(1000), since: start };
        assert_eq!(anchor.read(at(5000), start + Duration::from_secs(1)), at(5000));
    }
}
