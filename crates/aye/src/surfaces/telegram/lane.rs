//! What waits to be said in one chat. A job names what is to be shown, not how: it is looked at when its turn
//! comes, so that ten changes while Telegram's limits hold us back become one edit.

use super::html::Page;
use super::settings::Pace;
use aye_core::AskId;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Telegram takes about one message a second in a chat, and twenty a minute in a group.
const ALONE: f64 = 1.0;
const GROUP: f64 = 3.0;
const LONGEST_PAUSE: f64 = 60.0;
const MOST_WORDS: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// Something said once.
    Words { page: Page, reply_to: Option<i64>, plain: bool },
    /// Let the chat show how this ask stands.
    Ask(AskId),
    /// Let the chat show how a run stands.
    Card(String),
}

impl Job {
    /// People wait for the first two.
    fn rank(&self) -> u8 {
        match self {
            Job::Words { .. } | Job::Ask(_) => 0,
            Job::Card(_) => 1,
        }
    }
}

#[derive(Debug)]
pub struct Lane {
    jobs: VecDeque<Job>,
    busy: bool,
    free_at: Instant,
    /// How often Telegram failed us in a row.
    failures: u32,
    gap: Duration,
    pace: Pace,
}

impl Lane {
    pub fn new(chat: i64, pace: Pace, now: Instant) -> Self {
        // Groups have negative numbers.
        let gap = pace.seconds(if chat < 0 { GROUP } else { ALONE });
        Self { jobs: VecDeque::new(), busy: false, free_at: now, failures: 0, gap, pace }
    }

    /// A job that waits already is not put twice, and keeps its place.
    pub fn put(&mut self, job: Job) {
        if self.jobs.contains(&job) {
            return;
        }
        let words = |job: &Job| matches!(job, Job::Words { .. });
        if words(&job) && self.jobs.iter().filter(|job| words(job)).count() >= MOST_WORDS {
            tracing::warn!("too much waits to be said in a chat; a reply is left out");
            return;
        }
        self.jobs.push_back(job);
    }

    /// The job that was just worked on may not be done yet.
    pub fn put_first(&mut self, job: Job) {
        self.jobs.retain(|waiting| *waiting != job);
        self.jobs.push_front(job);
    }

    /// The next job, if one may be done now.
    pub fn take(&mut self, now: Instant) -> Option<Job> {
        if self.busy || now < self.free_at {
            return None;
        }
        let (at, _) = self.jobs.iter().enumerate().min_by_key(|(at, job)| (job.rank(), *at))?;
        self.jobs.remove(at)
    }

    pub fn begin(&mut self) {
        self.busy = true;
    }

    /// A call was made and answered. Counted from its end, two calls are never closer at the server than here.
    pub fn done(&mut self, now: Instant) {
        self.busy = false;
        self.failures = 0;
        self.free_at = now + self.gap;
    }

    /// Telegram told us how long to wait, in its seconds.
    pub fn wait(&mut self, seconds: u64, now: Instant) {
        self.busy = false;
        self.free_at = now + self.pace.seconds(seconds as f64).max(self.gap);
    }

    /// A call failed; each failure in a row doubles the pause.
    pub fn failed(&mut self, now: Instant) {
        self.busy = false;
        let pause = f64::from(1_u32 << self.failures.min(6)).min(LONGEST_PAUSE);
        self.failures += 1;
        self.free_at = now + self.pace.seconds(pause).max(self.gap);
    }

    /// Somebody speaks to us from there, so it is worth trying.
    pub fn wake(&mut self, now: Instant) {
        if self.failures > 0 {
            self.failures = 0;
            self.free_at = self.free_at.min(now + self.gap);
        }
    }

    /// When something could be done next, if anything waits.
    pub fn due(&self) -> Option<Instant> {
        (!self.busy && !self.jobs.is_empty()).then_some(self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(n: u64) -> Job {
        Job::Ask(AskId::from_random(n))
    }

    fn lane(chat: i64) -> (Lane, Instant) {
        let now = Instant::now();
        (Lane::new(chat, Pace { second: Duration::from_secs(1) }, now), now)
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn many_changes_of_one_thing_are_one_job_and_people_come_before_progress() {
        let (mut lane, now) = lane(1);
        for job in [Job::Card("c".into()), ask(1), ask(2), ask(1)] {
            lane.put(job);
        }
        let mut order = vec![];
        while let Some(job) = lane.take(now) {
            order.push(job);
        }
        assert_eq!(order, [ask(1), ask(2), Job::Card("c".into())]);
    }

    #[test]
    fn one_call_at_a_time_a_second_apart_and_in_groups_three() {
        for (chat, gap) in [(1, 1), (-1, 3)] {
            let (mut lane, now) = lane(chat);
            lane.put(ask(1));
            lane.put(ask(2));
            assert!(lane.take(now).is_some());
            lane.begin();
            assert_eq!((lane.take(now), lane.due()), (None, None));
            lane.done(now);
            assert_eq!(lane.take(now + seconds(gap) - Duration::from_millis(1)), None);
            assert_eq!(lane.due(), Some(now + seconds(gap)));
            assert_eq!(lane.take(now + seconds(gap)), Some(ask(2)));
        }
    }

    #[test]
    fn failures_wait_longer_each_time_and_a_word_from_the_chat_ends_the_wait() {
        let (mut lane, now) = lane(1);
        lane.put(ask(1));
        let pause = |lane: &mut Lane| {
            lane.failed(now);
            lane.due().unwrap() - now
        };
        let pauses: Vec<_> = (0..8).map(|_| pause(&mut lane).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        lane.wake(now);
        assert_eq!(lane.due(), Some(now + seconds(1)));
        lane.wait(7, now);
        lane.wake(now);
        assert_eq!(lane.due(), Some(now + seconds(7)), "a wait that Telegram asked for is kept");
    }
}
