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
    session: String,
    is_question: bool,
    call: Option<String>,
    answer: Given,
    /// Another permission of its session was refused, which refuses this one as well.
    refused_with_another: bool,
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
    /// OpenCode refused it because another permission of its session was refused.
    RefusedWithAnother,
    /// Somebody else answered or refused it.
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
    pub fn asked(&mut self, id: &str, session: &str, is_question: bool, call: Option<String>) -> bool {
        let (session, answer, refused_with_another) = (session.to_owned(), Given::None, false);
        let request = KnownRequest { session, is_question, call, answer, refused_with_another };
        !self.all.contains_key(id) && self.all.insert(id.to_owned(), request).is_none()
    }

    pub fn answered(&mut self, id: &str, answer: Value) {
        if let Some(request) = self.all.get_mut(id) {
            request.answer = Given::Ours(answer);
        }
    }

    /// The call that a request is about.
    pub fn call(&self, id: &str) -> Option<&str> {
        self.all.get(id)?.call.as_deref()
    }

    /// Whether it asks questions, of each request that nobody has answered.
    pub fn open(&self) -> Vec<(String, bool)> {
        let open = self.all.iter().filter(|(_, request)| matches!(request.answer, Given::None));
        open.map(|(id, request)| (id.clone(), request.is_question)).collect()
    }

    pub fn reported(&mut self, id: &str, answer: &Value) -> ReportedAnswer {
        let Some(request) = self.all.get_mut(id) else { return ReportedAnswer::NeverAsked };
        let refused = *answer == REJECT;
        let reported = match std::mem::replace(&mut request.answer, Given::Told) {
            Given::Ours(ours) if ours == *answer => ReportedAnswer::Ours,
            Given::None | Given::Ours(_) if refused && request.refused_with_another => {
                ReportedAnswer::RefusedWithAnother
            }
            Given::None | Given::Ours(_) | Given::Told => ReportedAnswer::NotOurs,
        };
        if refused && !request.is_question {
            let session = request.session.clone();
            self.refuse_open(&session);
        }
        reported
    }

    /// OpenCode refuses whatever else a session asks for as soon as one permission is refused, and tells of that one first.
    fn refuse_open(&mut self, session: &str) {
        let open = self.all.values_mut().filter(|other| !matches!(other.answer, Given::Told));
        for other in open.filter(|other| !other.is_question && other.session == session) {
            other.refused_with_another = true;
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
            requests.asked("a", "s", false, None)
                && requests.asked("b", "s", true, None)
                && !requests.asked("a", "s", true, None)
        );
        assert_eq!(requests.reported("c", &json!("once")), ReportedAnswer::NeverAsked);
        requests.answered("a", json!("once"));
        assert_eq!(requests.open(), [("b".to_owned(), true)]);
        assert_eq!(requests.reported("a", &json!("once")), ReportedAnswer::Ours);
        assert_eq!(requests.reported("a", &json!("once")), ReportedAnswer::NotOurs);
        assert_eq!(requests.reported("b", &json!([["x"]])), ReportedAnswer::NotOurs);
    }

    #[test]
    fn an_approval_against_ours_and_a_refusal_against_ours_or_without_it_are_noticed() {
        let mut requests = Requests::default();
        for id in ["a", "b", "c"] {
            requests.asked(id, id, false, None);
        }
        requests.answered("a", json!(REJECT));
        assert_eq!(requests.reported("a", &json!("always")), ReportedAnswer::NotOurs);
        requests.answered("b", json!("once"));
        assert_eq!(requests.reported("b", &json!(REJECT)), ReportedAnswer::NotOurs);
        assert_eq!(requests.reported("c", &json!(REJECT)), ReportedAnswer::NotOurs);
    }

    #[test]
    fn a_refusal_refuses_what_else_its_session_asks_for_at_that_moment_and_nothing_more() {
        let mut requests = Requests::default();
        for (id, session, is_question) in
            [("a", "s", false), ("b", "s", false), ("c", "s", false), ("q", "s", true), ("x", "t", false)]
        {
            requests.asked(id, session, is_question, None);
        }
        requests.answered("a", json!(REJECT));
        requests.answered("b", json!("once"));
        assert_eq!(requests.reported("a", &json!(REJECT)), ReportedAnswer::Ours);
        requests.asked("later", "s", false, None);
        assert_eq!(requests.reported("b", &json!(REJECT)), ReportedAnswer::RefusedWithAnother);
        assert_eq!(requests.reported("c", &json!("once")), ReportedAnswer::NotOurs);
        for id in ["q", "x"] {
            assert_eq!(requests.reported(id, &json!(REJECT)), ReportedAnswer::NotOurs, "{id}");
        }
        assert_eq!(requests.reported("b", &json!(REJECT)), ReportedAnswer::NotOurs, "it is told once");
    }
}
