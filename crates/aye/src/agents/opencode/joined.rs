//! OpenCode in a person's own terminal, whose server answers in the same process. Its events say what was asked and
//! answered, but not by whom: an answer that is not ours counts as the terminal's.

use super::calls::{Calls, Wanted, call_of, tool_call_in};
use super::outcome::{self, WireReply};
use super::requests::{REJECT, dismissed};
use super::server::{Awaited, HttpCall, Server, Then, next_event};
use super::translate;
use super::{account, id_of, in_path, reply, rules};
use crate::agents::driven::tools::RunContext;
use crate::agents::driven::{Asked, Written};
use crate::agents::joined::{JoinedProtocol, Meaning, Terminal};
use crate::agents::lines::Line;
use crate::protocol::{Registration, Resolution};
use aye_core::{AsksFor, Body, ReportedState};
use hyper::Method;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Before a server that is not there, or no longer, is looked for again.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// The agent of a session unless another is chosen.
const DEFAULT_AGENT: &str = "build";
/// How OpenCode calls a session before it has a title.
const UNTITLED: &str = "New session - ";

/// What is read from the server.
pub enum Input {
    Event(Value),
    /// What is open when we come to it.
    Found(Found),
}

#[derive(Default)]
pub struct Found {
    permissions: Vec<Value>,
    questions: Vec<Value>,
    sessions: Vec<Value>,
    /// Parts of messages, with the calls that were asked for.
    parts: Vec<Value>,
    /// OpenCode's own agents, with their rules.
    agents: Vec<Value>,
}

pub struct JoinedOpenCode {
    terminal: Terminal,
    calls: Calls,
    /// What OpenCode waits for.
    open: HashMap<String, Open>,
    sessions: HashMap<String, Known>,
    /// The sessions at work.
    busy: HashSet<String>,
    /// The modes of OpenCode's own agents, by their names.
    modes: HashMap<String, AsksFor>,
}

struct Open {
    session: String,
    call: Option<String>,
    /// What is asked; none where it cannot be shown.
    body: Option<Body>,
    is_question: bool,
    /// Ours is on its way.
    ours: Option<WireReply>,
    /// Another request of its session was refused, which refuses this one as well.
    refused_with_another: bool,
}

struct Known {
    is_sub_agent: bool,
    cwd: Option<PathBuf>,
}

type Meanings = Vec<Meaning<HttpCall>>;

impl JoinedProtocol for JoinedOpenCode {
    type Input = Input;
    type Message = HttpCall;

    fn read(&mut self, input: Input) -> Meanings {
        match input {
            Input::Event(event) => self.handle_event(&event),
            Input::Found(found) => self.found(&found),
        }
    }

    fn outcome(&mut self, id: &str, body: &Body, resolution: &Resolution) -> Written<HttpCall> {
        let answered = match body {
            Body::Question(asked) => {
                let call = self.open.get(id).and_then(|open| open.call.as_deref());
                outcome::answers(asked, self.calls.called(call), resolution.outcome.answer.as_ref())
            }
            Body::Permission(_) | Body::Plan(_) => outcome::decision(resolution),
        };
        let message = reply(id, matches!(body, Body::Question(_)), &answered);
        let Some(open) = self.open.get_mut(id) else { return Written { message, shown_by: None } };
        let shown_by = self.calls.answered(open.call.as_deref(), body, &answered);
        open.ours = Some(answered);
        Written { message, shown_by }
    }
}

impl JoinedOpenCode {
    pub fn new(terminal: Terminal) -> Self {
        let (calls, open, sessions, busy, modes) = Default::default();
        Self { terminal, calls, open, sessions, busy, modes }
    }

    fn handle_event(&mut self, event: &Value) -> Meanings {
        let about = &event["properties"];
        match event["type"].as_str().unwrap_or_default() {
            "permission.asked" => self.asked(about),
            "question.asked" => self.asked(about),
            "permission.replied" => self.answered(about, &about["reply"]),
            "question.replied" => self.answered(about, &about["answers"]),
            "question.rejected" => self.answered(about, &dismissed()),
            "message.part.updated" if about["part"]["type"] == "tool" => self.call_told(&about["part"]),
            "message.updated" if about["info"]["role"] == "user" => self.prompted(&about["info"]),
            "session.created" | "session.updated" => self.session_told(&about["info"]),
            "session.status" if about["status"]["type"] != "idle" => self.works(about, true),
            "session.status" | "session.idle" | "session.deleted" => self.works(about, false),
            // Every few seconds: a call that has not begun by now will not.
            "server.heartbeat" => {
                let early = self.calls.take_early();
                early.iter().flat_map(|asked| self.asks_permission(asked)).collect()
            }
            // Events come with every release.
            _ => Vec::new(),
        }
    }

    /// What waits now. Whatever else waited was answered while we did not see it.
    fn found(&mut self, found: &Found) -> Meanings {
        let asked = || found.permissions.iter().chain(&found.questions);
        let still: HashSet<_> = asked().filter_map(id_of).collect();
        let gone: Vec<_> = self.open.keys().filter(|id| !still.contains(id.as_str())).cloned().collect();
        let mut meanings: Meanings = gone.iter().flat_map(|id| self.cancel(id)).collect();
        let named =
            |agent: &Value| Some((agent["name"].as_str()?.to_owned(), rules::asks_by(&agent["permission"])));
        self.modes = found.agents.iter().filter_map(named).collect();
        let asks = self.modes.get(DEFAULT_AGENT);
        meanings.extend(asks.map(|asks| Meaning::Knows(Registration::mode(*asks))));
        for session in &found.sessions {
            meanings.extend(self.session_told(session));
        }
        for part in &found.parts {
            meanings.extend(self.call_told(part));
        }
        meanings.extend(asked().flat_map(|asked| self.asked(asked)).collect::<Vec<_>>());
        meanings
    }

    fn asked(&mut self, asked: &Value) -> Meanings {
        let (Some(id), Some(session)) = (id_of(asked), asked["sessionID"].as_str()) else {
            return Vec::new();
        };
        if self.open.contains_key(id) {
            return Vec::new();
        }
        let is_question = asked["questions"].is_array();
        let open = Open {
            session: session.to_owned(),
            call: call_of(asked),
            body: None,
            is_question,
            ours: None,
            refused_with_another: false,
        };
        self.open.insert(id.to_owned(), open);
        match is_question {
            true => self.asks(asked, translate::questions(asked)),
            false => match self.calls.keep_early(asked) {
                Ok(false) => self.asks_permission(asked),
                Ok(true) => Vec::new(),
                Err(why) => {
                    tracing::debug!(why, "a request is left to the terminal");
                    Vec::new()
                }
            },
        }
    }

    fn asks_permission(&mut self, asked: &Value) -> Meanings {
        let place =
            RunContext { kind: &self.terminal.kind, cwd: &self.cwd_of(asked), places: &self.terminal.places };
        match self.calls.wanted(asked, &place) {
            None => {
                let (id, answered) = (id_of(asked).unwrap_or_default(), outcome::once());
                let message = reply(id, false, &answered);
                if let Some(open) = self.open.get_mut(id) {
                    open.ours = Some(answered);
                }
                vec![Meaning::Write(message)]
            }
            Some(Wanted { body, confirms }) => {
                confirms.map(Meaning::from).into_iter().chain(self.asks(asked, body)).collect()
            }
        }
    }

    fn asks(&mut self, asked: &Value, body: Result<Body, String>) -> Meanings {
        let Some(open) = id_of(asked).and_then(|id| self.open.get_mut(id)) else { return Vec::new() };
        open.body = body.as_ref().ok().cloned();
        let (is_question, cwd) = (open.is_question, self.cwd_of(asked));
        let called = self.calls.called(call_of(asked).as_deref());
        let session = self.sessions.get(asked["sessionID"].as_str().unwrap_or_default());
        vec![Meaning::Asks(Asked {
            id: id_of(asked).unwrap_or_default().to_owned(),
            cwd: Some(called.and_then(|call| call.cwd(&cwd)).unwrap_or(cwd)),
            request: (),
            can: if is_question { translate::can_answer(&body) } else { translate::can_permit() },
            body,
            tool_use_id: asked["tool"]["callID"].as_str().map(str::to_owned),
            sub_agent: account::sub_agent(session.is_none_or(|session| !session.is_sub_agent)),
            outlives_turn: false,
        })]
    }

    fn cwd_of(&self, asked: &Value) -> PathBuf {
        let session = self.sessions.get(asked["sessionID"].as_str().unwrap_or_default());
        session.and_then(|session| session.cwd.clone()).unwrap_or_else(|| self.terminal.cwd.clone())
    }

    fn answered(&mut self, about: &Value, answer: &Value) -> Meanings {
        let id = about["requestID"].as_str().unwrap_or_default();
        self.calls.take_early_of(id);
        let Some(open) = self.open.remove(id) else { return Vec::new() };
        if *answer == REJECT && !open.is_question {
            let others = self.open.values_mut().filter(|other| !other.is_question);
            for other in others.filter(|other| other.session == open.session) {
                other.refused_with_another = true;
            }
        }
        match &open.ours {
            // Who said it first is known once our own reply is taken, or is not.
            Some(ours) if ours.echo == *answer => {
                let abort = ours.ends_turn.then(|| Meaning::Write(abort(&open.session)));
                abort.into_iter().collect()
            }
            Some(_) | None => {
                self.calls.answered_elsewhere(open.call.as_deref());
                let id = id.to_owned();
                match open.refused_with_another && *answer == REJECT {
                    true => vec![Meaning::Cancels { id }],
                    false => {
                        let answer = open.body.as_ref().and_then(|body| in_terminal(body, answer));
                        vec![Meaning::AnsweredElsewhere { id, answer }]
                    }
                }
            }
        }
    }

    fn cancel(&mut self, id: &str) -> Meanings {
        self.calls.take_early_of(id);
        let open = self.open.remove(id);
        open.map(|_| Meaning::Cancels { id: id.to_owned() }).into_iter().collect()
    }

    fn call_told(&mut self, part: &Value) -> Meanings {
        let (Some((key, call)), state) = (tool_call_in(part), &part["state"]) else { return Vec::new() };
        match state["status"].as_str() {
            Some("running") => {
                let early = self.calls.begin(&key, call).unwrap_or_default();
                early.iter().flat_map(|asked| self.asks_permission(asked)).collect()
            }
            Some("completed" | "error") => {
                let shows = self.calls.end(&key, state).shows;
                let shows = shows.map(|(receipt, evidence)| Meaning::Shows { call: key, receipt, evidence });
                shows.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Each prompt names the agent that it is for.
    fn prompted(&self, info: &Value) -> Meanings {
        let session = info["sessionID"].as_str().unwrap_or_default();
        let is_sub_agent = self.sessions.get(session).is_some_and(|known| known.is_sub_agent);
        let asks = info["agent"].as_str().and_then(|agent| self.modes.get(agent)).filter(|_| !is_sub_agent);
        asks.map(|asks| Meaning::Knows(Registration::mode(*asks))).into_iter().collect()
    }

    fn session_told(&mut self, info: &Value) -> Meanings {
        let Some(id) = info["id"].as_str() else { return Vec::new() };
        let is_sub_agent = info["parentID"].is_string();
        let cwd = info["directory"].as_str().map(PathBuf::from);
        self.sessions.insert(id.to_owned(), Known { is_sub_agent, cwd });
        if is_sub_agent {
            return Vec::new();
        }
        let title = info["title"].as_str().filter(|title| !title.starts_with(UNTITLED));
        vec![Meaning::Knows(Registration {
            session: Some(id.to_owned().into()),
            title: title.map(|title| crate::agents::title(title).into()),
            ..Registration::default()
        })]
    }

    /// OpenCode would still take an answer to what was asked in a turn that is over, and run it.
    fn works(&mut self, about: &Value, works: bool) -> Meanings {
        let session = about["sessionID"].as_str().unwrap_or_default();
        let worked = !self.busy.is_empty();
        match works {
            true => self.busy.insert(session.to_owned()),
            false => self.busy.remove(session),
        };
        let of_session = |(_, open): &(&String, &Open)| open.session == session && !works;
        let over: Vec<_> = self.open.iter().filter(of_session).map(|(id, _)| id.clone()).collect();
        let mut meanings: Meanings = over.iter().flat_map(|id| self.cancel(id)).collect();
        if worked == self.busy.is_empty() {
            let state = if worked { ReportedState::Idle } else { ReportedState::Working };
            meanings.push(Meaning::Knows(Registration::state(state)));
        }
        meanings
    }
}

fn abort(session: &str) -> HttpCall {
    let path = format!("/session/{}/abort", in_path(session));
    HttpCall { method: Method::POST, path, body: None, then: Then::Read(Awaited::Abort) }
}

/// What was answered in the terminal, as an answer to the ask.
fn in_terminal(body: &Body, answer: &Value) -> Option<Value> {
    match (body, answer) {
        (Body::Question(_), answer) if *answer == dismissed() => Some(json!({ "skip": true })),
        (Body::Question(asked), Value::Array(all)) => {
            let answers = asked.questions.iter().zip(all).map(|(question, given)| {
                let given = given.as_array().into_iter().flatten().filter_map(Value::as_str);
                let is_offered = |words: &&str| question.options.iter().any(|offer| offer.label == **words);
                let (selected, own): (Vec<_>, Vec<_>) = given.partition(is_offered);
                match (selected.is_empty(), own.is_empty()) {
                    (true, true) => json!({ "skip": true }),
                    (_, true) => json!({ "selected": selected }),
                    (_, false) => json!({ "selected": selected, "text": own.join(", ") }),
                }
            });
            Some(json!({ "answers": answers.collect::<Vec<_>>() }))
        }
        (Body::Permission(_), answer) if *answer == REJECT => Some(json!({ "decision": "deny" })),
        // How much further "always" reaches there is OpenCode's own affair.
        (Body::Permission(_), Value::String(_)) => Some(json!({ "decision": "allow", "scope": "once" })),
        (Body::Question(_) | Body::Permission(_) | Body::Plan(_), _) => None,
    }
}

/// Tells what happens in OpenCode, and what is open already, for as long as anybody wants to know.
pub async fn follow(server: Server, inputs: mpsc::Sender<Input>) {
    while !inputs.is_closed() {
        if let Ok(mut events) = server.events().await {
            // Not before its events are followed, so that nothing is missed in between.
            match found(&server).await {
                Ok(found) => drop(inputs.send(Input::Found(found)).await),
                Err(error) => tracing::debug!(%error, "what is open already is not known"),
            }
            while let Some(event) = next_event(&mut events).await {
                let Line::Whole(event) = event else { continue };
                let Ok(event) = aye_core::json::parse(&event) else { continue };
                if inputs.send(Input::Event(event)).await.is_err() {
                    return;
                }
            }
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

async fn found(server: &Server) -> anyhow::Result<Found> {
    let list = async |path: &str| {
        let listed = server.get(path.to_owned()).await?;
        anyhow::Ok(listed.as_array().cloned().unwrap_or_default())
    };
    let (permissions, questions) = (list("/permission").await?, list("/question").await?);
    // Without it, only what they ask for is not known.
    let agents = list("/agent").await.unwrap_or_default();
    let mut found = Found { permissions, questions, agents, ..Found::default() };
    for asked in found.permissions.iter().chain(&found.questions) {
        let session = in_path(asked["sessionID"].as_str().unwrap_or_default());
        found.sessions.push(server.get(format!("/session/{session}")).await?);
        if let Some(message) = asked["tool"]["messageID"].as_str() {
            let message = server.get(format!("/session/{session}/message/{}", in_path(message))).await?;
            let parts = message["parts"].as_array().into_iter().flatten();
            found.parts.extend(parts.filter(|part| part["type"] == "tool").cloned());
        }
    }
    Ok(found)
}
