//! Driving Claude Code: what follows from each thing that happens. No I/O here; see `run.rs`.

mod asks;

use super::activity::{Activity, Rest};
use super::crew::Crew;
use super::receipts::Expected;
use super::told::Told;
use super::translate;
use super::wire::{self, Block, CanUseTool, Frame};
use crate::config::AsksBy;
use crate::protocol::{Image, Registration, Resolution};
use aye_core::{AskId, AskView, Body, Key, Receipt, Report, Withdrawal};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

/// What happens to a run.
#[derive(Debug)]
pub enum Event {
    /// The agent wrote a line.
    Line(Vec<u8>),
    /// The agent wrote a line that is too long to be read; this is how it begins and ends.
    LongLine {
        beginning: Vec<u8>,
        end: Vec<u8>,
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
        resolution: Resolution,
    },
    Prompt {
        text: String,
        image: Option<Image>,
    },
    Interrupt,
    /// The run is to end, whatever the agent is doing.
    Stop,
    /// The agent complained about something.
    Complaint(String),
    /// No commands can come any more.
    Unheard,
    /// The agent's input is about to be closed.
    Closing,
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
        ask: AskId,
        line: String,
        /// Whether a person waits to see it delivered.
        awaited: bool,
    },
    Raise {
        request: String,
        /// Unique for ever; the same each time this is raised, and never that of another request.
        key: Key,
        body: Body,
        tool_use_id: Option<String>,
        sub_agent: Option<String>,
    },
    Withdraw {
        ask: AskId,
        why: Withdrawal,
    },
    Receipt {
        ask: AskId,
        receipt: Receipt,
        evidence: String,
    },
    /// Something for the account of the run.
    Tell(Told),
    /// What is now known of the agent, for the hub.
    Register(Registration),
    /// The run is over.
    End,
}

pub struct Driver {
    cwd: PathBuf,
    places: aye_policy::Home,
    /// Names of this run's own requests and keys begin with it.
    nonce: String,
    asks_by: AsksBy,
    /// What the agent waits for, by its request id.
    waiting: HashMap<String, Waiting>,
    /// Requests that are over, the last of them at the end: an id that is used again gets no old answer.
    over: VecDeque<String>,
    /// What the transcript must still show, by tool call.
    expected: HashMap<String, (AskId, Expected)>,
    /// Plans as the model gave them, by tool call: newer versions leave them out of the request itself.
    plans: HashMap<String, Value>,
    crew: Crew,
    activity: Activity,
    /// The text that is being spoken, and how many there were.
    speaking: Option<String>,
    texts: u64,
    requests: u64,
    asked: u64,
}

struct Waiting {
    tool: CanUseTool,
    body: Body,
    ask: Option<AskId>,
    by_tool_use: bool,
}

impl Driver {
    /// The folder that the agent works in.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    pub fn new(cwd: PathBuf, places: aye_policy::Home, nonce: String, asks_by: AsksBy) -> Self {
        Self {
            cwd,
            places,
            nonce,
            asks_by,
            waiting: HashMap::new(),
            over: VecDeque::new(),
            expected: HashMap::new(),
            plans: HashMap::new(),
            crew: Crew::default(),
            activity: Activity::default(),
            speaking: None,
            texts: 0,
            requests: 0,
            asked: 0,
        }
    }

    /// The first lines for the agent.
    pub fn begin(&mut self, prompt: &str, image: Option<&Image>) -> Vec<Effect> {
        let id = self.next_request();
        let mut effects = vec![Effect::Write(wire::initialize_line(&id))];
        effects.extend(self.prompt(prompt, image));
        effects
    }

    pub fn rest(&self) -> Rest {
        self.activity.rest()
    }

    fn state(&self) -> Report {
        match self.rest() {
            Rest::Working => Report::Working,
            Rest::Lingering | Rest::Idle => Report::Idle,
        }
    }

    fn prompt(&mut self, text: &str, image: Option<&Image>) -> Vec<Effect> {
        self.activity.prompted();
        vec![
            Effect::Write(wire::prompt_line(text, image)),
            Effect::Register(Registration::state(Report::Working)),
            Effect::Tell(Told::Prompt(text.to_owned())),
        ]
    }

    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Line(line) => self.read(&line),
            Event::LongLine { beginning, end, length } => self.pass_by(&beginning, &end, length),
            Event::Raised { request, ask } => self.raised(&request, *ask),
            Event::NotRaised { request, why } => {
                self.refuse(&request, &format!("Nobody could be asked: {why}"))
            }
            Event::Resolved { request, resolution } => self.resolved(&request, resolution),
            Event::Prompt { text, image } => self.prompt(&text, image.as_ref()),
            Event::Interrupt => vec![self.interrupt()],
            Event::Stop if self.rest() == Rest::Idle => vec![Effect::End],
            Event::Stop => vec![self.interrupt(), Effect::End],
            Event::Complaint(words) => vec![trouble(format!("the agent complains: {words}"))],
            Event::Unheard if self.rest() == Rest::Working => Vec::new(),
            Event::Unheard => vec![Effect::End],
            Event::Closing => self.withdraw_all(),
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
                self.activity.begins();
                let (session, cwd) = (init.session_id, init.cwd);
                let told = Registration { session, cwd, ..Registration::state(Report::Working) };
                vec![Effect::Register(told)]
            }
            Frame::TextBegins => {
                self.activity.begins();
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
                    self.activity.echoed();
                }
                results.iter().flat_map(|result| self.returned(result, detail.as_ref())).collect()
            }
            Frame::SubAgent { tool_use_id, agent_id, name } => {
                self.crew.started(tool_use_id, agent_id, name);
                Vec::new()
            }
            Frame::Background { sub_agents } => {
                self.activity.sub_agents(sub_agents);
                vec![Effect::Register(Registration::state(self.state()))]
            }
            Frame::Result(result) => self.turn_ended(result),
            Frame::Response { error: Some(error), .. } => {
                vec![trouble(format!("The agent refused a request: {error}"))]
            }
            Frame::Response { error: None, .. } | Frame::Other => Vec::new(),
        }
    }

    fn says(&mut self, blocks: Vec<Block>, parent: Option<&str>) -> Vec<Effect> {
        if parent.is_none() {
            self.activity.begins();
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

    fn next_text(&mut self) -> String {
        self.texts += 1;
        format!("t{}", self.texts)
    }

    /// A request among what cannot be read must not wait for ever; where its id stands is not agreed on.
    fn pass_by(&self, beginning: &[u8], end: &[u8], length: usize) -> Vec<Effect> {
        let told =
            trouble(format!("The agent wrote a line of {length} bytes, which is too long to be read."));
        let ends = [beginning, end].map(String::from_utf8_lossy);
        let id = ends.iter().find_map(|text| {
            let (_, rest) = text.split_once("\"request_id\":\"")?;
            rest.split_once('"').map(|(id, _)| id.to_owned())
        });
        let is_request = ends.iter().any(|text| text.contains("\"control_request\""));
        match id.filter(|id| is_request && !self.waiting.contains_key(id)) {
            Some(id) => vec![
                Effect::Write(wire::error_line(&id, "this request is too long to be shown to a person")),
                told,
            ],
            None => vec![told],
        }
    }
}

fn trouble(words: String) -> Effect {
    Effect::Tell(Told::Trouble(words))
}
