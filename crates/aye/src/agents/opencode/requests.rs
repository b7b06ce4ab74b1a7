//! What OpenCode asked, by its own ids, and whose answer each request got. Its tools inherit the password of its server,
//! so an answer that it tells of may be somebody else's.

use serde_json::{Value, json};
use std::collections::HashMap;

/// Ids are kept to the end: a second request under one of them could get the answer of the first.
#[derive(Default)]
pub struct Requests {
    all: HashMap<String, KnownRequest>,
}

struct KnownRequest {
    is_question: bool,
    call: Option<String>,
    answer: Given,
}

enum Given {
    None,
    /// Ours is on its way.
    Ours(Value),
    Told,
}

/// What it means that OpenCode tells of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum ReportedAnswer {
    Ours,
    /// It was refused, and not by us; nothing runs because of it.
    Refused,
    /// Somebody else approved or answered it.
    NotOurs,
    NeverAsked,
}

/// The reply that refuses a permission.
pub const REJECT: &str = "reject";

/// A question that was turned away, where other replies are answers.
pub fn dismissed() -> Value {
    json!(REJECT)
}

impl Requests {
    /// Whether the id is new.
    pub fn asked(&mut self, id: &str, is_question: bool, call: Option<String>) -> bool {
        let standing = KnownRequest { is_question, call, answer: Given::None };
        !self.all.contains_key(id) && self.all.insert(id.to_owned(), standing).is_none()
    }

    pub fn answered(&mut self, id: &str, answer: Value) {
        if let Some(standing) = self.all.get_mut(id) {
            standing.answer = Given::Ours(answer);
        }
    }

    /// The call that a request is about.
    pub fn call(&self, id: &str) -> Option<&str> {
        self.all.get(id)?.call.as_deref()
    }

    /// Whether it asks questions, of each request that nobody has answered.
    pub fn open(&self) -> Vec<(String, bool)> {
        let open = self.all.iter().filter(|(_, standing)| matches!(standing.answer, Given::None));
        open.map(|(id, standing)| (id.clone(), standing.is_question)).collect()
    }

    pub fn told(&mut self, id: &str, answer: &Value) -> ReportedAnswer {
        let Some(standing) = self.all.get_mut(id) else { return ReportedAnswer::NeverAsked };
        let refused = *answer == REJECT;
        match std::mem::replace(&mut standing.answer, Given::Told) {
            Given::Ours(ours) if ours == *answer => ReportedAnswer::Ours,
            // OpenCode refuses whatever else a session asks for as soon as one thing is refused.
            Given::None | Given::Ours(_) | Given::Told if refused => ReportedAnswer::Refused,
            Given::None | Given::Ours(_) | Given::Told => ReportedAnswer::NotOurs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_ours_once_and_only_if_it_is_what_we_said() {
        let mut requests = Requests::default();
        assert!(
            requests.asked("a", false, None)
                && requests.asked("b", true, None)
                && !requests.asked("a", true, None)
        );
        assert_eq!(requests.told("c", &json!("once")), ReportedAnswer::NeverAsked);
        requests.answered("a", json!("once"));
        assert_eq!(requests.open(), [("b".to_owned(), true)]);
        assert_eq!(requests.told("a", &json!("once")), ReportedAnswer::Ours);
        assert_eq!(requests.told("a", &json!("once")), ReportedAnswer::NotOurs);
        assert_eq!(requests.told("b", &json!([["x"]])), ReportedAnswer::NotOurs);
    }

    #[test]
    fn a_refusal_by_somebody_else_approves_nothing_and_an_approval_against_ours_is_noticed() {
        let mut requests = Requests::default();
        for id in ["a", "b", "c"] {
            requests.asked(id, false, None);
        }
        requests.answered("a", json!(REJECT));
        assert_eq!(requests.told("a", &json!("always")), ReportedAnswer::NotOurs);
        requests.answered("b", json!("once"));
        assert_eq!(requests.told("b", &json!(REJECT)), ReportedAnswer::Refused);
        assert_eq!(requests.told("c", &json!(REJECT)), ReportedAnswer::Refused);
    }
}
