//! How far something is that takes a while, for a person who looks on.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// What takes longer shows how far it is.
const SHORT: Duration = Duration::from_secs(1);
const BAR: u64 = 30;

pub struct Progress {
    next: Option<Instant>,
    shown: bool,
}

impl Progress {
    pub fn new() -> Self {
        let watched = std::io::stderr().is_terminal();
        Self { next: watched.then(|| Instant::now() + SHORT), shown: false }
    }

    /// So many of all of these are done.
    pub fn show(&mut self, of: &str, done: u64, all: u64) {
        if self.is_due(Instant::now()) {
            self.shown = true;
            self.print(&drawn(of, done, all));
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next.is_some_and(|next| next <= now);
        if due {
            self.next = Some(now + SHORT / 10);
        }
        due
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.print("\r\x1b[K");
        }
    }

    /// A terminal that is gone stops nothing.
    fn print(&self, text: &str) {
        drop(std::io::stderr().write_all(text.as_bytes()));
    }
}

fn drawn(of: &str, done: u64, all: u64) -> String {
    let full = (BAR * done / all.max(1)).min(BAR);
    let bar: String = (0..BAR).map(|place| if place < full { '█' } else { '░' }).collect();
    format!("\r{bar} {done} of {all} {of}\x1b[K")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_up_and_stays_as_wide_as_it_is() {
        let bar = |done, all| {
            drawn("lines", done, all).trim_start().split(' ').next().unwrap_or_default().to_owned()
        };
        let filled = |done, all| bar(done, all).matches('█').count();
        assert_eq!(
            (filled(0, 60), filled(30, 60), filled(60, 60), filled(99, 60), filled(0, 0)),
            (0, 15, 30, 30, 0)
        );
        assert!(
            [(0, 60), (30, 60), (99, 60)].iter().all(|(done, all)| bar(*done, *all).chars().count() == 30)
        );
        assert!(drawn("lines", 256, 1000).contains(" 256 of 1000 lines"));
    }

    #[test]
    fn it_comes_after_a_second_then_ten_times_a_second_and_only_where_somebody_looks_on() {
        let start = Instant::now();
        let mut watched = Progress { next: Some(start + SHORT), shown: false };
        let due = |millis| start + Duration::from_millis(millis);
        let shown: Vec<u64> =
            [0, 999, 1000, 1050, 1100, 1199].into_iter().filter(|at| watched.is_due(due(*at))).collect();
        assert_eq!(shown, [1000, 1100]);
        let mut unwatched = Progress { next: None, shown: false };
        assert!(!unwatched.is_due(due(5000)));
    }
}
