//! The one task that owns everything about the bot: updates, changes and replies come in, calls go out.

use super::api::{ApiError, Bot, Outgoing};
use super::card::Progress;
use super::html::Page;
use super::lane::{Job, Lane};
use super::memory::{Memory, START, forget};
use super::poll::Batch;
use super::runs::Started;
use super::settings::Settings;
use crate::hub::{Change, Hub, Memo, Problem, Subject};
use aye_core::{AgentId, AskId, Surface};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long what is under way may take when everything stops.
const LONGEST_GOODBYE: Duration = Duration::from_secs(3);
const LONGEST_NAP: Duration = Duration::from_secs(3600);
const RETRY: Duration = Duration::from_secs(1);

pub struct Desk {
    pub(super) hub: Hub,
    pub(super) settings: Settings,
    pub(super) bot: Arc<Bot>,
    pub(super) memory: Memory,
    pub(super) lanes: BTreeMap<i64, Lane>,
    /// Asks to look at again, and when.
    pub(super) later: BTreeSet<(Timestamp, AskId)>,
    /// The last plan of each agent that was refused by itself.
    pub(super) passes: HashMap<AgentId, AskId>,
    pub(super) progress: HashMap<String, Progress>,
    /// Runs whose message may be edited again, and when.
    pub(super) cards_due: BTreeSet<(Instant, String)>,
    pub(super) card_free: HashMap<String, Instant>,
    /// How plainly something must be said, because Telegram refused it otherwise.
    pub(super) plainness: HashMap<String, Plainness>,
    pub(super) starts: JoinSet<Started>,
    pub(super) starting: HashSet<i64>,
    /// Words to people who pressed something.
    pub(super) asides: JoinSet<()>,
    calls: JoinSet<Finished>,
    /// Memory may be ahead of the disk, because a write failed.
    unsure: bool,
    resync_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Plainness {
    #[default]
    Marked,
    Plain,
    /// Only that there is something, and where to look.
    Bare,
}

/// One call that is to be made in a chat.
pub struct Call {
    pub doing: Doing,
    pub op: Op,
}

pub enum Op {
    Send(Outgoing),
    Edit(i64, Outgoing),
    File { name: String, text: String, reply_to: Option<i64> },
    Delete(i64),
}

/// What a call is for, so that its result finds its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    Words,
    Show { copy: String, shown: String },
    Part { copy: String },
    File { copy: String },
    Remind { copy: String },
    Unremind { copy: String },
    ShowCard { card: String, shown: String },
    CardFile { card: String },
}

struct Finished {
    chat: i64,
    job: Job,
    doing: Doing,
    result: Result<i64, ApiError>,
}

impl Desk {
    pub fn new(hub: Hub, settings: Settings, bot: Arc<Bot>) -> Self {
        let now = Instant::now();
        let lanes = settings.chats.iter().map(|chat| (*chat, Lane::new(*chat, settings.pace, now))).collect();
        Self {
            hub,
            settings,
            bot,
            memory: Memory::default(),
            lanes,
            later: BTreeSet::new(),
            passes: HashMap::new(),
            progress: HashMap::new(),
            cards_due: BTreeSet::new(),
            card_free: HashMap::new(),
            plainness: HashMap::new(),
            starts: JoinSet::new(),
            starting: HashSet::new(),
            asides: JoinSet::new(),
            calls: JoinSet::new(),
            unsure: true,
            resync_at: None,
        }
    }

    pub async fn run(mut self, mut batches: mpsc::Receiver<Batch>, stop: CancellationToken) {
        // Before anything is read, so that no change falls between.
        let mut changes = self.hub.changes();
        self.begin().await;
        loop {
            self.pump().await;
            let wake = self.next_wake();
            tokio::select! {
                () = stop.cancelled() => break,
                Some(batch) = batches.recv() => {
                    let done = self.take_batch(batch.arrivals).await;
                    if batch.done.send(done).is_err() {
                        tracing::debug!("the poller is gone; what it brought comes again");
                    }
                }
                change = changes.recv() => self.hear(change, &mut changes).await,
                Some(finished) = self.calls.join_next() => self.finish(finished.ok()).await,
                Some(started) = self.starts.join_next() => self.run_started(started.ok()).await,
                Some(_) = self.asides.join_next() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        self.say_goodbye().await;
    }

    /// What Telegram already took is noted, so that it need not be shown twice.
    async fn say_goodbye(mut self) {
        let until = Instant::now() + LONGEST_GOODBYE;
        while let Ok(Some(finished)) = tokio::time::timeout_at(until, self.calls.join_next()).await {
            self.finish(finished.ok()).await;
        }
        while let Ok(Some(_)) = tokio::time::timeout_at(until, self.asides.join_next()).await {}
    }

    async fn begin(&mut self) {
        let began = async {
            self.be_sure().await?;
            let memos = self.disown_unfinished();
            self.save(memos).await?;
            self.tell_of_lost_starts().await?;
            self.resync().await
        };
        if let Err(error) = began.await {
            self.stumble(&error);
        }
    }

    /// What was being sent when the last hub ended may be there or not.
    fn disown_unfinished(&mut self) -> Vec<Memo> {
        let copies = self.memory.copies.values().filter(|copy| copy.message.is_none() && !copy.lost);
        let copies: Vec<_> = copies.cloned().collect();
        let mut memos = vec![];
        for mut copy in copies {
            copy.lost = true;
            memos.push(self.memory.put_copy(copy));
        }
        let cards = self.memory.cards.values().filter(|card| card.message.is_none() && !card.lost);
        for card in cards.cloned().collect::<Vec<_>>() {
            memos.extend(self.replace_card(card));
        }
        memos
    }

    async fn tell_of_lost_starts(&mut self) -> Result<(), Problem> {
        for (key, body) in self.hub.recall(Surface::Telegram, START).await? {
            if let Some(chat) = body["chat"].as_i64() {
                self.say(chat, None, "The hub was restarted while it started a run for you, and nobody knows whether it began. Look at /agents, and send your message again if it did not.");
            }
            self.save(vec![forget(START, key)]).await?;
        }
        Ok(())
    }

    /// Looks at everything that is open or not yet shown as it is.
    async fn resync(&mut self) -> Result<(), Problem> {
        self.resync_at = None;
        let snapshot = self.hub.snapshot().await?;
        let alive: HashSet<_> = snapshot.agents.iter().map(|agent| agent.id.clone()).collect();
        let open: HashSet<_> = snapshot.asks.iter().map(|ask| ask.id.clone()).collect();
        let now = self.hub.clock().now();
        let memos = self.memory.forget_old(|ask| open.contains(ask), |agent| alive.contains(agent), now);
        self.save(memos).await?;
        for ask in &snapshot.asks {
            self.look(ask).await?;
        }
        let unsettled = self.memory.copies.values().filter(|copy| !copy.settled && !open.contains(&copy.ask));
        let unsettled: HashSet<_> = unsettled.map(|copy| copy.ask.clone()).collect();
        for id in unsettled {
            self.look_at(&id).await?;
        }
        let going: Vec<_> =
            self.memory.cards.values().filter(|card| !card.done && !card.lost).cloned().collect();
        for card in going {
            self.put(card.chat, Job::Card(card.id));
        }
        Ok(())
    }

    async fn hear(&mut self, change: Result<Arc<Change>, RecvError>, changes: &mut Receiver<Arc<Change>>) {
        let heard = match change {
            Ok(change) => self.take_change(&change).await,
            Err(RecvError::Lagged(_)) => {
                *changes = self.hub.changes();
                self.resync().await
            }
            // The hub itself holds the other end.
            Err(RecvError::Closed) => Ok(()),
        };
        if let Err(error) = heard {
            self.stumble(&error);
        }
    }

    async fn take_change(&mut self, change: &Change) -> Result<(), Problem> {
        match &change.subject {
            Subject::Ask(ask) => self.look(ask).await,
            Subject::LargeAsk { id, .. } => self.look_at(id).await,
            Subject::Agent(agent) => {
                self.card_changed(agent);
                match self.passes.get(agent).cloned() {
                    Some(ask) => self.look_at(&ask).await,
                    None => Ok(()),
                }
            }
            Subject::Event(agent) => self.event(agent, change).await,
            Subject::Notice => Ok(()),
        }
    }

    /// Everything is looked at again soon.
    pub(super) fn stumble(&mut self, error: &Problem) {
        tracing::error!(%error, "the bot could not go on with something; it tries again");
        self.resync_at = Some(Instant::now() + RETRY);
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let clock = self.hub.clock().now();
        let ask = self.later.first().map(|(at, _)| {
            let left = clock.duration_until(*at);
            now + Duration::try_from(left).unwrap_or_default().min(LONGEST_NAP)
        });
        let card = self.cards_due.first().map(|(at, _)| *at);
        let lanes = self.lanes.values().filter_map(Lane::due);
        lanes.chain(ask).chain(card).chain(self.resync_at).min().unwrap_or(now + LONGEST_NAP)
    }

    /// Makes every call that may be made now.
    async fn pump(&mut self) {
        if let Err(error) = self.wake_up().await {
            self.stumble(&error);
        }
        let chats: Vec<_> = self.lanes.keys().copied().collect();
        for chat in chats {
            while let Some(job) = self.lanes.get_mut(&chat).and_then(|lane| lane.take(Instant::now())) {
                match self.plan(chat, &job).await {
                    Ok(None) => {}
                    Ok(Some(call)) => {
                        self.call(chat, job, call);
                        break;
                    }
                    Err(error) => {
                        self.stumble(&error);
                        if let Some(lane) = self.lanes.get_mut(&chat) {
                            lane.put_first(job);
                            lane.failed(Instant::now());
                        }
                        break;
                    }
                }
            }
        }
    }

    /// What was put off until now.
    async fn wake_up(&mut self) -> Result<(), Problem> {
        let now = self.hub.clock().now();
        if self.resync_at.is_some_and(|at| at <= Instant::now()) {
            self.be_sure().await?;
            self.resync().await?;
        }
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, ask)) = self.later.pop_first() {
                self.look_at(&ask).await?;
            }
        }
        while self.cards_due.first().is_some_and(|(at, _)| *at <= Instant::now()) {
            if let Some((_, card)) = self.cards_due.pop_first()
                && let Some(chat) = self.memory.cards.get(&card).map(|card| card.chat)
            {
                self.put(chat, Job::Card(card));
            }
        }
        Ok(())
    }

    async fn plan(&mut self, chat: i64, job: &Job) -> Result<Option<Call>, Problem> {
        self.be_sure().await?;
        match job {
            Job::Words { page, reply_to, plain } => {
                let plainness = if *plain { Plainness::Plain } else { Plainness::Marked };
                let outgoing = Outgoing { reply_to: *reply_to, silent: true, ..plainly(page, plainness) };
                Ok(Some(Call { doing: Doing::Words, op: Op::Send(outgoing) }))
            }
            Job::Ask(ask) => self.plan_ask(chat, ask).await,
            Job::Card(card) => self.plan_card(card).await,
        }
    }

    fn call(&mut self, chat: i64, job: Job, call: Call) {
        if let Some(lane) = self.lanes.get_mut(&chat) {
            lane.begin();
        }
        let bot = self.bot.clone();
        self.calls.spawn(async move {
            let result = match &call.op {
                Op::Send(outgoing) => bot.send(chat, outgoing).await,
                Op::Edit(message, outgoing) => bot.edit(chat, *message, outgoing).await.map(|()| *message),
                Op::File { name, text, reply_to } => bot.send_file(chat, name, text, *reply_to).await,
                Op::Delete(message) => bot.delete(chat, *message).await.map(|()| *message),
            };
            Finished { chat, job, doing: call.doing, result }
        });
    }

    async fn finish(&mut self, finished: Option<Finished>) {
        // Only a call that panicked tells nothing, and then its chat waits for the next start.
        let Some(Finished { chat, job, doing, result }) = finished else { return };
        let now = Instant::now();
        let Some(lane) = self.lanes.get_mut(&chat) else { return };
        if let Err(error) = &result {
            tracing::info!(chat, %error, "a call in a chat");
        }
        let again = next_try(job, &result);
        let settled = match result {
            Ok(message) => {
                lane.done(now);
                self.succeeded(doing.clone(), message).await
            }
            Err(ApiError::TooMany { retry_after }) => {
                lane.wait(retry_after, now);
                Ok(())
            }
            Err(ApiError::Refused { code, words, moved_to }) => {
                lane.done(now);
                self.refused(chat, &doing, code, &words, moved_to).await
            }
            Err(error) => {
                lane.failed(now);
                match error.is_unsure() {
                    true => self.unsure_of(&doing).await,
                    false => Ok(()),
                }
            }
        };
        if let Err(error) = settled {
            self.stumble(&error);
        }
        if let (Some(lane), Some(job)) = (self.lanes.get_mut(&chat), again) {
            lane.put_first(job);
        }
    }

    pub(super) fn put(&mut self, chat: i64, job: Job) {
        // A chat that is no longer listed is shown nothing.
        if let Some(lane) = self.lanes.get_mut(&chat) {
            lane.put(job);
        }
    }

    pub(super) fn say(&mut self, chat: i64, reply_to: Option<i64>, words: &str) {
        self.put(chat, Job::Words { page: Page::default().text(words).fitting(), reply_to, plain: false });
    }

    /// On disk when this returns.
    pub(super) async fn save(&mut self, memos: Vec<Memo>) -> Result<(), Problem> {
        if memos.is_empty() {
            return Ok(());
        }
        let saved = self.hub.remember(Surface::Telegram, memos).await;
        self.unsure |= saved.is_err();
        saved
    }

    pub(super) fn doubt(&mut self) {
        self.unsure = true;
    }

    /// After a write that failed, only what is on disk counts.
    pub(super) async fn be_sure(&mut self) -> Result<(), Problem> {
        if self.unsure {
            self.memory = Memory::recall(&self.hub).await?;
            self.unsure = false;
        }
        Ok(())
    }
}

/// What is shown is looked at again: there may be more to do. Words are said again only where it is certain
/// that they were not heard.
fn next_try(job: Job, result: &Result<i64, ApiError>) -> Option<Job> {
    match (job, result) {
        (Job::Words { .. }, Ok(_)) => None,
        (Job::Words { .. }, Err(error)) if error.is_unsure() => None,
        (Job::Words { plain: true, .. }, Err(ApiError::Refused { .. })) => None,
        (Job::Words { page, reply_to, .. }, Err(ApiError::Refused { .. })) => {
            Some(Job::Words { page, reply_to, plain: true })
        }
        (job, _) => Some(job),
    }
}

/// A page as it goes out, with as much markup as Telegram would take.
pub fn plainly(page: &Page, plainness: Plainness) -> Outgoing {
    let (text, html) = match plainness {
        Plainness::Marked => (page.html(), true),
        Plainness::Plain | Plainness::Bare => (page.plain(), false),
    };
    Outgoing { text: text.to_owned(), html, keys: vec![], link: None, silent: false, reply_to: None }
}
