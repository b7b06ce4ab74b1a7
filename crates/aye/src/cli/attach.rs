use super::conversation::{self, Beginning, Keyboard, KeyboardUser, Printer, say_if_not_read};
use super::named::find;
use super::{Done, say};
use crate::agents::driven::RunEvent;
use crate::client::{Client, Follower, Try};
use crate::home::Home;
use crate::protocol::{EventsQuery, Frame, Resolution, Snapshot, calls};
use crate::shutdown::Signals;
use crate::surfaces::terminal::in_a_line;
use crate::surfaces::terminal::style::{BAD, DIM, NAME, paint};
use crate::surfaces::words;
use aye_core::visible::one_line;
use aye_core::{Agent, AgentState, AskId, AskState, AskView, AsksFor, Reach, Role};
use clap::Args;
use serde_json::Value;
use std::collections::HashSet;
use std::process::ExitCode;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Show an agent's conversation, live; type answers and prompts.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye attach claude-k3     by the beginning of its id, its title, folder, tmux session or process
  aye attach .             the agent that works in this folder

Ctrl-D or Ctrl-C leaves; the agent goes on. `aye interrupt` ends its turn, `aye stop` its run.
Exit codes: 0 done, 6 no such agent or not unique, 1 error.")]
pub struct Attach {
    /// The agent: the beginning of its id, its title, folder, tmux session or process
    #[arg(value_name = "AGENT")]
    agent: String,
}

impl Attach {
    pub async fn run(self, home: &Home) -> Done {
        let mut signals = Signals::listen()?;
        let client = Client::for_person(home)?;
        let agent = find(&client, &self.agent).await?;
        let me = client.me().await?;
        let may_answer = me.role == Role::Operator;
        say(&heading(&agent, may_answer))?;
        let leaves = CancellationToken::new();
        let types = may_answer && agent.state != AgentState::Ended;
        let keyboard = Keyboard::open().filter(|_| types);
        if types {
            say_if_not_read();
        }
        let person = keyboard.map(|keyboard| KeyboardUser {
            client: client.clone(),
            agent: agent.id.clone(),
            keyboard,
            leaves: leaves.clone(),
            on_leaving: "",
        });
        let (events, to_show) = mpsc::channel(256);
        let (printer, printed) = Printer::start()?;
        let beginning = Beginning { asked: None, working: is_working(agent.state) };
        let showing = conversation::show(to_show, person, printer, beginning);
        let following = async {
            let following = Conversation::of(client, &agent, events).follow();
            tokio::select! {
                ended = following => ended,
                () = leaves.cancelled() => Ok(Left::Running),
                _ = signals.wait() => Ok(Left::Running),
            }
        };
        let (left, ()) = tokio::join!(following, showing);
        drop(printed.await);
        let id = &agent.id;
        let why = match left? {
            Left::Running => format!("It goes on. Come back: aye attach {id}"),
            Left::Ended if agent.reach == Reach::Driven => {
                format!("{id} has ended. Go on with it: aye run --resume {id}")
            }
            Left::Ended => format!("{id} has ended."),
        };
        say(&format!("{}\n", paint(DIM, why)))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn heading(agent: &Agent, may_answer: bool) -> String {
    let (title, cwd, host) = (in_a_line(&agent.title), one_line(&agent.cwd), one_line(&agent.host));
    let state = words::agent_state(agent.state);
    let mut text = format!("{}  {title}\n", paint(NAME, &agent.id));
    let tmux =
        agent.tmux.as_ref().map(|tmux| format!(", tmux session {}", one_line(tmux))).unwrap_or_default();
    text += &paint(DIM, format_args!("{}, in {cwd} on {host}{tmux}, {state}", words::reach(agent.reach)));
    if let Some(words) = words::asks(agent.asks) {
        let style = if agent.asks == AsksFor::Nothing { BAD } else { DIM };
        text += &format!("\n{}", paint(style, format_args!("Its mode {words}.")));
    }
    let hint = match (agent.state, agent.reach, may_answer) {
        (AgentState::Ended, _, _) => "",
        (_, Reach::Driven, true) => "Ctrl-D leaves it running.",
        (_, _, true) => {
            "You can answer its requests here; prompts go into its own terminal. Ctrl-D leaves it running."
        }
        (_, _, false) => "You cannot answer from here: this token only lets you look on.",
    };
    if !hint.is_empty() {
        text += &format!("\n{}", paint(DIM, hint));
    }
    text + "\n"
}

fn is_working(state: AgentState) -> bool {
    matches!(state, AgentState::Working | AgentState::Waiting)
}

/// How following ended.
enum Left {
    /// The agent goes on.
    Running,
    Ended,
}

/// What is told of one agent, from all that the hub tells.
struct Conversation {
    follower: Follower,
    client: Client,
    agent: String,
    events: mpsc::Sender<RunEvent>,
    /// The last of its events that was told.
    seq: u64,
    /// The text that was told last, how many of its characters were, and whether that is all of it.
    text: (String, u64, bool),
    /// Its mode when that was told last.
    asks: AsksFor,
    /// Its requests that are shown as open.
    open: HashSet<AskId>,
    ended: bool,
}

impl Conversation {
    fn of(client: Client, agent: &Agent, events: mpsc::Sender<RunEvent>) -> Self {
        let (follower, ended, asks) = (client.follow(), agent.state == AgentState::Ended, agent.asks);
        let (agent, text) = (agent.id.to_string(), (String::new(), 0, true));
        Self { follower, client, agent, events, seq: 0, text, asks, open: HashSet::new(), ended }
    }

    async fn follow(mut self) -> anyhow::Result<Left> {
        loop {
            match self.follower.next().await {
                Ok(frame) => self.take(frame).await?,
                Err(error) if error.is_passing() => {
                    self.tell(RunEvent::Hint("The hub is away. Waiting for it…".into())).await;
                    // Whoever follows hears nothing until something happens.
                    self.client.call(&calls::AGENT, &self.agent, &(), &(), Try::UntilHeard).await?;
                    self.tell(RunEvent::Hint("The hub is back.".into())).await;
                }
                Err(error) => return Err(error.into()),
            }
            if self.ended {
                return Ok(Left::Ended);
            }
        }
    }

    async fn take(&mut self, frame: Frame) -> anyhow::Result<()> {
        match frame {
            Frame::Snapshot(snapshot) => self.catch_up(snapshot).await?,
            Frame::Event { seq, agent, event } if agent.as_str() == self.agent => {
                self.event(seq, &event).await;
            }
            Frame::Piece { agent, id, from, text } if agent.as_str() == self.agent => {
                self.speak(&id, from, &text).await;
            }
            Frame::Ask { ask, .. } if ask.agent.as_str() == self.agent => self.ask(ask).await,
            Frame::Agent { agent, .. } if agent.id.as_str() == self.agent => {
                self.ended = agent.state == AgentState::Ended;
                self.told_of(&agent).await;
            }
            Frame::Event { .. }
            | Frame::Piece { .. }
            | Frame::Ask { .. }
            | Frame::Agent { .. }
            | Frame::Notice { .. }
            | Frame::Other => {}
        }
        Ok(())
    }

    async fn told_of(&mut self, agent: &Agent) {
        self.tell(RunEvent::Works(is_working(agent.state))).await;
        let before = std::mem::replace(&mut self.asks, agent.asks);
        if before == agent.asks {
            return;
        }
        match (words::asks(before), words::asks(agent.asks)) {
            (_, Some(now)) => self.tell(RunEvent::Hint(format!("Its mode changed: it {now}."))).await,
            (Some(_), None) => self.tell(RunEvent::Hint("Its mode changed: it asks again.".into())).await,
            (None, None) => {}
        }
    }

    /// All that was said before the snapshot, then what is open in it.
    async fn catch_up(&mut self, snapshot: Snapshot) -> anyhow::Result<()> {
        loop {
            let query = EventsQuery { after: Some(self.seq), ..EventsQuery::default() };
            let page =
                self.client.call(&calls::EVENTS, &self.agent, &query, &(), Try::UntilHeard).await?.events;
            let more = page.last().is_some_and(|last| last.seq <= snapshot.seq);
            for told in page.into_iter().filter(|told| told.seq <= snapshot.seq) {
                self.event(told.seq, &told.event).await;
            }
            if !more {
                break;
            }
        }
        if let Some(agent) = snapshot.agents.iter().find(|agent| agent.id.as_str() == self.agent) {
            self.told_of(agent).await;
        }
        let open: Vec<AskView> =
            snapshot.asks.into_iter().filter(|ask| ask.agent.as_str() == self.agent).collect();
        let ended: Vec<_> =
            self.open.iter().filter(|known| !open.iter().any(|ask| ask.id == **known)).cloned().collect();
        for id in ended {
            let ask = self.client.call(&calls::ASK, id.as_str(), &(), &(), Try::UntilHeard).await?;
            self.ask(ask).await;
        }
        for ask in open {
            self.ask(ask).await;
        }
        Ok(())
    }

    async fn event(&mut self, seq: u64, event: &Value) {
        self.seq = seq;
        if let (Some(id), Some(text)) = (event["id"].as_str(), event["text"].as_str())
            && event["type"] == "text"
        {
            let partial = event["partial"] == true;
            if partial || self.text.0 == id {
                self.speak(id, 0, text).await;
            }
            if partial {
                return;
            }
            self.text = (id.to_owned(), 0, true);
        }
        if let Some(event) = RunEvent::read(event) {
            self.tell(event).await;
        }
    }

    /// Tells what is new of a text that streams. What does not join on comes again with the text so far.
    async fn speak(&mut self, id: &str, from: u64, text: &str) {
        let told = match &self.text {
            (known, _, true) if known == id => return,
            (known, told, _) if known == id => *told,
            _ => 0,
        };
        let Some(known) = told.checked_sub(from) else { return };
        let delta: String = text.chars().skip(usize::try_from(known).unwrap_or(usize::MAX)).collect();
        if delta.is_empty() {
            return;
        }
        self.text = (id.to_owned(), told + delta.chars().count() as u64, false);
        self.tell(RunEvent::Speaks { id: id.to_owned(), delta }).await;
    }

    async fn ask(&mut self, ask: AskView) {
        match ask.status.state {
            AskState::Open => {
                if self.open.insert(ask.id.clone()) {
                    self.tell(RunEvent::Asked(Box::new(ask))).await;
                }
            }
            AskState::Answered | AskState::Expired | AskState::Withdrawn => {
                let known = self.open.remove(&ask.id);
                if let Some(resolution) = Resolution::of_view(&ask).filter(|_| known) {
                    self.tell(RunEvent::AskEnded { ask: ask.head.id, resolution }).await;
                }
            }
        }
    }

    async fn tell(&self, event: RunEvent) {
        // Whoever no longer looks has left.
        drop(self.events.send(event).await);
    }
}
