//! Beside a session in its own terminal: what it asks goes to the hub, and answers come back, for as long as it runs.
//! The hub may come and go meanwhile.

use super::JoinedProtocol;
use super::ledger::{Effect, Ledger, TERMINAL_WAS_FIRST};
use crate::agents::driven::Writer;
use crate::agents::driven::asks::{AskNews, Raising, raise_asks};
use crate::agents::driven::outgoing::{Outgoing, write_agent};
use crate::agents::reports::{self, HubReport};
use crate::agents::tmux::pane::session_of;
use crate::client::{AgentClient, CallError, Try};
use crate::home::Home;
use crate::processes::{Process, host};
use crate::protocol::Registration;
use aye_core::{AgentId, AgentKind, Reach, ReportedState};
use futures_util::FutureExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

const QUEUE: usize = 256;
/// Before a hub that is not there is looked for again.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// A hub on another machine takes an agent that says nothing for lost.
const BETWEEN_SIGNS_OF_LIFE: Duration = Duration::from_secs(25);
/// How long a person who has left their session waits for us to tell the hub.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);

/// A session in its own terminal, as the hub gets to know it.
pub struct Session {
    pub agent: AgentId,
    pub kind: String,
    pub cwd: PathBuf,
    /// The agent's process, and ours above it.
    pub pid: u32,
}

/// Brings what the session asks to the hub until `ended`. `inputs` says nothing before somebody can be asked, so it is
/// only called for then; it also returns the way to the agent.
pub async fn follow<P: JoinedProtocol, W: Writer<P::Message>>(
    home: &Home,
    session: Session,
    protocol: P,
    inputs: impl FnOnce(mpsc::Sender<P::Input>, &mut JoinSet<()>) -> W,
    ended: CancellationToken,
) {
    let reached = tokio::select! {
        reached = reach(home, &session) => reached,
        () = ended.cancelled() => return,
    };
    let client = match reached {
        Ok(client) => client,
        Err(error) => {
            tracing::debug!(%error, "the session stays in its terminal");
            return;
        }
    };
    let (mut tasks, mut reporter) = (JoinSet::new(), JoinSet::new());
    let (says, mut said) = mpsc::channel(QUEUE);
    let (asks, to_raise) = mpsc::channel(QUEUE);
    let (tell, mut news) = mpsc::channel::<AskNews>(QUEUE);
    let (outgoing, to_agent) = mpsc::channel(QUEUE);
    let reports = reports::start(client.clone(), &mut reporter);
    let writer = inputs(says, &mut tasks);
    // What the agent no longer waits for was answered in its terminal.
    let not_awaited = |_| (TERMINAL_WAS_FIRST.0, TERMINAL_WAS_FIRST.1.to_owned());
    tasks.spawn(write_agent(writer, to_agent, reports.clone(), not_awaited).boxed());
    tasks.spawn(raise_asks(client, to_raise, tell).boxed());
    let mut joined = Joined {
        ledger: Ledger::new(protocol, session.agent.to_string()),
        session,
        asks,
        outgoing,
        reports,
        news: None,
    };
    let mut signs = interval(BETWEEN_SIGNS_OF_LIFE);
    signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let effects = tokio::select! {
            () = ended.cancelled() => break,
            Some(input) = said.recv() => joined.ledger.input(input),
            Some(news) = news.recv() => joined.ledger.news(news),
            _ = signs.tick() => vec![Effect::Register(Registration::default())],
        };
        // A hub that is away must not keep us from seeing the end.
        tokio::select! {
            () = joined.carry_out(effects) => {}
            () = ended.cancelled() => break,
        }
        joined.tell_news();
    }
    let goodbye = async {
        let effects = joined.ledger.ended();
        joined.carry_out(effects).await;
        drop(joined.reports.send(HubReport::Ended).await);
        drop(joined);
        tasks.shutdown().await;
        reporter.join_next().await
    };
    if timeout(LONGEST_GOODBYE, goodbye).await.is_err() {
        tracing::debug!("the hub is away; it will see by itself that the agent has ended");
    }
}

/// Waits for a hub, and registers the session with it.
async fn reach(home: &Home, session: &Session) -> anyhow::Result<AgentClient> {
    let tmux = session_of(Process::now(session.pid)).await;
    loop {
        let looked = Instant::now();
        match register(home, session, tmux.clone()).await {
            Err(error) if error.downcast_ref::<CallError>().is_some_and(CallError::is_passing) => {}
            other => return other,
        }
        sleep(BETWEEN_LOOKS.saturating_sub(looked.elapsed())).await;
    }
}

async fn register(home: &Home, session: &Session, tmux: Option<String>) -> anyhow::Result<AgentClient> {
    let client = AgentClient::of(home, session.agent.clone()).await?;
    let profile = Registration {
        kind: Some(AgentKind::try_from(session.kind.clone()).map_err(anyhow::Error::msg)?),
        reach: Some(Reach::Hooked),
        host: Some(host().into()),
        cwd: Some(session.cwd.to_string_lossy().into_owned().into()),
        pid: Some(session.pid),
        supervisor: Some(std::process::id()),
        tmux: tmux.map(Into::into),
        ..Registration::state(ReportedState::Idle)
    };
    client.register(&profile, Try::Once).await?;
    Ok(client)
}

struct Joined<P: JoinedProtocol> {
    ledger: Ledger<P>,
    session: Session,
    asks: mpsc::Sender<Raising>,
    outgoing: mpsc::Sender<Outgoing<P::Message>>,
    reports: mpsc::Sender<HubReport>,
    /// What is new of the session and not on its way to the hub yet.
    news: Option<Registration>,
}

impl<P: JoinedProtocol> Joined<P> {
    /// What receives here outlives this, so nothing is lost that is sent.
    async fn carry_out(&mut self, effects: Vec<Effect<P::Message>>) {
        for effect in effects {
            match effect {
                Effect::Raise(raise) => {
                    let request = raise.request.clone();
                    let raising = raise.raising(&self.session.agent, &self.session.cwd);
                    // A hub that is away for long hears of no more than these.
                    if self.asks.try_send(raising).is_err() {
                        self.ledger.forget(&request);
                    }
                }
                Effect::Withdraw { ask, what, otherwise } => {
                    drop(self.reports.send(HubReport::Withdraw { ask, what, otherwise }).await);
                }
                Effect::Write { message, delivers } => {
                    let delivers = delivers.map(|ask| (ask, true));
                    drop(self.outgoing.send(Outgoing { message, delivers }).await);
                }
                Effect::Receipt { ask, receipt, evidence } => {
                    let report = HubReport::Receipt { ask, receipt, evidence, awaited: false };
                    drop(self.reports.send(report).await);
                }
                Effect::Register(news) => {
                    let before = self.news.take().unwrap_or_default();
                    self.news = Some(Registration {
                        session: news.session.or(before.session),
                        title: news.title.or(before.title),
                        state: news.state.or(before.state),
                        asks: news.asks.or(before.asks),
                        ..Registration::default()
                    });
                }
            }
        }
    }

    /// While the hub is away, only the last of it is kept.
    fn tell_news(&mut self) {
        if self.reports.capacity() > QUEUE / 2
            && let Some(news) = self.news.take()
        {
            drop(self.reports.try_send(HubReport::Register(news)));
        }
    }
}
