//! Whether anybody is there who could answer.

use super::Hub;
use aye_core::Role;
use jiff::{SignedDuration, Timestamp};
use std::sync::{Mutex, PoisonError};

/// How long nobody must have been there before it counts.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

pub struct Attendance {
    present: Mutex<Present>,
}

struct Present {
    operators: u32,
    viewers: u32,
    /// Since when no operator has been there.
    nobody_since: Timestamp,
}

/// A surface that is connected, until it is dropped.
pub struct Attending {
    hub: Hub,
    role: Role,
}

impl Attendance {
    pub fn starting(now: Timestamp) -> Self {
        Self { present: Mutex::new(Present { operators: 0, viewers: 0, nobody_since: now }) }
    }

    pub fn is_unattended(&self, now: Timestamp) -> bool {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.operators == 0 && now.duration_since(present.nobody_since) >= PATIENCE
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
            Role::Operator => present.operators += 1,
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
            }
            Role::Viewer | Role::Agent => present.viewers -= 1,
        }
    }
}
