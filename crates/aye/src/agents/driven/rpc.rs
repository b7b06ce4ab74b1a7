//! JSON-RPC, a message a line, as several agents speak it. Both sides ask; each counts its requests by itself.

use crate::agents::lines::Line;
use serde_json::{Value, json};
use std::collections::HashSet;

/// The request does not exist here.
pub const UNKNOWN_METHOD: i64 = -32601;
/// The request cannot be read.
pub const INVALID_REQUEST: i64 = -32600;

/// What an agent wrote.
#[derive(Debug, PartialEq)]
pub enum Incoming {
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
    /// Its reply to our request with this number, or its error.
    Reply {
        id: u64,
        result: Result<Value, String>,
    },
    /// A request that cannot be shown to anybody, and why; it gets an error.
    Refused {
        id: String,
        why: String,
    },
    /// Not a message at all; programs print such lines now and then.
    Noise(String),
    /// It does not keep to the protocol, so nothing that it says can be relied on.
    Broken(String),
}

/// The requests of one agent.
#[derive(Default)]
pub struct Rpc {
    /// Whether messages name their protocol.
    names_version: bool,
    ours: u64,
    awaited: HashSet<u64>,
    /// The ids that the agent has used: a second request under one of them could get the answer of the first.
    used: HashSet<String>,
}

impl Rpc {
    pub fn naming_its_version() -> Self {
        Self { names_version: true, ..Self::default() }
    }

    /// A request of ours: its number, by which the reply is known, and its line.
    pub fn request(&mut self, method: &str, params: Value) -> (u64, String) {
        self.ours += 1;
        self.awaited.insert(self.ours);
        (self.ours, self.line(json!({ "id": self.ours, "method": method, "params": params })))
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

    /// None for an empty line.
    pub fn read(&mut self, line: Line) -> Option<Incoming> {
        let (text, length) = match line {
            Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => return None,
            Line::Whole(line) => (line, None),
            Line::TooLong { beginning, length, .. } => (beginning, Some(length)),
        };
        Some(match length {
            Some(length) => self.too_long(&text, length),
            None => match aye_core::json::parse(&text) {
                Ok(message) => self.message(message),
                Err(error) => self.unreadable(&text, &error),
            },
        })
    }

    fn message(&mut self, mut message: Value) -> Incoming {
        let shown = || one_line(message.to_string().as_bytes());
        let method = match &message["method"] {
            Value::Null => None,
            Value::String(method) => Some(method.clone()),
            _ => return Incoming::Broken(format!("its message has no name: {}", shown())),
        };
        let id = match &message["id"] {
            Value::Null => None,
            id @ (Value::Number(_) | Value::String(_)) => Some(id.clone()),
            _ => return Incoming::Broken(format!("the id of its message is none: {}", shown())),
        };
        match (method, id) {
            (Some(method), Some(id)) => self.new_request(&id).map_or_else(
                |broken| broken,
                |id| Incoming::Request { id, method, params: message["params"].take() },
            ),
            (Some(method), None) => Incoming::Tells { method, params: message["params"].take() },
            (None, Some(id)) => match id.as_u64().filter(|id| self.awaited.remove(id)) {
                None => Incoming::Broken(format!("it answered a request that was never made, {id}")),
                Some(id) if message["error"].is_null() => {
                    Incoming::Reply { id, result: Ok(message["result"].take()) }
                }
                Some(id) => Incoming::Reply { id, result: Err(in_words(&message["error"])) },
            },
            (None, None) => Incoming::Broken(format!("its message has neither id nor name: {}", shown())),
        }
    }

    fn new_request(&mut self, id: &Value) -> Result<String, Incoming> {
        let id = id.to_string();
        match self.used.insert(id.clone()) {
            true => Ok(id),
            false => Err(Incoming::Broken(format!("it made two requests under the id {id}"))),
        }
    }

    /// A message that other parsers may well read is a request that waits for a reply.
    fn unreadable(&mut self, text: &[u8], error: &serde_json::Error) -> Incoming {
        match serde_json::from_slice::<Value>(text) {
            Ok(message) if message["method"].is_string() && !message["id"].is_null() => {
                let why = format!("it cannot be read for sure: {error}");
                self.new_request(&message["id"])
                    .map_or_else(|broken| broken, |id| Incoming::Refused { id, why })
            }
            _ if text.trim_ascii_start().starts_with(b"{") => {
                Incoming::Broken(format!("it wrote a message that cannot be read: {error}"))
            }
            _ => Incoming::Noise(one_line(text)),
        }
    }

    /// What stands before the parameters says whether it is a request.
    fn too_long(&mut self, beginning: &[u8], length: usize) -> Incoming {
        let why = format!("it has {length} bytes, which is too long to be read");
        let text = String::from_utf8_lossy(beginning);
        let head = text.split_once("\"params\"").map(|(head, _)| head.trim_end().trim_end_matches(','));
        let head = head.and_then(|head| serde_json::from_str::<Value>(&format!("{head}}}")).ok());
        match head {
            Some(head) if head["method"].is_string() && !head["id"].is_null() => {
                self.new_request(&head["id"]).map_or_else(|broken| broken, |id| Incoming::Refused { id, why })
            }
            Some(head) if head["method"].is_string() => Incoming::Noise(format!("{}: {why}", head["method"])),
            _ => Incoming::Broken(format!(
                "it wrote a message of {length} bytes, which is too long to be read"
            )),
        }
    }
}

/// An id as the agent wrote it.
fn original(id: &str) -> Value {
    serde_json::from_str(id).unwrap_or(Value::Null)
}

fn in_words(error: &Value) -> String {
    error["message"].as_str().map_or_else(|| one_line(error.to_string().as_bytes()), str::to_owned)
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

    fn read(rpc: &mut Rpc, text: &str) -> Incoming {
        rpc.read(whole(text)).unwrap()
    }

    #[test]
    fn requests_tellings_and_replies_are_told_apart() {
        let mut rpc = Rpc::default();
        let (n, line) = rpc.request("initialize", json!({"a": 1}));
        assert_eq!(line, r#"{"id":1,"method":"initialize","params":{"a":1}}"#);
        assert_eq!(
            read(&mut rpc, r#"{"id":1,"result":{}}"#),
            Incoming::Reply { id: n, result: Ok(json!({})) }
        );
        let asked = read(&mut rpc, r#"{"method":"m","id":1,"params":{"x":2}}"#);
        assert_eq!(asked, Incoming::Request { id: "1".into(), method: "m".into(), params: json!({"x": 2}) });
        let told = read(&mut rpc, r#"{"method":"m","params":[]}"#);
        assert_eq!(told, Incoming::Tells { method: "m".into(), params: json!([]) });
        let (n, _) = rpc.request("x", Value::Null);
        let refused = read(&mut rpc, r#"{"id":2,"error":{"code":1,"message":"no"}}"#);
        assert_eq!(refused, Incoming::Reply { id: n, result: Err("no".into()) });
        assert_eq!(rpc.read(whole("  ")), None);
    }

    #[test]
    fn an_id_goes_back_as_it_came_and_a_number_is_not_its_text() {
        let mut rpc = Rpc::naming_its_version();
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
        rpc.request("x", Value::Null);
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
            assert!(matches!(found, Incoming::Broken(_)), "{broken}: {found:?}");
        }
        assert!(matches!(read(&mut rpc, "(node:1) Warning: x"), Incoming::Noise(_)));
        // A reply counts once.
        assert!(matches!(read(&mut rpc, r#"{"id":1,"result":{}}"#), Incoming::Reply { .. }));
        assert!(matches!(read(&mut rpc, r#"{"id":1,"result":{}}"#), Incoming::Broken(_)));
    }

    #[test]
    fn a_request_that_can_be_read_in_two_ways_or_is_too_long_gets_an_error() {
        let mut rpc = Rpc::default();
        let twice = r#"{"method":"m","id":3,"params":{"command":"ls","command":"rm"}}"#;
        assert!(matches!(read(&mut rpc, twice), Incoming::Refused { id, .. } if id == "3"));
        let long = |head: &str| Line::TooLong {
            beginning: format!("{head}\"params\":{{\"x\":\"aaaa").into_bytes(),
            end: Vec::new(),
            length: 99,
        };
        let refused = rpc.read(long(r#"{"method":"m","id":4,"#)).unwrap();
        assert!(matches!(refused, Incoming::Refused { ref id, .. } if id == "4"), "{refused:?}");
        assert!(matches!(rpc.read(long(r#"{"method":"m", "#)), Some(Incoming::Noise(_))));
        assert!(matches!(rpc.read(long(r#"{"id":1,"result":{"#)), Some(Incoming::Broken(_))));
    }
}
