//! Claude Code without its terminal: its lines on standard input and output, and what they mean.

#[cfg(test)]
mod tests;

use super::mode::asks_in;
use super::outcome::{permit, told_as_result, unanswered};
use super::receipts::{Expected, Fate, judge};
use super::sub_agents::SubAgents;
use super::translate;
use super::wire::{self, Block, CanUseTool, Denied, Frame, ToolResult, TurnResult, permit_line};
use crate::agents::driven::account::Tokens;
use crate::agents::driven::{AgentProtocol, Asked, Input, Meaning, Pipes, RunEvent, Turn, Written};
use crate::agents::lines::Line;
use crate::config::{AsksBy, DEFAULT_MODE};
use crate::protocol::{Image, RefusedCall, Registration, Resolution};
use aye_core::{AsksFor, Body, Can};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub struct ClaudeCode {
    cwd: PathBuf,
    places: aye_policy::OwnPlaces,
    /// The ids of our own requests begin with it.
    nonce: String,
    asks_by: AsksBy,
    mode: String,
    /// The least that the first mode must ask for; none where the agent's own arguments name a mode.
    must_ask: Option<AsksFor>,
    resume: Option<String>,
    requests: u64,
    /// What the transcript must still show, by tool call.
    expected: HashMap<String, Expected>,
    /// Plans as the model gave them, by tool call: newer versions leave them out of the request itself.
    plans: HashMap<String, Value>,
    /// Calls that were asked about because they were in a message.
    asked_by_tool_use: HashSet<String>,
    sub_agents: SubAgents,
    /// Inputs of the calls that have not returned.
    inputs: HashMap<String, Value>,
    /// The text that is being spoken, and how many there were.
    speaking: Option<String>,
    texts: u64,
}

/// A request to use a tool. `by_tool_use`: no control request came, only the `tool_use` block.
pub struct Request {
    tool: CanUseTool,
    by_tool_use: bool,
}

type Meanings = Vec<Meaning<ClaudeCode>>;

impl AgentProtocol for ClaudeCode {
    type Input = Line;
    type Message = String;
    type Request = Request;
    type Writer = Input;

    fn arguments(&self) -> Vec<OsString> {
        let fixed = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-prompt-tool",
            "stdio",
            "--include-partial-messages",
            "--replay-user-messages",
        ];
        // Named always: without it, the person's settings could name one that asks for nothing.
        let mode = format!("--permission-mode={}", self.mode);
        let session = self.resume.as_ref().map(|session| format!("--resume={session}"));
        let given = std::iter::once(mode).chain(session).map(OsString::from);
        fixed.into_iter().map(OsString::from).chain(given).collect()
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
        vec![wire::initialize_line(&self.next_request())]
    }

    fn prompt(&mut self, text: &str, image: Option<&Image>) -> Vec<String> {
        vec![wire::prompt_line(text, image)]
    }

    fn interrupt(&mut self) -> Meanings {
        vec![Meaning::Write(wire::interrupt_line(&self.next_request()))]
    }

    fn read(&mut self, input: Line) -> Meanings {
        match input {
            Line::Whole(line) => self.read_line(&line),
            Line::TooLong { beginning, end, length } => too_long(&beginning, &end, length),
        }
    }

    fn outcome(
        &mut self,
        id: &str,
        request: Request,
        body: &Body,
        resolution: &Resolution,
    ) -> Written<String> {
        let Request { tool, by_tool_use } = request;
        let message = resolution.outcome.message.as_deref();
        let (line, expected) = match &resolution.outcome.answer {
            Some(answer) if by_tool_use => told_as_result(id, body, answer),
            Some(answer) => {
                // An answer that cannot be told is no approval.
                let lost = |error| unanswered(Some(&format!("The answer was lost: {error}")));
                let (permit, expected) = permit(&tool, body, answer, message).unwrap_or_else(lost);
                (permit_line(id, &permit), expected)
            }
            None => match unanswered(message) {
                (_, Expected::Refused { message, interrupt }) if by_tool_use => {
                    let line = wire::tool_result_line(id, &message, true);
                    (line, Expected::Refused { message, interrupt })
                }
                (permit, expected) => (permit_line(id, &permit), expected),
            },
        };
        let shown_by = tool.tool_use_id;
        self.expected.extend(shown_by.clone().map(|call| (call, expected)));
        Written { message: line, shown_by }
    }

    fn refusal(&mut self, id: &str, request: &Request, why: &str) -> String {
        match request.by_tool_use {
            true => wire::tool_result_line(id, why, true),
            false => permit_line(id, &wire::Permit::Deny { message: why.to_owned(), interrupt: false }),
        }
    }

    fn fault(&mut self, id: &str, why: &str) -> String {
        wire::error_line(id, why)
    }
}

impl ClaudeCode {
    pub fn new(cwd: PathBuf, places: aye_policy::OwnPlaces, nonce: String, asks_by: AsksBy) -> Self {
        Self {
            cwd,
            places,
            nonce,
            asks_by,
            mode: DEFAULT_MODE.to_owned(),
            must_ask: None,
            resume: None,
            requests: 0,
            expected: HashMap::new(),
            plans: HashMap::new(),
            asked_by_tool_use: HashSet::new(),
            sub_agents: SubAgents::default(),
            speaking: None,
            texts: 0,
            inputs: HashMap::new(),
        }
    }

    /// Started in this permission mode, and with this session.
    pub fn started(self, mode: Option<String>, resume: Option<String>) -> Self {
        Self { mode: mode.unwrap_or_else(|| DEFAULT_MODE.to_owned()), resume, ..self }
    }

    /// Ends the run if the agent begins in a mode that asks for less than the one it was told.
    pub fn checking_mode(self) -> Self {
        Self { must_ask: Some(asks_in(&self.mode)), ..self }
    }

    fn next_request(&mut self) -> String {
        self.requests += 1;
        format!("{}-{}", self.nonce, self.requests)
    }

    fn next_text(&mut self) -> String {
        self.texts += 1;
        format!("t{}", self.texts)
    }

    fn read_line(&mut self, line: &[u8]) -> Meanings {
        let frame = match wire::decode(line) {
            Ok(frame) => frame,
            Err(_) if line.iter().all(u8::is_ascii_whitespace) => return Vec::new(),
            Err(garbage) => {
                return vec![trouble(format!("The agent wrote something that makes no sense: {garbage}"))];
            }
        };
        match frame {
            Frame::Request { id, request } => self.requested(id, request),
            Frame::Cancel { id } => vec![Meaning::Cancels { id }],
            Frame::Init(init) => {
                let session = Meaning::Session { id: init.session_id, cwd: init.cwd };
                let mode = init.mode.map(|mode| self.begins_in(&mode)).unwrap_or_default();
                [Meaning::Works, session].into_iter().chain(mode).collect()
            }
            Frame::Mode(mode) => vec![Meaning::Knows(Registration::mode(asks_in(&mode)))],
            Frame::TextBegins => {
                self.speaking = Some(self.next_text());
                vec![Meaning::Works]
            }
            Frame::TextDelta(delta) => {
                let id = self.speaking.clone();
                id.map(|id| Meaning::Tells(RunEvent::Speaks { id, delta })).into_iter().collect()
            }
            Frame::Assistant { blocks, parent } => self.says(blocks, parent.as_deref()),
            Frame::User { results, detail, echo } => {
                let took_prompt = echo.then_some(Meaning::TookPrompt);
                let returned = results.iter().flat_map(|result| self.returned(result, detail.as_ref()));
                took_prompt.into_iter().chain(returned).collect()
            }
            Frame::SubAgent { tool_use_id, agent_id, name } => {
                self.sub_agents.started(tool_use_id, agent_id, name);
                Vec::new()
            }
            Frame::Background { sub_agents } => vec![Meaning::SubAgents(sub_agents)],
            Frame::Result(result) => {
                self.speaking = None;
                vec![Meaning::TurnEnded(result.into())]
            }
            Frame::Denied(denied) => self.denied(denied),
            Frame::Retry(retry) => vec![trouble(retry_words(&retry))],
            Frame::Response { error: Some(error), .. } => {
                vec![trouble(format!("The agent refused a request: {error}"))]
            }
            Frame::Response { error: None, .. } | Frame::Other => Vec::new(),
        }
    }

    /// Each turn begins with the mode that it is in. Only the first must be the one that was named.
    fn begins_in(&mut self, mode: &str) -> Meanings {
        let asks = asks_in(mode);
        let known = Meaning::Knows(Registration::mode(asks));
        match self.must_ask.take() {
            Some(must_ask) if asks.is_less_than(must_ask) => {
                let wanted = &self.mode;
                let words = format!(
                    "The agent was started in the mode {wanted}, but works in {mode}, which asks for less. The run ends."
                );
                vec![known, Meaning::Fails(words)]
            }
            Some(_) | None => vec![known],
        }
    }

    fn requested(&mut self, id: String, request: wire::Request) -> Meanings {
        match request {
            wire::Request::CanUseTool(tool) => {
                vec![Meaning::Asks(self.asked(id, *tool, false))]
            }
            wire::Request::Initialize => {
                let reply = wire::success_line(&id);
                vec![Meaning::Wants { id, reply }]
            }
            wire::Request::Unknown { subtype } => {
                let reply = wire::error_line(&id, &format!("aye does not know the request {subtype:?}"));
                vec![Meaning::Wants { id, reply }]
            }
            wire::Request::Malformed { why } => {
                let error = format!("aye cannot read this request, so nothing is approved: {why}");
                let reply = wire::error_line(&id, &error);
                vec![Meaning::Wants { id, reply }, trouble(error)]
            }
        }
    }

    fn asked(&mut self, id: String, tool: CanUseTool, by_tool_use: bool) -> Asked<Request> {
        // A plan that is not in the request is in the message before it. The request stays as it is: an input that comes
        // back with another plan is told to the model as edited.
        let plan =
            tool.tool_use_id.as_ref().and_then(|id| self.plans.remove(id)?.as_str().map(str::to_owned));
        let body = translate::ask_with_plan(&tool, &self.cwd, &self.places, || plan);
        let body = body.map_err(|why| why.to_string());
        let tool_use_id = tool.tool_use_id.clone();
        let sub_agent = self.sub_agents.behind(tool_use_id.as_deref(), tool.agent_id.as_deref());
        // Sub-agents go on after the turn in which they were started.
        let outlives_turn = tool.agent_id.is_some();
        Asked {
            id,
            request: Request { tool, by_tool_use },
            body,
            tool_use_id,
            sub_agent,
            cwd: None,
            can: Can::default(),
            outlives_turn,
        }
    }

    fn says(&mut self, blocks: Vec<Block>, parent: Option<&str>) -> Meanings {
        self.sub_agents.says(&blocks, parent);
        self.remember_plans(&blocks);
        let works = parent.is_none().then_some(Meaning::Works);
        let said = blocks.into_iter().flat_map(|block| self.says_one(block, parent.is_some()));
        works.into_iter().chain(said).collect()
    }

    fn says_one(&mut self, block: Block, by_a_sub_agent: bool) -> Meanings {
        match block {
            Block::Text(text) if !by_a_sub_agent => {
                let id = self.speaking.take().unwrap_or_else(|| self.next_text());
                vec![Meaning::Tells(RunEvent::Said { id, text })]
            }
            Block::ToolUse { id, name, input } => {
                let sub_agent = self.sub_agents.behind(Some(&id), None);
                let asked = match (self.asks_by, name.as_str()) {
                    (AsksBy::ToolUse, translate::QUESTIONS) => self.asks_by_tool_use(&id, &input),
                    (AsksBy::ToolUse | AsksBy::Control, _) => None,
                };
                self.inputs.insert(id.clone(), input.clone());
                let started = RunEvent::ToolStarted { id, name, input, sub_agent };
                [Some(Meaning::Tells(started)), asked].into_iter().flatten().collect()
            }
            Block::Text(_) | Block::Other => Vec::new(),
        }
    }

    fn asks_by_tool_use(&mut self, tool_use_id: &str, input: &Value) -> Option<Meaning<Self>> {
        let input = serde_json::value::to_raw_value(input).ok()?;
        // A message may come more than once.
        if !self.asked_by_tool_use.insert(tool_use_id.to_owned()) {
            return None;
        }
        let tool = CanUseTool {
            tool_name: translate::QUESTIONS.to_owned(),
            input,
            tool_use_id: Some(tool_use_id.to_owned()),
            agent_id: None,
            permission_suggestions: None,
        };
        Some(Meaning::Asks(self.asked(tool_use_id.to_owned(), tool, true)))
    }

    fn remember_plans(&mut self, blocks: &[Block]) {
        for block in blocks {
            if let Block::ToolUse { id, name, input } = block
                && name == translate::PLAN
            {
                self.plans.insert(id.clone(), input["plan"].clone());
            }
        }
    }

    /// Reports what auto mode refuses. Other refusals come from rules that the person wrote, or from an answer.
    fn denied(&mut self, denied: Denied) -> Meanings {
        if denied.decision_reason_type != "classifier" {
            return Vec::new();
        }
        let input = self.inputs.get(&denied.tool_use_id).cloned().unwrap_or_default();
        let sub_agent = self.sub_agents.behind(Some(&denied.tool_use_id), denied.agent_id.as_deref());
        let Denied { tool_use_id: id, tool_name: name, decision_reason: reason, .. } = denied;
        vec![Meaning::Tells(RunEvent::RefusedItself(RefusedCall { id, name, input, reason, sub_agent }))]
    }

    fn returned(&mut self, result: &ToolResult, detail: Option<&Value>) -> Meanings {
        let call = result.tool_use_id.clone();
        self.sub_agents.returned(&call);
        self.inputs.remove(&call);
        let ended = Meaning::Tells(RunEvent::ToolEnded {
            id: call.clone(),
            failed: result.is_error,
            text: result.text.clone(),
            images: result.images.clone(),
            took: None,
            sub_agent: None,
        });
        let shows = self.expected.remove(&call).map(|expected| {
            let (receipt, evidence) = judge(&expected, result, detail, Fate::by_words(result), None);
            Meaning::Shows { call, receipt, evidence }
        });
        [Some(ended), shows].into_iter().flatten().collect()
    }
}

impl From<TurnResult> for Turn {
    fn from(result: TurnResult) -> Self {
        let usage = result.usage.unwrap_or_default();
        let tokens = Tokens {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_input_tokens,
            cache_written: usage.cache_creation_input_tokens,
        };
        Self {
            failed: result.is_error,
            text: result.result,
            cost: result.total_cost_usd,
            turns: result.num_turns,
            duration_ms: result.duration_ms,
            tokens,
        }
    }
}

fn retry_words(retry: &wire::Retry) -> String {
    let status = retry.error_status.map(|status| format!(" ({status})")).unwrap_or_default();
    let why = retry.error.as_deref().map(|why| format!(": {}", why.replace('_', " "))).unwrap_or_default();
    let seconds = retry.retry_delay_ms.map(|delay| format!(" in {:.0}s", (delay / 1000.0).ceil()));
    let attempt = match (retry.attempt, retry.max_retries) {
        (Some(attempt), Some(most)) => format!(", attempt {attempt} of {most}"),
        _ => String::new(),
    };
    format!("The model did not answer{status}{why}. Trying again{}{attempt}.", seconds.unwrap_or_default())
}

/// If the long line is a request, it still gets an error. Its id may be at either end of the line.
fn too_long(beginning: &[u8], end: &[u8], length: usize) -> Meanings {
    let told = trouble(format!("The agent wrote a line of {length} bytes, which is too long to be read."));
    let ends = [beginning, end].map(String::from_utf8_lossy);
    let id = ends.iter().find_map(|text| {
        let (_, rest) = text.split_once("\"request_id\":\"")?;
        rest.split_once('"').map(|(id, _)| id.to_owned())
    });
    let is_request = ends.iter().any(|text| text.contains("\"control_request\""));
    match id.filter(|_| is_request) {
        Some(id) => {
            let reply = wire::error_line(&id, "this request is too long to be shown to a person");
            vec![Meaning::Wants { id, reply }, told]
        }
        None => vec![told],
    }
}

fn trouble(words: String) -> Meaning<ClaudeCode> {
    Meaning::Tells(RunEvent::Trouble(words))
}
