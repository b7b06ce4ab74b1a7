//! Agents that speak the Agent Client Protocol on their standard input and output. The messages are read as they are:
//! the protocol's crate does not know the fields by which Qwen is answered.

mod calls;
mod dialects;
mod form;
mod modes;
mod options;
mod outcome;
mod plan;
mod session;
mod transcript;
mod translate;
mod updates;

use crate::agents::driven::rpc::{INVALID_REQUEST, Incoming, Rpc, UNKNOWN_METHOD, trouble};
use crate::agents::driven::{AgentProtocol, Asked, Input, Meaning, Pipes, Start, Written};
use crate::agents::lines::Line;
use crate::protocol::{Image, Resolution};
use aye_core::{AsksFor, Body, Receipt};
use calls::Calls;
use dialects::Call;
pub use dialects::refusal_ends_turn;
use form::Form;
use modes::CurrentModes;
use options::Options;
use outcome::Expected;
use plan::Plan;
use serde_json::{Value, json};
use session::Awaited;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub struct Acp {
    start: Start,
    arguments: &'static [&'static str],
    rpc: Rpc<Awaited>,
    /// The agent's own version, as it names it.
    version: String,
    /// A way to sign in with a key from the environment, until it was tried.
    key_method: Option<String>,
    session: Option<String>,
    /// Prompts that wait for the session, or for the turn before them to end.
    prompts: VecDeque<Value>,
    in_turn: bool,
    modes: CurrentModes,
    /// What waits for an answer, and how each is told that the turn is interrupted.
    open: Vec<(String, Value)>,
    calls: Calls,
    expected: HashMap<String, Expected>,
    /// What is left to say of an answer that was just written.
    unsaid: Vec<Meaning<Acp>>,
    /// The words of the message that is being said.
    speaking: Option<(String, String)>,
    texts: u64,
}

/// What is needed of a request to answer it.
pub struct Request {
    call: Option<String>,
    asking: Asking,
}

/// What a request asks for, and what it offers.
pub enum Asking {
    Permission(Options),
    Plan(Options, Option<Plan>),
    /// Qwen's questions.
    Questions(Options),
    /// Which of several ways to allow it.
    Pick(Options),
    /// None where it cannot be shown.
    Form(Option<Form>),
}

type Meanings = Vec<Meaning<Acp>>;

impl AgentProtocol for Acp {
    type Input = Line;
    type Message = String;
    type Request = Request;
    type Writer = Input;

    fn arguments(&self) -> Vec<OsString> {
        self.arguments.iter().map(OsString::from).collect()
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let asks = self.start.mode.as_deref().is_none_or(|mode| self.asks_in(mode) != AsksFor::Nothing);
        match self.start.kind.as_str() {
            // With `true`, Copilot asks for nothing in any mode, and does not say so.
            "copilot" if asks => vec![("COPILOT_ALLOW_ALL", "false".to_owned())],
            _ => Vec::new(),
        }
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
        vec![self.initialize()]
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
        let open = std::mem::take(&mut self.open).into_iter().flat_map(|(id, cancelled)| {
            let reply = self.rpc.reply(&id, cancelled);
            [Meaning::Cancels { id }, Meaning::Write(reply)]
        });
        std::iter::once(Meaning::Write(cancel)).chain(open).collect()
    }

    fn read(&mut self, input: Line) -> Meanings {
        let mut meanings = std::mem::take(&mut self.unsaid);
        meanings.extend(match self.rpc.read(input) {
            None => Vec::new(),
            Some(Incoming::Request { id, method, params }) => match method.as_str() {
                "session/request_permission" => self.asks_permission(id, &params),
                "elicitation/create" => self.asks_with_form(id, &params),
                _ => {
                    let reply = self.rpc.error(&id, UNKNOWN_METHOD, "aye does not know this request");
                    vec![Meaning::Wants { id, reply }]
                }
            },
            Some(Incoming::Tells { method, params }) if method == "session/update" => {
                self.updated(&params["update"])
            }
            Some(Incoming::Tells { .. }) => Vec::new(),
            Some(Incoming::Reply { to, result }) => self.replied(to, result),
            Some(Incoming::Faulty(faulty)) => self.rpc.faulty("The agent", faulty),
        });
        meanings
    }

    fn outcome(
        &mut self,
        id: &str,
        request: Request,
        _body: &Body,
        resolution: &Resolution,
    ) -> Written<String> {
        self.open.retain(|(open, _)| open != id);
        let answer = resolution.outcome.answer.as_ref();
        let (reply, expected, interrupts) = match &request.asking {
            Asking::Permission(options) => outcome::decision(options, answer),
            Asking::Plan(options, shown) => {
                let (reply, expected) = outcome::plan(options, answer);
                let changed =
                    shown.as_ref().is_some_and(|plan| !plan.is_as_shown(&self.start.cwd, &self.start.places));
                match changed && expected == Expected::PlanApproved {
                    true => return self.refuse_changed_plan(id, options, request.call.clone()),
                    false => (reply, expected, false),
                }
            }
            Asking::Questions(options) => with_turn(outcome::answers(options, answer)),
            Asking::Pick(options) => with_turn(outcome::pick(options, answer)),
            Asking::Form(shown) => {
                let form = shown.as_ref().map(|form| outcome::form(form, answer));
                let (reply, expected, why) =
                    form.unwrap_or_else(|| (form::declined(), Expected::Form(Vec::new()), None));
                let note = why.map(|why| trouble(format!("The agent's form was declined, because {why}.")));
                self.unsaid.extend(note);
                (reply, expected, false)
            }
        };
        let mut message = self.rpc.reply(id, reply);
        if let (true, Some(session)) = (interrupts, &self.session) {
            let cancel = self.rpc.tell("session/cancel", json!({ "sessionId": session }));
            message = format!("{message}\n{cancel}");
        }
        // Only Kimi is known to show what became of a form.
        let shows = self.start.kind == "kimi" || !matches!(expected, Expected::Form(_));
        let shown_by = request.call.filter(|_| shows);
        self.expected.extend(shown_by.clone().map(|call| (call, expected)));
        Written { message, shown_by }
    }

    fn refusal(&mut self, id: &str, request: &Request, _why: &str) -> String {
        self.open.retain(|(open, _)| open != id);
        self.rpc.reply(id, request.asking.refused())
    }

    fn fault(&mut self, id: &str, why: &str) -> String {
        self.rpc.error(id, INVALID_REQUEST, why)
    }
}

impl Asking {
    fn refused(&self) -> Value {
        match self {
            Self::Permission(options)
            | Self::Plan(options, _)
            | Self::Questions(options)
            | Self::Pick(options) => options.refused(),
            Self::Form(Some(_)) => form::cancelled(),
            Self::Form(None) => form::declined(),
        }
    }

    /// What it gets when the turn is interrupted.
    fn cancelled(&self) -> Value {
        match self {
            Self::Form(_) => form::cancelled(),
            _ => options::cancelled(),
        }
    }
}

fn with_turn((reply, expected): (Value, Expected)) -> (Value, Expected, bool) {
    (reply, expected, false)
}

impl Acp {
    /// `arguments` make the program speak the protocol.
    pub fn new(start: Start, arguments: &'static [&'static str]) -> Self {
        Self {
            start,
            arguments,
            rpc: Rpc::naming_its_version(),
            version: String::new(),
            key_method: None,
            session: None,
            prompts: VecDeque::new(),
            in_turn: false,
            modes: CurrentModes::default(),
            open: Vec::new(),
            calls: Calls::default(),
            expected: HashMap::new(),
            unsaid: Vec::new(),
            speaking: None,
            texts: 0,
        }
    }

    fn asks_permission(&mut self, id: String, params: &Value) -> Meanings {
        let (Start { kind, cwd, places, .. }, asked) = (&self.start, &params["toolCall"]);
        let options = match Options::read(&params["options"], dialects::says_what_it_keeps(kind)) {
            Ok(options) => options,
            // Without its options, it can only be cancelled.
            Err(why) => {
                let call = asked["toolCallId"].as_str().map(str::to_owned);
                return self.asks(id, call, Err(why), Asking::Permission(Options::default()));
            }
        };
        let call = Call { kind, version: &self.version, cwd, asked, told: self.calls.of(asked) };
        let planned = Plan::of(kind, asked, cwd, places);
        let allowing = match &planned {
            // Kimi may offer several ways to carry its plan out.
            Some(plan) => (kind == "kimi" && plan.is_ok()).then_some("Approves the plan this way"),
            None => {
                call.is_words_alone().then_some("Allows it; the agent shows nothing of it but these words")
            }
        };
        let (body, asking) = if let Some(questions) = translate::questions(&call) {
            (questions.map(Body::Question), Asking::Questions(options))
        } else if let Some(allowing) = allowing.filter(|_| options.differ()) {
            (translate::pick(&call, &options, allowing), Asking::Pick(options))
        } else if let Some(planned) = planned {
            let body = planned.as_ref().map_err(Clone::clone).and_then(|plan| translate::plan(&plan.text));
            (body, Asking::Plan(options, planned.ok()))
        } else {
            (translate::permission(&call, &options, &self.start), Asking::Permission(options))
        };
        let call = asked["toolCallId"].as_str().map(str::to_owned);
        self.asks(id, call, body, asking)
    }

    fn asks_with_form(&mut self, id: String, params: &Value) -> Meanings {
        let (body, form) = match Form::read(params) {
            Ok((form, questions)) => (Ok(Body::Question(questions)), Some(form)),
            Err(why) => (Err(format!("The agent's form was declined, because {why}.")), None),
        };
        let call = params["toolCallId"].as_str().map(str::to_owned);
        self.asks(id, call, body, Asking::Form(form))
    }

    fn asks(
        &mut self,
        id: String,
        call: Option<String>,
        body: Result<Body, String>,
        asking: Asking,
    ) -> Meanings {
        self.open.push((id.clone(), asking.cancelled()));
        let asked = Asked {
            id,
            can: translate::can(&self.start.kind, &asking),
            request: Request { call: call.clone(), asking },
            body,
            tool_use_id: call,
            sub_agent: None,
            cwd: None,
            outlives_turn: false,
        };
        self.said().into_iter().chain([Meaning::Works, Meaning::Asks(asked)]).collect()
    }

    /// What was approved is no longer what would be carried out.
    fn refuse_changed_plan(&mut self, id: &str, options: &Options, call: Option<String>) -> Written<String> {
        let evidence =
            "the plan's file was changed while somebody decided, so the plan was refused".to_owned();
        self.unsaid
            .push(trouble("The agent changed its plan while somebody decided, so it was refused.".into()));
        let receipt = Receipt::Disputed;
        self.unsaid.extend(call.clone().map(|call| Meaning::Shows { call, receipt, evidence }));
        Written { message: self.rpc.reply(id, options.refused()), shown_by: call }
    }
}
