//! All watched sessions: which there are, and which of them the hub knows in no other way.

use super::changes::{Changed, Changes};
use super::follow::{News, Transcript};
use super::known::{self, KnownSessions};
use super::names;
use super::past;
use super::sessions::{ConfigDir, Session};
use super::watched::{PaneText, Watched, is_for_a_person};
use crate::agents::claude::mode::{asks_in, mode_on};
use crate::agents::reports;
use crate::agents::tmux::pane::Pane;
use crate::client::{AgentClient, Client};
use crate::config::DEFAULT_KIND;
use crate::home::Home;
use crate::processes::host;
use crate::protocol::Registration;
use crate::shutdown::Signals;
use anyhow::Context;
use aye_core::{AgentId, AgentKind, AsksFor, Reach};
use futures_util::FutureExt;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// How often processes are looked at: one that crashed tells nobody.
const LOOK_AROUND: Duration = Duration::from_secs(10);
/// A session with hooks makes itself known when it starts; it is given that long.
const GRACE: Duration = Duration::from_secs(1);

pub struct WatchConfig {
    pub configs: Vec<ConfigDir>,
    pub agents_dir: Option<PathBuf>,
}

/// What happens, for whoever looks on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    Found {
        agent: AgentId,
        cwd: PathBuf,
        /// The tmux session that it is in.
        tmux: Option<String>,
        unreachable: Option<String>,
    },
    Asks {
        agent: AgentId,
        tool: String,
    },
    /// Behind a screen that cannot be recognized.
    Waits {
        agent: AgentId,
    },
    Answered {
        agent: AgentId,
    },
    Left {
        agent: AgentId,
        why: &'static str,
    },
    Trouble(String),
}

struct Watcher {
    home: Home,
    places: aye_policy::OwnPlaces,
    watch: WatchConfig,
    changes: Changes,
    told: mpsc::Sender<WatchEvent>,
    /// Every session that runs, and since when we know.
    live: HashMap<String, (Session, Instant)>,
    /// As the hub last told; nothing is adopted before it did.
    known: Option<KnownSessions>,
    watched: HashMap<String, Watched>,
    /// Which session a transcript belongs to.
    transcripts: HashMap<PathBuf, String>,
    screens: mpsc::Sender<PaneText>,
    /// Reports of a session are still sent after we stopped following it.
    reporters: JoinSet<()>,
}

/// Watches until a signal comes. Asks stay open then: whoever watches next finds them by their keys.
pub async fn run(
    home: &Home,
    watch: WatchConfig,
    told: mpsc::Sender<WatchEvent>,
    mut signals: Signals,
) -> anyhow::Result<()> {
    let (sender, mut lists) = watch::channel(None);
    let mut calling = JoinSet::new();
    calling.spawn(known::poll(home.clone(), sender, told.clone()).boxed());
    let changes = Changes::new().context("the system does not tell which files change")?;
    let (screens, mut shown) = mpsc::channel(64);
    let mut watcher = Watcher {
        home: home.clone(),
        places: home.places(),
        watch,
        changes,
        told,
        live: HashMap::new(),
        known: None,
        watched: HashMap::new(),
        transcripts: HashMap::new(),
        screens,
        reporters: JoinSet::new(),
    };
    let mut look = tokio::time::interval(LOOK_AROUND);
    loop {
        tokio::select! {
            changed = watcher.changes.next() => watcher.changed(changed).await,
            Ok(()) = lists.changed() => {
                watcher.known.clone_from(&lists.borrow_and_update());
                watcher.adopt_and_leave().await;
            }
            Some((session, screen)) = shown.recv() => {
                let watched = watcher.watched.get_mut(&session);
                if let Some(told) = watched.and_then(|watched| watched.saw(screen, &watcher.places)) {
                    watcher.tell(told).await;
                }
            }
            _ = look.tick() => watcher.look_around().await,
            _ = signals.wait() => return Ok(()),
        }
    }
}

impl Watcher {
    async fn tell(&self, told: WatchEvent) {
        // Nobody looking on is not an error.
        drop(self.told.send(told).await);
    }

    async fn changed(&mut self, changed: Changed) {
        match changed {
            Changed::File(path) => match self.transcripts.get(&path).cloned() {
                Some(session) => self.read(&session).await,
                None => self.other_file(&path).await,
            },
            Changed::Everything => {
                self.look_around().await;
                for session in self.watched.keys().cloned().collect::<Vec<_>>() {
                    self.read(&session).await;
                }
            }
        }
    }

    /// A session's file, or a folder that was not there yet.
    async fn other_file(&mut self, path: &Path) {
        let configs = &self.watch.configs;
        let config = configs.iter().find(|config| path.parent() == Some(&config.sessions()));
        match config.map(|config| config.session_at(path)) {
            Some(Some(session)) => self.saw(session),
            Some(None) => self.look_around().await,
            None if configs.iter().any(|config| config.folders().iter().any(|folder| folder == path)) => {
                self.look_around().await;
            }
            None => self.follow_transcripts().await,
        }
    }

    /// Folders of transcripts that were not there before. What is in them by now was told by nobody.
    async fn follow_transcripts(&mut self) {
        let folders = self.transcripts.keys().filter_map(|transcript| transcript.parent());
        let begun: Vec<_> = folders.filter(|folder| self.changes.follow_once(folder)).collect();
        let is_there = |transcript: &Path| begun.iter().any(|folder| transcript.parent() == Some(folder));
        let sessions = self.transcripts.iter().filter(|(transcript, _)| is_there(transcript));
        let sessions: Vec<_> = sessions.map(|(_, session)| session.clone()).collect();
        for session in sessions {
            self.read(&session).await;
        }
    }

    async fn read(&mut self, session: &str) {
        let Some(watched) = self.watched.get_mut(session) else { return };
        match watched.transcript.read() {
            Ok(news) => {
                let agent = watched.agent.clone();
                let told: Vec<_> = news
                    .opened
                    .iter()
                    .filter(|open| is_for_a_person(&open.tool))
                    .map(|open| WatchEvent::Asks { agent: agent.clone(), tool: open.tool.clone() })
                    .collect();
                let goes_on = watched.take(news, &self.places);
                watched.tell_title();
                for told in told.into_iter().chain(goes_on.then_some(WatchEvent::Answered { agent })) {
                    self.tell(told).await;
                }
            }
            Err(error) => {
                let words = format!("{} cannot be read: {error}", watched.transcript.path().display());
                self.tell(WatchEvent::Trouble(words)).await;
            }
        }
    }

    fn saw(&mut self, session: Session) {
        let since = self.live.get(&session.id).map_or_else(Instant::now, |(_, since)| *since);
        if let Some(watched) = self.watched.get_mut(&session.id) {
            watched.update(session.clone());
            watched.tell_title();
        }
        self.live.insert(session.id.clone(), (session, since));
    }

    /// Looks at every session again: what crashed is gone, and what was missed is found.
    async fn look_around(&mut self) {
        let now = SystemTime::now();
        let mut found: Vec<Session> = Vec::new();
        for config in self.watch.configs.clone() {
            for folder in config.folders() {
                // Not all are there before the first session.
                self.changes.follow_once(&folder);
            }
            found.extend(config.live(now));
        }
        for (_, workspace) in self.names() {
            if !found.iter().any(|session| session.cwd.as_ref() == Some(&workspace)) {
                found.extend(self.watch.configs.iter().find_map(|config| config.newest_of(&workspace, now)));
            }
        }
        let gone: Vec<_> = self.live.values().filter(|(session, _)| is_gone(session, &found)).collect();
        let gone: Vec<_> = gone.into_iter().map(|(session, _)| session.id.clone()).collect();
        for id in gone {
            self.live.remove(&id);
            self.leave(&id, "its session has ended").await;
        }
        found.into_iter().for_each(|session| self.saw(session));
        for watched in self.watched.values_mut() {
            watched.sign_of_life();
        }
        self.let_go_of_moved();
        self.follow_transcripts().await;
        self.adopt_and_leave().await;
    }

    /// A transcript that turned up elsewhere than expected is followed there, by taking its session in again.
    fn let_go_of_moved(&mut self) {
        let moved = |watched: &Watched| {
            let there = &watched.session.transcript;
            there != watched.transcript.path() && there.exists()
        };
        for (_, watched) in self.watched.extract_if(|_, watched| moved(watched)) {
            self.transcripts.remove(watched.transcript.path());
        }
    }

    fn names(&self) -> Vec<(AgentId, PathBuf)> {
        self.watch.agents_dir.as_deref().map(names::read).unwrap_or_default()
    }

    /// Ours are the sessions that the hub knows in no better way.
    async fn adopt_and_leave(&mut self) {
        let Some(known) = self.known.clone() else { return };
        let better: Vec<_> = self.watched.keys().filter(|id| known.sessions.contains(*id)).cloned().collect();
        for id in better {
            self.leave(&id, "the hub reaches it by a better way").await;
        }
        let ours: Vec<Session> = self
            .live
            .values()
            .filter(|(session, since)| {
                !self.watched.contains_key(&session.id)
                    && !known.sessions.contains(&session.id)
                    && known.at >= *since + GRACE
            })
            .map(|(session, _)| session.clone())
            .collect();
        for session in ours {
            let id = session.id.clone();
            if let Err(error) = self.adopt(session).await {
                tracing::warn!(
                    error = format!("{error:#}"),
                    session = id,
                    "a session could not be adopted yet"
                );
            }
        }
    }

    async fn adopt(&mut self, session: Session) -> anyhow::Result<()> {
        let named = self.names().into_iter().find(|(id, workspace)| {
            session.cwd.as_ref() == Some(workspace)
                && !self.watched.values().any(|watched| watched.agent == *id)
        });
        let agent = match named {
            Some((id, _)) => id,
            None => AgentId::try_from(format!("watched-{}", session.id)).map_err(anyhow::Error::msg)?,
        };
        let client = AgentClient::of(&self.home, agent.clone()).await?;
        let path = session.transcript.clone();
        let (transcript, open) =
            tokio::task::spawn_blocking(move || Transcript::follow(path)).await?.context("cannot read it")?;
        let past = past::of(Client::for_person(&self.home)?, client.clone()).await?;
        let pane = Pane::of(session.process).await;
        let tmux = pane.as_ref().ok().map(|pane| pane.session().to_owned());
        let asks = mode_now(pane.as_ref().ok(), &transcript).await;
        let unreachable = pane.err().map(|why| why.to_string());
        let cwd =
            session.cwd.clone().or_else(|| open.iter().find_map(|open| open.cwd.as_ref().map(Into::into)));
        let cwd = cwd.unwrap_or_default();

        let reports = reports::start(client.clone(), &mut self.reporters);
        let id = session.id.clone();
        self.transcripts.insert(session.transcript.clone(), id.clone());
        let mut watched =
            Watched::new(session.clone(), transcript, client, reports, self.screens.clone(), None);
        let folder = cwd.file_name().map(|name| name.to_string_lossy().into_owned());
        watched.set_place(folder.unwrap_or_else(|| id.clone()), unreachable.clone());
        let profile = Registration {
            kind: AgentKind::try_from(DEFAULT_KIND).ok(),
            reach: Some(Reach::Watched),
            host: Some(host().into()),
            // Part of what an ask's digest covers: it stays what it was when the first was raised.
            cwd: (!past.is_known).then(|| cwd.to_string_lossy().into_owned().into()),
            title: watched.new_title().map(Into::into),
            session: Some(id.clone().into()),
            tmux: tmux.clone().map(Into::into),
            pid: session.process.map(|process| process.pid),
            asks,
            ..Registration::state(session.state())
        };
        // Known before anything is raised under its name.
        watched.announce(&profile).await?;
        past.withdraw_waits(&session).await?;
        for (tool_use_id, body, closed) in past.settled(&open, watched.transcript.path()) {
            watched.follow_ended(tool_use_id, body, closed);
        }
        // It may have been allowed at the keyboard meanwhile, and run.
        for open in open.iter().filter(|open| past.asked_permission(&open.tool_use_id)) {
            watched.raise(open, &self.places);
        }
        self.tell(WatchEvent::Found { agent: agent.clone(), cwd, tmux, unreachable }).await;
        for open in open.iter().filter(|open| is_for_a_person(&open.tool)) {
            self.tell(WatchEvent::Asks { agent: agent.clone(), tool: open.tool.clone() }).await;
        }
        watched.take(News { opened: open, ..News::default() }, &self.places);
        watched.update(session);
        self.watched.insert(id.clone(), watched);
        self.follow_transcripts().await;
        // What was written before the folder was followed.
        self.read(&id).await;
        Ok(())
    }

    async fn leave(&mut self, id: &str, why: &'static str) {
        let Some(mut watched) = self.watched.remove(id) else { return };
        self.transcripts.remove(watched.transcript.path());
        watched.register(Registration::ended());
        self.tell(WatchEvent::Left { agent: watched.agent.clone(), why }).await;
        while self.reporters.try_join_next().is_some() {}
    }
}

/// Reads the session's mode. A session that was resumed may be in another one than its transcript names last, so its screen
/// counts more.
async fn mode_now(pane: Option<&Pane>, transcript: &Transcript) -> Option<AsksFor> {
    let shown = match pane {
        Some(pane) => pane.screen().await.ok().and_then(|screen| mode_on(&screen)),
        None => None,
    };
    shown.or_else(|| transcript.mode()).map(asks_in)
}

/// A file that cannot be read at the moment is being written; a session ends with its process, or when
/// its process goes on with another.
fn is_gone(session: &Session, found: &[Session]) -> bool {
    let process = session.process;
    !found.iter().any(|found| found.id == session.id)
        && (process.is_none_or(|process| !process.is_alive())
            || found.iter().any(|found| found.process.map(|process| process.pid) == process.map(|p| p.pid)))
}
