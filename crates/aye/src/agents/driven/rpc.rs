//! JSON-RPC, a message a line, as several agents speak it. Both sides ask; each counts its requests by itself.

use super::{AgentProtocol, Meaning, RunEvent};
use crate::agents::lines::Line;
use aye_core::{Offer, Question, QuestionDraft};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// The request does not exist here.
pub const UNKNOWN_METHOD: i64 = -32601;
/// The request cannot be read.
pub const INVALID_REQUEST: i64 = -32600;

/// What an agent wrote, where `A` says what our requests are for.
#[derive(Debug, PartialEq)]
pub enum Incoming<A> {
    /// It asks, and waits for a reply under this id.
    Request {
        id: String,
        method: String,
        params: Value,
    },
    Tells {
        method: String,
        params: Value,
    },
    /// Its reply to our request for this, or its error.
    Reply {
        to: A,
        result: Result<Value, String>,
    },
    Faulty(Faulty),
}

/// A malformed message, of any agent.
#[derive(Debug, PartialEq)]
pub enum Faulty {
    /// A request that cannot be shown to anybody, and why; it gets an error.
    Refused { id: String, why: String },
    /// Not a message at all; programs print such lines now and then.
    Noise(String),
    /// It does not keep to the protocol, so nothing that it says can be relied on.
    Broken(String),
}

/// The requests of one agent.
pub struct Rpc<A> {
    /// Whether messages name their protocol.
    names_version: bool,
    ours: u64,
    awaited: HashMap<u64, A>,
    /// The ids that the agent has used: a second request under one of them could get the answer of the first.
    used: HashSet<String>,
}

impl<A> Default for Rpc<A> {
    fn default() -> Self {
        Self { names_version: false, ours: 0, awaited: HashMap::new(), used: HashSet::new() }
    }
}

impl<A> Rpc<A> {
    pub fn naming_its_version() -> Self {
        Self { names_version: true, ..Self::default() }
    }

    /// A request of ours as a line; `what` comes back with its reply.
    pub fn request(&mut self, what: A, method: &str, params: Value) -> String {
        self.ours += 1;
        self.awaited.insert(self.ours, what);
        self.line(json!({ "id": self.ours, "method": method, "params": params }))
    }

    pub fn tell(&self, method: &str, params: Value) -> String {
        self.line(json!({ "method": method, "params": params }))
    }

    pub fn reply(&self, id: &str, result: Value) -> String {
        self.line(json!({ "id": original(id), "result": result }))
    }

    pub fn error(&self, id: &str, code: i64, why: &str) -> String {
        self.line(json!({ "id": original(id), "error": { "code": code, "message": why } }))
    }

    fn line(&self, mut message: Value) -> String {
        if self.names_version {
            message["jsonrpc"] = "2.0".into();
        }
        message.to_string()
    }

    /// What follows from a malformed message of `agent`.
    pub fn faulty<P: AgentProtocol<Message = String>>(&self, agent: &str, faulty: Faulty) -> Vec<Meaning<P>> {
        match faulty {
            Faulty::Refused { id, why } => {
                let reply = self.error(&id, INVALID_REQUEST, &why);
                vec![Meaning::Wants { id, reply }, trouble(format!("A request was refused: {why}."))]
            }
            Faulty::Noise(words) => vec![trouble(format!("The agent wrote: {words}"))],
            Faulty::Broken(why) => {
                vec![Meaning::Fails(format!("{agent} does not keep to its protocol: {why}. The run ends."))]
            }
        }
    }

    /// None for an empty line.
    pub fn read(&mut self, line: Line) -> Option<Incoming<A>> {
        let (text, length) = match line {
            Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => return None,
            Line::Whole(line) => (line, None),
            Line::TooLong { beginning, length, .. } => (beginning, Some(length)),
        };
        Some(match length {
            Some(length) => Incoming::Faulty(self.too_long(&text, length)),
            None => match aye_core::json::parse(&text) {
                Ok(message) => self.message(message).unwrap_or_else(Incoming::Faulty),
                Err(error) => Incoming::Faulty(self.unreadable(&text, &error)),
            },
        })
    }

    fn message(&mut self, mut message: Value) -> Result<Incoming<A>, Faulty> {
        let shown = || one_line(message.to_string().as_bytes());
        let method = match &message["method"] {
            Value::Null => None,
            Value::String(method) => Some(method.clone()),
            _ => return Err(Faulty::Broken(format!("its message has no name: {}", shown()))),
        };
        let id = match &message["id"] {
            Value::Null => None,
            id @ (Value::Number(_) | Value::String(_)) => Some(id.clone()),
            _ => return Err(Faulty::Broken(format!("the id of its message is none: {}", shown()))),
        };
        match (method, id) {
            (Some(method), Some(id)) => {
                let id = self.new_request(&id)?;
                Ok(Incoming::Request { id, method, params: message["params"].take() })
            }
            (Some(method), None) => Ok(Incoming::Tells { method, params: message["params"].take() }),
            (None, Some(id)) => match id.as_u64().and_then(|id| self.awaited.remove(&id)) {
                None => Err(Faulty::Broken(format!("it answered a request that was never made, {id}"))),
                Some(to) if message["error"].is_null() => {
                    Ok(Incoming::Reply { to, result: Ok(message["result"].take()) })
                }
                Some(to) => Ok(Incoming::Reply { to, result: Err(in_words(&message["error"])) }),
            },
            (None, None) => Err(Faulty::Broken(format!("its message has neither id nor name: {}", shown()))),
        }
    }

    fn new_request(&mut self, id: &Value) -> Result<String, Faulty> {
        let id = id.to_string();
        match self.used.insert(id.clone()) {
            true => Ok(id),
            false => Err(Faulty::Broken(format!("it made two requests under the id {id}"))),
        }
    }

    /// If another parser can read it as a request, the agent waits for a reply and gets an error.
    fn unreadable(&mut self, text: &[u8], error: &serde_json::Error) -> Faulty {
        match serde_json::from_slice::<Value>(text) {
            Ok(message) if message["method"].is_string() && !message["id"].is_null() => {
                let why = format!("it cannot be read for sure: {error}");
                self.new_request(&message["id"])
                    .map_or_else(|broken| broken, |id| Faulty::Refused { id, why })
            }
            _ if text.trim_ascii_start().starts_with(b"{") => {
                Faulty::Broken(format!("it wrote a message that cannot be read: {error}"))
            }
            _ => Faulty::Noise(one_line(text)),
        }
    }

    /// The part before the parameters says whether it is a request.
    fn too_long(&mut self, beginning: &[u8], length: usize) -> Faulty {
        let why = format!("it has {length} bytes, which is too long to be read");
        let text = String::from_utf8_lossy(beginning);
        let head = text.split_once("\"params\"").map(|(head, _)| head.trim_end().trim_end_matches(','));
        let head = head.and_then(|head| serde_json::from_str::<Value>(&format!("{head}}}")).ok());
        match head {
            Some(head) if head["method"].is_string() && !head["id"].is_null() => {
                self.new_request(&head["id"]).map_or_else(|broken| broken, |id| Faulty::Refused { id, why })
            }
            Some(head) if head["method"].is_string() => Faulty::Noise(format!("{}: {why}", head["method"])),
            _ => {
                Faulty::Broken(format!("it wrote a message of {length} bytes, which is too long to be read"))
            }
        }
    }
}

pub fn trouble<P: AgentProtocol>(words: String) -> Meaning<P> {
    Meaning::Tells(RunEvent::Trouble(words))
}

/// A question with its options, by the names that agents agree on.
pub fn question(question: &Value, multi_select: bool, free_text: bool) -> Result<Question, String> {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let offer = |option: &Value| Offer {
        label: text(option, "label"),
        description: text(option, "description"),
        preview: None,
        allows: false,
    };
    let options = question["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    Question::try_from(QuestionDraft {
        question: text(question, "question"),
        header: text(question, "header"),
        options: options.iter().map(offer).collect(),
        multi_select,
        free_text,
        secret: false,
    })
}

/// An id as the agent wrote it.
fn original(id: &str) -> Value {
    serde_json::from_str(id).unwrap_or(Value::Null)
}

fn in_words(error: &Value) -> String {
    let details = error["data"]["details"].as_str().map(|details| format!(": {details}")).unwrap_or_default();
    let message = error["message"].as_str();
    message.map_or_else(|| one_line(error.to_string().as_bytes()), |message| format!("{message}{details}"))
}

fn one_line(text: &[u8]) -> String {
    const LONGEST: usize = 200;
    let beginning = String::from_utf8_lossy(&text[..text.len().min(4 * LONGEST)]);
    aye_core::visible::one_line(&beginning).chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    fn read(rpc: &mut Rpc<&'static str>, text: &str) -> Incoming<&'static str> {
        rpc.read(whole(text)).unwrap()
    }

    #[test]
    fn requests_tellings_and_replies_are_told_apart() {
        let mut rpc = Rpc::default();
        let line = rpc.request("first", "initialize", json!({"a": 1}));
        assert_eq!(line, r#"{"id":1,"method":"initialize","params":{"a":1}}"#);
        assert_eq!(
            read(&mut rpc, r#"{"id":1,"result":{}}"#),
            Incoming::Reply { to: "first", result: Ok(json!({})) }
        );
        let asked = read(&mut rpc, r#"{"method":"m","id":1,"params":{"x":2}}"#);
        assert_eq!(asked, Incoming::Request { id: "1".into(), method: "m".into(), params: json!({"x": 2}) });
        let told = read(&mut rpc, r#"{"method":"m","params":[]}"#);
        assert_eq!(told, Incoming::Tells { method: "m".into(), params: json!([]) });
        rpc.request("second", "x", Value::Null);
        let refused = read(&mut rpc, r#"{"id":2,"error":{"code":1,"message":"no"}}"#);
        assert_eq!(refused, Incoming::Reply { to: "second", result: Err("no".into()) });
        assert_eq!(rpc.read(whole("  ")), None);
    }

    #[test]
    fn an_id_goes_back_as_it_came_and_a_number_is_not_its_text() {
        let mut rpc = Rpc::<&str>::naming_its_version();
        for id in ["7", "\"7\"", "\"a b\"", "-1"] {
            let asked = read(&mut rpc, &format!(r#"{{"method":"m","id":{id}}}"#));
            assert!(matches!(&asked, Incoming::Request { id: found, .. } if found == id), "{asked:?}");
            let reply: Value = serde_json::from_str(&rpc.reply(id, json!({}))).unwrap();
            assert_eq!((reply["id"].to_string().as_str(), &reply["jsonrpc"]), (id, &json!("2.0")));
        }
    }

    #[test]
    fn what_breaks_the_protocol_is_never_a_request() {
        let mut rpc = Rpc::default();
        rpc.request("only", "x", Value::Null);
        read(&mut rpc, r#"{"method":"m","id":5}"#);
        for broken in [
            r#"{"method":"m","id":5}"#,
            r#"{"id":9,"result":{}}"#,
            r#"{"id":"1","result":{}}"#,
            r#"{"method":"m","id":{}}"#,
            r#"{"method":7,"id":8}"#,
            r#"{"result":{}}"#,
            r#"{"method":"m","id":6,"par"#,
            "{}",
        ] {
            let found = read(&mut rpc, broken);
            assert!(matches!(found, Incoming::Faulty(Faulty::Broken(_))), "{broken}: {found:?}");
        }
        assert!(matches!(read(&mut rpc, "(node:1) Warning: x"), Incoming::Faulty(Faulty::Noise(_))));
        // A reply counts once.
        assert!(matches!(read(&mut rpc, r#"{"id":1,"result":{}}"#), Incoming::Reply { .. }));
        assert!(matches!(read(&mut rpc, r#"{"id":1,"result":{}}"#), Incoming::Faulty(Faulty::Broken(_))));
    }

    #[test]
    fn a_request_that_can_be_read_in_two_ways_or_is_too_long_gets_an_error() {
        let mut rpc = Rpc::default();
        let twice = r#"{"method":"m","id":3,"params":{"command":"ls","command":"rm"}}"#;
        assert!(matches!(read(&mut rpc, twice), Incoming::Faulty(Faulty::Refused { id, .. }) if id == "3"));
        let long = |head: &str| Line::TooLong {
            beginning: format!("{head}\"params\":{{\"x\":\"aaaa").into_bytes(),
            end: Vec::new(),
            length: 99,
        };
        let refused = rpc.read(long(r#"{"method":"m","id":4,"#)).unwrap();
        assert!(
            matches!(refused, Incoming::Faulty(Faulty::Refused { ref id, .. }) if id == "4"),
            "{refused:?}"
        );
        assert!(matches!(rpc.read(long(r#"{"method":"m", "#)), Some(Incoming::Faulty(Faulty::Noise(_)))));
        assert!(matches!(rpc.read(long(r#"{"id":1,"result":{"#)), Some(Incoming::Faulty(Faulty::Broken(_)))));
    }
}
