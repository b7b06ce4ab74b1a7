//! Codex: `codex app-server`, what its messages mean, and how it is driven without its terminal.

mod calls;
mod command;
mod diff;
mod joined;
#[cfg(test)]
mod joined_tests;
mod outcome;
pub mod rollout;
mod server;
#[cfg(test)]
mod tests;
mod translate;

pub use joined::JoinedCodex;
pub use server::Server;

use crate::agents::driven::account::Tokens;
use crate::agents::driven::rpc::{INVALID_REQUEST, Incoming, Rpc, UNKNOWN_METHOD, trouble};
use crate::agents::driven::{AgentProtocol, Asked, Input, Meaning, Pipes, RunEvent, Start, Turn, Written};
use crate::agents::lines::Line;
use crate::protocol::{Image, Registration, Resolution};
use aye_core::{AsksFor, Body};
use calls::{Calls, Request};
use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The reviewer of requests: the person, and no model.
const REVIEWER: &str = "user";

/// Reads from the settings of a session how much Codex asks for.
fn asks_by(settings: &Value) -> AsksFor {
    let by_person = !has_other(settings, "approvalsReviewer", REVIEWER);
    match (&settings["approvalPolicy"], by_person) {
        (Value::Null, _) => AsksFor::Unknown,
        (policy, _) if policy == "never" => AsksFor::Nothing,
        (policy, true) if policy == "untrusted" => AsksFor::Everything,
        _ => AsksFor::Some,
    }
}

/// True if the setting is there and is another one.
fn has_other(settings: &Value, name: &str, expected: &str) -> bool {
    !settings[name].is_null() && settings[name] != expected
}

pub struct Codex {
    start: Start,
    rpc: Rpc<Awaited>,
    /// Codex's names for the session and for the turn that goes on.
    thread: Option<String>,
    turn: Option<String>,
    /// What waits for the session to be there.
    prompts: Vec<Value>,
    prompts_sent: u64,
    interrupts: bool,
    calls: Calls,
    /// The files to look into for what the model is told.
    rollouts: Option<mpsc::Sender<PathBuf>>,
    tokens: Tokens,
    /// What Codex said last in this turn.
    last_words: Option<String>,
}

#[derive(Clone, Copy)]
enum Awaited {
    Initialize,
    Thread,
    Turn,
    Interrupt,
}

type Meanings = Vec<Meaning<Codex>>;

impl AgentProtocol for Codex {
    type Input = Line;
    type Message = String;
    type Request = Request;
    type Writer = Input;

    fn arguments(&self) -> Vec<OsString> {
        // Without it, Codex asks questions in its plan mode alone.
        let questions = ["-c", "features.default_mode_request_user_input=true"];
        ["app-server"].into_iter().chain(questions).map(OsString::from).collect()
    }

    async fn connect(
        &mut self,
        pipes: Pipes,
        inputs: mpsc::Sender<Line>,
        tasks: &mut JoinSet<()>,
    ) -> anyhow::Result<Input> {
        // In a resumed session Codex sends no notification of what the model is told, so the rollout file is followed.
        if self.start.resume.is_some() {
            let (files, to_follow) = mpsc::channel(1);
            tasks.spawn(rollout::follow(to_follow, inputs.clone()).boxed());
            self.rollouts = Some(files);
        }
        Ok(pipes.by_lines(inputs, tasks))
    }

    fn begin(&mut self) -> Vec<String> {
        let client = json!({ "name": "aye", "title": "aye", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "clientInfo": client, "capabilities": { "experimentalApi": true } });
        vec![self.rpc.request(Awaited::Initialize, "initialize", params)]
    }

    fn prompt(&mut self, text: &str, image: Option<&Image>) -> Vec<String> {
        let mut input = vec![json!({ "type": "text", "text": text })];
        input.extend(image.map(|image| {
            let url = format!("data:{};base64,{}", image.media_type, image.data);
            json!({ "type": "image", "url": url })
        }));
        self.prompts.push(input.into());
        self.start_turns()
    }

    fn interrupt(&mut self) -> Meanings {
        self.interrupts = true;
        self.interrupt_turn().map(Meaning::Write).into_iter().collect()
    }

    fn read(&mut self, input: Line) -> Meanings {
        match self.rpc.read(input) {
            None => Vec::new(),
            Some(Incoming::Request { id, method, params }) => self.requested(id, &method, params),
            Some(Incoming::Tells { method, params }) => self.notified(&method, &params),
            Some(Incoming::Reply { to, result }) => self.replied(to, result),
            Some(Incoming::Faulty(faulty)) => self.rpc.faulty("Codex", faulty),
        }
    }

    fn outcome(
        &mut self,
        id: &str,
        request: Request,
        body: &Body,
        resolution: &Resolution,
    ) -> Written<String> {
        let (reply, shown_by) = self.calls.answered(request, body, resolution.outcome.answer.as_ref());
        Written { message: self.rpc.reply(id, reply), shown_by }
    }

    fn refusal(&mut self, id: &str, request: &Request, _why: &str) -> String {
        let reply = match request {
            Request::Permission { .. } => json!({ "decision": "decline" }),
            Request::Questions { ids, .. } => outcome::unanswered(ids, "(this could not be asked)"),
        };
        self.rpc.reply(id, reply)
    }

    fn fault(&mut self, id: &str, why: &str) -> String {
        self.rpc.error(id, INVALID_REQUEST, why)
    }
}

impl Codex {
    pub fn new(start: Start) -> Self {
        Self {
            start,
            rpc: Rpc::default(),
            thread: None,
            turn: None,
            prompts: Vec::new(),
            prompts_sent: 0,
            interrupts: false,
            calls: Calls::default(),
            rollouts: None,
            tokens: Tokens::default(),
            last_words: None,
        }
    }

    fn start_turns(&mut self) -> Vec<String> {
        let Some(thread) = self.thread.clone() else { return Vec::new() };
        let prompts = std::mem::take(&mut self.prompts);
        let mut start = |input| {
            self.prompts_sent += 1;
            let name = format!("aye-{}", self.prompts_sent);
            let params = json!({ "threadId": thread, "input": input, "clientUserMessageId": name });
            self.rpc.request(Awaited::Turn, "turn/start", params)
        };
        prompts.into_iter().map(&mut start).collect()
    }

    /// Once it is known which turn that is.
    fn interrupt_turn(&mut self) -> Option<String> {
        let (thread, turn) = (self.thread.clone()?, self.turn.clone()?);
        std::mem::take(&mut self.interrupts).then(|| {
            self.rpc.request(
                Awaited::Interrupt,
                "turn/interrupt",
                json!({ "threadId": thread, "turnId": turn }),
            )
        })
    }

    /// The approval policy and the sandbox of this run's mode.
    fn policy_and_sandbox(&self) -> (&'static str, &'static str) {
        match self.start.mode.as_deref() {
            Some("on-request") => ("on-request", "workspace-write"),
            Some("never") => ("never", "workspace-write"),
            Some("full-access") => ("never", "danger-full-access"),
            _ => ("untrusted", "workspace-write"),
        }
    }

    fn open_thread(&mut self) -> String {
        let (policy, sandbox) = self.policy_and_sandbox();
        // A reviewer of Codex's own would answer in the person's place.
        let mut params = json!({
            "cwd": self.start.cwd, "approvalPolicy": policy, "sandbox": sandbox, "approvalsReviewer": REVIEWER,
        });
        match &self.start.resume {
            Some(session) => {
                params["threadId"] = session.as_str().into();
                params["excludeTurns"] = true.into();
                self.rpc.request(Awaited::Thread, "thread/resume", params)
            }
            None => {
                params["experimentalRawEvents"] = true.into();
                self.rpc.request(Awaited::Thread, "thread/start", params)
            }
        }
    }

    fn replied(&mut self, to: Awaited, result: Result<Value, String>) -> Meanings {
        match (to, result) {
            (Awaited::Initialize, Ok(_)) => {
                let initialized = self.rpc.tell("initialized", json!({}));
                vec![Meaning::Write(initialized), Meaning::Write(self.open_thread())]
            }
            (Awaited::Thread, Ok(result)) => match result["thread"]["id"].as_str() {
                None => vec![Meaning::Fails("Codex opened a session without a name. The run ends.".into())],
                Some(thread) => {
                    self.thread = Some(thread.to_owned());
                    let cwd = result["thread"]["cwd"].as_str().map(str::to_owned);
                    if let (Some(files), Some(path)) = (&self.rollouts, result["thread"]["path"].as_str()) {
                        // There is one file, and room for one.
                        drop(files.try_send(path.into()));
                    }
                    let session = Meaning::Session { id: self.thread.clone(), cwd };
                    let known = Meaning::Knows(Registration::mode(asks_by(&result)));
                    let (policy, _) = self.policy_and_sandbox();
                    if has_other(&result, "approvalPolicy", policy)
                        || has_other(&result, "approvalsReviewer", REVIEWER)
                    {
                        let words = "Codex did not take the permission mode of this run. The run ends.";
                        return vec![session, known, Meaning::Fails(words.into())];
                    }
                    let turns = self.start_turns().into_iter().map(Meaning::Write);
                    [session, known].into_iter().chain(turns).collect()
                }
            },
            (Awaited::Initialize | Awaited::Thread, Err(why)) => {
                vec![Meaning::Fails(format!("Codex cannot open this session: {why}"))]
            }
            (Awaited::Turn, Ok(result)) => {
                self.turn = result["turn"]["id"].as_str().map(str::to_owned).or(self.turn.take());
                self.interrupt_turn().into_iter().map(Meaning::Write).collect()
            }
            (Awaited::Turn, Err(why)) => {
                vec![Meaning::TurnEnded(Turn { failed: true, text: Some(why), ..Turn::default() })]
            }
            (Awaited::Interrupt, Err(why)) => {
                vec![trouble(format!("Codex was not interrupted: {why}"))]
            }
            (Awaited::Interrupt, Ok(_)) => Vec::new(),
        }
    }

    fn requested(&mut self, id: String, method: &str, params: Value) -> Meanings {
        let Value::Object(params) = params else {
            let why = "its parameters are no object";
            let reply = self.rpc.error(&id, INVALID_REQUEST, why);
            return vec![Meaning::Wants { id, reply }, trouble(format!("Codex made a request, but {why}."))];
        };
        let requested = self.calls.requested(&id, method, &params, &self.start.context());
        let Some((asked, went_ahead)) = requested else {
            let reply = self.rpc.error(&id, UNKNOWN_METHOD, "aye does not know this request");
            return vec![
                Meaning::Wants { id, reply },
                trouble(format!("Codex made a request that aye does not know, {method}; it was refused.")),
            ];
        };
        let asks = Meaning::Asks(self.with_sub_agent(asked, &params));
        went_ahead.map(Meaning::from).into_iter().chain([Meaning::Works, asks]).collect()
    }

    fn with_sub_agent(&self, asked: Asked<Request>, params: &Map<String, Value>) -> Asked<Request> {
        // Sub-agents have sessions of their own, and go on after the turn.
        let thread = params.get("threadId").and_then(Value::as_str);
        let another = thread.is_some_and(|thread| Some(thread) != self.thread.as_deref());
        Asked { sub_agent: another.then(|| "a sub-agent".to_owned()), outlives_turn: another, ..asked }
    }

    fn notified(&mut self, method: &str, params: &Value) -> Meanings {
        let ours = self.thread.is_some() && params["threadId"].as_str() == self.thread.as_deref();
        let item = &params["item"];
        match method {
            "thread/settings/updated" if ours => {
                vec![Meaning::Knows(Registration::mode(asks_by(&params["threadSettings"])))]
            }
            "serverRequest/resolved" => vec![Meaning::Cancels { id: params["requestId"].to_string() }],
            "turn/started" if ours => {
                self.turn = params["turn"]["id"].as_str().map(str::to_owned);
                let interrupt = self.interrupt_turn().map(Meaning::Write);
                [Some(Meaning::Works), interrupt].into_iter().flatten().collect()
            }
            "turn/completed" if ours => self.turn_ended(&params["turn"]),
            "item/started" => self.item_started(item, ours),
            "item/fileChange/patchUpdated" => self.refuse_if_changed(&params["itemId"], &params["changes"]),
            "item/completed" => self.item_ended(item, ours),
            "rawResponseItem/completed" => self.calls.output(item).map(Meaning::from).into_iter().collect(),
            "item/agentMessage/delta" if ours => {
                let text = |field: &str| params[field].as_str().map(str::to_owned);
                let speaks = text("itemId").zip(text("delta"));
                speaks.map(|(id, delta)| Meaning::Tells(RunEvent::Speaks { id, delta })).into_iter().collect()
            }
            "thread/tokenUsage/updated" if ours => {
                let last = &params["tokenUsage"]["last"];
                let count = |field: &str| last[field].as_u64().unwrap_or_default();
                self.tokens.input += count("inputTokens").saturating_sub(count("cachedInputTokens"));
                self.tokens.output += count("outputTokens");
                self.tokens.cache_read += count("cachedInputTokens");
                self.tokens.cache_written += count("cacheWriteInputTokens");
                Vec::new()
            }
            // Notifications come with every release.
            _ => Vec::new(),
        }
    }

    fn item_started(&mut self, item: &Value, ours: bool) -> Meanings {
        let mut meanings = vec![];
        if item["type"] == "userMessage" && item["clientId"].is_string() {
            meanings.push(Meaning::TookPrompt);
        }
        if item["type"] == "fileChange" {
            meanings.extend(self.refuse_if_changed(&item["id"], &item["changes"]));
        }
        if let (Some(id), Some((name, input))) = (item["id"].as_str(), translate::tool_of_item(item)) {
            let sub_agent = (!ours).then(|| "a sub-agent".to_owned());
            let started = RunEvent::ToolStarted { id: id.to_owned(), name, input, sub_agent };
            meanings.push(Meaning::Tells(started));
        }
        meanings
    }

    /// What a person is deciding on must not change under their hands.
    fn refuse_if_changed(&mut self, call: &Value, changes: &Value) -> Meanings {
        let Some(id) = self.calls.note_change(call, changes) else { return Vec::new() };
        let decline = self.rpc.reply(&id, json!({ "decision": "decline" }));
        let words = "Codex changed what it asks for while somebody decided, so it was refused.";
        vec![Meaning::Cancels { id }, Meaning::Write(decline), trouble(words.to_owned())]
    }

    fn item_ended(&mut self, item: &Value, ours: bool) -> Meanings {
        let Some(id) = item["id"].as_str().map(str::to_owned) else { return Vec::new() };
        let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
        if item["type"] == "agentMessage" {
            let said = RunEvent::Said { id, text: text("text") };
            self.last_words = Some(text("text")).filter(|_| ours).or(self.last_words.take());
            return ours.then_some(Meaning::Tells(said)).into_iter().collect();
        }
        let status = text("status");
        let shows = self.calls.ended(&id, &status).map(Meaning::from);
        let ended = translate::tool_of_item(item).map(|_| {
            let failed = status != "completed";
            Meaning::Tells(RunEvent::ToolEnded {
                id,
                failed,
                text: text("aggregatedOutput"),
                images: Vec::new(),
                took: None,
                sub_agent: None,
            })
        });
        ended.into_iter().chain(shows).collect()
    }

    fn turn_ended(&mut self, turn: &Value) -> Meanings {
        (self.turn, self.interrupts) = (None, false);
        self.calls.turn_ended();
        let failed = turn["status"] == "failed";
        let error = turn["error"]["message"].as_str().map(str::to_owned);
        let ended = Turn {
            failed,
            text: error.filter(|_| failed).or(self.last_words.take()),
            cost: None,
            turns: None,
            duration_ms: turn["durationMs"].as_u64(),
            tokens: std::mem::take(&mut self.tokens),
        };
        vec![Meaning::TurnEnded(ended)]
    }
}
