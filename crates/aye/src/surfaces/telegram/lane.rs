//! What waits to be said in one chat. A job names what is to be shown, not how: it is looked at when its turn
//! comes, so that ten changes while Telegram's limits hold us back become one edit. Whoever did something sees its
//! effect before anything new is announced.

use super::html::Page;
use super::settings::Pace;
use aye_core::AskId;
use std::collections::VecDeque;
use tokio::time::Instant;

/// Telegram takes about one message a second in a chat.
pub const GAP: f64 = 1.0;
/// And twenty a minute in a group: some of them are kept for people who press buttons.
const GROUP_GAP: f64 = 3.0;
const MINUTE: f64 = 60.0;
const MOST_A_MINUTE: usize = 19;
const MOST_UNASKED_A_MINUTE: usize = 14;
const LONGEST_PAUSE: f64 = 60.0;
/// Of a chat that shut the bot out; somebody who writes there ends it.
const LONGEST_SHUT: f64 = 900.0;
const MOST_WORDS: usize = 50;
/// A call that takes longer than this no longer holds up what people wait for.
const STUCK: f64 = 1.5;
/// Calls in a chat at the same time, the stuck ones among them.
const MOST_UNDER_WAY: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// Something said once.
    Words { page: Page, reply_to: Option<i64>, plain: bool },
    /// Let the chat show how this ask stands.
    Ask(AskId),
    /// Let the chat show a list or an offer.
    Menu(String),
    /// Let the chat show how a run stands.
    Card(String),
}

/// What goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Somebody did something and waits for its effect.
    Reaction,
    Announcement,
    Progress,
}

impl Job {
    /// Unless somebody waits for it.
    pub fn rank(&self) -> Rank {
        match self {
            Job::Words { .. } | Job::Menu(_) => Rank::Reaction,
            Job::Ask(_) => Rank::Announcement,
            Job::Card(_) => Rank::Progress,
        }
    }
}

#[derive(Debug)]
struct Waiting {
    job: Job,
    rank: Rank,
    /// Not before this.
    at: Option<Instant>,
}

#[derive(Debug)]
pub struct Lane {
    jobs: VecDeque<Waiting>,
    /// When the calls began that have no reply yet.
    under_way: Vec<Instant>,
    /// A file is under way since then; it may take long, and others do not wait for it.
    uploading: Option<Instant>,
    is_group: bool,
    /// The ends of the calls of the last minute.
    said: VecDeque<Instant>,
    start: Instant,
    /// Telegram told us to wait until then.
    hushed: Option<Instant>,
    /// Telegram failed us, and it is tried again then.
    paused: Option<Instant>,
    /// How often in a row.
    failures: u32,
    /// The bot may not speak here.
    is_shut: bool,
    pace: Pace,
}

impl Lane {
    /// Nothing is said before `start`.
    pub fn new(chat: i64, pace: Pace, start: Instant) -> Self {
        Self {
            jobs: VecDeque::new(),
            under_way: vec![],
            uploading: None,
            // Groups have negative numbers.
            is_group: chat < 0,
            said: VecDeque::new(),
            start,
            hushed: None,
            paused: None,
            failures: 0,
            is_shut: false,
            pace,
        }
    }

    /// A job that waits already is not put twice, and keeps its place unless it is more urgent now.
    pub fn put(&mut self, job: Job, rank: Rank) {
        if let Some(waiting) = self.jobs.iter_mut().find(|waiting| waiting.job == job) {
            if rank < waiting.rank {
                waiting.rank = rank;
                waiting.at = None;
            }
            return;
        }
        let words = |waiting: &&Waiting| matches!(waiting.job, Job::Words { .. });
        if matches!(job, Job::Words { .. }) && self.jobs.iter().filter(words).count() >= MOST_WORDS {
            tracing::warn!("too much waits to be said in a chat; a reply is left out");
            return;
        }
        self.jobs.push_back(Waiting { job, rank, at: None });
    }

    /// The job that was just worked on may not be done yet.
    pub fn put_again(&mut self, job: Job, rank: Rank) {
        let before = self.jobs.iter().position(|waiting| waiting.job == job);
        let before = before.and_then(|at| self.jobs.remove(at)).map(|waiting| waiting.rank);
        self.jobs.push_front(Waiting { job, rank: before.map_or(rank, |before| before.min(rank)), at: None });
    }

    /// The same, not before a moment: what waits behind it goes on.
    pub fn put_later(&mut self, job: Job, at: Instant) {
        let rank = job.rank();
        if !self.jobs.iter().any(|waiting| waiting.job == job) {
            self.jobs.push_back(Waiting { job, rank, at: Some(at) });
        }
    }

    /// The next job, if one may be done now.
    pub fn take(&mut self, now: Instant) -> Option<(Job, Rank)> {
        let due = |waiting: &Waiting| self.has_room(waiting.rank) && self.due_at(waiting) <= now;
        let first = self.jobs.iter().enumerate().filter(|(_, waiting)| due(waiting));
        let (at, _) = first.min_by_key(|(at, waiting)| (waiting.rank, *at))?;
        self.jobs.remove(at).map(|waiting| (waiting.job, waiting.rank))
    }

    /// The asks that wait to be announced.
    pub fn announcements(&self) -> Vec<AskId> {
        let asks = self.jobs.iter().filter(|waiting| waiting.rank == Rank::Announcement);
        asks.filter_map(|waiting| match &waiting.job {
            Job::Ask(ask) => Some(ask.clone()),
            Job::Words { .. } | Job::Menu(_) | Job::Card(_) => None,
        })
        .collect()
    }

    pub fn begin(&mut self, now: Instant) {
        self.under_way.push(now);
    }

    /// A call that began then has ended. Counted from its end, two calls are never closer at the server than here.
    pub fn end(&mut self, began: Instant, now: Instant) {
        if let Some(at) = self.under_way.iter().position(|known| *known == began) {
            self.under_way.remove(at);
        }
        self.count(now);
    }

    /// One call at a time, but what somebody waits for does not wait for a call that is stuck.
    fn has_room(&self, rank: Rank) -> bool {
        let most = if rank == Rank::Reaction { MOST_UNDER_WAY } else { 1 };
        self.under_way.len() < most
    }

    pub fn begin_upload(&mut self, now: Instant) {
        self.uploading = Some(now);
    }

    pub fn is_uploading(&self) -> bool {
        self.uploading.is_some()
    }

    /// A file was sent, or was not: that says nothing of other calls.
    pub fn uploaded(&mut self, now: Instant) {
        self.uploading = None;
        self.count(now);
    }

    fn count(&mut self, now: Instant) {
        self.said.push_back(now);
        let minute = self.pace.seconds(MINUTE);
        while self.said.len() > 1 && self.said.front().is_some_and(|at| now.duration_since(*at) > minute) {
            self.said.pop_front();
        }
    }

    /// Telegram told us how long to wait, in its seconds.
    pub fn wait(&mut self, seconds: u64, now: Instant) {
        self.hushed = Some(now + self.pace.seconds(seconds as f64));
    }

    /// A call failed; each failure in a row doubles the pause.
    pub fn failed(&mut self, now: Instant) {
        self.pause(now, LONGEST_PAUSE);
    }

    /// The bot may not speak here.
    pub fn shut(&mut self, now: Instant) {
        self.is_shut = true;
        self.pause(now, LONGEST_SHUT);
    }

    fn pause(&mut self, now: Instant, longest: f64) {
        let pause = f64::from(1_u32 << self.failures.min(10)).min(longest);
        self.failures += 1;
        self.paused = Some(now + self.pace.seconds(pause));
    }

    /// A call succeeded, or somebody speaks to us from there: it is worth trying.
    pub fn wake(&mut self) {
        self.failures = 0;
        self.paused = None;
        self.is_shut = false;
    }

    /// Telegram works again, which opens no chat that is shut.
    pub fn recover(&mut self) {
        if !self.is_shut {
            self.wake();
        }
    }

    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// When something could be done next, if anything waits.
    pub fn due(&self) -> Option<Instant> {
        let can_go = self.jobs.iter().filter(|waiting| self.has_room(waiting.rank));
        can_go.map(|waiting| self.due_at(waiting)).min()
    }

    fn due_at(&self, waiting: &Waiting) -> Instant {
        let limits = [waiting.at, self.hushed, self.paused, Some(self.free_at(waiting.rank))];
        limits.into_iter().flatten().max().unwrap_or(self.start)
    }

    /// When Telegram's limits allow the next call.
    fn free_at(&self, rank: Rank) -> Instant {
        let (gap, most) = match (self.is_group, rank) {
            (false, _) => (GAP, usize::MAX),
            (true, Rank::Reaction) => (GAP, MOST_A_MINUTE),
            (true, Rank::Announcement | Rank::Progress) => (GROUP_GAP, MOST_UNASKED_A_MINUTE),
        };
        let after_last = self.said.back().map(|at| *at + self.pace.seconds(gap));
        let after_stuck = self.under_way.last().map(|at| *at + self.pace.seconds(STUCK));
        let mut all = self.said.iter().chain(&self.under_way);
        let oldest = (self.said.len() + self.under_way.len()).checked_sub(most).and_then(|at| all.nth(at));
        let after_minute = oldest.map(|at| *at + self.pace.seconds(MINUTE));
        let after_upload = self.uploading.map(|since| since + self.pace.seconds(gap));
        let limits = [after_last, after_minute, after_upload, after_stuck];
        limits.into_iter().flatten().max().unwrap_or(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ask(n: u64) -> Job {
        Job::Ask(AskId::from_random(n))
    }

    fn lane(chat: i64) -> (Lane, Instant) {
        let now = Instant::now();
        (Lane::new(chat, Pace { second: Duration::from_secs(1) }, now), now)
    }

    fn put(lane: &mut Lane, job: Job) {
        let rank = job.rank();
        lane.put(job, rank);
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn taken(lane: &mut Lane, now: Instant) -> Option<Job> {
        lane.take(now).map(|(job, _)| job)
    }

    #[test]
    fn many_changes_of_one_thing_are_one_job_and_people_come_before_progress() {
        let (mut lane, now) = lane(1);
        for job in [Job::Card("c".into()), ask(1), ask(2), ask(1)] {
            put(&mut lane, job);
        }
        let mut order = vec![];
        while let Some(job) = taken(&mut lane, now) {
            order.push(job);
        }
        assert_eq!(order, [ask(1), ask(2), Job::Card("c".into())]);
    }

    #[test]
    fn whoever_did_something_sees_it_before_anything_is_announced() {
        let (mut lane, now) = lane(1);
        for n in 1..30 {
            put(&mut lane, ask(n));
        }
        lane.put(ask(20), Rank::Reaction);
        assert_eq!(lane.take(now), Some((ask(20), Rank::Reaction)));
        assert_eq!(lane.take(now), Some((ask(1), Rank::Announcement)));
    }

    #[test]
    fn one_call_at_a_time_a_second_apart_and_in_groups_three() {
        for (chat, gap) in [(1, 1), (-1, 3)] {
            let (mut lane, now) = lane(chat);
            put(&mut lane, ask(1));
            put(&mut lane, ask(2));
            assert!(lane.take(now).is_some());
            lane.begin(now);
            assert_eq!((lane.take(now), lane.due()), (None, None));
            lane.end(now, now);
            assert_eq!(lane.take(now + seconds(gap) - Duration::from_millis(1)), None);
            assert_eq!(lane.due(), Some(now + seconds(gap)));
            assert_eq!(taken(&mut lane, now + seconds(gap)), Some(ask(2)));
        }
    }

    #[test]
    fn a_full_minute_in_a_group_still_has_room_for_those_who_press() {
        let (mut lane, now) = lane(-1);
        let mut at = now;
        let mut announced = 0;
        while at < now + seconds(59) {
            put(&mut lane, ask(1));
            if lane.take(at).is_some() {
                announced += 1;
                lane.begin(at);
                lane.end(at, at);
            }
            at += seconds(1);
        }
        assert_eq!(announced, MOST_UNASKED_A_MINUTE);
        lane.put(ask(2), Rank::Reaction);
        assert_eq!(taken(&mut lane, at), Some(ask(2)));
    }

    #[test]
    fn failures_wait_longer_each_time_and_a_word_from_the_chat_ends_the_wait() {
        let (mut lane, now) = lane(1);
        put(&mut lane, ask(1));
        let pause = |lane: &mut Lane| {
            lane.failed(now);
            lane.due().unwrap() - now
        };
        let pauses: Vec<_> = (0..8).map(|_| pause(&mut lane).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        lane.wake();
        assert_eq!(lane.due(), Some(now));
        lane.wait(7, now);
        lane.wake();
        assert_eq!(lane.due(), Some(now + seconds(7)), "a wait that Telegram asked for is kept");
    }

    #[test]
    fn a_chat_that_shuts_the_bot_out_is_tried_ever_more_rarely() {
        let (mut lane, now) = lane(1);
        put(&mut lane, ask(1));
        let pauses: Vec<_> = (0..12)
            .map(|_| {
                lane.shut(now);
                (lane.due().unwrap() - now).as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        lane.recover();
        assert_eq!(lane.due(), Some(now + seconds(900)), "Telegram may work and the chat be shut");
        lane.wake();
        assert_eq!(lane.due(), Some(now));
    }

    #[test]
    fn a_call_that_is_stuck_holds_up_announcements_but_not_reactions() {
        let (mut lane, now) = lane(1);
        lane.begin(now);
        put(&mut lane, ask(1));
        assert_eq!(lane.due(), None, "it may be answered any moment");
        lane.put(ask(2), Rank::Reaction);
        assert_eq!(
            (lane.take(now + seconds(1)), lane.due()),
            (None, Some(now + seconds(1) + seconds(1) / 2))
        );
        let later = now + seconds(2);
        assert_eq!(taken(&mut lane, later), Some(ask(2)));
        lane.begin(later);
        lane.put(ask(3), Rank::Reaction);
        assert_eq!(taken(&mut lane, later + seconds(2)), Some(ask(3)));
        lane.begin(later + seconds(2));
        lane.put(ask(4), Rank::Reaction);
        assert_eq!(lane.take(later + seconds(60)), None, "not without bound");
        lane.end(now, later + seconds(30));
        assert_eq!(taken(&mut lane, later + seconds(60)), Some(ask(4)));
    }

    #[test]
    fn a_file_that_takes_long_holds_up_nothing_else() {
        let (mut lane, now) = lane(1);
        lane.begin_upload(now);
        put(&mut lane, ask(1));
        assert_eq!((lane.take(now), lane.due()), (None, Some(now + seconds(1))));
        assert_eq!(taken(&mut lane, now + seconds(1)), Some(ask(1)));
    }

    #[test]
    fn what_is_put_off_holds_up_nothing_else() {
        let (mut lane, now) = lane(1);
        lane.put_later(ask(1), now + seconds(30));
        put(&mut lane, ask(2));
        assert_eq!(taken(&mut lane, now), Some(ask(2)));
        assert_eq!((lane.take(now), lane.due()), (None, Some(now + seconds(30))));
        lane.put(ask(1), Rank::Reaction);
        assert_eq!(taken(&mut lane, now), Some(ask(1)));
    }
}
