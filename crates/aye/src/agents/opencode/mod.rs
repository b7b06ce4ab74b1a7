//! OpenCode without its terminal: `opencode serve`, and what its events mean.

mod account;
mod edit;
mod outcome;
mod requests;
mod rules;
mod serve;
mod translate;

use crate::agents::driven::rpc::trouble;
use crate::agents::driven::tools::RunContext;
use crate::agents::driven::{AgentProtocol, Asked, Meaning, Pipes, Written};
use crate::agents::lines::Line;
use crate::protocol::{Image, Resolution};
use account::Account;
use aye_core::{Body, Receipt};
use hyper::Method;
use outcome::{Answered, Expected};
use requests::{ReportedAnswer, Requests, dismissed};
use serde_json::{Map, Value, json};
use serve::{Awaited, Call, Caller, Incoming, Then, USER};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use translate::ToolCall;

/// Calls that have begun and not ended; what is asked about any more than these is unclear.
const MOST_CALLS: usize = 1000;

/// How a run is started.
pub struct Start {
    /// The kind of agent, as config.toml names it.
    pub kind: String,
    pub cwd: PathBuf,
    pub places: aye_policy::OwnPlaces,
    pub mode: Option<String>,
    pub resume: Option<String>,
}

impl Start {
    fn place(&self) -> RunContext<'_> {
        RunContext { kind: &self.kind, cwd: &self.cwd, places: &self.places }
    }
}

pub struct OpenCode {
    start: Start,
    password: String,
    rules: Vec<rules::Rule>,
    session: Option<String>,
    /// What waits for the session to be there.
    prompts: Vec<Value>,
    in_turn: bool,
    /// The turn is to end, or just did.
    interrupted: bool,
    requests: Requests,
    /// The request whose refusal ends the turn, once OpenCode has taken it.
    ends_turn: Option<String>,
    /// Calls that have begun, by message and call.
    calls: HashMap<String, RunningCall>,
    /// Requests about calls whose input has not been told yet.
    early: Vec<Value>,
    account: Account,
}

/// A call that has begun.
struct RunningCall {
    call: ToolCall,
    /// Whether it was asked for.
    asked: bool,
    /// What was allowed of it: further requests for the same are not shown again.
    allowed: Option<Body>,
    expected: Option<Expected>,
}

/// What is needed of a request to answer it.
pub struct Request {
    call: Option<String>,
    /// How many questions; none for a permission.
    questions: Option<usize>,
}

type Meanings = Vec<Meaning<OpenCode>>;

impl AgentProtocol for OpenCode {
    type Message = Call;
    type Request = Request;
    type Writer = Caller;

    const ENDS_WITH_INPUT: bool = false;

    fn arguments(&self) -> Vec<OsString> {
        ["serve", "--hostname", "127.0.0.1"].map(OsString::from).into()
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("OPENCODE_SERVER_USERNAME", USER.to_owned()),
            ("OPENCODE_SERVER_PASSWORD", self.password.clone()),
            ("OPENCODE_PERMISSION", rules::for_environment(&self.rules).to_string()),
        ]
    }

    async fn connect(
        &mut self,
        pipes: Pipes,
        inputs: mpsc::Sender<Line>,
        tasks: &mut JoinSet<()>,
    ) -> anyhow::Result<Caller> {
        serve::connect(pipes, &self.password, inputs, tasks).await
    }

    fn begin(&mut self) -> Vec<Call> {
        vec![call(Method::GET, "/config".to_owned(), None, Awaited::Config)]
    }

    fn prompt(&mut self, text: &str, image: Option<&Image>) -> Vec<Call> {
        let mut parts = vec![json!({ "type": "text", "text": text })];
        parts.extend(image.map(|image| {
            let url = format!("data:{};base64,{}", image.media_type, image.data);
            json!({ "type": "file", "mime": image.media_type, "url": url })
        }));
        self.prompts.push(parts.into());
        self.send_prompts()
    }

    fn interrupt(&mut self) -> Meanings {
        let Some(abort) = self.abort() else { return Vec::new() };
        self.interrupted = true;
        self.early.clear();
        // OpenCode would still run what is allowed after its turn was ended.
        let open = self.requests.open().into_iter().flat_map(|(id, is_question)| {
            let refused = if is_question { outcome::turned_away() } else { outcome::refusal(None) };
            let reply = self.reply(&id, is_question, &refused);
            [Meaning::Cancels { id }, Meaning::Write(reply)]
        });
        let open: Vec<_> = open.collect();
        std::iter::once(Meaning::Write(abort)).chain(open).collect()
    }

    fn read(&mut self, input: Line) -> Meanings {
        match Incoming::read(input) {
            None => Vec::new(),
            Some(Incoming::Returned { to, result }) => self.returned(to, result),
            Some(Incoming::Event(event)) => match aye_core::json::parse(&event) {
                Ok(event) => self.told(&event).unwrap_or_else(|why| vec![broken(&why)]),
                Err(error) => vec![broken(&format!("it told of something that cannot be read: {error}"))],
            },
            Some(Incoming::TooLong(length)) => {
                vec![broken(&format!("it told of something in {length} bytes, which is too long to be read"))]
            }
            Some(Incoming::Ended) if self.in_turn && !self.interrupted => {
                vec![Meaning::Fails("OpenCode ended in the middle of its turn.".into())]
            }
            Some(Incoming::Ended) => Vec::new(),
        }
    }

    fn outcome(&mut self, id: &str, request: Request, body: &Body, resolution: &Resolution) -> Written<Call> {
        let answered = match request.questions {
            Some(questions) => outcome::answers(questions, resolution.outcome.answer.as_ref()),
            None => outcome::decision(resolution),
        };
        self.ends_turn = answered.ends_turn.then(|| id.to_owned()).or(self.ends_turn.take());
        let running = request.call.as_ref().and_then(|call| self.calls.get_mut(call));
        let shown_by = running.is_some().then(|| request.call.clone()).flatten();
        if let Some(running) = running {
            running.allowed = Some(body.clone()).filter(|_| answered.expected == Expected::Allowed);
            running.expected = Some(answered.expected.clone());
        }
        Written { message: self.reply(id, request.questions.is_some(), &answered), shown_by }
    }

    fn refusal(&mut self, id: &str, request: &Request, why: &str) -> Call {
        let refused = match request.questions {
            Some(_) => outcome::turned_away(),
            None => outcome::refusal(Some(why)),
        };
        self.reply(id, request.questions.is_some(), &refused)
    }

    fn fault(&mut self, id: &str, why: &str) -> Call {
        self.reply(id, false, &outcome::refusal(Some(why)))
    }
}

impl OpenCode {
    /// `password` protects the server from whoever is not told it.
    pub fn new(start: Start, password: String) -> Self {
        let cwd = start.cwd.to_string_lossy();
        let nothing = Map::new();
        let sees_own_files =
            start.places.is_below(&cwd, &nothing, false) || start.places.is_named(&cwd, &nothing);
        let rules = rules::of_mode(start.mode.as_deref(), sees_own_files);
        Self {
            start,
            password,
            rules,
            session: None,
            prompts: Vec::new(),
            in_turn: false,
            interrupted: false,
            requests: Requests::default(),
            ends_turn: None,
            calls: HashMap::new(),
            early: Vec::new(),
            account: Account::default(),
        }
    }

    fn open_session(&mut self, config: &Value) -> Call {
        let mut rules = self.rules.clone();
        rules.extend(rules::refused_by(config));
        let body = json!({ "permission": rules::for_session(&rules) });
        match &self.start.resume {
            Some(session) => {
                call(Method::PATCH, format!("/session/{}", in_path(session)), Some(body), Awaited::Session)
            }
            None => call(Method::POST, "/session".to_owned(), Some(body), Awaited::Session),
        }
    }

    fn send_prompts(&mut self) -> Vec<Call> {
        let Some(session) = &self.session else { return Vec::new() };
        let plans = self.start.mode.as_deref() == Some("plan");
        let send = |parts: Value| {
            let mut body = json!({ "parts": parts });
            if plans {
                body["agent"] = "plan".into();
            }
            let path = format!("/session/{}/prompt_async", in_path(session));
            call(Method::POST, path, Some(body), Awaited::Prompt)
        };
        self.prompts.drain(..).map(send).collect()
    }

    fn abort(&self) -> Option<Call> {
        let session = self.session.as_ref()?;
        Some(call(Method::POST, format!("/session/{}/abort", in_path(session)), None, Awaited::Abort))
    }

    fn reply(&mut self, id: &str, is_question: bool, answered: &Answered) -> Call {
        self.requests.answered(id, answered.told.clone());
        let kind = if is_question { "question" } else { "permission" };
        let path = format!("/{kind}/{}/{}", in_path(id), answered.by);
        Call { method: Method::POST, path, body: Some(answered.body.clone()), then: Then::IsTaken }
    }

    fn returned(&mut self, to: Awaited, result: Result<Value, String>) -> Meanings {
        match (to, result) {
            (Awaited::Config, Ok(config)) => vec![Meaning::Write(self.open_session(&config))],
            (Awaited::Session, Ok(session)) => match session["id"].as_str() {
                None => {
                    vec![Meaning::Fails("OpenCode opened a session without a name. The run ends.".into())]
                }
                Some(id) => {
                    self.session = Some(id.to_owned());
                    let cwd = session["directory"].as_str().map(str::to_owned);
                    let known = Meaning::Session { id: self.session.clone(), cwd };
                    let prompts = self.send_prompts().into_iter().map(Meaning::Write);
                    std::iter::once(known).chain(prompts).collect()
                }
            },
            (Awaited::Config | Awaited::Session, Err(why)) => {
                vec![Meaning::Fails(format!("OpenCode cannot open this session: {why}"))]
            }
            (Awaited::Prompt, Err(why)) => vec![self.account.failed(why)],
            (Awaited::Abort, Err(why)) => vec![trouble(format!("OpenCode was not interrupted: {why}"))],
            (Awaited::Prompt | Awaited::Abort, Ok(_)) => Vec::new(),
        }
    }

    /// The error says how it breaks its protocol.
    fn told(&mut self, event: &Value) -> Result<Meanings, String> {
        let about = &event["properties"];
        let ours = self.session.is_some() && about["sessionID"].as_str() == self.session.as_deref();
        match event["type"].as_str().ok_or("an event of its has no type")? {
            "permission.asked" => self.asked(about, false),
            "question.asked" => self.asked(about, true),
            "permission.replied" => self.answered(about, &about["reply"]),
            "question.replied" => self.answered(about, &about["answers"]),
            "question.rejected" => self.answered(about, &dismissed()),
            "message.part.updated" if about["part"]["type"] == "tool" => {
                Ok(self.call_told(&about["part"], ours))
            }
            "session.status" if ours && about["status"]["type"] == "busy" => {
                if !std::mem::replace(&mut self.in_turn, true) {
                    self.interrupted = false;
                    self.account.turn_begins();
                }
                Ok(vec![Meaning::Works])
            }
            // It comes twice where the turn was interrupted.
            "session.idle" if ours && std::mem::take(&mut self.in_turn) => {
                let mut meanings = self.refuse_early();
                meanings.push(self.account.turn_ended());
                Ok(meanings)
            }
            // Every few seconds: a call that has not begun by now will not.
            "server.heartbeat" => {
                let early = std::mem::take(&mut self.early);
                Ok(early.iter().flat_map(|asked| self.asks_permission(asked)).collect())
            }
            kind if ours => Ok(self.account.told(kind, about)),
            // Events come with every release, and about every session.
            _ => Ok(Vec::new()),
        }
    }

    fn asked(&mut self, asked: &Value, is_question: bool) -> Result<Meanings, String> {
        let id = asked["id"].as_str().filter(|id| !id.is_empty()).ok_or("its request has no id")?;
        if !self.requests.asked(id, is_question) {
            return Err(format!("it made two requests under the id {id}"));
        }
        if is_question {
            return Ok(self.asks(asked, translate::questions(asked)));
        }
        // The input of the call may come right after the request.
        if call_of(asked).is_some_and(|call| !self.calls.contains_key(&call)) {
            self.early.push(asked.clone());
            return Ok(Vec::new());
        }
        Ok(self.asks_permission(asked))
    }

    /// What nobody was shown is refused with the turn, because OpenCode would still run it.
    fn refuse_early(&mut self) -> Meanings {
        let early = std::mem::take(&mut self.early);
        let ids = early.iter().filter_map(|asked| asked["id"].as_str());
        ids.map(|id| Meaning::Write(self.reply(id, false, &outcome::refusal(None)))).collect()
    }

    fn asks_permission(&mut self, asked: &Value) -> Meanings {
        let key = call_of(asked);
        let running = key.as_ref().and_then(|key| self.calls.get_mut(key));
        let place = self.start.place();
        let body = translate::permission(asked, running.as_ref().map(|running| &running.call), &place);
        let Some(running) = running else { return self.asks(asked, body) };
        running.asked = true;
        if let (Ok(body), Some(allowed), Some(id)) = (&body, &running.allowed, asked["id"].as_str())
            && body == allowed
        {
            let once = json!("once");
            self.requests.answered(id, once.clone());
            let path = format!("/permission/{}/reply", in_path(id));
            let body = Some(json!({ "reply": once }));
            return vec![Meaning::Write(Call { method: Method::POST, path, body, then: Then::IsTaken })];
        }
        // It goes on with what was allowed so far.
        let allowed = running.expected.take_if(|expected| *expected == Expected::Allowed);
        let shown = allowed.zip(key).map(|(_, call)| {
            let evidence = "OpenCode went ahead, and asks again about the same call".to_owned();
            Meaning::Shows { call, receipt: Receipt::Confirmed, evidence }
        });
        shown.into_iter().chain(self.asks(asked, body)).collect()
    }

    fn asks(&mut self, asked: &Value, body: Result<Body, String>) -> Meanings {
        let key = call_of(asked);
        let running = key.as_ref().and_then(|key| self.calls.get(key));
        let questions = asked["questions"].as_array().map(Vec::len);
        let ours = asked["sessionID"].as_str() == self.session.as_deref();
        let asked = Asked {
            id: asked["id"].as_str().unwrap_or_default().to_owned(),
            cwd: running.and_then(|running| running.call.cwd(&self.start.cwd)),
            request: Request { call: key, questions },
            body,
            tool_use_id: asked["tool"]["callID"].as_str().map(str::to_owned),
            sub_agent: account::sub_agent(ours),
            can: if questions.is_some() { translate::can_answer() } else { translate::can_permit() },
            outlives_turn: false,
        };
        vec![Meaning::Works, Meaning::Asks(asked)]
    }

    fn answered(&mut self, about: &Value, answer: &Value) -> Result<Meanings, String> {
        let id = about["requestID"].as_str().ok_or("it tells of an answer without a request")?.to_owned();
        self.early.retain(|asked| asked["id"] != id.as_str());
        match self.requests.told(&id, answer) {
            ReportedAnswer::Ours if self.ends_turn.take_if(|ends| *ends == id).is_some() => Ok(self.interrupt()),
            ReportedAnswer::Ours => Ok(Vec::new()),
            ReportedAnswer::Refused => Ok(vec![Meaning::Cancels { id }]),
            ReportedAnswer::NeverAsked => Err(format!("it tells of an answer to {id}, which it never asked")),
            ReportedAnswer::NotOurs => Ok(vec![
                Meaning::WentAhead { id },
                Meaning::Fails(
                    "Somebody else answered a request of OpenCode: a program that it started may know the password \
                     of its server. The run ends."
                        .into(),
                ),
            ]),
        }
    }

    fn call_told(&mut self, part: &Value, ours: bool) -> Meanings {
        let (Some(key), Some(tool)) = (key_of(&part["messageID"], &part["callID"]), part["tool"].as_str())
        else {
            return Vec::new();
        };
        let state = &part["state"];
        let input = state["input"].as_object().cloned().unwrap_or_default();
        let call = ToolCall { tool: tool.to_owned(), input };
        let id = part["callID"].as_str().unwrap_or_default().to_owned();
        match state["status"].as_str() {
            Some("running") if !self.calls.contains_key(&key) && self.calls.len() < MOST_CALLS => {
                let started = account::started(id, &call, &self.start.place(), ours);
                self.calls
                    .insert(key.clone(), RunningCall { call, asked: false, allowed: None, expected: None });
                let (now, later) = std::mem::take(&mut self.early)
                    .into_iter()
                    .partition::<Vec<_>, _>(|asked| call_of(asked).as_ref() == Some(&key));
                self.early = later;
                let asks = now.iter().flat_map(|asked| self.asks_permission(asked));
                std::iter::once(Meaning::Tells(started)).chain(asks.collect::<Vec<_>>()).collect()
            }
            Some("completed" | "error") => {
                let running = self.calls.remove(&key);
                let asked = running.as_ref().is_some_and(|running| running.asked);
                let expected = running.and_then(|running| running.expected);
                let judged = expected.and_then(|expected| outcome::judge(&expected, state));
                let shows = judged.map(|(receipt, evidence)| Meaning::Shows { call: key, receipt, evidence });
                let unasked = (!asked
                    && state["status"] == "completed"
                    && rules::must_ask(&self.rules, tool))
                .then(|| {
                    trouble(format!("OpenCode did this without a request ({tool}): {}", call.in_words()))
                });
                let ended = Meaning::Tells(account::ended(id, state, ours));
                std::iter::once(ended).chain(shows).chain(unasked).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn call(method: Method, path: String, body: Option<Value>, to: Awaited) -> Call {
    Call { method, path, body, then: Then::Read(to) }
}

/// Ids come from OpenCode, and must not lead anywhere else.
fn in_path(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let escaped = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    id.bytes().map(escaped).collect()
}

/// The call that a request is about. Models may use an id of a call again in another message.
fn call_of(asked: &Value) -> Option<String> {
    key_of(&asked["tool"]["messageID"], &asked["tool"]["callID"])
}

fn key_of(message: &Value, call: &Value) -> Option<String> {
    Some(format!("{}/{}", message.as_str()?, call.as_str()?))
}

fn broken(why: &str) -> Meaning<OpenCode> {
    Meaning::Fails(format!("OpenCode does not keep to its protocol: {why}. The run ends."))
}
