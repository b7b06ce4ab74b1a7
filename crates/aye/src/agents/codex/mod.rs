//! Codex without its terminal: `codex app-server`, and what its messages mean.

mod command;
mod diff;
mod outcome;
#[cfg(test)]
mod tests;
mod translate;

use crate::agents::driven::account::Tokens;
use crate::agents::driven::rpc::{INVALID_REQUEST, Incoming, Rpc, UNKNOWN_METHOD, trouble};
use crate::agents::driven::tools::RunContext;
use crate::agents::driven::{AgentProtocol, Asked, Input, Meaning, Pipes, RunEvent, Turn, Written};
use crate::agents::lines::Line;
use crate::protocol::{Image, Resolution};
use aye_core::{Body, Can, Receipt};
use outcome::Expected;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Changes of files that have begun and not ended; of more than these nobody is shown what they do.
const MOST_CHANGES: usize = 1000;

/// How a run is started.
pub struct Start {
    /// The kind of agent, as config.toml names it.
    pub kind: String,
    pub cwd: PathBuf,
    pub places: aye_policy::OwnPlaces,
    pub mode: Option<String>,
    pub resume: Option<String>,
}

pub struct Codex {
    start: Start,
    rpc: Rpc<Awaited>,
    /// Codex's names for the session and for the turn that goes on.
    thread: Option<String>,
    turn: Option<String>,
    /// What waits for the session to be there.
    prompts: Vec<Value>,
    asked_prompts: u64,
    interrupts: bool,
    /// The changes that Codex told of, by call, and the request that showed them to a person.
    changes: HashMap<String, Change>,
    /// What must still be shown, by call.
    expected: HashMap<String, Expected>,
    tokens: Tokens,
    said: Option<String>,
}

#[derive(Clone, Copy)]
enum Awaited {
    Initialize,
    Thread,
    Turn,
    Interrupt,
}

struct Change {
    told: Value,
    asked: Option<String>,
}

/// What is needed of a request to answer it.
pub enum Request {
    /// A permission for this call.
    Permission { call: Option<String> },
    /// Questions by these names.
    Questions { call: Option<String>, ids: Vec<String> },
}

type Meanings = Vec<Meaning<Codex>>;

impl AgentProtocol for Codex {
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
            Some(Incoming::Tells { method, params }) => self.told(&method, &params),
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
        let answer = resolution.outcome.answer.as_ref();
        let ((reply, expected), call) = match request {
            Request::Permission { call } => (outcome::decision(answer), call),
            Request::Questions { call, ids } => (outcome::answers(&ids, body, answer), call),
        };
        self.expected.extend(call.clone().map(|call| (call, expected)));
        Written { message: self.rpc.reply(id, reply), shown_by: call }
    }

    fn refusal(&mut self, id: &str, request: &Request, _why: &str) -> String {
        let reply = match request {
            Request::Permission { .. } => json!({ "decision": "decline" }),
            Request::Questions { .. } => json!({ "answers": {} }),
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
            asked_prompts: 0,
            interrupts: false,
            changes: HashMap::new(),
            expected: HashMap::new(),
            tokens: Tokens::default(),
            said: None,
        }
    }

    fn start_turns(&mut self) -> Vec<String> {
        let Some(thread) = self.thread.clone() else { return Vec::new() };
        let prompts = std::mem::take(&mut self.prompts);
        let mut start = |input| {
            self.asked_prompts += 1;
            let name = format!("aye-{}", self.asked_prompts);
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

    fn open_thread(&mut self) -> String {
        let (policy, sandbox) = match self.start.mode.as_deref() {
            Some("on-request") => ("on-request", "workspace-write"),
            Some("never") => ("never", "workspace-write"),
            Some("full-access") => ("never", "danger-full-access"),
            _ => ("untrusted", "workspace-write"),
        };
        // A reviewer of Codex's own would answer in the person's place.
        let mut params = json!({
            "cwd": self.start.cwd, "approvalPolicy": policy, "sandbox": sandbox, "approvalsReviewer": "user",
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
                    let session = Meaning::Session { id: self.thread.clone(), cwd };
                    std::iter::once(session)
                        .chain(self.start_turns().into_iter().map(Meaning::Write))
                        .collect()
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
        let call = params.get("itemId").and_then(Value::as_str).map(str::to_owned);
        // Several requests may be about one call, and only those that are alone are shown by it.
        let shown_by = call.clone().filter(|_| params.get("approvalId").is_none_or(Value::is_null));
        let taken = self.again(call.as_deref());
        let place = RunContext { kind: &self.start.kind, cwd: &self.start.cwd, places: &self.start.places };
        let (request, body, can) = match method {
            "item/commandExecution/requestApproval" => {
                let body = translate::command(&params, &place);
                (Request::Permission { call: shown_by }, body, translate::can_permit())
            }
            "item/fileChange/requestApproval" => {
                let told = call.as_ref().and_then(|call| self.changes.get(call)).map(|change| &change.told);
                let body = translate::change(&params, told, &place);
                if let Some(change) = call.as_ref().and_then(|call| self.changes.get_mut(call)) {
                    change.asked = Some(id.clone());
                }
                (Request::Permission { call: shown_by }, body, translate::can_permit())
            }
            "item/tool/requestUserInput" => {
                let (ids, body) = translate::questions(&params).map_or_else(
                    |why| (Vec::new(), Err(why)),
                    |(ids, questions)| (ids, Ok(Body::Question(questions))),
                );
                (Request::Questions { call: shown_by, ids }, body, translate::can_answer())
            }
            _ => {
                let reply = self.rpc.error(&id, UNKNOWN_METHOD, "aye does not know this request");
                return vec![
                    Meaning::Wants { id, reply },
                    trouble(format!(
                        "Codex made a request that aye does not know, {method}; it was refused."
                    )),
                ];
            }
        };
        let asked = self.asked(id, request, body, can, call, &params);
        taken.into_iter().chain([Meaning::Works, Meaning::Asks(asked)]).collect()
    }

    fn asked(
        &self,
        id: String,
        request: Request,
        body: Result<Body, String>,
        can: Can,
        call: Option<String>,
        params: &Map<String, Value>,
    ) -> Asked<Request> {
        let text = |field: &str| params.get(field).and_then(Value::as_str);
        // Sub-agents have sessions of their own, and go on after the turn.
        let another = text("threadId").is_some_and(|thread| Some(thread) != self.thread.as_deref());
        Asked {
            id,
            request,
            body,
            tool_use_id: call,
            sub_agent: another.then(|| "a sub-agent".to_owned()),
            cwd: text("cwd").map(PathBuf::from),
            can,
            outlives_turn: another,
        }
    }

    /// Codex asks once more about a call that was allowed, for instance to run it outside of its sandbox.
    fn again(&mut self, call: Option<&str>) -> Option<Meaning<Self>> {
        let call = call?.to_owned();
        let allowed = self.expected.get(&call) == Some(&Expected::Allowed);
        allowed.then(|| {
            self.expected.remove(&call);
            let evidence = "Codex went ahead, and asks again about the same call".to_owned();
            Meaning::Shows { call, receipt: Receipt::Confirmed, evidence }
        })
    }

    fn told(&mut self, method: &str, params: &Value) -> Meanings {
        let ours = self.thread.is_some() && params["threadId"].as_str() == self.thread.as_deref();
        let item = &params["item"];
        match method {
            "serverRequest/resolved" => vec![Meaning::Cancels { id: params["requestId"].to_string() }],
            "turn/started" if ours => {
                self.turn = params["turn"]["id"].as_str().map(str::to_owned);
                let interrupt = self.interrupt_turn().map(Meaning::Write);
                [Some(Meaning::Works), interrupt].into_iter().flatten().collect()
            }
            "turn/completed" if ours => self.turn_ended(&params["turn"]),
            "item/started" => self.item_started(item, ours),
            "item/fileChange/patchUpdated" => self.changed(&params["itemId"], &params["changes"]),
            "item/completed" => self.item_ended(item, ours),
            "rawResponseItem/completed" => self.output(item),
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
            meanings.extend(self.changed(&item["id"], &item["changes"]));
        }
        if let (Some(id), Some((name, input))) = (item["id"].as_str(), translate::tool_of_item(item)) {
            let sub_agent = (!ours).then(|| "a sub-agent".to_owned());
            let started = RunEvent::ToolStarted { id: id.to_owned(), name, input, sub_agent };
            meanings.push(Meaning::Tells(started));
        }
        meanings
    }

    /// What a person is deciding on must not change under their hands.
    fn changed(&mut self, call: &Value, changes: &Value) -> Meanings {
        let Some(call) = call.as_str() else { return Vec::new() };
        let room = self.changes.len() < MOST_CHANGES;
        match self.changes.get_mut(call) {
            Some(known) if known.told == *changes => Vec::new(),
            Some(known) => {
                known.told = changes.clone();
                let Some(id) = known.asked.take() else { return Vec::new() };
                let decline = self.rpc.reply(&id, json!({ "decision": "decline" }));
                let words = "Codex changed what it asks for while somebody decided, so it was refused.";
                vec![Meaning::Cancels { id }, Meaning::Write(decline), trouble(words.to_owned())]
            }
            None => {
                let change = Change { told: changes.clone(), asked: None };
                room.then(|| self.changes.insert(call.to_owned(), change));
                Vec::new()
            }
        }
    }

    fn item_ended(&mut self, item: &Value, ours: bool) -> Meanings {
        let Some(id) = item["id"].as_str().map(str::to_owned) else { return Vec::new() };
        let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
        if item["type"] == "agentMessage" {
            let said = RunEvent::Said { id, text: text("text") };
            self.said = Some(text("text")).filter(|_| ours).or(self.said.take());
            return ours.then_some(Meaning::Tells(said)).into_iter().collect();
        }
        self.changes.remove(&id);
        let status = text("status");
        let judged = self.expected.get(&id).and_then(|expected| outcome::judge_item(expected, &status));
        let shows = judged.map(|judged| self.shows(&id, judged));
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

    /// What the model is told of a call.
    fn output(&mut self, item: &Value) -> Meanings {
        let is_output = item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output"));
        let Some(call) = item["call_id"].as_str().filter(|_| is_output) else { return Vec::new() };
        let judged =
            self.expected.get(call).and_then(|expected| outcome::judge_output(expected, &item["output"]));
        judged.map(|judged| self.shows(call, judged)).into_iter().collect()
    }

    fn shows(&mut self, call: &str, (receipt, evidence): (Receipt, String)) -> Meaning<Self> {
        self.expected.remove(call);
        Meaning::Shows { call: call.to_owned(), receipt, evidence }
    }

    fn turn_ended(&mut self, turn: &Value) -> Meanings {
        (self.turn, self.interrupts) = (None, false);
        self.changes.clear();
        let failed = turn["status"] == "failed";
        let error = turn["error"]["message"].as_str().map(str::to_owned);
        let ended = Turn {
            failed,
            text: error.filter(|_| failed).or(self.said.take()),
            cost: None,
            turns: None,
            duration_ms: turn["durationMs"].as_u64(),
            tokens: std::mem::take(&mut self.tokens),
        };
        vec![Meaning::TurnEnded(ended)]
    }
}
