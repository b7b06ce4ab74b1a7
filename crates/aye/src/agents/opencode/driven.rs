//! OpenCode without its terminal: `opencode serve`, and what its events mean.

use super::account::{self, Account};
use super::calls::{Calls, Wanted, call_of, tool_call_in};
use super::outcome::{self, WireReply};
use super::requests::{REJECT, ReportedAnswer, Requests, dismissed};
use super::server::{self, Awaited, HttpCall, HttpWriter, Incoming, Then, USER};
use super::translate;
use super::{id_of, in_path, reply, rules};
use crate::agents::driven::rpc::trouble;
use crate::agents::driven::{AgentProtocol, Asked, Meaning, Pipes, Start, Written};
use crate::config::{DEFAULT_MODE, ProtocolName};
use crate::protocol::{Image, Registration, Resolution};
use aye_core::Body;
use hyper::Method;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::Path;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub struct OpenCode {
    start: Start,
    password: String,
    rules: Vec<rules::Rule>,
    /// OpenCode's configuration, as it reported it.
    configured: Value,
    /// The session's own rules: those of the mode, and what the person's configuration refuses.
    session_rules: Value,
    session: Option<String>,
    /// What waits for the session to be there.
    prompts: Vec<Value>,
    in_turn: bool,
    /// The turn is to end, or just did.
    interrupted: bool,
    requests: Requests,
    /// The request whose refusal ends the turn, once OpenCode has taken it.
    ends_turn: Option<String>,
    calls: Calls,
    account: Account,
}

/// Sessions among which the one that is resumed is looked for, newest first.
const MOST_SESSIONS: usize = 10_000;

/// What is known of an answer that is not ours.
const SOMEBODY_ANSWERED: &str =
    "OpenCode took somebody else's answer: a program that it started may know the password of its server";
const SOMEBODY_REFUSED: &str =
    "OpenCode took somebody else's refusal: a program that it started may know the password of its server";

/// What is needed of a request to answer it.
pub struct Request {
    is_question: bool,
}

type Meanings = Vec<Meaning<OpenCode>>;

impl AgentProtocol for OpenCode {
    type Input = Incoming;
    type Message = HttpCall;
    type Request = Request;
    type Writer = HttpWriter;

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
        inputs: mpsc::Sender<Incoming>,
        tasks: &mut JoinSet<()>,
    ) -> anyhow::Result<HttpWriter> {
        server::connect(pipes, &self.password, inputs, tasks).await
    }

    fn begin(&mut self) -> Vec<HttpCall> {
        vec![call(Method::GET, "/config".to_owned(), None, Awaited::Config)]
    }

    fn prompt(&mut self, text: &str, image: Option<&Image>) -> Vec<HttpCall> {
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
        self.calls.take_early();
        // OpenCode would still run what is allowed after its turn was ended.
        let open = self.requests.open().into_iter().flat_map(|(id, is_question)| {
            let refused = if is_question { outcome::turned_away() } else { outcome::refusal(None) };
            let reply = self.reply(&id, is_question, &refused);
            [Meaning::Cancels { id }, Meaning::Write(reply)]
        });
        let open: Vec<_> = open.collect();
        std::iter::once(Meaning::Write(abort)).chain(open).collect()
    }

    fn read(&mut self, input: Incoming) -> Meanings {
        match input {
            Incoming::Returned { to, result } => self.returned(to, result),
            Incoming::Event(event) => match aye_core::json::parse(&event) {
                Ok(event) => self.handle_event(&event).unwrap_or_else(|why| vec![broken(&why)]),
                Err(error) => vec![broken(&format!("it told of something that cannot be read: {error}"))],
            },
            Incoming::TooLong(length) => {
                vec![broken(&format!("it told of something in {length} bytes, which is too long to be read"))]
            }
            Incoming::Ended if self.in_turn && !self.interrupted => {
                vec![Meaning::Fails("OpenCode ended in the middle of its turn.".into())]
            }
            Incoming::Ended => Vec::new(),
        }
    }

    fn outcome(
        &mut self,
        id: &str,
        request: Request,
        body: &Body,
        resolution: &Resolution,
    ) -> Written<HttpCall> {
        let answered = match body {
            Body::Question(asked) => {
                let call = self.calls.called(self.requests.call(id));
                outcome::answers(asked, call, resolution.outcome.answer.as_ref())
            }
            Body::Permission(_) | Body::Plan(_) => outcome::decision(resolution),
        };
        self.ends_turn = answered.ends_turn.then(|| id.to_owned()).or(self.ends_turn.take());
        let shown_by = self.calls.answered(self.requests.call(id), body, &answered);
        Written { message: self.reply(id, request.is_question, &answered), shown_by }
    }

    fn refusal(&mut self, id: &str, request: &Request, why: &str) -> HttpCall {
        let refused = match request.is_question {
            true => outcome::turned_away(),
            false => outcome::refusal(Some(why)),
        };
        self.reply(id, request.is_question, &refused)
    }

    fn fault(&mut self, id: &str, why: &str) -> HttpCall {
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
            configured: Value::Null,
            session_rules: Value::Null,
            session: None,
            prompts: Vec::new(),
            in_turn: false,
            interrupted: false,
            requests: Requests::default(),
            ends_turn: None,
            calls: Calls::default(),
            account: Account::default(),
        }
    }

    /// True if the session that is resumed belongs to the folder of this run.
    fn is_from_here(&self, listed: &Value) -> bool {
        let is_it = |session: &&Value| session["id"].as_str() == self.start.resume.as_deref();
        let found = listed.as_array().into_iter().flatten().find(is_it);
        let folder = found.and_then(|session| session["directory"].as_str());
        folder.is_some_and(|folder| Path::new(folder) == self.start.cwd)
    }

    fn open_session(&mut self) -> HttpCall {
        let mut rules = self.rules.clone();
        rules.extend(rules::refused_by(&self.configured));
        self.session_rules = rules::for_session(&rules);
        let body = json!({ "permission": self.session_rules });
        match &self.start.resume {
            Some(session) => {
                call(Method::PATCH, format!("/session/{}", in_path(session)), Some(body), Awaited::Session)
            }
            None => call(Method::POST, "/session".to_owned(), Some(body), Awaited::Session),
        }
    }

    /// True if the session ends with the rules that it was given; the last that matches counts.
    fn has_rules(&self, found: &Value) -> bool {
        match (found, &self.session_rules) {
            (Value::Array(found), Value::Array(given)) => found.ends_with(given),
            // Not every version tells.
            (found, _) => found.is_null(),
        }
    }

    fn send_prompts(&mut self) -> Vec<HttpCall> {
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

    fn abort(&self) -> Option<HttpCall> {
        let session = self.session.as_ref()?;
        Some(call(Method::POST, format!("/session/{}/abort", in_path(session)), None, Awaited::Abort))
    }

    fn reply(&mut self, id: &str, is_question: bool, answered: &WireReply) -> HttpCall {
        self.requests.answered(id, answered.echo.clone());
        reply(id, is_question, answered)
    }

    fn returned(&mut self, to: Awaited, result: Result<Value, String>) -> Meanings {
        match (to, result) {
            (Awaited::Config, Ok(config)) => {
                self.configured = config;
                let listed = format!("/session?limit={MOST_SESSIONS}");
                vec![Meaning::Write(match &self.start.resume {
                    // OpenCode continues in the session's own folder and runs its plugins as soon as the session is named.
                    Some(_) => call(Method::GET, listed, None, Awaited::Sessions),
                    None => self.open_session(),
                })]
            }
            (Awaited::Sessions, Ok(listed)) => match self.is_from_here(&listed) {
                true => vec![Meaning::Write(self.open_session())],
                false => {
                    let words = "OpenCode has no such session in this folder. The run ends.";
                    vec![Meaning::Fails(words.into())]
                }
            },
            (Awaited::Session, Ok(session)) => match session["id"].as_str() {
                None => {
                    vec![Meaning::Fails("OpenCode opened a session without a name. The run ends.".into())]
                }
                Some(id) => {
                    self.session = Some(id.to_owned());
                    let cwd = session["directory"].as_str().map(str::to_owned);
                    let known = Meaning::Session { id: self.session.clone(), cwd };
                    if !self.has_rules(&session["permission"]) {
                        let words = "OpenCode did not take the permission mode of this run. The run ends.";
                        return vec![known, Meaning::Fails(words.into())];
                    }
                    let mode = self.start.mode.as_deref().unwrap_or(DEFAULT_MODE);
                    let asks = Meaning::Knows(Registration::mode(ProtocolName::OpenCode.asks_in(mode)));
                    let prompts = self.send_prompts().into_iter().map(Meaning::Write);
                    [known, asks].into_iter().chain(prompts).collect()
                }
            },
            (Awaited::Config | Awaited::Sessions | Awaited::Session, Err(why)) => {
                vec![Meaning::Fails(format!("OpenCode cannot open this session: {why}"))]
            }
            (Awaited::Prompt, Err(why)) => vec![self.account.failed(why)],
            (Awaited::Abort, Err(why)) => vec![trouble(format!("OpenCode was not interrupted: {why}"))],
            (Awaited::Prompt | Awaited::Abort, Ok(_)) => Vec::new(),
        }
    }

    /// The error says how it breaks its protocol.
    fn handle_event(&mut self, event: &Value) -> Result<Meanings, String> {
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
                let early = self.calls.take_early();
                Ok(early.iter().flat_map(|asked| self.asks_permission(asked)).collect())
            }
            kind if ours => Ok(self.account.record(kind, about)),
            // Events come with every release, and about every session.
            _ => Ok(Vec::new()),
        }
    }

    fn asked(&mut self, asked: &Value, is_question: bool) -> Result<Meanings, String> {
        let id = id_of(asked).ok_or("its request has no id")?;
        let session = asked["sessionID"].as_str().ok_or("its request has no session")?;
        if !self.requests.asked(id, session, is_question, call_of(asked)) {
            return Err(format!("it made two requests under the id {id}"));
        }
        if is_question {
            return Ok(self.asks(asked, translate::questions(asked)));
        }
        if self.calls.keep_early(asked)? {
            return Ok(Vec::new());
        }
        Ok(self.asks_permission(asked))
    }

    /// What nobody was shown is refused with the turn, because OpenCode would still run it.
    fn refuse_early(&mut self) -> Meanings {
        let early = self.calls.take_early();
        let ids = early.iter().filter_map(id_of);
        ids.map(|id| Meaning::Write(self.reply(id, false, &outcome::refusal(None)))).collect()
    }

    fn asks_permission(&mut self, asked: &Value) -> Meanings {
        match self.calls.wanted(asked, &self.start.context()) {
            None => {
                let id = id_of(asked).unwrap_or_default();
                vec![Meaning::Write(self.reply(id, false, &outcome::once()))]
            }
            Some(Wanted { body, confirms }) => {
                confirms.map(Meaning::from).into_iter().chain(self.asks(asked, body)).collect()
            }
        }
    }

    fn asks(&mut self, asked: &Value, body: Result<Body, String>) -> Meanings {
        let call = self.calls.called(call_of(asked).as_deref());
        let is_question = asked["questions"].is_array();
        let ours = asked["sessionID"].as_str() == self.session.as_deref();
        let asked = Asked {
            id: id_of(asked).unwrap_or_default().to_owned(),
            cwd: call.and_then(|call| call.cwd(&self.start.cwd)),
            request: Request { is_question },
            can: if is_question { translate::can_answer(&body) } else { translate::can_permit() },
            body,
            tool_use_id: asked["tool"]["callID"].as_str().map(str::to_owned),
            sub_agent: account::sub_agent(ours),
            outlives_turn: false,
        };
        vec![Meaning::Works, Meaning::Asks(asked)]
    }

    fn answered(&mut self, about: &Value, answer: &Value) -> Result<Meanings, String> {
        let id = about["requestID"].as_str().ok_or("it tells of an answer without a request")?.to_owned();
        let early = self.calls.take_early_of(&id);
        match self.requests.reported(&id, answer) {
            ReportedAnswer::Ours if self.ends_turn.take_if(|ends| *ends == id).is_some() => {
                Ok(self.interrupt())
            }
            ReportedAnswer::Ours => Ok(Vec::new()),
            ReportedAnswer::RefusedWithAnother => {
                self.calls.answered_elsewhere(self.requests.call(&id));
                Ok(vec![Meaning::Cancels { id }])
            }
            ReportedAnswer::NeverAsked => Err(format!("it tells of an answer to {id}, which it never asked")),
            ReportedAnswer::NotOurs => {
                let evidence = if *answer == REJECT { SOMEBODY_REFUSED } else { SOMEBODY_ANSWERED };
                // What nobody was shown is asked now, so that there is a record of it.
                let mut meanings: Meanings =
                    early.iter().flat_map(|asked| self.asks_permission(asked)).collect();
                meanings.push(Meaning::AnsweredBySomebodyElse { id, evidence });
                meanings.push(Meaning::Fails(
                    "Somebody else answered a request of OpenCode: a program that it started may know the password \
                     of its server. The run ends."
                        .into(),
                ));
                Ok(meanings)
            }
        }
    }

    fn call_told(&mut self, part: &Value, ours: bool) -> Meanings {
        let (Some((key, call)), state) = (tool_call_in(part), &part["state"]) else { return Vec::new() };
        let id = part["callID"].as_str().unwrap_or_default().to_owned();
        match state["status"].as_str() {
            Some("running") => {
                let started = account::started(id, &call, &self.start.context(), ours);
                let Some(early) = self.calls.begin(&key, call) else { return Vec::new() };
                let asks: Vec<_> = early.iter().flat_map(|asked| self.asks_permission(asked)).collect();
                std::iter::once(Meaning::Tells(started)).chain(asks).collect()
            }
            Some("completed" | "error") => {
                let ended = self.calls.end(&key, state);
                let shows =
                    ended.shows.map(|(receipt, evidence)| Meaning::Shows { call: key, receipt, evidence });
                let tool = &call.tool;
                let unasked = (!ended.asked
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

fn call(method: Method, path: String, body: Option<Value>, to: Awaited) -> HttpCall {
    HttpCall { method, path, body, then: Then::Read(to) }
}

fn broken(why: &str) -> Meaning<OpenCode> {
    Meaning::Fails(format!("OpenCode does not keep to its protocol: {why}. The run ends."))
}
