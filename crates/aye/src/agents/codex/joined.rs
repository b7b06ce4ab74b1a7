//! Codex in a person's own terminal, beside which we are another client of the same server. An error in reply to a request
//! would answer it for everybody, so what we do not know or cannot show gets no reply from us at all.

use super::asks_by;
use super::calls::{Calls, Request};
use crate::agents::driven::rpc::{Incoming, Rpc};
use crate::agents::driven::tools::RunContext;
use crate::agents::driven::{Asked, Shown, Written};
use crate::agents::joined::{JoinedProtocol, Meaning, Terminal};
use crate::agents::lines::Line;
use crate::protocol::{Registration, Resolution};
use aye_core::{Body, Can, Plan, Receipt, ReportedState, Text};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use tokio::sync::mpsc;

const PLAN_IS_THE_TERMINALS: &str = "Codex asks in its own terminal alone whether to carry out a plan";

pub enum Input {
    /// The way to the server is open.
    Connected,
    Said(Line),
}

impl From<Line> for Input {
    fn from(line: Line) -> Self {
        Input::Said(line)
    }
}

pub struct JoinedCodex {
    terminal: Terminal,
    rpc: Rpc<Awaited>,
    calls: Calls,
    threads: HashMap<String, Thread>,
    /// What Codex waits for.
    open: HashMap<String, Open>,
    /// The threads at work.
    busy: HashSet<String>,
    /// The files to look into for what the model is told.
    rollouts: mpsc::Sender<PathBuf>,
}

enum Awaited {
    Initialize,
    Threads,
    Thread(String),
}

#[derive(Default)]
struct Thread {
    is_joined: bool,
    is_sub_agent: bool,
    /// Codex's own, which asks nobody.
    is_hidden: bool,
    has_title: bool,
    /// The plan of this turn, about which its terminal asks when the turn has ended.
    plan: Option<(String, String)>,
}

struct Open {
    thread: String,
    /// None for a plan, which is not answered from here.
    request: Option<Request>,
    /// Ours is on its way.
    is_answered: bool,
}

type Meanings = Vec<Meaning<String>>;

impl JoinedProtocol for JoinedCodex {
    type Input = Input;
    type Message = String;

    fn read(&mut self, input: Input) -> Meanings {
        let line = match input {
            Input::Connected => return self.connected(),
            Input::Said(line) => line,
        };
        match self.rpc.read(line) {
            None => Vec::new(),
            Some(Incoming::Request { id, method, params: Value::Object(params) }) => {
                self.requested(id, &method, &params)
            }
            Some(Incoming::Tells { method, params }) => self.notified(&method, &params),
            Some(Incoming::Reply { to, result }) => self.replied(to, result),
            Some(Incoming::Request { .. } | Incoming::Faulty(_)) => {
                tracing::debug!("a message of Codex cannot be read; it is left to the terminal");
                Vec::new()
            }
        }
    }

    fn outcome(&mut self, id: &str, body: &Body, resolution: &Resolution) -> Written<String> {
        let open = self.open.get_mut(id);
        let request = open.and_then(|open| {
            open.is_answered = true;
            open.request.clone()
        });
        // Codex drops a reply to what it no longer asks.
        let request = request.unwrap_or(Request::Permission { call: None });
        let (reply, shown_by) = self.calls.answered(request, body, resolution.outcome.answer.as_ref());
        Written { message: self.rpc.reply(id, reply), shown_by }
    }
}

impl JoinedCodex {
    pub fn new(terminal: Terminal, rollouts: mpsc::Sender<PathBuf>) -> Self {
        let (rpc, calls, threads, open, busy) = Default::default();
        Self { terminal, rpc, calls, threads, open, busy, rollouts }
    }

    /// Whatever was asked before is asked again once its thread is joined again.
    fn connected(&mut self) -> Meanings {
        let over = self.open.drain().map(|(id, _)| Meaning::Cancels { id });
        let mut meanings: Meanings = over.collect();
        self.rpc = Rpc::default();
        self.threads.values_mut().for_each(|thread| thread.is_joined = false);
        if !std::mem::take(&mut self.busy).is_empty() {
            meanings.push(Meaning::Knows(Registration::state(ReportedState::Idle)));
        }
        let client = json!({ "name": "aye", "title": "aye", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "clientInfo": client, "capabilities": { "experimentalApi": true } });
        meanings.push(Meaning::Write(self.rpc.request(Awaited::Initialize, "initialize", params)));
        meanings
    }

    fn replied(&mut self, to: Awaited, result: Result<Value, String>) -> Meanings {
        match (to, result) {
            (Awaited::Initialize, Ok(_)) => {
                let initialized = self.rpc.tell("initialized", json!({}));
                let threads = self.rpc.request(Awaited::Threads, "thread/loaded/list", json!({}));
                vec![Meaning::Write(initialized), Meaning::Write(threads)]
            }
            (Awaited::Threads, Ok(result)) => {
                let threads = result["data"].as_array().into_iter().flatten().filter_map(Value::as_str);
                threads.flat_map(|thread| self.join(thread)).collect()
            }
            (Awaited::Thread(id), Ok(result)) => {
                let info = &result["thread"];
                let thread = self.threads.entry(id).or_default();
                thread.is_joined = true;
                if let Some(path) = info["path"].as_str() {
                    // Without room, what the model is told stays unknown, and the receipt with it.
                    drop(self.rollouts.try_send(path.into()));
                }
                let mut meanings = self.note_thread(info);
                meanings.extend(self.note_mode(info["id"].as_str().unwrap_or_default(), &result));
                meanings
            }
            // A thread that nothing was said in yet has no file; it is joined once it works.
            (_, Err(error)) => {
                tracing::debug!(error, "Codex refused a request of ours");
                Vec::new()
            }
        }
    }

    fn join(&mut self, id: &str) -> Meanings {
        let thread = self.threads.entry(id.to_owned()).or_default();
        if thread.is_joined || thread.is_hidden {
            return Vec::new();
        }
        let params = json!({ "threadId": id, "excludeTurns": true });
        vec![Meaning::Write(self.rpc.request(Awaited::Thread(id.to_owned()), "thread/resume", params))]
    }

    fn note_thread(&mut self, info: &Value) -> Meanings {
        let Some(id) = info["id"].as_str() else { return Vec::new() };
        let thread = self.threads.entry(id.to_owned()).or_default();
        thread.is_sub_agent = info["parentThreadId"].is_string();
        thread.is_hidden = info["ephemeral"] == true || info["threadSource"] == "thread_title";
        if thread.is_sub_agent || thread.is_hidden {
            return Vec::new();
        }
        let works = self.works(id, &info["status"]);
        let known = Registration { session: Some(id.to_owned().into()), ..Registration::default() };
        let mut meanings: Meanings = works.into_iter().chain([Meaning::Knows(known)]).collect();
        meanings.extend(self.titled(id, &info["preview"]));
        meanings.extend(self.titled(id, &info["name"]));
        meanings
    }

    fn note_mode(&self, thread: &str, settings: &Value) -> Option<Meaning<String>> {
        let is_shown =
            self.threads.get(thread).is_some_and(|thread| !thread.is_sub_agent && !thread.is_hidden);
        is_shown.then(|| Meaning::Knows(Registration::mode(asks_by(settings))))
    }

    /// What is new of whether the session works.
    fn works(&mut self, thread: &str, status: &Value) -> Option<Meaning<String>> {
        if self.threads.get(thread).is_some_and(|thread| thread.is_hidden) {
            return None;
        }
        let worked = !self.busy.is_empty();
        match status["type"] == "active" {
            true => self.busy.insert(thread.to_owned()),
            false => self.busy.remove(thread),
        };
        let state = if worked { ReportedState::Idle } else { ReportedState::Working };
        (worked == self.busy.is_empty()).then(|| Meaning::Knows(Registration::state(state)))
    }

    fn requested(&mut self, id: String, method: &str, params: &Map<String, Value>) -> Meanings {
        let Terminal { kind, cwd, places } = &self.terminal;
        let place = RunContext { kind, cwd, places };
        let Some((asked, went_ahead)) = self.calls.requested(&id, method, params, &place) else {
            tracing::debug!(method, "Codex asks what we do not know; it is left to the terminal");
            return Vec::new();
        };
        let thread = params.get("threadId").and_then(Value::as_str).unwrap_or_default();
        let is_sub_agent = self.threads.get(thread).is_some_and(|thread| thread.is_sub_agent);
        let Asked { request, body, tool_use_id, cwd, can, .. } = asked;
        let open = Open { thread: thread.to_owned(), request: Some(request), is_answered: false };
        self.open.insert(id.clone(), open);
        let asks = Meaning::Asks(Asked {
            id,
            request: (),
            body,
            tool_use_id,
            sub_agent: is_sub_agent.then(|| "a sub-agent".to_owned()),
            cwd,
            can,
            outlives_turn: false,
        });
        went_ahead.map(shows).into_iter().chain([asks]).collect()
    }

    fn notified(&mut self, method: &str, params: &Value) -> Meanings {
        let thread = params["threadId"].as_str().unwrap_or_default();
        let item = &params["item"];
        match method {
            "thread/started" => self.note_thread(&params["thread"]),
            "thread/settings/updated" => {
                self.note_mode(thread, &params["threadSettings"]).into_iter().collect()
            }
            "thread/name/updated" => self.titled(thread, &params["threadName"]),
            "thread/status/changed" => {
                let joins = if params["status"]["type"] == "active" { self.join(thread) } else { Vec::new() };
                self.works(thread, &params["status"]).into_iter().chain(joins).collect()
            }
            "serverRequest/resolved" => self.resolved(&params["requestId"].to_string()),
            // Whoever goes on has decided on the plan of the turn before.
            "turn/started" => self.end_open(thread),
            "turn/completed" => self.turn_ended(thread),
            // The first prompt, until there is a better one.
            "item/started" if item["type"] == "userMessage" && self.has_no_title(thread) => {
                self.titled(thread, &item["content"][0]["text"])
            }
            "item/started" if item["type"] == "fileChange" => {
                self.cancel_if_changed(&item["id"], &item["changes"])
            }
            "item/fileChange/patchUpdated" => self.cancel_if_changed(&params["itemId"], &params["changes"]),
            "item/completed" if item["type"] == "plan" => self.planned(thread, item),
            "item/completed" => {
                let text = |field: &str| item[field].as_str().unwrap_or_default();
                self.calls.ended(text("id"), text("status")).map(shows).into_iter().collect()
            }
            "rawResponseItem/completed" => self.calls.output(item).map(shows).into_iter().collect(),
            // Notifications come with every release.
            _ => Vec::new(),
        }
    }

    fn has_no_title(&self, thread: &str) -> bool {
        self.threads.get(thread).is_some_and(|thread| !thread.has_title)
    }

    fn titled(&mut self, thread: &str, title: &Value) -> Meanings {
        let Some(thread) = self.threads.get_mut(thread) else { return Vec::new() };
        let Some(title) = title.as_str().map(str::trim).filter(|title| !title.is_empty()) else {
            return Vec::new();
        };
        thread.has_title = true;
        let title = Some(crate::agents::title(title).into());
        let known = Meaning::Knows(Registration { title, ..Registration::default() });
        let is_shown = !thread.is_sub_agent && !thread.is_hidden;
        is_shown.then_some(known).into_iter().collect()
    }

    /// Codex does not say who answered. What was not ours was the terminal's.
    fn resolved(&mut self, id: &str) -> Meanings {
        match self.open.remove(id) {
            Some(open) if !open.is_answered => vec![answered_there(id.to_owned())],
            Some(_) | None => Vec::new(),
        }
    }

    /// What a person is deciding on must not change under their hands; the terminal shows the new one.
    fn cancel_if_changed(&mut self, call: &Value, changes: &Value) -> Meanings {
        let id = self.calls.note_change(call, changes).filter(|id| self.open.contains_key(id));
        id.map(|id| Meaning::Cancels { id }).into_iter().collect()
    }

    /// A turn does not end while it waits, unless it was interrupted in the terminal.
    fn turn_ended(&mut self, thread: &str) -> Meanings {
        self.calls.turn_ended();
        let mut meanings = self.end_open(thread);
        meanings.extend(self.ask_about_plan(thread));
        meanings
    }

    fn end_open(&mut self, thread: &str) -> Meanings {
        let ended = self.open.extract_if(|_, open| open.thread == thread);
        ended.filter(|(_, open)| !open.is_answered).map(|(id, _)| answered_there(id)).collect()
    }

    fn planned(&mut self, thread: &str, item: &Value) -> Meanings {
        let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
        self.threads.entry(thread.to_owned()).or_default().plan = Some((text("id"), text("text")));
        Vec::new()
    }

    /// Shown, so that nobody wonders why the session waits.
    fn ask_about_plan(&mut self, thread: &str) -> Option<Meaning<String>> {
        let known = self.threads.get_mut(thread)?;
        let (item, text) = known.plan.take()?;
        let plan = Text::try_from(text).map(|plan| Body::Plan(Plan { plan })).map_err(str::to_owned);
        let (thread, id) = (thread.to_owned(), format!("plan {item}"));
        self.open.insert(id.clone(), Open { thread, request: None, is_answered: false });
        Some(Meaning::Asks(Asked {
            id,
            request: (),
            body: plan,
            tool_use_id: None,
            sub_agent: None,
            cwd: None,
            can: Can::elsewhere(PLAN_IS_THE_TERMINALS.to_owned()),
            outlives_turn: true,
        }))
    }
}

fn answered_there(id: String) -> Meaning<String> {
    Meaning::AnsweredElsewhere { id, answer: None }
}

/// Where two may answer, another outcome than ours means that the other was first.
fn shows(Shown { call, receipt, evidence }: Shown) -> Meaning<String> {
    let receipt = if receipt == Receipt::Disputed { Receipt::Superseded } else { receipt };
    Meaning::Shows { call, receipt, evidence }
}
