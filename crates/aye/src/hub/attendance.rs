//! Whether anybody is there who could answer.

use super::Hub;
use aye_core::Role;
use jiff::{SignedDuration, Timestamp};
use std::sync::{Mutex, PoisonError};

/// Whoever was there before the hub started needs this long to be there again.
const RECONNECTING: SignedDuration = SignedDuration::from_secs(30);

pub struct Attendance {
    present: Mutex<Present>,
}

struct Present {
    operators: u32,
    viewers: u32,
    /// Since when no operator has been there.
    nobody_since: Timestamp,
    /// An operator has been there since the hub started.
    anybody: bool,
}

/// A surface that is connected, until it is dropped.
pub struct Attending {
    hub: Hub,
    role: Role,
}

impl Attendance {
    pub fn starting(now: Timestamp) -> Self {
        Self { present: Mutex::new(Present { operators: 0, viewers: 0, nobody_since: now, anybody: false }) }
    }

    /// Whether nobody has been there for so long.
    pub fn is_unattended(&self, now: Timestamp, after: SignedDuration) -> bool {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let after = if present.anybody { after } else { after.max(RECONNECTING) };
        present.operators == 0 && now.duration_since(present.nobody_since) >= after
    }

    /// Operators and viewers connected now.
    pub fn connected(&self) -> (u32, u32) {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        (present.operators, present.viewers)
    }
}

impl Hub {
    pub fn attend(&self, role: Role) -> Attending {
        let mut present = self.inner.attendance.present.lock().unwrap_or_else(PoisonError::into_inner);
        match role {
            Role::Operator => {
                present.operators += 1;
                present.anybody = true;
                if self.is_one_of_several() {
                    // The others are told at once.
                    self.inner.sooner.notify_one();
                }
            }
            Role::Viewer | Role::Agent => present.viewers += 1,
        }
        Attending { hub: self.clone(), role }
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        let now = self.hub.inner.clock.now();
        let mut present = self.hub.inner.attendance.present.lock().unwrap_or_else(PoisonError::into_inner);
        match self.role {
            Role::Operator => {
                present.operators -= 1;
                present.nobody_since = now;
                // What is refused when nobody is there may be due now.
                self.hub.inner.sooner.notify_one();
            }
            Role::Viewer | Role::Agent => present.viewers -= 1,
        }
    }
}
