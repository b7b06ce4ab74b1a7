//! OpenCode, which is answered over the HTTP server in its own process: driven without its terminal (`opencode serve`),
//! or joined where a person runs it in their own.

mod account;
mod calls;
mod driven;
mod edit;
mod joined;
mod outcome;
mod requests;
mod rules;
mod server;
mod translate;

pub use driven::OpenCode;
pub use joined::{JoinedOpenCode, follow};
pub use server::{Server, USER};

use hyper::Method;
use outcome::WireReply;
use serde_json::Value;
use server::{HttpCall, Then};

/// An answer to a request of OpenCode.
fn reply(id: &str, is_question: bool, answered: &WireReply) -> HttpCall {
    let kind = if is_question { "question" } else { "permission" };
    let path = format!("/{kind}/{}/{}", in_path(id), answered.by);
    HttpCall { method: Method::POST, path, body: Some(answered.body.clone()), then: Then::IsTaken }
}

/// Ids come from OpenCode, and must not lead anywhere else.
fn in_path(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let escaped = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    id.bytes().map(escaped).collect()
}

fn id_of(asked: &Value) -> Option<&str> {
    asked["id"].as_str().filter(|id| !id.is_empty())
}
