//! What is to be sent in one chat. A job names what is to be shown, not how: it is looked at when its turn
//! comes, so that ten changes while Telegram's limits hold us back become one edit. Whoever did something sees its
//! effect before anything new is announced.

use super::html::RichText;
use super::settings::Pace;
use aye_core::AskId;
use std::collections::VecDeque;
use tokio::time::Instant;

/// Telegram takes about one message a second in a chat.
pub const GAP: f64 = 1.0;
/// In a group it takes twenty a minute; some of them are reserved for reactions.
const GROUP_GAP: f64 = 3.0;
/// Between edits that show how runs in a group go on: six of the twenty, so that requests always find room.
const PROGRESS_GAP: f64 = 10.0;
const MINUTE: f64 = 60.0;
const MOST_A_MINUTE: usize = 19;
const MOST_UNASKED_A_MINUTE: usize = 14;
const LONGEST_PAUSE: f64 = 60.0;
/// For a chat that blocks the bot. A message from there ends the pause.
pub const LONGEST_BLOCKED: f64 = 900.0;
const MOST_WORDS: usize = 50;
/// A call that takes longer than this no longer holds up what people wait for.
const STUCK: f64 = 1.5;
/// Calls under way in a chat at the same time, including stuck ones.
const MOST_UNDER_WAY: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    Words(Words),
    /// Bring the messages of this ask up to date.
    Ask(AskId),
    /// Bring this message up to date.
    Message(String),
}

/// Something said once, in reply to a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    pub page: RichText,
    pub reply_to: Option<i64>,
    /// The forum topic it belongs to.
    pub topic: Option<i64>,
    pub loud: bool,
    /// Without markup, because Telegram did not accept it.
    pub plain: bool,
    /// How often it was refused for a reason that may pass.
    pub refusals: u32,
}

/// The lowest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A person did something and waits for its effect.
    Reaction,
    Announcement,
    Progress,
}

impl Job {
    /// The priority unless a person waits for it.
    pub fn priority(&self) -> Priority {
        match self {
            Job::Words(_) => Priority::Reaction,
            Job::Ask(_) => Priority::Announcement,
            Job::Message(_) => Priority::Progress,
        }
    }
}

#[derive(Debug)]
struct QueuedJob {
    job: Job,
    priority: Priority,
    /// Not before this.
    at: Option<Instant>,
}

#[derive(Debug)]
pub struct ChatQueue {
    jobs: VecDeque<QueuedJob>,
    /// Start times of calls without a reply yet.
    under_way: Vec<Instant>,
    /// Start time of a file upload. Other calls do not wait for it.
    uploading: Option<Instant>,
    is_group: bool,
    /// End times of the calls of the last minute.
    sent: VecDeque<Instant>,
    /// Start time of the last call that showed progress.
    last_progress: Option<Instant>,
    start: Instant,
    /// Set by a 429.
    retry_at: Option<Instant>,
    /// Set after a failure.
    paused: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    /// The chat does not accept messages from the bot.
    is_blocked: bool,
    pace: Pace,
}

impl ChatQueue {
    /// Nothing is sent before `start`.
    pub fn new(chat: i64, pace: Pace, start: Instant) -> Self {
        Self {
            jobs: VecDeque::new(),
            under_way: vec![],
            uploading: None,
            // Groups have negative numbers.
            is_group: chat < 0,
            sent: VecDeque::new(),
            last_progress: None,
            start,
            retry_at: None,
            paused: None,
            failures: 0,
            is_blocked: false,
            pace,
        }
    }

    /// A job that is queued already keeps its place, unless it is more urgent now.
    pub fn put(&mut self, job: Job, priority: Priority) {
        if let Some(queued) = self.jobs.iter_mut().find(|queued| queued.job == job) {
            if priority < queued.priority {
                queued.priority = priority;
                queued.at = None;
            }
            return;
        }
        let words = |queued: &&QueuedJob| matches!(queued.job, Job::Words(_));
        if matches!(job, Job::Words(_)) && self.jobs.iter().filter(words).count() >= MOST_WORDS {
            tracing::warn!("too much waits to be said in a chat; a reply is left out");
            return;
        }
        self.jobs.push_back(QueuedJob { job, priority, at: None });
    }

    /// Puts back the job that was just taken; there may be more to do for it.
    pub fn put_again(&mut self, job: Job, priority: Priority) {
        let before = self.jobs.iter().position(|queued| queued.job == job);
        let before = before.and_then(|at| self.jobs.remove(at)).map(|queued| queued.priority);
        self.jobs.push_front(QueuedJob {
            job,
            priority: before.map_or(priority, |before| before.min(priority)),
            at: None,
        });
    }

    /// Puts a job back until a later time, without holding up others.
    pub fn put_later(&mut self, job: Job, at: Instant) {
        let priority = job.priority();
        if !self.jobs.iter().any(|queued| queued.job == job) {
            self.jobs.push_back(QueuedJob { job, priority, at: Some(at) });
        }
    }

    /// The next job, if one may be done now.
    pub fn take(&mut self, now: Instant) -> Option<(Job, Priority)> {
        let due = |queued: &QueuedJob| self.has_room(queued.priority) && self.due_at(queued) <= now;
        let first = self.jobs.iter().enumerate().filter(|(_, queued)| due(queued));
        let (at, _) = first.min_by_key(|(at, queued)| (queued.priority, *at))?;
        self.jobs.remove(at).map(|queued| (queued.job, queued.priority))
    }

    /// The asks that wait to be announced.
    pub fn announcements(&self) -> Vec<AskId> {
        let asks = self.jobs.iter().filter(|queued| queued.priority == Priority::Announcement);
        asks.filter_map(|queued| match &queued.job {
            Job::Ask(ask) => Some(ask.clone()),
            Job::Words(_) | Job::Message(_) => None,
        })
        .collect()
    }

    pub fn begin(&mut self, now: Instant, priority: Priority) {
        self.under_way.push(now);
        if priority == Priority::Progress {
            self.last_progress = Some(now);
        }
    }

    /// A call that began then has ended. Counted from its end, two calls are never closer at the server than here.
    pub fn end(&mut self, began: Instant, now: Instant) {
        if let Some(at) = self.under_way.iter().position(|known| *known == began) {
            self.under_way.remove(at);
        }
        self.count(now);
    }

    /// One call at a time, but what somebody waits for does not wait for a call that is stuck.
    fn has_room(&self, priority: Priority) -> bool {
        let most = if priority == Priority::Reaction { MOST_UNDER_WAY } else { 1 };
        self.under_way.len() < most
    }

    pub fn begin_upload(&mut self, now: Instant) {
        self.uploading = Some(now);
    }

    pub fn is_uploading(&self) -> bool {
        self.uploading.is_some()
    }

    /// An upload ended. Its result says nothing about other calls.
    pub fn uploaded(&mut self, now: Instant) {
        self.uploading = None;
        self.count(now);
    }

    fn count(&mut self, now: Instant) {
        self.sent.push_back(now);
        let minute = self.pace.seconds(MINUTE);
        while self.sent.len() > 1 && self.sent.front().is_some_and(|at| now.duration_since(*at) > minute) {
            self.sent.pop_front();
        }
    }

    /// Telegram answered 429, with this pause in its seconds.
    pub fn wait(&mut self, seconds: u64, now: Instant) {
        self.retry_at = Some(now + self.pace.seconds(seconds as f64));
    }

    /// A call failed; each failure in a row doubles the pause.
    pub fn failed(&mut self, now: Instant) {
        self.pause(now, LONGEST_PAUSE);
    }

    /// The chat does not accept messages from the bot.
    pub fn block(&mut self, now: Instant) {
        self.is_blocked = true;
        self.pause(now, LONGEST_BLOCKED);
    }

    fn pause(&mut self, now: Instant, longest: f64) {
        let pause = f64::from(1_u32 << self.failures.min(10)).min(longest);
        self.failures += 1;
        self.paused = Some(now + self.pace.seconds(pause));
    }

    /// Somebody wrote from the chat: nothing waits for a later time.
    pub fn hurry(&mut self) {
        self.reopen();
        self.jobs.iter_mut().for_each(|queued| queued.at = None);
    }

    /// A call succeeded, so pauses end.
    pub fn reopen(&mut self) {
        self.failures = 0;
        self.paused = None;
        self.is_blocked = false;
    }

    /// Telegram works again. That does not open a chat that blocks the bot.
    pub fn recover(&mut self) {
        if !self.is_blocked {
            self.reopen();
        }
    }

    /// Numbers mean other messages from now on.
    pub fn forget_replies(&mut self) {
        for queued in &mut self.jobs {
            if let Job::Words(words) = &mut queued.job {
                words.reply_to = None;
            }
        }
    }

    /// The chat does not accept messages from the bot.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// When the next job can be taken, if there is one.
    pub fn due(&self) -> Option<Instant> {
        let can_go = self.jobs.iter().filter(|queued| self.has_room(queued.priority));
        can_go.map(|queued| self.due_at(queued)).min()
    }

    fn due_at(&self, queued: &QueuedJob) -> Instant {
        let limits = [queued.at, self.retry_at, self.paused, Some(self.free_at(queued.priority))];
        limits.into_iter().flatten().max().unwrap_or(self.start)
    }

    /// When Telegram's limits allow the next call.
    fn free_at(&self, priority: Priority) -> Instant {
        let (gap, most) = match (self.is_group, priority) {
            (false, _) => (GAP, usize::MAX),
            (true, Priority::Reaction) => (GAP, MOST_A_MINUTE),
            (true, Priority::Announcement | Priority::Progress) => (GROUP_GAP, MOST_UNASKED_A_MINUTE),
        };
        let after_last = self.sent.back().map(|at| *at + self.pace.seconds(gap));
        let after_stuck = self.under_way.last().map(|at| *at + self.pace.seconds(STUCK));
        let mut all = self.sent.iter().chain(&self.under_way);
        let oldest = (self.sent.len() + self.under_way.len()).checked_sub(most).and_then(|at| all.nth(at));
        let after_minute = oldest.map(|at| *at + self.pace.seconds(MINUTE));
        let after_upload = self.uploading.map(|since| since + self.pace.seconds(gap));
        let last_progress = self.last_progress.filter(|_| self.is_group && priority == Priority::Progress);
        let after_progress = last_progress.map(|at| at + self.pace.seconds(PROGRESS_GAP));
        let limits = [after_last, after_minute, after_upload, after_stuck, after_progress];
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

    fn queue_of(chat: i64) -> (ChatQueue, Instant) {
        let now = Instant::now();
        (ChatQueue::new(chat, Pace { second: Duration::from_secs(1) }, now), now)
    }

    fn put(queue: &mut ChatQueue, job: Job) {
        let priority = job.priority();
        queue.put(job, priority);
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn taken(queue: &mut ChatQueue, now: Instant) -> Option<Job> {
        queue.take(now).map(|(job, _)| job)
    }

    #[test]
    fn many_changes_of_one_thing_are_one_job_and_people_come_before_progress() {
        let (mut queue, now) = queue_of(1);
        for job in [Job::Message("c".into()), ask(1), ask(2), ask(1)] {
            put(&mut queue, job);
        }
        let mut order = vec![];
        while let Some(job) = taken(&mut queue, now) {
            order.push(job);
        }
        assert_eq!(order, [ask(1), ask(2), Job::Message("c".into())]);
    }

    #[test]
    fn whoever_did_something_sees_it_before_anything_is_announced() {
        let (mut queue, now) = queue_of(1);
        for n in 1..30 {
            put(&mut queue, ask(n));
        }
        queue.put(ask(20), Priority::Reaction);
        assert_eq!(queue.take(now), Some((ask(20), Priority::Reaction)));
        assert_eq!(queue.take(now), Some((ask(1), Priority::Announcement)));
    }

    #[test]
    fn one_call_at_a_time_a_second_apart_and_in_groups_three() {
        for (chat, gap) in [(1, 1), (-1, 3)] {
            let (mut queue, now) = queue_of(chat);
            put(&mut queue, ask(1));
            put(&mut queue, ask(2));
            assert!(queue.take(now).is_some());
            queue.begin(now, Priority::Announcement);
            assert_eq!((queue.take(now), queue.due()), (None, None));
            queue.end(now, now);
            assert_eq!(queue.take(now + seconds(gap) - Duration::from_millis(1)), None);
            assert_eq!(queue.due(), Some(now + seconds(gap)));
            assert_eq!(taken(&mut queue, now + seconds(gap)), Some(ask(2)));
        }
    }

    #[test]
    fn a_full_minute_in_a_group_still_has_room_for_those_who_press() {
        let (mut queue, now) = queue_of(-1);
        let mut at = now;
        let mut announced = 0;
        while at < now + seconds(59) {
            put(&mut queue, ask(1));
            if queue.take(at).is_some() {
                announced += 1;
                queue.begin(at, Priority::Announcement);
                queue.end(at, at);
            }
            at += seconds(1);
        }
        assert_eq!(announced, MOST_UNASKED_A_MINUTE);
        queue.put(ask(2), Priority::Reaction);
        assert_eq!(taken(&mut queue, at), Some(ask(2)));
    }

    #[test]
    fn busy_runs_in_a_group_leave_room_for_a_request() {
        let (mut queue, now) = queue_of(-1);
        let mut edits = 0;
        let mut at = now;
        while at < now + seconds(120) {
            put(&mut queue, Job::Message("a".into()));
            put(&mut queue, Job::Message("b".into()));
            if let Some((_, priority)) = queue.take(at) {
                edits += 1;
                queue.begin(at, priority);
                queue.end(at, at);
            }
            at += seconds(1);
        }
        assert_eq!(edits, 12);
        put(&mut queue, ask(1));
        while taken(&mut queue, at) != Some(ask(1)) {
            at += seconds(1);
        }
        assert!(at <= now + seconds(123), "a request waits for the last call only");
    }

    #[test]
    fn failures_wait_longer_each_time_and_a_word_from_the_chat_ends_the_wait() {
        let (mut queue, now) = queue_of(1);
        put(&mut queue, ask(1));
        let pause = |queue: &mut ChatQueue| {
            queue.failed(now);
            queue.due().unwrap() - now
        };
        let pauses: Vec<_> = (0..8).map(|_| pause(&mut queue).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        queue.reopen();
        assert_eq!(queue.due(), Some(now));
        queue.wait(7, now);
        queue.reopen();
        assert_eq!(queue.due(), Some(now + seconds(7)), "a wait that Telegram asked for is kept");
    }

    #[test]
    fn a_chat_that_shuts_the_bot_out_is_tried_ever_more_rarely() {
        let (mut queue, now) = queue_of(1);
        put(&mut queue, ask(1));
        let pauses: Vec<_> = (0..12)
            .map(|_| {
                queue.block(now);
                (queue.due().unwrap() - now).as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        queue.recover();
        assert_eq!(queue.due(), Some(now + seconds(900)), "Telegram may work and the chat be shut");
        queue.reopen();
        assert_eq!(queue.due(), Some(now));
    }

    #[test]
    fn a_call_that_is_stuck_holds_up_announcements_but_not_reactions() {
        let (mut queue, now) = queue_of(1);
        queue.begin(now, Priority::Announcement);
        put(&mut queue, ask(1));
        assert_eq!(queue.due(), None, "it may be answered any moment");
        queue.put(ask(2), Priority::Reaction);
        assert_eq!(
            (queue.take(now + seconds(1)), queue.due()),
            (None, Some(now + seconds(1) + seconds(1) / 2))
        );
        let later = now + seconds(2);
        assert_eq!(taken(&mut queue, later), Some(ask(2)));
        queue.begin(later, Priority::Reaction);
        queue.put(ask(3), Priority::Reaction);
        assert_eq!(taken(&mut queue, later + seconds(2)), Some(ask(3)));
        queue.begin(later + seconds(2), Priority::Reaction);
        queue.put(ask(4), Priority::Reaction);
        assert_eq!(queue.take(later + seconds(60)), None, "not without bound");
        queue.end(now, later + seconds(30));
        assert_eq!(taken(&mut queue, later + seconds(60)), Some(ask(4)));
    }

    #[test]
    fn a_file_that_takes_long_holds_up_nothing_else() {
        let (mut queue, now) = queue_of(1);
        queue.begin_upload(now);
        put(&mut queue, ask(1));
        assert_eq!((queue.take(now), queue.due()), (None, Some(now + seconds(1))));
        assert_eq!(taken(&mut queue, now + seconds(1)), Some(ask(1)));
    }

    #[test]
    fn what_is_put_off_holds_up_nothing_else() {
        let (mut queue, now) = queue_of(1);
        queue.put_later(ask(1), now + seconds(30));
        put(&mut queue, ask(2));
        assert_eq!(taken(&mut queue, now), Some(ask(2)));
        assert_eq!((queue.take(now), queue.due()), (None, Some(now + seconds(30))));
        queue.put(ask(1), Priority::Reaction);
        assert_eq!(taken(&mut queue, now), Some(ask(1)));
    }
}
