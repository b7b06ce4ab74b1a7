//! One session that is ours to look after.

use super::ask::Asked;
use super::follow::{News, Transcript};
use super::sessions::Session;
use crate::agents::claude::transcript::pending::{Closed, Open};
use crate::agents::claude::translate;
use crate::agents::claude::wire::CanUseTool;
use crate::agents::driven::courier::Report;
use crate::client::{AgentClient, CallError, Try};
use crate::protocol::Registration;
use aye_core::{AgentId, Body, Key};
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Well below the silence that makes an agent lost.
const SIGN_OF_LIFE: Duration = Duration::from_secs(25);

pub struct Watched {
    pub session: Session,
    pub agent: AgentId,
    pub transcript: Transcript,
    client: AgentClient,
    /// Told to the hub, one after another.
    reports: mpsc::Sender<Report>,
    heard: Instant,
    /// One for each call that is open.
    endings: HashMap<String, watch::Sender<Option<Closed>>>,
    asks: JoinSet<()>,
}

impl Watched {
    pub fn new(
        session: Session,
        agent: AgentId,
        transcript: Transcript,
        client: AgentClient,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let (endings, asks) = (HashMap::new(), JoinSet::new());
        Self { session, agent, transcript, client, reports, heard: Instant::now(), endings, asks }
    }

    /// What the hub shall know of the agent. A queue that is full means that the hub is away, and hears the rest later.
    pub fn register(&mut self, what: Registration) {
        if self.reports.try_send(Report::Register(what)).is_err() {
            tracing::debug!(agent = %self.agent, "the hub is away");
        }
        self.heard = Instant::now();
    }

    /// The first word; it must be heard before anything else is said.
    pub async fn announce(&mut self, profile: &Registration) -> Result<(), CallError> {
        self.client.register(profile, Try::UntilHeard).await
    }

    pub fn sign_of_life(&mut self) {
        if self.heard.elapsed() >= SIGN_OF_LIFE {
            self.register(Registration::state(self.session.state()));
        }
    }

    /// A newer account of the same session.
    pub fn update(&mut self, session: Session) {
        let changed = session.state() != self.session.state();
        self.session = session;
        if changed {
            self.register(Registration::state(self.session.state()));
        }
    }

    /// Raises what is new, and tells those who wait how their calls ended.
    pub fn take(&mut self, news: News, places: &aye_policy::OwnPlaces) {
        for (open, closed) in news.closed {
            if let Some(ending) = self.endings.remove(&open.tool_use_id) {
                ending.send_replace(Some(closed));
            }
        }
        for open in news.opened {
            self.raise(open, places);
        }
        while self.asks.try_join_next().is_some() {}
    }

    fn raise(&mut self, open: Open, places: &aye_policy::OwnPlaces) {
        let cwd = self.session.cwd.clone().or_else(|| open.cwd.as_ref().map(Into::into)).unwrap_or_default();
        match body(&open, &cwd, places) {
            Ok(body) => self.follow(&open.tool_use_id, &open.tool, body, None),
            Err(why) => {
                let words =
                    format!("It asks something that cannot be shown here, so look at its terminal: {why}");
                let event = json!({ "type": "trouble", "text": words });
                drop(self.reports.try_send(Report::Event(event)));
            }
        }
    }

    /// Follows an ask; `closed` if the transcript shows its end already.
    pub fn follow(&mut self, tool_use_id: &str, tool: &str, body: Body, closed: Option<Closed>) {
        let asked = Asked {
            client: self.client.clone(),
            key: key(&self.session.id, tool_use_id),
            tool_use_id: tool_use_id.to_owned(),
            tool: tool.to_owned(),
            body,
            process: self.session.process,
            transcript: self.transcript.path().to_owned(),
        };
        let (sender, ending) = watch::channel(closed);
        self.endings.insert(tool_use_id.to_owned(), sender);
        self.asks.spawn(asked.follow(ending));
    }
}

/// Unique, and the same for everybody who watches this session.
pub fn key(session: &str, tool_use_id: &str) -> Key {
    Key::from_displayed(&format_args!("{session}/{tool_use_id}"))
}

fn body(open: &Open, cwd: &Path, places: &aye_policy::OwnPlaces) -> Result<Body, String> {
    let input = open.input.clone().ok_or("it is too long")?;
    let tool = CanUseTool {
        tool_name: open.tool.clone(),
        input: RawValue::from_string(input).map_err(|error| error.to_string())?,
        tool_use_id: Some(open.tool_use_id.clone()),
        agent_id: None,
        permission_suggestions: None,
    };
    translate::ask(&tool, cwd, places).map_err(|why| why.to_string())
}
