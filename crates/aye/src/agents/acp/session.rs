//! How a session is opened, and its turns begin and end.

use super::modes::OfferedModes;
use super::outcome::{Expected, says_refused};
use super::{Acp, Meanings, transcript};
use crate::agents::driven::account::Tokens;
use crate::agents::driven::{Meaning, Turn};
use aye_core::Receipt;
use serde_json::{Value, json};

/// The version of the protocol that is spoken here.
const VERSION: u64 = 1;

/// What our requests are for.
#[derive(Clone, Copy)]
pub enum Awaited {
    Initialize,
    Authenticate,
    Session,
    /// The permission mode, or a setting that has the same effect.
    Mode,
    Prompt,
}

impl Acp {
    pub(super) fn initialize(&mut self) -> String {
        let client = json!({ "name": "aye", "title": "aye", "version": env!("CARGO_PKG_VERSION") });
        // It reads files and runs commands by itself.
        let can = json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false,
            "elicitation": { "form": {}, "url": {} } });
        let params = json!({ "protocolVersion": VERSION, "clientCapabilities": can, "clientInfo": client });
        self.rpc.request(Awaited::Initialize, "initialize", params)
    }

    pub(super) fn replied(&mut self, to: Awaited, result: Result<Value, String>) -> Meanings {
        match (to, result) {
            (Awaited::Initialize, Ok(result)) if result["protocolVersion"] == VERSION => {
                self.version = result["agentInfo"]["version"].as_str().unwrap_or_default().to_owned();
                let methods = result["authMethods"].as_array().map(Vec::as_slice).unwrap_or_default();
                let by_key = methods.iter().find(|method| !method["_meta"]["api-key"].is_null());
                self.key_method = by_key.and_then(|method| method["id"].as_str()).map(str::to_owned);
                vec![Meaning::Write(self.open_session())]
            }
            (Awaited::Initialize, Ok(result)) => {
                let version = &result["protocolVersion"];
                vec![Meaning::Fails(format!(
                    "The agent speaks version {version} of its protocol, and aye {VERSION}."
                ))]
            }
            (Awaited::Authenticate, Ok(_)) => vec![Meaning::Write(self.open_session())],
            (Awaited::Session, Ok(result)) => self.opened(&result),
            (Awaited::Session, Err(why)) => match self.key_method.take() {
                Some(method) => {
                    let params = json!({ "methodId": method });
                    vec![Meaning::Write(self.rpc.request(Awaited::Authenticate, "authenticate", params))]
                }
                None => vec![Meaning::Fails(format!("The agent cannot open this session: {why}"))],
            },
            (Awaited::Initialize | Awaited::Authenticate, Err(why)) => {
                vec![Meaning::Fails(format!("The agent cannot be started: {why}"))]
            }
            (Awaited::Mode, Err(why)) => {
                vec![Meaning::Fails(format!("The agent does not take this permission mode: {why}"))]
            }
            (Awaited::Prompt, result) => self.turn_ended(result),
            (Awaited::Mode, Ok(_)) => self.mode_set(),
        }
    }

    fn open_session(&mut self) -> String {
        let mut params = json!({ "cwd": self.start.cwd, "mcpServers": [] });
        match &self.start.resume {
            Some(session) => {
                params["sessionId"] = session.as_str().into();
                self.rpc.request(Awaited::Session, "session/load", params)
            }
            None => self.rpc.request(Awaited::Session, "session/new", params),
        }
    }

    fn opened(&mut self, result: &Value) -> Meanings {
        let named = result["sessionId"].as_str().map(str::to_owned).or(self.start.resume.clone());
        let Some(session) = named else {
            return vec![Meaning::Fails("The agent opened a session without a name. The run ends.".into())];
        };
        self.session = Some(session.clone());
        // What is said while a session is loaded was said before.
        self.speaking = None;
        let known = Meaning::Session { id: Some(session.clone()), cwd: None };
        let offered = OfferedModes::read(&result["modes"]);
        let wanted = match &self.start.mode {
            Some(mode) if !offered.is_empty() && offered.find(mode).is_none() => {
                let names = offered.names().join(", ");
                let words = format!("The agent has no permission mode {mode}. It has these: {names}.");
                return vec![Meaning::Fails(words)];
            }
            Some(mode) => Some(offered.find(mode).unwrap_or(mode).to_owned()),
            None => offered.default().map(str::to_owned),
        };
        let current = self.in_mode(result["modes"]["currentModeId"].as_str());
        let configured = self.configured(&result["configOptions"]);
        let lines = self.set_modes(&session, wanted);
        let next: Meanings = match lines.is_empty() {
            true => current.into_iter().chain(configured).chain(self.begin_turn()).collect(),
            // The mode before that is nothing that people should be told.
            false => lines.into_iter().map(Meaning::Write).collect(),
        };
        std::iter::once(known).chain(next).collect()
    }

    pub(super) fn next_turn(&mut self) -> Option<String> {
        // Nothing is prompted before the agent is in its mode.
        let session = self.session.clone().filter(|_| !self.in_turn && !self.modes.are_being_set())?;
        let prompt = self.prompts.pop_front()?;
        self.in_turn = true;
        Some(self.rpc.request(
            Awaited::Prompt,
            "session/prompt",
            json!({ "sessionId": session, "prompt": prompt }),
        ))
    }

    pub(super) fn begin_turn(&mut self) -> Meanings {
        let line = self.next_turn().map(Meaning::Write);
        line.into_iter().flat_map(|line| [Meaning::Works, line]).collect()
    }

    fn turn_ended(&mut self, result: Result<Value, String>) -> Meanings {
        self.in_turn = false;
        self.open.clear();
        self.calls.clear();
        let text = self.speaking.as_ref().map(|(_, text)| text.clone());
        let mut meanings: Vec<_> = self.said().into_iter().chain(self.refused_in_silence()).collect();
        let turn = match result {
            Ok(_) => Turn { text, tokens: Tokens::default(), ..Turn::default() },
            Err(why) => Turn { failed: true, text: Some(why), ..Turn::default() },
        };
        meanings.push(Meaning::TurnEnded(turn));
        meanings.extend(self.begin_turn());
        meanings
    }

    /// Some agents say nothing more of a call that was refused.
    fn refused_in_silence(&mut self) -> Meanings {
        let silent = |_: &String, expected: &mut Expected| expected.may_pass_in_silence();
        let calls: Vec<_> = self.expected.extract_if(silent).map(|(call, _)| call).collect();
        let told = match &self.session {
            Some(session) if self.start.kind == "gemini" && !calls.is_empty() => {
                transcript::of_gemini(session)
            }
            _ => Default::default(),
        };
        let shows = calls.into_iter().map(|call| {
            let (receipt, evidence) = match told.get(&call).map(String::as_str) {
                None => (
                    Receipt::Confirmed,
                    "the turn has ended, and the agent did not tell of this call again".to_owned(),
                ),
                Some(words) if says_refused(words) => {
                    (Receipt::Confirmed, format!("its transcript says: {words}"))
                }
                Some(_) => (Receipt::Disputed, "its transcript shows a result of this call".to_owned()),
            };
            Meaning::Shows { call, receipt, evidence }
        });
        shows.collect()
    }
}
