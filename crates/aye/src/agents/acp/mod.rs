//! Agents that speak the Agent Client Protocol on their standard input and output. The messages are read as they are:
//! the protocol's crate does not know the fields by which Qwen is answered.

mod outcome;
mod translate;

use crate::agents::driven::account::Tokens;
use crate::agents::driven::rpc::{INVALID_REQUEST, Incoming, Rpc, UNKNOWN_METHOD};
use crate::agents::driven::{AgentProtocol, Asked, Input, Meaning, Pipes, RunEvent, Turn, Written};
use crate::agents::lines::Line;
use crate::protocol::{Image, Resolution};
use aye_core::{Body, Receipt};
use outcome::Expected;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The version of the protocol that is spoken here.
const VERSION: u64 = 1;

/// How a run is started.
pub struct Start {
    /// The kind of agent, as config.toml names it.
    pub kind: String,
    pub arguments: &'static [&'static str],
    pub cwd: PathBuf,
    pub places: aye_policy::OwnPlaces,
    pub mode: Option<String>,
    pub resume: Option<String>,
}

pub struct Acp {
    start: Start,
    rpc: Rpc<Awaited>,
    /// A way to sign in with a key from the environment, until it was tried.
    key_method: Option<String>,
    session: Option<String>,
    /// Prompts that wait for the session, or for the turn before them to end.
    prompts: VecDeque<Value>,
    in_turn: bool,
    /// Permissions that wait for an answer.
    open: Vec<String>,
    expected: HashMap<String, Expected>,
    /// The words of the message that is being said.
    speaking: Option<(String, String)>,
    texts: u64,
}

#[derive(Clone, Copy)]
enum Awaited {
    Initialize,
    Authenticate,
    Session,
    Mode,
    Prompt,
}

/// What the agent offers as answers to a permission; the first of each kind.
#[derive(Debug, Default)]
pub struct Options {
    allow_once: Option<OfferedOption>,
    for_session: Option<OfferedOption>,
    always: Option<OfferedOption>,
    reject_once: Option<OfferedOption>,
}

#[derive(Debug)]
struct OfferedOption {
    id: String,
    name: String,
}

/// What is needed of a request to answer it.
pub struct Request {
    call: Option<String>,
    options: Options,
    is_question: bool,
}

type Meanings = Vec<Meaning<Acp>>;

impl AgentProtocol for Acp {
    type Message = String;
    type Request = Request;
    type Writer = Input;

    fn arguments(&self) -> Vec<OsString> {
        self.start.arguments.iter().map(OsString::from).collect()
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
        // It reads files and runs commands by itself.
        let can = json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let params = json!({ "protocolVersion": VERSION, "clientCapabilities": can, "clientInfo": client });
        vec![self.rpc.request(Awaited::Initialize, "initialize", params)]
    }

    fn prompt(&mut self, text: &str, image: Option<&Image>) -> Vec<String> {
        let mut prompt = vec![json!({ "type": "text", "text": text })];
        prompt.extend(
            image.map(|image| json!({ "type": "image", "mimeType": image.media_type, "data": image.data })),
        );
        self.prompts.push_back(prompt.into());
        self.next_turn().into_iter().collect()
    }

    fn interrupt(&mut self) -> Meanings {
        let Some(session) = self.session.clone().filter(|_| self.in_turn) else { return Vec::new() };
        let cancel = self.rpc.tell("session/cancel", json!({ "sessionId": session }));
        // Some agents do not end their turn before they are answered.
        let open = std::mem::take(&mut self.open).into_iter().flat_map(|id| {
            let reply = self.rpc.reply(&id, outcome::cancelled());
            [Meaning::Cancels { id }, Meaning::Write(reply)]
        });
        std::iter::once(Meaning::Write(cancel)).chain(open).collect()
    }

    fn read(&mut self, input: Line) -> Meanings {
        match self.rpc.read(input) {
            None => Vec::new(),
            Some(Incoming::Request { id, method, params }) if method == "session/request_permission" => {
                self.asks(id, &params)
            }
            Some(Incoming::Request { id, .. }) => {
                let reply = self.rpc.error(&id, UNKNOWN_METHOD, "aye does not know this request");
                vec![Meaning::Wants { id, reply }]
            }
            Some(Incoming::Tells { method, params }) if method == "session/update" => {
                self.updated(&params["update"])
            }
            Some(Incoming::Tells { .. }) => Vec::new(),
            Some(Incoming::Reply { to, result }) => self.replied(to, result),
            Some(Incoming::Faulty(faulty)) => self.rpc.faulty("The agent", faulty),
        }
    }

    fn outcome(
        &mut self,
        id: &str,
        request: Request,
        _body: &Body,
        resolution: &Resolution,
    ) -> Written<String> {
        self.open.retain(|open| open != id);
        let answer = resolution.outcome.answer.as_ref();
        let (reply, expected, interrupts) = match request.is_question {
            true => {
                let (reply, expected) = outcome::answers(&request.options, answer);
                (reply, expected, false)
            }
            false => outcome::decision(&request.options, answer),
        };
        let mut message = self.rpc.reply(id, reply);
        if let (true, Some(session)) = (interrupts, &self.session) {
            let cancel = self.rpc.tell("session/cancel", json!({ "sessionId": session }));
            message = format!("{message}\n{cancel}");
        }
        self.expected.extend(request.call.clone().map(|call| (call, expected)));
        Written { message, shown_by: request.call }
    }

    fn refusal(&mut self, id: &str, request: &Request, _why: &str) -> String {
        self.open.retain(|open| open != id);
        self.rpc.reply(id, outcome::refused(&request.options))
    }

    fn fault(&mut self, id: &str, why: &str) -> String {
        self.rpc.error(id, INVALID_REQUEST, why)
    }
}

impl Acp {
    pub fn new(start: Start) -> Self {
        Self {
            start,
            rpc: Rpc::naming_its_version(),
            key_method: None,
            session: None,
            prompts: VecDeque::new(),
            in_turn: false,
            open: Vec::new(),
            expected: HashMap::new(),
            speaking: None,
            texts: 0,
        }
    }

    fn open_session(&mut self) -> String {
        let mut params = json!({ "cwd": self.start.cwd, "mcpServers": [] });
        match &self.start.resume {
            Some(session) => {
                params["sessionId"] = session.as_str().into();
                self.rpc.request(Awaited::Session, "session/load", params)
            }
            None => self.rpc.request(Awaited::Session, "session/new", params),
        }
    }

    fn next_turn(&mut self) -> Option<String> {
        let session = self.session.clone().filter(|_| !self.in_turn)?;
        let prompt = self.prompts.pop_front()?;
        self.in_turn = true;
        Some(self.rpc.request(
            Awaited::Prompt,
            "session/prompt",
            json!({ "sessionId": session, "prompt": prompt }),
        ))
    }

    fn replied(&mut self, to: Awaited, result: Result<Value, String>) -> Meanings {
        match (to, result) {
            (Awaited::Initialize, Ok(result)) if result["protocolVersion"] == VERSION => {
                let methods = result["authMethods"].as_array().map(Vec::as_slice).unwrap_or_default();
                let by_key = methods.iter().find(|method| !method["_meta"]["api-key"].is_null());
                self.key_method = by_key.and_then(|method| method["id"].as_str()).map(str::to_owned);
                vec![Meaning::Write(self.open_session())]
            }
            (Awaited::Initialize, Ok(result)) => {
                let version = &result["protocolVersion"];
                vec![Meaning::Fails(format!(
                    "The agent speaks version {version} of its protocol, and aye {VERSION}."
                ))]
            }
            (Awaited::Authenticate, Ok(_)) => vec![Meaning::Write(self.open_session())],
            (Awaited::Session, Ok(result)) => self.opened(&result),
            (Awaited::Session, Err(why)) => match self.key_method.take() {
                Some(method) => {
                    let params = json!({ "methodId": method });
                    vec![Meaning::Write(self.rpc.request(Awaited::Authenticate, "authenticate", params))]
                }
                None => vec![Meaning::Fails(format!("The agent cannot open this session: {why}"))],
            },
            (Awaited::Initialize | Awaited::Authenticate, Err(why)) => {
                vec![Meaning::Fails(format!("The agent cannot be started: {why}"))]
            }
            (Awaited::Mode, Err(why)) => {
                vec![Meaning::Fails(format!("The agent does not take this permission mode: {why}"))]
            }
            (Awaited::Prompt, result) => self.turn_ended(result),
            (Awaited::Mode, Ok(_)) => self.begin_turn(),
        }
    }

    fn opened(&mut self, result: &Value) -> Meanings {
        let named = result["sessionId"].as_str().map(str::to_owned).or(self.start.resume.clone());
        let Some(session) = named else {
            return vec![Meaning::Fails("The agent opened a session without a name. The run ends.".into())];
        };
        self.session = Some(session.clone());
        // What is said while a session is loaded was said before.
        self.speaking = None;
        let known = Meaning::Session { id: Some(session.clone()), cwd: None };
        let modes = result["modes"]["availableModes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let current = result["modes"]["currentModeId"].as_str();
        let asks = modes.iter().any(|mode| mode["id"] == "default").then_some("default");
        let wanted = self.start.mode.as_deref().or(asks).filter(|wanted| Some(*wanted) != current);
        let next = match wanted.map(str::to_owned) {
            Some(mode) => {
                let params = json!({ "sessionId": session, "modeId": mode });
                vec![Meaning::Write(self.rpc.request(Awaited::Mode, "session/set_mode", params))]
            }
            None => self.begin_turn(),
        };
        std::iter::once(known).chain(next).collect()
    }

    fn begin_turn(&mut self) -> Meanings {
        let line = self.next_turn().map(Meaning::Write);
        line.into_iter().flat_map(|line| [Meaning::Works, line]).collect()
    }

    fn asks(&mut self, id: String, params: &Value) -> Meanings {
        let call = &params["toolCall"];
        let options = Options::read(&params["options"]);
        let questions = translate::questions(call);
        let is_question = questions.is_some();
        let (body, can) = match questions {
            Some(questions) => (questions.map(Body::Question), translate::can_answer(&self.start.kind)),
            None => {
                (translate::permission(call, &options, &self.start), translate::can_permit(&self.start.kind))
            }
        };
        self.open.push(id.clone());
        let call = call["toolCallId"].as_str().map(str::to_owned);
        let asked = Asked {
            id,
            request: Request { call: call.clone(), options, is_question },
            body,
            tool_use_id: call,
            sub_agent: None,
            cwd: None,
            can,
            outlives_turn: false,
        };
        self.said().into_iter().chain([Meaning::Works, Meaning::Asks(asked)]).collect()
    }

    fn updated(&mut self, update: &Value) -> Meanings {
        if self.session.is_none() {
            return Vec::new();
        }
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => {
                let delta = update["content"]["text"].as_str().unwrap_or_default().to_owned();
                if delta.is_empty() {
                    return Vec::new();
                }
                if self.speaking.is_none() {
                    self.texts += 1;
                    self.speaking = Some((format!("t{}", self.texts), String::new()));
                }
                let Some((id, words)) = &mut self.speaking else { return Vec::new() };
                words.push_str(&delta);
                vec![Meaning::Works, Meaning::Tells(RunEvent::Speaks { id: id.clone(), delta })]
            }
            Some("tool_call") => {
                let Some(id) = update["toolCallId"].as_str().map(str::to_owned) else { return Vec::new() };
                let (name, input) = translate::tool_and_input(update, &self.start.kind);
                let input = Value::Object(input);
                let started = RunEvent::ToolStarted { id, name, input, sub_agent: None };
                self.said()
                    .into_iter()
                    .chain([Meaning::Tells(started)])
                    .chain(self.call_updated(update))
                    .collect()
            }
            Some("tool_call_update") => self.call_updated(update),
            _ => Vec::new(),
        }
    }

    fn call_updated(&mut self, update: &Value) -> Meanings {
        let Some(id) = update["toolCallId"].as_str().map(str::to_owned) else { return Vec::new() };
        let status = update["status"].as_str().unwrap_or_default();
        let judged = self.expected.get(&id).and_then(|expected| outcome::judge(expected, update));
        let shows = judged.map(|(receipt, evidence)| {
            self.expected.remove(&id);
            Meaning::Shows { call: id.clone(), receipt, evidence }
        });
        let ended = matches!(status, "completed" | "failed").then(|| {
            let blocks = update["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            let text = blocks.iter().filter_map(|block| block["content"]["text"].as_str()).collect();
            let failed = status == "failed";
            Meaning::Tells(RunEvent::ToolEnded {
                id,
                failed,
                text,
                images: Vec::new(),
                took: None,
                sub_agent: None,
            })
        });
        ended.into_iter().chain(shows).collect()
    }

    /// The message that has been said, once something else comes.
    fn said(&mut self) -> Option<Meaning<Self>> {
        self.speaking.take().map(|(id, text)| Meaning::Tells(RunEvent::Said { id, text }))
    }

    fn turn_ended(&mut self, result: Result<Value, String>) -> Meanings {
        self.in_turn = false;
        self.open.clear();
        let text = self.speaking.as_ref().map(|(_, text)| text.clone());
        let said = self.said();
        // Some agents say nothing more of a call that was refused.
        let refused =
            self.expected.extract_if(|_, expected| *expected == Expected::Refused).map(|(call, _)| {
                let evidence = "the turn has ended, and the agent did not tell of this call again".to_owned();
                Meaning::Shows { call, receipt: Receipt::Confirmed, evidence }
            });
        let mut meanings: Vec<_> = said.into_iter().chain(refused).collect();
        let turn = match result {
            Ok(_) => Turn { text, tokens: Tokens::default(), ..Turn::default() },
            Err(why) => Turn { failed: true, text: Some(why), ..Turn::default() },
        };
        meanings.push(Meaning::TurnEnded(turn));
        meanings.extend(self.begin_turn());
        meanings
    }
}

impl Options {
    fn read(options: &Value) -> Self {
        let mut read = Self::default();
        for option in options.as_array().into_iter().flatten() {
            let text = |field: &str| option[field].as_str().unwrap_or_default().to_owned();
            let choice = OfferedOption { id: text("optionId"), name: text("name") };
            let place = match option["kind"].as_str() {
                Some("allow_once") => &mut read.allow_once,
                Some("allow_always") if choice.name.to_lowercase().contains("session") => {
                    &mut read.for_session
                }
                Some("allow_always") => &mut read.always,
                Some("reject_once") => &mut read.reject_once,
                _ => continue,
            };
            place.get_or_insert(choice);
        }
        read
    }
}
