//! The one task that owns everything about the bot: updates, changes and replies come in, calls go out.

use super::api::Bot;
use super::calls::{Doing, FileOf, Finished, Plainness};
use super::card::Progress;
use super::commands::MENU;
use super::html::Page;
use super::lane::{GAP, Job, Lane, Rank};
use super::memory::{Memory, START, forget};
use super::photos::Fetched;
use super::poll::News;
use super::runs::Started;
use super::settings::Settings;
use super::wire::Me;
use crate::hub::{Change, Hub, Large, Memo, Problem, Subject};
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
    /// The bot, once Telegram said who it is.
    pub(super) me: Me,
    /// Its commands stand in people's menus.
    offered: bool,
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
    /// Files that failed: how often, and when they are tried again.
    pub(super) files: HashMap<FileOf, (u32, Instant)>,
    /// Telegram takes no links to the page.
    pub(super) linkless: bool,
    pub(super) starts: JoinSet<Started>,
    /// Chats for which a run is being started, and since when.
    pub(super) starting: HashMap<i64, Timestamp>,
    /// Words to people who pressed something.
    pub(super) asides: JoinSet<()>,
    /// Pictures on their way to a run.
    pub(super) photos: JoinSet<Fetched>,
    /// Pictures for runs that are being started.
    pub(super) waiting_photos: Vec<Fetched>,
    pub(super) calls: JoinSet<Finished>,
    /// What the calls under way make, and when they began.
    pub(super) being_made: Vec<(Instant, Doing)>,
    /// Memory may be ahead of the disk, because a write failed.
    unsure: bool,
    resync_at: Option<Instant>,
}

impl Desk {
    pub fn new(hub: Hub, settings: Settings, bot: Arc<Bot>) -> Self {
        // A hub that was killed a moment ago may have spoken just before.
        let start = Instant::now() + settings.pace.seconds(GAP);
        let lanes =
            settings.chats.iter().map(|chat| (*chat, Lane::new(*chat, settings.pace, start))).collect();
        Self {
            hub,
            settings,
            me: Me { id: 0, username: String::new(), first_name: String::new() },
            offered: false,
            bot,
            memory: Memory::default(),
            lanes,
            later: BTreeSet::new(),
            passes: HashMap::new(),
            progress: HashMap::new(),
            cards_due: BTreeSet::new(),
            card_free: HashMap::new(),
            plainness: HashMap::new(),
            files: HashMap::new(),
            linkless: false,
            starts: JoinSet::new(),
            starting: HashMap::new(),
            asides: JoinSet::new(),
            photos: JoinSet::new(),
            waiting_photos: vec![],
            calls: JoinSet::new(),
            being_made: vec![],
            unsure: true,
            resync_at: None,
        }
    }

    pub async fn run(mut self, mut news: mpsc::Receiver<News>, stop: CancellationToken) {
        // Before anything is read, so that no change falls between.
        let mut changes = self.hub.changes();
        self.begin().await;
        loop {
            self.pump().await;
            let wake = self.next_wake();
            tokio::select! {
                () = stop.cancelled() => break,
                Some(news) = news.recv() => self.hear_from_telegram(news).await,
                change = changes.recv() => self.hear(change, &mut changes).await,
                Some(finished) = self.calls.join_next() => self.finish(finished.ok()).await,
                Some(started) = self.starts.join_next() => self.run_started(started.ok()).await,
                Some(fetched) = self.photos.join_next() => self.photo_fetched(fetched.ok()).await,
                Some(_) = self.asides.join_next() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        self.say_goodbye().await;
    }

    async fn hear_from_telegram(&mut self, news: News) {
        match news {
            News::Reached(me) => {
                self.me = me;
                self.lanes.values_mut().for_each(Lane::recover);
                self.offer_commands();
            }
            News::Batch(batch) => {
                let done = self.take_batch(batch.arrivals).await;
                if batch.done.send(done).is_err() {
                    tracing::debug!("the poller is gone; what it brought comes again");
                }
            }
        }
    }

    /// What people find in their menus, told once.
    fn offer_commands(&mut self) {
        if std::mem::replace(&mut self.offered, true) {
            return;
        }
        let bot = self.bot.clone();
        self.asides.spawn(async move {
            if let Err(error) = bot.set_commands(&MENU).await {
                tracing::warn!(%error, "the bot's menu could not be set; its commands work all the same");
            }
        });
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
            self.fetch_lost_photos().await?;
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
        let menus = self.memory.menus.values().filter(|menu| menu.message.is_none() && menu.is_list());
        let menus: Vec<_> = menus.map(|menu| menu.id.clone()).collect();
        memos.extend(menus.iter().flat_map(|id| self.memory.drop_menu(id)));
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
                self.say(chat, None, "The hub restarted while it was starting your run, so it is not known whether the run began. Check /agents, and send your message again if it did not.");
            }
            self.save(vec![forget(START, key)]).await?;
        }
        Ok(())
    }

    /// Looks at everything that is open or not yet shown as it is.
    async fn resync(&mut self) -> Result<(), Problem> {
        self.resync_at = None;
        let snapshot = self.hub.whole_snapshot().await?;
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
        let menus: Vec<_> = self.memory.menus.values().map(|menu| (menu.chat, menu.id.clone())).collect();
        for (chat, menu) in menus {
            self.put_unasked(chat, Job::Menu(menu));
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
            Subject::Large(Large::Ask { id, .. }) => self.look_at(id).await,
            Subject::Agent(agent) => self.agent_changed(&agent.id).await,
            Subject::Large(Large::Agent(agent)) => self.agent_changed(agent).await,
            Subject::Event(agent, _) | Subject::Large(Large::Event(agent)) => self.event(agent, change).await,
            Subject::Notice(_) | Subject::Large(Large::Notice) => Ok(()),
        }
    }

    async fn agent_changed(&mut self, agent: &AgentId) -> Result<(), Problem> {
        self.card_changed(agent);
        match self.passes.get(agent).cloned() {
            Some(ask) => self.look_at(&ask).await,
            None => Ok(()),
        }
    }

    /// Everything is looked at again soon.
    pub(super) fn stumble(&mut self, error: &Problem) {
        tracing::error!(%error, "the bot could not go on with something; it tries again");
        self.resync_soon();
    }

    pub(super) fn resync_soon(&mut self) {
        self.resync_at = Some(Instant::now() + RETRY);
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let clock = self.hub.clock().now();
        let held = self.next_held_text();
        let ask = self.later.first().map(|(at, _)| *at).into_iter().chain(held).min().map(|at| {
            let left = clock.duration_until(at);
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
            while let Some((job, rank)) = self.lanes.get_mut(&chat).and_then(|lane| lane.take(Instant::now()))
            {
                match self.plan(chat, &job).await {
                    Ok(None) => {}
                    Ok(Some(call)) if self.is_being_made(&call) => {}
                    Ok(Some(call)) => {
                        self.call(chat, job, rank, call);
                        break;
                    }
                    Err(error) => {
                        self.stumble(&error);
                        if let Some(lane) = self.lanes.get_mut(&chat) {
                            lane.put_again(job, rank);
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
        self.take_held_texts().await?;
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

    pub(super) fn put(&mut self, chat: i64, job: Job) {
        let rank = job.rank();
        self.put_as(chat, job, rank);
    }

    /// Somebody did something and waits for its effect.
    pub(super) fn put_now(&mut self, chat: i64, job: Job) {
        self.put_as(chat, job, Rank::Reaction);
    }

    /// Nobody waits for it.
    pub(super) fn put_unasked(&mut self, chat: i64, job: Job) {
        self.put_as(chat, job, Rank::Announcement);
    }

    fn put_as(&mut self, chat: i64, job: Job, rank: Rank) {
        // A chat that is no longer listed is shown nothing.
        if let Some(lane) = self.lanes.get_mut(&chat) {
            lane.put(job, rank);
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
