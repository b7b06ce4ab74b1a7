//! The one task that owns everything about the bot: updates, changes and replies come in, calls go out.

use super::access::Place;
use super::api::Bot;
use super::calls::{CallPurpose, FileOf, Finished, Markup};
use super::commands::MENU;
use super::html::RichText;
use super::memory::{Content, Memory, START, SentMessage, forget};
use super::photos::Fetched;
use super::poll::FromTelegram;
use super::progress::Progress;
use super::queue::{ChatQueue, GAP, Job, Priority, Words};
use super::ringing::Members;
use super::runs::Started;
use super::settings::Settings;
use super::wire::BotUser;
use crate::hub::{Change, Followed, Hub, Memo, Problem, Subject};
use aye_core::{AgentId, AgentState, AskId, Surface};
use futures_util::FutureExt;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Calls under way get this long to finish at shutdown.
const SHUTDOWN_TIME: Duration = Duration::from_secs(3);
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);
const RETRY: Duration = Duration::from_secs(1);

pub struct BotLoop {
    pub(super) hub: Hub,
    pub(super) settings: Settings,
    /// The bot's own account, known after the first `getMe`.
    pub(super) me: BotUser,
    /// `setMyCommands` was called.
    offered: bool,
    pub(super) bot: Arc<Bot>,
    pub(super) memory: Memory,
    pub(super) queues: BTreeMap<i64, ChatQueue>,
    /// Asks to reconsider at a later time, such as when a reminder is due.
    pub(super) later: BTreeSet<(Timestamp, AskId)>,
    /// Times at which the time left for an ask reads differently.
    pub(super) ticks: HashMap<AskId, Timestamp>,
    /// Members of groups, and the calls that look them up.
    pub(super) members: Members,
    pub(super) look_ups: JoinSet<Members>,
    /// The last plan of each agent that was denied automatically.
    pub(super) denied_plans: HashMap<AgentId, AskId>,
    pub(super) progress: HashMap<String, Progress>,
    /// When messages of runs may be edited again: those that wait for it, and all.
    pub(super) edits_due: BTreeSet<(Instant, String)>,
    pub(super) next_edit: HashMap<String, Instant>,
    /// Messages that must do with less markup, because Telegram refused them.
    pub(super) markup: HashMap<String, Markup>,
    /// How often messages were refused for a reason that may pass.
    pub(super) refusals: HashMap<String, u32>,
    /// Files that failed: how often, and when they are tried again.
    pub(super) files: HashMap<FileOf, (u32, Instant)>,
    /// Telegram refused `public_url` as a link, so it is shown as text.
    pub(super) links_refused: bool,
    pub(super) starts: JoinSet<Started>,
    /// Places where runs are being started, and since when.
    pub(super) starting: HashMap<Place, Timestamp>,
    /// Calls that belong to no chat's queue: replies to presses, and `setMyCommands`.
    pub(super) side_calls: JoinSet<()>,
    /// Photos being downloaded.
    pub(super) photos: JoinSet<Fetched>,
    /// Photos for runs that are being started.
    pub(super) waiting_photos: Vec<Fetched>,
    pub(super) calls: JoinSet<Finished>,
    /// The messages that calls under way will create, and when the calls began.
    pub(super) being_made: Vec<(Instant, CallPurpose)>,
    /// A write failed, so memory may be ahead of the disk.
    pub(super) stale: bool,
    resync_at: Option<Instant>,
}

impl BotLoop {
    pub fn new(hub: Hub, settings: Settings, bot: Arc<Bot>) -> Self {
        // A hub that was killed a moment ago may have sent something just before.
        let start = Instant::now() + settings.pace.seconds(GAP);
        let queues =
            settings.chats.iter().map(|chat| (*chat, ChatQueue::new(*chat, settings.pace, start))).collect();
        Self {
            hub,
            settings,
            me: BotUser { id: 0, username: String::new(), first_name: String::new() },
            offered: false,
            bot,
            memory: Memory::default(),
            queues,
            later: BTreeSet::new(),
            ticks: HashMap::new(),
            members: Members::new(),
            look_ups: JoinSet::new(),
            denied_plans: HashMap::new(),
            progress: HashMap::new(),
            edits_due: BTreeSet::new(),
            next_edit: HashMap::new(),
            markup: HashMap::new(),
            refusals: HashMap::new(),
            files: HashMap::new(),
            links_refused: false,
            starts: JoinSet::new(),
            starting: HashMap::new(),
            side_calls: JoinSet::new(),
            photos: JoinSet::new(),
            waiting_photos: vec![],
            calls: JoinSet::new(),
            being_made: vec![],
            stale: true,
            resync_at: None,
        }
    }

    pub async fn run(mut self, mut news: mpsc::Receiver<FromTelegram>, stop: CancellationToken) {
        // Subscribed before anything is read, so that no change is missed in between.
        let mut changes = self.hub.follow();
        self.begin().await;
        loop {
            self.start_calls().await;
            let wake = self.next_wake();
            tokio::select! {
                () = stop.cancelled() => break,
                Some(news) = news.recv() => self.handle_telegram(news).await,
                followed = changes.next() => self.handle_change(followed).await,
                Some(finished) = self.calls.join_next() => self.finish(finished.ok()).await,
                Some(started) = self.starts.join_next() => self.run_started(started.ok()).await,
                Some(fetched) = self.photos.join_next() => self.photo_fetched(fetched.ok()).await,
                Some(_) = self.side_calls.join_next() => {}
                Some(found) = self.look_ups.join_next() => self.members.extend(found.unwrap_or_default()),
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        self.finish_calls().await;
    }

    async fn handle_telegram(&mut self, news: FromTelegram) {
        match news {
            FromTelegram::Reached(me) => {
                self.me = me;
                self.queues.values_mut().for_each(ChatQueue::recover);
                self.set_commands();
                self.look_up_members();
            }
            FromTelegram::Batch(batch) => {
                let done = self.take_batch(batch.updates).await;
                if batch.done.send(done).is_err() {
                    tracing::debug!("the poller is gone; what it brought comes again");
                }
            }
        }
    }

    /// Fills the bot's command menu, once.
    fn set_commands(&mut self) {
        if std::mem::replace(&mut self.offered, true) {
            return;
        }
        let bot = self.bot.clone();
        self.side_calls.spawn(
            async move {
                if let Err(error) = bot.set_commands(&MENU).await {
                    tracing::warn!(%error, "the bot's menu could not be set; its commands work all the same");
                }
            }
            .boxed(),
        );
    }

    /// Records the results of calls under way, so that nothing is sent twice after a restart.
    async fn finish_calls(mut self) {
        let until = Instant::now() + SHUTDOWN_TIME;
        while let Ok(Some(finished)) = tokio::time::timeout_at(until, self.calls.join_next()).await {
            self.finish(finished.ok()).await;
        }
        while let Ok(Some(_)) = tokio::time::timeout_at(until, self.side_calls.join_next()).await {}
    }

    async fn begin(&mut self) {
        let began = async {
            self.reload_if_stale().await?;
            self.follow_moves();
            let memos = self.settle_unconfirmed();
            self.save(memos).await?;
            self.tell_of_lost_starts().await?;
            self.fetch_lost_photos().await?;
            self.resync().await
        };
        if let Err(error) = began.await {
            self.report_failure(&error);
        }
    }

    /// Nobody knows whether messages arrived that were being sent when the last hub ended.
    fn settle_unconfirmed(&mut self) -> Vec<Memo> {
        let unsent =
            self.memory.messages.values().filter(|message| message.message.is_none() && message.is_current());
        let mut memos = vec![];
        for message in unsent.cloned().collect::<Vec<_>>() {
            match &message.shows {
                Content::Ask(_) => memos.push(self.memory.put(SentMessage { lost: true, ..message })),
                Content::Run(_) => memos.extend(self.replace_run(message)),
                Content::List(_) => memos.extend(self.memory.remove(&message.id)),
                Content::Offer(_) | Content::Choice(_) => {}
            }
        }
        memos
    }

    async fn tell_of_lost_starts(&mut self) -> Result<(), Problem> {
        for (key, body) in self.hub.recall(Surface::Telegram, START).await? {
            if let Some(chat) = body["chat"].as_i64() {
                let place = Place { chat: self.memory.current_chat(chat), topic: body["topic"].as_i64() };
                let words = "The hub restarted while it was starting your run, so it is not known whether the run began. Check /agents, and send your message again if it did not.";
                self.say_loud(place, body["message"].as_i64(), words);
            }
            self.save(vec![forget(START, key)]).await?;
        }
        Ok(())
    }

    /// Schedules everything that is open or does not show its final state yet.
    async fn resync(&mut self) -> Result<(), Problem> {
        self.resync_at = None;
        let snapshot = self.hub.whole_snapshot().await?;
        let alive: HashSet<_> = snapshot.agents.iter().map(|agent| agent.id.clone()).collect();
        let open: HashSet<_> = snapshot.asks.iter().map(|ask| ask.id.clone()).collect();
        let now = self.hub.clock().now();
        let memos = self.memory.forget_old(|ask| open.contains(ask), |agent| alive.contains(agent), now);
        self.save(memos).await?;
        for ask in &snapshot.asks {
            self.schedule(ask).await?;
        }
        let unsettled = self.memory.messages.values().filter(|message| !message.settled);
        let mut ended = HashSet::new();
        for message in unsettled.cloned().collect::<Vec<_>>() {
            match message.shows {
                Content::Ask(shown) => ended.extend(Some(shown.ask).filter(|ask| !open.contains(ask))),
                Content::Run(_) => self.put(message.chat, Job::Message(message.id)),
                Content::List(_) | Content::Offer(_) | Content::Choice(_) => {
                    self.put_announcement(message.chat, Job::Message(message.id));
                }
            }
        }
        for id in ended {
            self.schedule_by_id(&id).await?;
        }
        Ok(())
    }

    async fn handle_change(&mut self, followed: Result<Followed, Problem>) {
        let heard = match followed {
            Ok(Followed::Change(change)) => self.take_change(&change).await,
            // Its message is edited every few seconds: the text so far is enough for that.
            Ok(Followed::Piece(_)) => Ok(()),
            Ok(Followed::Lost) => self.resync().await,
            Err(error) => Err(error),
        };
        if let Err(error) = heard {
            self.report_failure(&error);
        }
    }

    async fn take_change(&mut self, change: &Change) -> Result<(), Problem> {
        match &change.subject {
            Subject::Ask(ask) => self.schedule(ask).await,
            Subject::Agent(agent) => self.agent_changed(&agent.id, agent.state == AgentState::Ended).await,
            Subject::Event(agent, event) => self.event(agent, change.seq, event).await,
            Subject::Notice(_) | Subject::Large(_) => Ok(()),
        }
    }

    async fn agent_changed(&mut self, agent: &AgentId, has_ended: bool) -> Result<(), Problem> {
        self.run_changed(agent, has_ended);
        match self.denied_plans.get(agent).cloned() {
            Some(ask) => self.schedule_by_id(&ask).await,
            None => Ok(()),
        }
    }

    /// Logs the error and schedules a resync.
    pub(super) fn report_failure(&mut self, error: &Problem) {
        tracing::error!(%error, "the bot hit an error and will retry");
        self.resync_soon();
    }

    pub(super) fn resync_soon(&mut self) {
        self.resync_at = Some(Instant::now() + RETRY);
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let clock = self.hub.clock().now();
        let held = self.next_held_text();
        let tick = self.ticks.values().min().copied();
        let ask = self.later.first().map(|(at, _)| *at).into_iter().chain(held).chain(tick).min().map(|at| {
            let left = clock.duration_until(at);
            now + Duration::try_from(left).unwrap_or_default().min(LONGEST_SLEEP)
        });
        let edit = self.edits_due.first().map(|(at, _)| *at);
        let queues = self.queues.values().filter_map(ChatQueue::due);
        queues.chain(ask).chain(edit).chain(self.resync_at).min().unwrap_or(now + LONGEST_SLEEP)
    }

    /// Starts every call that the limits allow now.
    async fn start_calls(&mut self) {
        if let Err(error) = self.run_timers().await {
            self.report_failure(&error);
        }
        let chats: Vec<_> = self.queues.keys().copied().collect();
        for chat in chats {
            while let Some((job, priority)) =
                self.queues.get_mut(&chat).and_then(|queue| queue.take(Instant::now()))
            {
                match self.next_call(chat, &job).await {
                    Ok(None) => {}
                    Ok(Some(call)) if self.is_being_made(&call) => {}
                    Ok(Some(call)) => {
                        self.call(chat, job, priority, call);
                        break;
                    }
                    Err(error) => {
                        self.report_failure(&error);
                        if let Some(queue) = self.queues.get_mut(&chat) {
                            queue.put_again(job, priority);
                            queue.failed(Instant::now());
                        }
                        break;
                    }
                }
            }
        }
    }

    /// Does what is due by now.
    async fn run_timers(&mut self) -> Result<(), Problem> {
        let now = self.hub.clock().now();
        if self.resync_at.is_some_and(|at| at <= Instant::now()) {
            self.reload_if_stale().await?;
            self.resync().await?;
        }
        self.take_held_texts().await?;
        self.renew_deadlines(now).await?;
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, ask)) = self.later.pop_first() {
                self.schedule_by_id(&ask).await?;
            }
        }
        while self.edits_due.first().is_some_and(|(at, _)| *at <= Instant::now()) {
            if let Some((_, id)) = self.edits_due.pop_first()
                && let Some(chat) = self.memory.messages.get(&id).map(|message| message.chat)
            {
                self.put(chat, Job::Message(id));
            }
        }
        Ok(())
    }

    pub(super) fn put(&mut self, chat: i64, job: Job) {
        let priority = job.priority();
        self.put_as(chat, job, priority);
    }

    /// For what a person waits to see.
    pub(super) fn put_reaction(&mut self, chat: i64, job: Job) {
        self.put_as(chat, job, Priority::Reaction);
    }

    /// For what nobody waits for.
    pub(super) fn put_announcement(&mut self, chat: i64, job: Job) {
        self.put_as(chat, job, Priority::Announcement);
    }

    pub(super) fn put_as(&mut self, chat: i64, job: Job, priority: Priority) {
        // Chats that are no longer listed get nothing.
        if let Some(queue) = self.queues.get_mut(&chat) {
            queue.put(job, priority);
        }
    }

    pub(super) fn say(&mut self, place: Place, reply_to: Option<i64>, words: &str) {
        self.say_page(place, reply_to, RichText::default().text(words));
    }

    /// With sound: for what a person has to know and may not be looking for.
    pub(super) fn say_loud(&mut self, place: Place, reply_to: Option<i64>, words: &str) {
        let (page, topic) = (RichText::default().text(words).fitting(), place.topic);
        self.put(place.chat, Job::Words(Words { page, reply_to, topic, loud: true, ..Words::default() }));
    }

    pub(super) fn say_page(&mut self, place: Place, reply_to: Option<i64>, page: RichText) {
        let topic = place.topic;
        self.put(place.chat, Job::Words(Words { page: page.fitting(), reply_to, topic, ..Words::default() }));
    }
}
