//! What every surface says in the same words: how a request ended, what became of its answer, and what agents do.

use aye_core::{
    AgentState, Answer, AsksFor, By, Decision, PlanVerdict, Reach, Receipt, Reply, Surface, Verdict,
};

/// What was decided, in a word or two.
pub fn decided(answer: &Answer) -> String {
    match answer {
        Answer::Question(Reply::Skip { .. }) => "Declined".into(),
        Answer::Question(_) if answer.decision() == Decision::Declined => "Skipped".into(),
        Answer::Question(_) => "Answered".into(),
        Answer::Permission(Verdict::Allow { scope, input }) => {
            format!("Allowed ({scope}){}", if input.is_some() { ", edited" } else { "" })
        }
        Answer::Plan(PlanVerdict::Allow { plan: None }) => "Approved".into(),
        Answer::Plan(PlanVerdict::Allow { plan: Some(_) }) => "Approved, edited".into(),
        Answer::Permission(Verdict::Deny { .. }) | Answer::Plan(PlanVerdict::Deny { .. }) => "Denied".into(),
        Answer::Plan(PlanVerdict::Outline) => "Outline requested".into(),
    }
}

/// Who decided, and where.
pub fn by(by: &By) -> String {
    match by {
        By::Person { name, surface } => {
            let place = match surface {
                Surface::Terminal => "in the terminal",
                Surface::Web => "on the page",
                Surface::Telegram => "on Telegram",
                Surface::Desktop => "on the desktop",
                Surface::Api => "through the API",
            };
            format!("{name} {place}")
        }
        By::Rule { rule } if rule.as_str() == "auto_approve" => "the list of allowed tools".into(),
        By::Rule { rule } if rule.as_str().starts_with("grant ") => "a standing approval".into(),
        By::Rule { rule } if rule.as_str().starts_with("rule ") => rule.to_string(),
        By::Rule { rule } => format!("rule {rule}"),
    }
}

/// What became of an answer.
pub fn receipt(receipt: Receipt) -> &'static str {
    match receipt {
        Receipt::Pending => "Recorded, being delivered",
        Receipt::Delivered => "Delivered to the agent",
        Receipt::Confirmed => "Confirmed by the agent",
        Receipt::Disputed => "ALARM: the agent shows something else",
        Receipt::Superseded => "It had already been answered in the agent's own terminal",
        Receipt::Undelivered => "It did not reach the agent",
        Receipt::Unknown => "It is not known whether this reached the agent",
    }
}

/// The answer did not do what whoever gave it expects.
pub fn is_trouble(receipt: Receipt) -> bool {
    match receipt {
        Receipt::Pending | Receipt::Delivered | Receipt::Confirmed => false,
        Receipt::Disputed | Receipt::Superseded | Receipt::Undelivered | Receipt::Unknown => true,
    }
}

pub fn agent_state(state: AgentState) -> &'static str {
    match state {
        AgentState::Working => "working",
        AgentState::Waiting => "waiting for an answer",
        AgentState::Idle => "idle",
        AgentState::Ended => "ended",
        AgentState::Lost => "not responding",
    }
}

/// Words for a mode that asks for less than people expect.
pub fn asks(asks: AsksFor) -> Option<&'static str> {
    match asks {
        AsksFor::Everything | AsksFor::Unknown => None,
        AsksFor::Some => Some("does some things unasked"),
        AsksFor::Nothing => Some("asks for nothing"),
    }
}

/// How we reach an agent.
pub fn reach(reach: Reach) -> &'static str {
    match reach {
        Reach::Driven => "run by aye",
        Reach::Hooked => "joined in its own terminal",
        Reach::Watched => "watched in its own terminal",
        Reach::Script => "a script",
    }
}

/// With a capital letter at its beginning.
pub fn sentence(words: &str) -> String {
    let mut rest = words.chars();
    rest.next().into_iter().flat_map(char::to_uppercase).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page says it in a label and a sentence of its own; which receipts are trouble is the same everywhere.
    #[test]
    fn the_receipts_that_are_trouble_here_are_trouble_on_the_page() {
        let shared: Vec<serde_json::Value> = serde_json::from_str(include_str!("receipts.json")).unwrap();
        assert_eq!(shared.len(), 7);
        for vector in shared {
            let receipt: Receipt = serde_json::from_value(vector["receipt"].clone()).unwrap();
            assert_eq!(vector["trouble"], is_trouble(receipt), "{receipt:?}");
        }
    }
}
