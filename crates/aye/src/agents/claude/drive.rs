//! Driving Claude Code: what follows from each thing that happens. No I/O here; see `run.rs`.

use super::outcome::{permit, unanswered};
use super::receipts::{Expected, judge};
use super::translate;
use super::wire::{self, Block, CanUseTool, Frame, Request, TurnResult, permit_line};
use aye_core::{Answer, Body, Receipt};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;

/// What happens to a run.
#[derive(Debug)]
pub enum Event {
    /// The agent wrote a line.
    Line(Vec<u8>),
    /// The agent wrote a line that is too long to be read; this is how it begins.
    LongLine {
        beginning: Vec<u8>,
        length: usize,
    },
    /// The hub has recorded an ask of ours.
    Raised {
        request: String,
        ask: String,
    },
    /// The hub will never record it.
    NotRaised {
        request: String,
        why: String,
    },
    /// An ask of ours has ended.
    Resolved {
        request: String,
        resolution: Value,
    },
    Prompt(String),
    Interrupt,
    /// The agent's output has ended.
    Closed,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// A line for the agent.
    Write(String),
    /// A line for the agent that carries an outcome; once written, that outcome is delivered.
    Deliver {
        ask: String,
        line: String,
    },
    Raise {
        request: String,
        body: Body,
        tool_use_id: Option<String>,
    },
    Withdraw {
        ask: String,
        why: &'static str,
    },
    Receipt {
        ask: String,
        receipt: Receipt,
        evidence: String,
    },
    /// Something for the account of the run.
    Tell(Told),
    /// What is now known of the agent, for the hub.
    Register(Value),
    /// The turn is over.
    TurnEnded,
}

/// The account of a run, in the order of events.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    Text(String),
    ToolStarted { id: String, name: String, input: Value },
    ToolEnded { id: String, failed: bool },
    Asked { ask: String, body: Body },
    AskEnded { ask: String, resolution: Value },
    Doubt { ask: String, receipt: Receipt, evidence: String },
    Turn(TurnResult),
    Trouble(String),
}

pub struct Driver {
    cwd: PathBuf,
    places: aye_policy::Home,
    /// Names of this run's own requests and keys begin with it.
    nonce: String,
    /// What the agent waits for, by its request id.
    waiting: HashMap<String, Waiting>,
    /// What the transcript must still show, by tool call.
    expected: HashMap<String, (String, Expected)>,
    /// Plans as the model gave them, by tool call: newer versions leave them out of the request itself.
    plans: HashMap<String, Value>,
    requests: u64,
}

struct Waiting {
    tool: CanUseTool,
    body: Body,
    ask: Option<String>,
}

impl Driver {
    pub fn new(cwd: PathBuf, places: aye_policy::Home, nonce: String) -> Self {
        Self {
            cwd,
            places,
            nonce,
            waiting: HashMap::new(),
            expected: HashMap::new(),
            plans: HashMap::new(),
            requests: 0,
        }
    }

    /// The first lines for the agent.
    pub fn begin(&mut self, prompt: &str) -> Vec<Effect> {
        let id = self.next_request();
        vec![Effect::Write(wire::initialize_line(&id)), Effect::Write(wire::prompt_line(prompt))]
    }

    /// The key of the ask behind a request: unique for ever, and the same each time it is raised.
    pub fn key(&self, request: &str) -> String {
        format!("{}/{}", self.nonce, request.replace(|c: char| !c.is_ascii_graphic(), "-"))
    }

    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Line(line) => self.read(&line),
            Event::LongLine { beginning, length } => self.pass_by(&beginning, length),
            Event::Raised { request, ask } => self.raised(&request, ask),
            Event::NotRaised { request, why } => {
                self.refuse(&request, &format!("Nobody could be asked: {why}"))
            }
            Event::Resolved { request, resolution } => self.resolved(&request, resolution),
            Event::Prompt(text) => vec![Effect::Write(wire::prompt_line(&text))],
            Event::Interrupt => {
                let id = self.next_request();
                vec![Effect::Write(wire::interrupt_line(&id))]
            }
            Event::Closed => self.withdraw_all("gone"),
        }
    }

    fn next_request(&mut self) -> String {
        self.requests += 1;
        format!("{}-{}", self.nonce, self.requests)
    }

    fn read(&mut self, line: &[u8]) -> Vec<Effect> {
        let frame = match wire::decode(line) {
            Ok(frame) => frame,
            Err(_) if line.iter().all(u8::is_ascii_whitespace) => return Vec::new(),
            Err(garbage) => {
                return vec![trouble(format!("The agent wrote something that makes no sense: {garbage}"))];
            }
        };
        match frame {
            Frame::Request { id, request } => self.requested(id, request),
            Frame::Cancel { id } => self.cancelled(&id),
            Frame::Init(init) => {
                let told = json!({ "session": init.session_id, "cwd": init.cwd, "state": "working" });
                vec![Effect::Register(without_nulls(told))]
            }
            Frame::Assistant { blocks, parent } => {
                self.remember_plans(&blocks);
                blocks.into_iter().filter_map(|block| said(block, parent.is_some())).collect()
            }
            Frame::User { results, detail } => {
                results.iter().flat_map(|result| self.returned(result, detail.as_ref())).collect()
            }
            Frame::Result(result) => {
                let mut effects = self.withdraw_all("cancelled");
                let cost = json!({ "state": "idle", "cost": result.total_cost_usd });
                effects.extend([
                    Effect::Register(without_nulls(cost)),
                    Effect::Tell(Told::Turn(result)),
                    Effect::TurnEnded,
                ]);
                effects
            }
            Frame::Response { error: Some(error), .. } => {
                vec![trouble(format!("The agent refused a request: {error}"))]
            }
            Frame::Response { error: None, .. } | Frame::Other => Vec::new(),
        }
    }

    fn requested(&mut self, id: String, request: Request) -> Vec<Effect> {
        let tool = match request {
            Request::CanUseTool(tool) => self.with_plan(*tool),
            Request::Unknown { subtype } => {
                let error = format!("aye does not know the request {subtype:?}");
                return vec![Effect::Write(wire::error_line(&id, &error))];
            }
            Request::Malformed { why } => {
                let error = format!("aye cannot read this request, so nothing is approved: {why}");
                return vec![Effect::Write(wire::error_line(&id, &error)), trouble(error)];
            }
        };
        if self.waiting.contains_key(&id) {
            // The first one still waits under this id, and gets the answer.
            return vec![trouble(format!(
                "The agent asked twice under the id {id}; the second is passed by."
            ))];
        }
        match translate::ask(&tool, &self.cwd, &self.places) {
            Ok(body) => {
                let (tool_use_id, raised) = (tool.tool_use_id.clone(), body.clone());
                self.waiting.insert(id.clone(), Waiting { tool, body, ask: None });
                vec![Effect::Raise { request: id, body: raised, tool_use_id }]
            }
            Err(why) => {
                let permit = wire::Permit::Deny { message: why.to_string(), interrupt: false };
                vec![Effect::Write(permit_line(&id, &permit)), trouble(why.to_string())]
            }
        }
    }

    fn remember_plans(&mut self, blocks: &[Block]) {
        for block in blocks {
            if let Block::ToolUse { id, name, input } = block
                && name == "ExitPlanMode"
            {
                self.plans.insert(id.clone(), input["plan"].clone());
            }
        }
    }

    /// The plan stands in the message before the request, and what is approved must be what is carried out.
    fn with_plan(&mut self, tool: CanUseTool) -> CanUseTool {
        let plan = tool.tool_use_id.as_ref().and_then(|id| self.plans.remove(id)).filter(Value::is_string);
        let given: Value = serde_json::from_str(tool.input.get()).unwrap_or_default();
        match plan.filter(|_| tool.tool_name == "ExitPlanMode" && given["plan"].is_null()) {
            Some(plan) => {
                match wire::with_fields(&tool.input, [("plan".to_owned(), plan)].into_iter().collect()) {
                    Ok(input) => CanUseTool { input, ..tool },
                    Err(_) => tool,
                }
            }
            None => tool,
        }
    }

    fn raised(&mut self, request: &str, ask: String) -> Vec<Effect> {
        match self.waiting.get_mut(request) {
            Some(waiting) => {
                waiting.ask = Some(ask.clone());
                vec![Effect::Tell(Told::Asked { ask, body: waiting.body.clone() })]
            }
            // Taken back before the hub had recorded it.
            None => vec![Effect::Withdraw { ask, why: "cancelled" }],
        }
    }

    fn refuse(&mut self, request: &str, why: &str) -> Vec<Effect> {
        if self.waiting.remove(request).is_none() {
            return Vec::new();
        }
        let permit = wire::Permit::Deny { message: why.to_owned(), interrupt: false };
        vec![Effect::Write(permit_line(request, &permit)), trouble(why.to_owned())]
    }

    fn resolved(&mut self, request: &str, resolution: Value) -> Vec<Effect> {
        let Some(Waiting { tool, body, ask: Some(ask) }) = self.waiting.remove(request) else {
            return Vec::new();
        };
        let outcome = &resolution["outcome"];
        let message = outcome["message"].as_str();
        let told = Effect::Tell(Told::AskEnded { ask: ask.clone(), resolution: resolution.clone() });
        let answered = match resolution["state"].as_str() {
            // Whoever withdrew it has already told the agent, or the agent no longer wants to know.
            Some("withdrawn") => return vec![told],
            Some("answered") => Answer::read(&body, outcome["answer"].clone())
                .map_err(|invalid| invalid.to_string())
                .and_then(|answer| permit(&tool, &body, &answer, message).map_err(|error| error.to_string())),
            _ => Ok(unanswered(message)),
        };
        // An answer that cannot be read is no approval.
        let (permit, expected) =
            answered.unwrap_or_else(|why| unanswered(Some(&format!("The answer was lost: {why}"))));
        let line = permit_line(request, &permit);
        if let Some(id) = tool.tool_use_id {
            self.expected.insert(id, (ask.clone(), expected));
        }
        vec![Effect::Deliver { ask, line }, told]
    }

    fn returned(&mut self, result: &wire::ToolResult, detail: Option<&Value>) -> Vec<Effect> {
        let ended = Told::ToolEnded { id: result.tool_use_id.clone(), failed: result.is_error };
        let mut effects = vec![Effect::Tell(ended)];
        if let Some((ask, expected)) = self.expected.remove(&result.tool_use_id) {
            let (receipt, evidence) = judge(&expected, result, detail);
            if receipt != Receipt::Confirmed {
                effects.push(Effect::Tell(Told::Doubt {
                    ask: ask.clone(),
                    receipt,
                    evidence: evidence.clone(),
                }));
            }
            effects.push(Effect::Receipt { ask, receipt, evidence });
        }
        effects
    }

    fn cancelled(&mut self, request: &str) -> Vec<Effect> {
        let ask = self.waiting.remove(request).and_then(|waiting| waiting.ask);
        ask.map(|ask| Effect::Withdraw { ask, why: "cancelled" }).into_iter().collect()
    }

    fn withdraw_all(&mut self, why: &'static str) -> Vec<Effect> {
        let asks = self.waiting.drain().filter_map(|(_, waiting)| waiting.ask);
        asks.map(|ask| Effect::Withdraw { ask, why }).collect()
    }

    /// A request among what cannot be read must not wait for ever.
    fn pass_by(&self, beginning: &[u8], length: usize) -> Vec<Effect> {
        let told =
            trouble(format!("The agent wrote a line of {length} bytes, which is too long to be read."));
        let text = String::from_utf8_lossy(beginning);
        let id =
            text.split_once("\"request_id\":\"").and_then(|(_, rest)| rest.split_once('"')).map(|(id, _)| id);
        match id.filter(|_| text.contains("\"control_request\"")) {
            Some(id) => vec![
                Effect::Write(wire::error_line(id, "this request is too long to be shown to a person")),
                told,
            ],
            None => vec![told],
        }
    }
}

fn said(block: Block, by_a_sub_agent: bool) -> Option<Effect> {
    match block {
        Block::Text(text) if !by_a_sub_agent => Some(Effect::Tell(Told::Text(text))),
        Block::ToolUse { id, name, input } => Some(Effect::Tell(Told::ToolStarted { id, name, input })),
        Block::Text(_) | Block::Other => None,
    }
}

fn trouble(words: String) -> Effect {
    Effect::Tell(Told::Trouble(words))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}
