//! Driving Claude Code: what follows from each thing that happens. No I/O here; see `run.rs`.

use super::crew::Crew;
use super::outcome::{permit, told_as_result, unanswered};
use super::receipts::{Expected, judge};
use super::told::Told;
use super::translate;
use super::wire::{self, Block, CanUseTool, Frame, Request, TurnResult, permit_line};
use crate::config::AsksBy;
use aye_core::{Answer, AskView, Body, Receipt};
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
    /// The hub has recorded an ask of ours, and perhaps decided it by a rule.
    Raised {
        request: String,
        ask: Box<AskView>,
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
    /// The run is to end, whatever the agent is doing.
    Stop,
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
        sub_agent: Option<String>,
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
    /// The run is over.
    End,
}

/// Whether an agent has anything left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    Working,
    /// Its last sub-agent has just ended; it will most likely go on by itself.
    Lingering,
    Idle,
}

pub struct Driver {
    cwd: PathBuf,
    places: aye_policy::Home,
    /// Names of this run's own requests and keys begin with it.
    nonce: String,
    asks_by: AsksBy,
    /// What the agent waits for, by its request id.
    waiting: HashMap<String, Waiting>,
    /// What the transcript must still show, by tool call.
    expected: HashMap<String, (String, Expected)>,
    /// Plans as the model gave them, by tool call: newer versions leave them out of the request itself.
    plans: HashMap<String, Value>,
    crew: Crew,
    rest: Rest,
    /// Prompts that the agent has not taken up; none are counted before it shows that it echoes them.
    prompts: usize,
    echoes: bool,
    /// The text that is being spoken, and how many there were.
    speaking: Option<String>,
    texts: u64,
    requests: u64,
}

struct Waiting {
    tool: CanUseTool,
    body: Body,
    ask: Option<String>,
    by_tool_use: bool,
}

impl Driver {
    pub fn new(cwd: PathBuf, places: aye_policy::Home, nonce: String, asks_by: AsksBy) -> Self {
        Self {
            cwd,
            places,
            nonce,
            asks_by,
            waiting: HashMap::new(),
            expected: HashMap::new(),
            plans: HashMap::new(),
            crew: Crew::default(),
            rest: Rest::Working,
            prompts: 0,
            echoes: false,
            speaking: None,
            texts: 0,
            requests: 0,
        }
    }

    /// The first lines for the agent.
    pub fn begin(&mut self, prompt: &str) -> Vec<Effect> {
        let id = self.next_request();
        let mut effects = vec![Effect::Write(wire::initialize_line(&id))];
        effects.extend(self.prompt(prompt));
        effects
    }

    pub fn rest(&self) -> Rest {
        self.rest
    }

    fn prompt(&mut self, text: &str) -> Vec<Effect> {
        self.prompts += 1;
        self.rest = Rest::Working;
        vec![Effect::Write(wire::prompt_line(text)), Effect::Tell(Told::Prompt(text.to_owned()))]
    }

    /// The key of the ask behind a request: unique for ever, and the same each time it is raised.
    pub fn key(&self, request: &str) -> String {
        format!("{}/{}", self.nonce, request.replace(|c: char| !c.is_ascii_graphic(), "-"))
    }

    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Line(line) => self.read(&line),
            Event::LongLine { beginning, length } => self.pass_by(&beginning, length),
            Event::Raised { request, ask } => self.raised(&request, *ask),
            Event::NotRaised { request, why } => {
                self.refuse(&request, &format!("Nobody could be asked: {why}"))
            }
            Event::Resolved { request, resolution } => self.resolved(&request, resolution),
            Event::Prompt(text) => self.prompt(&text),
            Event::Interrupt => vec![self.interrupt()],
            Event::Stop if self.rest == Rest::Idle => vec![Effect::End],
            Event::Stop => vec![self.interrupt(), Effect::End],
            Event::Closed => self.closed(),
        }
    }

    fn interrupt(&mut self) -> Effect {
        let id = self.next_request();
        Effect::Write(wire::interrupt_line(&id))
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
                self.rest = Rest::Working;
                let told = json!({ "session": init.session_id, "cwd": init.cwd, "state": "working" });
                vec![Effect::Register(without_nulls(told))]
            }
            Frame::TextBegins => {
                self.rest = Rest::Working;
                self.speaking = Some(self.next_text());
                Vec::new()
            }
            Frame::TextDelta(delta) => {
                let id = self.speaking.clone();
                id.map(|id| Effect::Tell(Told::Speaks { id, delta })).into_iter().collect()
            }
            Frame::Assistant { blocks, parent } => self.says(blocks, parent.as_deref()),
            Frame::User { results, detail, echo } => {
                if echo {
                    self.echoes = true;
                    self.prompts = self.prompts.saturating_sub(1);
                }
                results.iter().flat_map(|result| self.returned(result, detail.as_ref())).collect()
            }
            Frame::SubAgent { tool_use_id, name } => {
                self.crew.started(tool_use_id, name);
                Vec::new()
            }
            Frame::Background { sub_agents } => {
                self.crew.in_background = sub_agents;
                if sub_agents == 0 && self.rest == Rest::Idle {
                    self.rest = Rest::Lingering;
                }
                Vec::new()
            }
            Frame::Result(result) => self.turn_ended(result),
            Frame::Response { error: Some(error), .. } => {
                vec![trouble(format!("The agent refused a request: {error}"))]
            }
            Frame::Response { error: None, .. } | Frame::Other => Vec::new(),
        }
    }

    fn requested(&mut self, id: String, request: Request) -> Vec<Effect> {
        let tool = match request {
            Request::CanUseTool(tool) => self.with_plan(*tool),
            Request::Initialize => return vec![Effect::Write(wire::success_line(&id))],
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
        self.ask(id, tool, false)
    }

    fn ask(&mut self, request: String, tool: CanUseTool, by_tool_use: bool) -> Vec<Effect> {
        match translate::ask(&tool, &self.cwd, &self.places) {
            Ok(body) => {
                let (tool_use_id, raised) = (tool.tool_use_id.clone(), body.clone());
                let sub_agent = self.crew.behind(tool_use_id.as_deref(), tool.agent_id.as_deref());
                self.waiting.insert(request.clone(), Waiting { tool, body, ask: None, by_tool_use });
                vec![Effect::Raise { request, body: raised, tool_use_id, sub_agent }]
            }
            Err(why) => {
                let line = refusal_line(&request, &why.to_string(), by_tool_use);
                vec![Effect::Write(line), trouble(why.to_string())]
            }
        }
    }

    fn says(&mut self, blocks: Vec<Block>, parent: Option<&str>) -> Vec<Effect> {
        if parent.is_none() {
            self.rest = Rest::Working;
        }
        self.crew.says(&blocks, parent);
        self.remember_plans(&blocks);
        blocks.into_iter().flat_map(|block| self.says_one(block, parent.is_some())).collect()
    }

    fn says_one(&mut self, block: Block, by_a_sub_agent: bool) -> Vec<Effect> {
        match block {
            Block::Text(text) if !by_a_sub_agent => {
                let id = self.speaking.take().unwrap_or_else(|| self.next_text());
                vec![Effect::Tell(Told::Said { id, text })]
            }
            Block::ToolUse { id, name, input } => {
                let sub_agent = self.crew.behind(Some(&id), None);
                let asked = match (self.asks_by, name.as_str()) {
                    (AsksBy::ToolUse, translate::QUESTIONS) => self.asked_by_tool_use(&id, &input),
                    (AsksBy::ToolUse | AsksBy::Control, _) => Vec::new(),
                };
                let mut effects = vec![Effect::Tell(Told::ToolStarted { id, name, input, sub_agent })];
                effects.extend(asked);
                effects
            }
            Block::Text(_) | Block::Other => Vec::new(),
        }
    }

    fn asked_by_tool_use(&mut self, tool_use_id: &str, input: &Value) -> Vec<Effect> {
        let Ok(input) = serde_json::value::to_raw_value(input) else { return Vec::new() };
        if self.waiting.contains_key(tool_use_id) {
            return Vec::new();
        }
        let tool = CanUseTool {
            tool_name: translate::QUESTIONS.to_owned(),
            input,
            tool_use_id: Some(tool_use_id.to_owned()),
            agent_id: None,
            permission_suggestions: None,
        };
        self.ask(tool_use_id.to_owned(), tool, true)
    }

    fn next_text(&mut self) -> String {
        self.texts += 1;
        format!("t{}", self.texts)
    }

    /// Sub-agents go on after the turn in which they were started, and so do their asks. Whatever else is
    /// open no longer counts, and the agent is told so in case it still listens.
    fn turn_ended(&mut self, result: TurnResult) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (request, waiting) in self.waiting.extract_if(|_, waiting| waiting.tool.agent_id.is_none()) {
            let why = "The turn ended before anybody answered.";
            effects.push(Effect::Write(refusal_line(&request, why, waiting.by_tool_use)));
            effects.extend(waiting.ask.into_iter().flat_map(|ask| withdraw(ask, "cancelled")));
        }
        self.speaking = None;
        let more_to_come = self.crew.in_background > 0 || (self.echoes && self.prompts > 0);
        self.rest = if more_to_come { Rest::Working } else { Rest::Idle };
        let state = if more_to_come { "working" } else { "idle" };
        let told = json!({ "state": state, "cost": result.total_cost_usd });
        effects.extend([Effect::Register(without_nulls(told)), Effect::Tell(Told::Turn(result))]);
        effects
    }

    fn closed(&mut self) -> Vec<Effect> {
        let open = self.waiting.drain().filter_map(|(_, waiting)| waiting.ask);
        let mut effects: Vec<_> = open.flat_map(|ask| withdraw(ask, "gone")).collect();
        for (_, (ask, _)) in self.expected.drain() {
            let evidence = "the agent ended before its transcript showed whether it took this".to_owned();
            effects.extend(doubt(ask, Receipt::Unknown, evidence));
        }
        effects
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

    fn raised(&mut self, request: &str, ask: AskView) -> Vec<Effect> {
        let Some(waiting) = self.waiting.get_mut(request) else {
            // Taken back before the hub had recorded it.
            return vec![Effect::Withdraw { ask: ask.id.to_string(), why: "cancelled" }];
        };
        waiting.ask = Some(ask.id.to_string());
        match decided_by_rule(&ask) {
            Some((rule, resolution)) => {
                let tool = waiting.tool.tool_name.clone();
                let mut effects = self.deliver(request, &resolution);
                effects.push(Effect::Tell(Told::Decided { tool, resolution, rule }));
                effects
            }
            None => vec![Effect::Tell(Told::Asked(Box::new(ask)))],
        }
    }

    fn refuse(&mut self, request: &str, why: &str) -> Vec<Effect> {
        let Some(waiting) = self.waiting.remove(request) else { return Vec::new() };
        vec![Effect::Write(refusal_line(request, why, waiting.by_tool_use)), trouble(why.to_owned())]
    }

    fn resolved(&mut self, request: &str, resolution: Value) -> Vec<Effect> {
        let Some(ask) = self.waiting.get(request).and_then(|waiting| waiting.ask.clone()) else {
            return Vec::new();
        };
        let mut effects = match resolution["state"].as_str() {
            // Whoever withdrew it has already told the agent, or the agent no longer wants to know.
            Some("withdrawn") => {
                self.waiting.remove(request);
                Vec::new()
            }
            _ => self.deliver(request, &resolution),
        };
        effects.push(Effect::Tell(Told::AskEnded { ask, resolution }));
        effects
    }

    fn deliver(&mut self, request: &str, resolution: &Value) -> Vec<Effect> {
        let Some(Waiting { tool, body, ask: Some(ask), by_tool_use }) = self.waiting.remove(request) else {
            return Vec::new();
        };
        let outcome = &resolution["outcome"];
        let message = outcome["message"].as_str();
        let answer = match resolution["state"].as_str() {
            Some("answered") => Answer::read(&body, outcome["answer"].clone()).map(Some),
            _ => Ok(None),
        };
        // An answer that cannot be read is no approval.
        let lost = |why: String| unanswered(Some(&format!("The answer was lost: {why}")));
        let (line, expected) = match answer {
            Ok(Some(answer)) if by_tool_use => told_as_result(request, &body, &answer),
            Ok(Some(answer)) => {
                let (permit, expected) =
                    permit(&tool, &body, &answer, message).unwrap_or_else(|error| lost(error.to_string()));
                (permit_line(request, &permit), expected)
            }
            other => {
                let (permit, expected) = match other {
                    Err(invalid) => lost(invalid.to_string()),
                    Ok(_) => unanswered(message),
                };
                match &expected {
                    Expected::Refused { message, .. } if by_tool_use => {
                        (refusal_line(request, message, true), expected)
                    }
                    _ => (permit_line(request, &permit), expected),
                }
            }
        };
        if let Some(id) = tool.tool_use_id {
            self.expected.insert(id, (ask.clone(), expected));
        }
        vec![Effect::Deliver { ask, line }]
    }

    fn returned(&mut self, result: &wire::ToolResult, detail: Option<&Value>) -> Vec<Effect> {
        self.crew.returned(&result.tool_use_id);
        let mut effects = vec![Effect::Tell(Told::ToolEnded {
            id: result.tool_use_id.clone(),
            failed: result.is_error,
            text: result.text.clone(),
            took: None,
        })];
        if let Some((ask, expected)) = self.expected.remove(&result.tool_use_id) {
            let (receipt, evidence) = judge(&expected, result, detail);
            match receipt {
                Receipt::Confirmed => effects.push(Effect::Receipt { ask, receipt, evidence }),
                _ => effects.extend(doubt(ask, receipt, evidence)),
            }
        }
        effects
    }

    fn cancelled(&mut self, request: &str) -> Vec<Effect> {
        let ask = self.waiting.remove(request).and_then(|waiting| waiting.ask);
        ask.into_iter().flat_map(|ask| withdraw(ask, "cancelled")).collect()
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

/// What a rule decided at once, which nobody needs to wait for.
fn decided_by_rule(ask: &AskView) -> Option<(String, Value)> {
    let Some(aye_core::By::Rule { rule }) = &ask.by else { return None };
    let answer = ask.answer.as_ref()?;
    let outcome =
        json!({ "decision": answer.decision(), "answer": answer.to_json(), "message": answer.message() });
    Some((rule.to_string(), json!({ "state": ask.state, "outcome": outcome })))
}

fn refusal_line(request: &str, why: &str, by_tool_use: bool) -> String {
    match by_tool_use {
        true => wire::tool_result_line(request, why, true),
        false => permit_line(request, &wire::Permit::Deny { message: why.to_owned(), interrupt: false }),
    }
}

fn withdraw(ask: String, why: &'static str) -> [Effect; 2] {
    [Effect::Withdraw { ask: ask.clone(), why }, Effect::Tell(Told::Withdrawn { ask })]
}

/// Whatever is not confirmed, the person is told as well.
fn doubt(ask: String, receipt: Receipt, evidence: String) -> [Effect; 2] {
    let told = Told::Doubt { ask: ask.clone(), receipt, evidence: evidence.clone() };
    [Effect::Tell(told), Effect::Receipt { ask, receipt, evidence }]
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
