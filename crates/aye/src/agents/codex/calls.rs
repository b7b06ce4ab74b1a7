//! The calls that Codex asks about and tells of, whether we drive it or have joined it.

use super::outcome::{self, Expected};
use super::translate;
use crate::agents::driven::tools::RunContext;
use crate::agents::driven::{Asked, Shown};
use aye_core::{Answer, Body, Receipt};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::PathBuf;

/// Changes of files that have begun and not ended; of more than these nobody is shown what they do.
const MOST_CHANGES: usize = 1000;

#[derive(Default)]
pub struct Calls {
    /// The changes of files that Codex told of, by call.
    changes: HashMap<String, Change>,
    /// What must still be shown, by call.
    expected: HashMap<String, Expected>,
}

struct Change {
    files: Value,
    /// The request that showed them to a person.
    request: Option<String>,
}

/// What is needed of a request to answer it.
#[derive(Debug, Clone)]
pub enum Request {
    /// A permission for this call.
    Permission { call: Option<String> },
    /// Questions by these names.
    Questions { call: Option<String>, ids: Vec<String> },
}

impl Calls {
    /// What is asked, and what that shows of an earlier answer; none for a request that aye does not know.
    pub fn requested(
        &mut self,
        id: &str,
        method: &str,
        params: &Map<String, Value>,
        place: &RunContext,
    ) -> Option<(Asked<Request>, Option<Shown>)> {
        let text = |field: &str| params.get(field).and_then(Value::as_str);
        let call = text("itemId").map(str::to_owned);
        // Several requests may be about one call, and only those that are alone are shown by it.
        let shown_by = call.clone().filter(|_| params.get("approvalId").is_none_or(Value::is_null));
        let (request, body, can) = match method {
            "item/commandExecution/requestApproval" => {
                let body = translate::command(params, place);
                (Request::Permission { call: shown_by }, body, translate::can_permit())
            }
            "item/fileChange/requestApproval" => {
                let change = call.as_ref().and_then(|call| self.changes.get_mut(call));
                let body = translate::change(params, change.as_ref().map(|change| &change.files), place);
                if let Some(change) = change {
                    change.request = Some(id.to_owned());
                }
                (Request::Permission { call: shown_by }, body, translate::can_permit())
            }
            "item/tool/requestUserInput" => {
                let (ids, body) = translate::questions(params).map_or_else(
                    |why| (Vec::new(), Err(why)),
                    |(ids, questions)| (ids, Ok(Body::Question(questions))),
                );
                (Request::Questions { call: shown_by, ids }, body, translate::can_answer())
            }
            _ => return None,
        };
        let went_ahead = call.as_deref().and_then(|call| self.asked_again(call));
        let asked = Asked {
            id: id.to_owned(),
            request,
            body,
            tool_use_id: call,
            sub_agent: None,
            cwd: text("cwd").map(PathBuf::from),
            can,
            outlives_turn: false,
        };
        Some((asked, went_ahead))
    }

    /// Codex asks once more about a call that was allowed, for instance to run it outside of its sandbox.
    fn asked_again(&mut self, call: &str) -> Option<Shown> {
        (self.expected.get(call) == Some(&Expected::Allowed)).then(|| {
            let evidence = "Codex went ahead, and asks again about the same call".to_owned();
            self.shown(call, (Receipt::Confirmed, evidence))
        })
    }

    /// The reply, and the call that will show it.
    pub fn answered(
        &mut self,
        request: Request,
        body: &Body,
        answer: Option<&Answer>,
    ) -> (Value, Option<String>) {
        let ((reply, expected), call) = match request {
            Request::Permission { call } => (outcome::decision(answer), call),
            Request::Questions { call, ids } => (outcome::answers(&ids, body, answer), call),
        };
        self.expected.extend(call.clone().map(|call| (call, expected)));
        (reply, call)
    }

    /// Notes the changes that a call would make. The request that showed others for it, which must not be allowed now.
    pub fn note_change(&mut self, call: &Value, changes: &Value) -> Option<String> {
        let call = call.as_str()?;
        let room = self.changes.len() < MOST_CHANGES;
        match self.changes.get_mut(call) {
            Some(known) if known.files == *changes => None,
            Some(known) => {
                known.files = changes.clone();
                known.request.take()
            }
            None => {
                let change = Change { files: changes.clone(), request: None };
                room.then(|| self.changes.insert(call.to_owned(), change));
                None
            }
        }
    }

    /// What a call that has ended says of our answer.
    pub fn ended(&mut self, call: &str, status: &str) -> Option<Shown> {
        self.changes.remove(call);
        let judged = self.expected.get(call).and_then(|expected| outcome::judge_item(expected, status));
        judged.map(|judged| self.shown(call, judged))
    }

    /// What the model is told of a call.
    pub fn output(&mut self, item: &Value) -> Option<Shown> {
        let is_output = item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output"));
        let call = item["call_id"].as_str().filter(|_| is_output)?;
        let judged =
            self.expected.get(call).and_then(|expected| outcome::judge_output(expected, &item["output"]));
        judged.map(|judged| self.shown(call, judged))
    }

    fn shown(&mut self, call: &str, (receipt, evidence): (Receipt, String)) -> Shown {
        self.expected.remove(call);
        Shown { call: call.to_owned(), receipt, evidence }
    }

    pub fn turn_ended(&mut self) {
        self.changes.clear();
    }
}
