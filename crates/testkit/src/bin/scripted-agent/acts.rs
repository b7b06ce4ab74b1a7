//! What it does, step by step.

use crate::channel::{Channel, Heard, write};
use crate::lines;
use aye_testkit::scenario::{AgentAct, AgentScenario, Ask, Claim, Step, parts_of};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::process::exit;
use std::thread;
use std::time::{Duration, Instant};

/// An agent that reads nothing cannot see that it is no longer wanted, so it ends some day by itself.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

pub struct Agent {
    pub channel: Channel,
    session: String,
    requests: usize,
    turns: usize,
    /// Replies that came before they were waited for.
    early: HashMap<String, Value>,
    /// Prompts that came while a turn was under way.
    queued: VecDeque<Value>,
    last_words: String,
}

pub enum Flow {
    Goes,
    /// The turn was broken off.
    Broken,
    /// Its input has ended.
    Closed,
}

enum Reply {
    Came(Value),
    Interrupted,
    Closed,
}

impl Agent {
    pub fn new(channel: Channel, scenario: &AgentScenario) -> Self {
        Self {
            channel,
            session: scenario.session.clone(),
            requests: 0,
            turns: 0,
            early: HashMap::new(),
            queued: VecDeque::new(),
            last_words: "I am done.".into(),
        }
    }

    /// The next prompt; none once its input has ended.
    pub fn prompt(&mut self) -> Option<Value> {
        if let Some(message) = self.queued.pop_front() {
            return Some(message);
        }
        loop {
            match self.channel.listen()? {
                Heard::Prompt { message } => return Some(message),
                // Nothing is under way that they could be about.
                Heard::Answer { .. } | Heard::Interrupt | Heard::ToolResult { .. } => {}
            }
        }
    }

    /// One turn: steps up to the next `turn`, then how it went.
    pub fn turn(&mut self, steps: &mut VecDeque<Step<AgentAct>>) -> Flow {
        let mut broken = false;
        while let Some(step) = steps.pop_front() {
            if let Step::Act(AgentAct::Turn) = step {
                break;
            }
            if broken {
                continue;
            }
            self.turns += 1;
            match self.step(step) {
                Flow::Goes => {}
                Flow::Broken => broken = true,
                Flow::Closed => {
                    self.channel.write(&lines::result(&self.session, true, "", self.turns));
                    return Flow::Closed;
                }
            }
        }
        self.channel.write(&lines::result(&self.session, broken, &self.last_words, self.turns));
        Flow::Goes
    }

    fn step(&mut self, step: Step<AgentAct>) -> Flow {
        let act = match step {
            Step::Blocks(blocks) => return self.say(blocks),
            Step::Act(act) => act,
        };
        match act {
            AgentAct::Ask(ask) => return self.ask(&ask),
            AgentAct::Bare { block } => return self.ask_barely(&block),
            AgentAct::Request { id, request } => {
                self.channel.write(&lines::request(&id, &request));
                return self.flow_after(&id);
            }
            AgentAct::Stream { text, deltas, until } => self.stream(&text, deltas, until.as_deref()),
            AgentAct::Write { text, end } => write(&if end { text + "\n" } else { text }),
            AgentAct::LongLine { bytes, ask: false, .. } => long_line(bytes, LONG_WORDS),
            AgentAct::LongLine { bytes, ask: true, id_last } => {
                long_line(bytes, if id_last { LONG_REQUEST_ID_LAST } else { LONG_REQUEST });
                return self.flow_after("long");
            }
            AgentAct::Flood { requests, block } => return self.flood(requests, &block),
            AgentAct::Measure { requests, block, times } => return self.measure(requests, block, &times),
            AgentAct::Silence { stubborn } => return self.keep_silent(stubborn),
            AgentAct::Deaf => thread::sleep(LONGEST_WAIT),
            AgentAct::Until { file } => until(&file),
            AgentAct::Turn => {}
            AgentAct::Exit { code } => exit(code),
            AgentAct::Kill => kill_process(getpid(), Signal::KILL).unwrap(),
        }
        Flow::Goes
    }

    fn say(&mut self, blocks: Vec<Value>) -> Flow {
        for block in blocks {
            if block["type"] == "tool_use" {
                match self.ask(&Ask::plain(block)) {
                    Flow::Goes => {}
                    over => return over,
                }
            } else {
                self.channel.write(&lines::assistant(&self.session, None, &block));
                self.last_words = block["text"].as_str().unwrap_or_default().to_owned();
            }
        }
        Flow::Goes
    }

    fn ask(&mut self, ask: &Ask) -> Flow {
        let id = ask.request.clone().unwrap_or_else(|| self.next_request());
        self.channel.write(&lines::assistant(&self.session, ask.parent.as_deref(), &ask.block));
        self.channel.write(&lines::request(&id, &lines::can_use_tool(&ask.block, &ask.with)));
        if !ask.wait {
            return Flow::Goes;
        }
        match self.reply_to(&id) {
            Reply::Came(response) => {
                if let Some(file) = &ask.late {
                    until(file);
                }
                let claim = ask.claims.clone().unwrap_or_else(|| follows(&ask.block, &response));
                self.returned(ask, &claim);
                match response["response"]["interrupt"] == true {
                    true => Flow::Broken,
                    false => Flow::Goes,
                }
            }
            Reply::Interrupted => {
                self.channel.write(&lines::cancel(&id));
                self.returned(ask, &failed("[Request interrupted by user for tool use]"));
                Flow::Broken
            }
            Reply::Closed => {
                self.returned(ask, &failed("Tool permission stream closed before response received"));
                Flow::Closed
            }
        }
    }

    fn returned(&self, ask: &Ask, claim: &Claim) {
        let detail = claim.tool_use_result.clone().unwrap_or_default();
        let (parent, id) = (ask.parent.as_deref(), &ask.block["id"]);
        self.channel.write(&lines::tool_result(
            &self.session,
            parent,
            id,
            &claim.content,
            claim.is_error,
            &detail,
        ));
    }

    fn next_request(&mut self) -> String {
        self.requests += 1;
        format!("request-{}", self.requests)
    }

    fn reply_to(&mut self, wanted: &str) -> Reply {
        if let Some(response) = self.early.remove(wanted) {
            return Reply::Came(response);
        }
        loop {
            match self.channel.listen() {
                Some(Heard::Answer { id, response }) if id == wanted => return Reply::Came(response),
                Some(Heard::Answer { id, response }) => drop(self.early.insert(id, response)),
                Some(Heard::Interrupt) => return Reply::Interrupted,
                Some(Heard::Prompt { message }) => self.queued.push_back(message),
                // As with the real one, a tool's result is no answer to a request.
                Some(Heard::ToolResult { .. }) => {}
                None => return Reply::Closed,
            }
        }
    }

    fn flow_after(&mut self, id: &str) -> Flow {
        match self.reply_to(id) {
            Reply::Came(_) => Flow::Goes,
            Reply::Interrupted => Flow::Broken,
            Reply::Closed => Flow::Closed,
        }
    }

    fn ask_barely(&mut self, block: &Value) -> Flow {
        self.channel.write(&lines::assistant(&self.session, None, block));
        loop {
            match self.channel.listen() {
                Some(Heard::ToolResult { id, content }) if block["id"] == *id => {
                    let words = content.as_str().unwrap_or_default();
                    let line =
                        lines::tool_result(&self.session, None, &block["id"], words, false, &Value::Null);
                    self.channel.write(&line);
                    return Flow::Goes;
                }
                Some(Heard::Interrupt) => return Flow::Broken,
                Some(Heard::Prompt { message }) => self.queued.push_back(message),
                Some(Heard::ToolResult { .. } | Heard::Answer { .. }) => {}
                None => return Flow::Closed,
            }
        }
    }

    fn stream(&mut self, text: &str, deltas: usize, wait_for: Option<&Path>) {
        let event = |event: Value| self.channel.write(&lines::streamed(&self.session, &event));
        event(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        );
        for (i, part) in parts_of(text, deltas).iter().enumerate() {
            if let Some(file) = wait_for.filter(|_| i == 1) {
                until(file);
            }
            let delta = json!({"type": "text_delta", "text": part});
            event(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
        }
        event(json!({"type": "content_block_stop", "index": 0}));
        let block = json!({"type": "text", "text": text});
        self.channel.write(&lines::assistant(&self.session, None, &block));
        self.last_words = text.to_owned();
    }

    /// Written by a thread of its own, as the real one reads while it writes.
    fn flood(&mut self, requests: usize, block: &Value) -> Flow {
        let mut waiting: HashSet<_> = (0..requests).map(|n| format!("flood-{n}")).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..requests {
                    let request = lines::can_use_tool(&numbered(block, n), &Map::new());
                    write(&format!("{}\n", lines::request(&format!("flood-{n}"), &request)));
                }
            });
            while !waiting.is_empty() {
                match self.channel.listen() {
                    Some(Heard::Answer { id, .. }) => drop(waiting.remove(&id)),
                    Some(Heard::Interrupt) => return Flow::Broken,
                    Some(Heard::Prompt { message }) => self.queued.push_back(message),
                    Some(Heard::ToolResult { .. }) => {}
                    None => return Flow::Closed,
                }
            }
            Flow::Goes
        })
    }

    fn measure(&mut self, requests: usize, block: Value, times: &Path) -> Flow {
        let mut taken = Vec::with_capacity(requests);
        for n in 0..requests {
            let (id, block) = (self.next_request(), numbered(&block, n));
            self.channel.write(&lines::assistant(&self.session, None, &block));
            let line = format!("{}\n", lines::request(&id, &lines::can_use_tool(&block, &Map::new())));
            let start = Instant::now();
            write(&line);
            let Reply::Came(response) = self.reply_to(&id) else { return Flow::Closed };
            taken.push(start.elapsed().as_nanos());
            self.returned(&Ask::plain(block.clone()), &follows(&block, &response));
        }
        let taken: Vec<_> = taken.iter().map(u128::to_string).collect();
        std::fs::write(times, taken.join("\n") + "\n").unwrap();
        Flow::Goes
    }

    fn keep_silent(&mut self, stubborn: bool) -> Flow {
        loop {
            match self.channel.listen() {
                Some(Heard::Interrupt) if !stubborn => return Flow::Broken,
                Some(Heard::Prompt { message }) => self.queued.push_back(message),
                Some(_) => {}
                None => return Flow::Closed,
            }
        }
    }
}

/// What a well-behaved agent's transcript shows after this reply.
fn follows(block: &Value, reply: &Value) -> Claim {
    if let Some(error) = reply["error"].as_str() {
        return failed(&format!("Tool permission request failed: Error: {error}"));
    }
    let response = &reply["response"];
    let input = &response["updatedInput"];
    match (response["behavior"].as_str(), block["name"].as_str()) {
        (Some("allow"), Some("AskUserQuestion")) => Claim {
            content: format!("Your questions have been answered: {} {}", input["answers"], input["response"]),
            is_error: false,
            tool_use_result: Some(input.clone()),
        },
        (Some("allow"), _) => {
            Claim { content: "done".into(), is_error: false, tool_use_result: Some(input.clone()) }
        }
        _ => failed(response["message"].as_str().unwrap_or("a reply that is neither yes nor no")),
    }
}

fn failed(words: &str) -> Claim {
    Claim { content: words.into(), is_error: true, tool_use_result: Some(format!("Error: {words}").into()) }
}

/// The same tool call under an id of its own.
fn numbered(block: &Value, n: usize) -> Value {
    let mut block = block.clone();
    block["id"] = format!("{}-{n}", block["id"].as_str().unwrap_or("toolu")).into();
    block
}

const LONG_WORDS: [&str; 2] =
    [r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":""#, r#""}]}}"#];

const LONG_REQUEST: [&str; 2] = [
    r#"{"type":"control_request","request_id":"long","request":{"subtype":"can_use_tool","tool_name":"Write","tool_use_id":"toolu_long","input":{"file_path":"long.txt","content":""#,
    r#""}}}"#,
];

const LONG_REQUEST_ID_LAST: [&str; 2] = [
    r#"{"request":{"input":{"file_path":"long.txt","content":""#,
    r#""},"subtype":"can_use_tool","tool_name":"Write","tool_use_id":"toolu_long"},"request_id":"long","type":"control_request"}"#,
];

/// Written in parts, so that this program stays small.
fn long_line(bytes: usize, [begin, end]: [&str; 2]) {
    let filling = "x".repeat(64 * 1024);
    write(begin);
    let mut left = bytes.saturating_sub(begin.len() + end.len());
    while left > 0 {
        let part = left.min(filling.len());
        write(&filling[..part]);
        left -= part;
    }
    write(&format!("{end}\n"));
}

fn until(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < LONGEST_WAIT, "nobody made {}", file.display());
        thread::sleep(Duration::from_millis(5));
    }
}
