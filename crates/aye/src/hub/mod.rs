//! The hub owns the asks: who may change them, when they end, and who is told. It keeps nothing in
//! memory that it could not rebuild from the store.

mod agents;
mod alarms;
mod alive;
mod allow;
mod ancestry;
mod answer;
mod askers;
mod attendance;
mod change;
mod claims;
mod clock;
pub mod conversations;
mod credentials;
mod decide;
mod doubt;
mod extras;
mod feed;
mod first_passkey;
mod folder;
mod follow;
mod grants;
mod kept;
mod late;
mod launch;
mod life;
mod memory;
mod meters;
mod names;
mod others;
mod outline;
mod own_files;
mod passkeys;
mod policy;
mod problem;
mod proof;
mod raise;
mod run_folder;
mod settle;
mod shared;
mod streams;
mod timers;
mod write_budget;

pub use crate::protocol::{Command, Image, NewRun, Project, Projects, Registration};
#[cfg(test)]
pub use crate::store::test_databases::new_home;
pub use crate::store::{
    AskCount, AskFilter, AskPage, Change, DatabaseRefused, Decider, EventPage, Snapshot, StoreError, Subject,
};
pub use ancestry::{is_parent, this_process};
pub use answer::{AnswerCall, AskReference};
pub use clock::Clock;
pub use credentials::{Credential, SESSION_LASTS, SessionError, SignIn, SignInError};
pub use follow::{Followed, Follower};
pub use grants::ALWAYS_DAYS;
pub use late::Voucher;
pub use memory::{Memo, TELEGRAM_LEASE};
pub use meters::{Counted, Figures, Histogram, ServerFigures, StoredFigures};
pub use own_files::why_asked;
pub use passkeys::Challenge;
pub use policy::ConfigProblem;
pub use problem::{NO_RANDOMNESS, Problem};
pub use raise::{Raise, Raised};

use crate::home::Home;
use crate::random::random_hex;
use crate::store::{self, CatchUp, Reader, Store, Tx};
use alive::{AskingProcesses, Processes};
use anyhow::Context;
use askers::Askers;
use attendance::Attendance;
use aye_core::{Agent, Ask, AskId};
use claims::Claims;
use credentials::{Credentials, InForce};
use feed::Feed;
use futures_util::FutureExt;
use life::Life;
use meters::Meters;
use own_files::OwnFiles;
use passkeys::Passkeys;
use policy::{LastTime, PolicyInForce};
use serde_json::{Value, json};
use std::sync::Arc;
use streams::Streams;
use tokio::sync::{Notify, broadcast, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use write_budget::WriteBudget;

/// A handle to the hub; clones share it.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    /// By which hubs on one server tell each other apart.
    id: String,
    store: Store,
    feed: Arc<Feed>,
    clock: Clock,
    life: Arc<Life>,
    processes: tokio::sync::Mutex<Processes>,
    asking: Arc<AskingProcesses>,
    credentials: Credentials,
    policy: PolicyInForce,
    own_files: OwnFiles,
    attendance: Attendance,
    meters: Arc<Meters>,
    claims: Arc<Claims>,
    askers: Askers,
    streams: Arc<Streams>,
    write_budget: Arc<WriteBudget>,
    passkeys: Passkeys,
    /// What people should know of the database as it was found.
    doubt: Option<Value>,
    /// Rung when a deadline may have moved closer.
    sooner: Notify,
}

impl Hub {
    /// Opens the store and takes up where the last hub left off.
    pub async fn open(home: &Home, clock: Clock) -> anyhow::Result<Self> {
        let feed = Arc::new(Feed::new());
        let meters = Arc::new(Meters::default());
        let (in_force, life) = (Arc::new(InForce::default()), Arc::new(Life::default()));
        let streams = Arc::new(Streams::default());
        let tell =
            others::tell(feed.clone(), meters.clone(), in_force.clone(), life.clone(), streams.clone());
        let (opened, store) = oneshot::channel();
        let (place, now) = (home.clone(), clock.now());
        // Detached: a hub that is told to stop while it waits for a server does not wait for this thread.
        std::thread::Builder::new()
            .name("aye-open".into())
            .spawn(move || drop(opened.send(Store::open(&place, now, tell))))?;
        let store = store.await.context("the database could not be opened")??;
        let doubt = doubt::end_live_rows(&store, clock.now()).await?;
        let credentials =
            Credentials::open(home, &store, &clock, in_force).await.context("cannot read the tokens")?;
        let agents = store.read(|db| db.agents(false)).await?;
        life.starts(&agents, store.is_on_server(), clock.now());
        let last = LastTime {
            proof: store.read(Reader::last_proof).await?,
            has_passkey: !store.read(Reader::passkeys).await?.is_empty(),
        };
        let (policy, attendance) = (PolicyInForce::read(home, last), Attendance::starting(clock.now()));
        let own_files =
            OwnFiles::watch(home.own_places()).context("cannot start the threads that look at files")?;
        let (claims, askers) = (Arc::default(), Askers::default());
        let (passkeys, sooner) = (Passkeys::default(), Notify::new());
        let inner = Inner {
            id: random_hex::<8>().context("the system has no randomness for a name")?,
            store,
            feed,
            clock,
            life,
            processes: tokio::sync::Mutex::default(),
            asking: Arc::default(),
            credentials,
            policy,
            own_files,
            attendance,
            meters,
            claims,
            askers,
            streams,
            write_budget: Arc::default(),
            passkeys,
            doubt,
            sooner,
        };
        let hub = Self { inner: Arc::new(inner) };
        hub.inner.store.announce(home).context("cannot start the thread that keeps this hub's row")?;
        hub.fill_in_extras().await?;
        let mut started = hub.inner.policy.detail();
        started["version"] = json!(env!("CARGO_PKG_VERSION"));
        let now = hub.inner.clock.now();
        let work = move |tx: &mut Tx| {
            // Which tokens act for a person from here on is for the trail to tell; another hub may have made or ended one since
            // they were read.
            let mut operators: Vec<_> = tx.operators()?.into_iter().map(|token| token.id).collect();
            operators.sort();
            started["operators"] = json!(operators);
            tx.audit(now, "hub.started", "hub", None, None, started)
        };
        hub.inner.store.write(work).await?;
        Ok(hub)
    }

    /// Starts what the hub does by itself: deadlines, agents that fall silent, a policy that changes.
    pub fn start_timers(&self, tasks: &TaskTracker, stop: CancellationToken) {
        tasks.spawn(timers::run(self.clone(), stop.clone()).boxed());
        tasks.spawn(self.clone().keep_texts(stop.clone()).boxed());
        tasks.spawn(self.clone().watch_policy(stop).boxed());
    }

    /// Writes what is under way and closes the store.
    pub async fn close(&self) {
        if let Err(error) = self.write_texts(None).await {
            tracing::warn!(%error, "the last words of an agent could not be written");
        }
        if let Err(error) = self.note("hub.stopped", json!({})).await {
            tracing::warn!(%error, "the end of the hub could not be recorded");
        }
        self.inner.store.close().await;
    }

    async fn note(&self, kind: &'static str, detail: serde_json::Value) -> Result<(), StoreError> {
        let now = self.inner.clock.now();
        self.inner.store.write(move |tx| tx.audit(now, kind, "hub", None, None, detail)).await
    }

    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    pub async fn ask(&self, id: &AskId) -> Result<Ask, Problem> {
        self.find_ask(id, Reader::ask_to_show).await
    }

    async fn find_ask(
        &self,
        id: &AskId,
        find: fn(&Reader, &AskId) -> Result<Option<Ask>, StoreError>,
    ) -> Result<Ask, Problem> {
        let find = || {
            let id = id.clone();
            self.inner.store.read(move |db| find(db, &id))
        };
        // Checked before reading: if nothing was being written then, a miss is final.
        let under_way = self.inner.store.has_pending_records();
        let mut found = find().await?;
        if found.is_none() && under_way {
            self.inner.store.catch_up().await?;
            found = find().await?;
        }
        found.ok_or(Problem::NoSuchAsk)
    }

    pub async fn asks(&self, filter: AskFilter) -> Result<AskPage, Problem> {
        Ok(self.inner.store.read(move |db| db.asks(&filter)).await?)
    }

    /// Which rules and grants decided how many of the latest asks, most first.
    pub async fn decided_by_rules(&self) -> Result<Vec<store::RuleCount>, Problem> {
        Ok(self.inner.store.read(Reader::rule_counts).await?)
    }

    /// By our id, or by the agent's own session id.
    pub async fn agent(&self, id: &str) -> Result<Agent, Problem> {
        let id = id.to_owned();
        let row = self.inner.store.read(move |db| db.find_agent(&id)).await?;
        Ok(row.ok_or(Problem::NoSuchAgent)?.agent())
    }

    pub async fn agents(&self, all: bool) -> Result<Vec<Agent>, Problem> {
        let rows = self.inner.store.read(move |db| db.agents(all)).await?;
        Ok(rows.iter().map(store::AgentRow::agent).collect())
    }

    /// Changes from now on, in order. A receiver that lags is told so: [`Hub::follow`] catches up from the store.
    fn changes(&self) -> broadcast::Receiver<feed::FeedItem> {
        self.inner.feed.subscribe()
    }

    pub async fn snapshot(&self) -> Result<Snapshot, Problem> {
        Ok(self.inner.store.read(Reader::snapshot).await?)
    }

    /// The same with every open ask, however much that is.
    pub async fn whole_snapshot(&self) -> Result<Snapshot, Problem> {
        let mut snapshot = self.snapshot().await?;
        while let Some(after) = snapshot.next.take() {
            let open = AskFilter { state: Some("open".into()), limit: 100, ..AskFilter::default() };
            let page = self.asks(AskFilter { after: Some(after), ..open }).await?;
            snapshot.next = page.next();
            snapshot.asks.extend(page.asks);
        }
        Ok(snapshot)
    }

    /// The number of the last change that is on disk.
    pub async fn last_seq(&self) -> Result<u64, Problem> {
        Ok(self.inner.store.read(Reader::last_seq).await?)
    }

    async fn catch_up(&self, after: u64) -> Result<CatchUp, Problem> {
        Ok(self.inner.store.read(move |db| db.catch_up(after)).await?)
    }
}

#[cfg(test)]
mod tests;
