//! What follows from each thing that happens to a session that we have joined. No I/O here; see `run.rs`.

use super::{JoinedProtocol, Meaning};
use crate::agents::driven::asks::{AskNews, ToRaise};
use crate::agents::driven::{Asked, Written};
use crate::agents::reports::TOO_LATE;
use crate::protocol::{Registration, Resolution, Withdraw};
use aye_core::{Answer, AskId, AskState, Body, Key, Receipt, Withdrawal};
use std::collections::HashMap;

/// More open asks than this cannot be meant for a person; the others are asked in the terminal alone.
const MOST_OPEN: usize = 500;

/// The receipt of an answer that came after the terminal's.
pub const TERMINAL_WAS_FIRST: (Receipt, &str) = (Receipt::Superseded, "the terminal was first");
const TERMINAL_DECIDES: &str = "nothing was approved; the dialog in the terminal decides";

/// What is to be done.
#[derive(Debug)]
pub enum Effect<M> {
    /// By its number and the agent's name for it, which the agent may use again.
    Raise(ToRaise),
    /// Takes an ask back; of an answer that was faster, `otherwise` became.
    Withdraw {
        ask: AskId,
        what: Withdraw,
        otherwise: (Receipt, &'static str),
    },
    /// A message, and the ask whose outcome it carries.
    Write {
        message: M,
        delivers: Option<AskId>,
    },
    Receipt {
        ask: AskId,
        receipt: Receipt,
        evidence: String,
    },
    Register(Registration),
}

pub struct Ledger<P> {
    protocol: P,
    /// The keys of this session's asks begin with it.
    name: String,
    asked: u64,
    /// What the agent waits for, by its own names. Those come again when the agent is reached again, so each is numbered:
    /// what the hub says of an earlier one is not about this one.
    requests: HashMap<String, (u64, Request)>,
    /// Over before the hub had recorded them, in this way, by their numbers.
    over: HashMap<u64, Withdrawn>,
    /// Outcomes that the agent has still to show, by the call that shows them.
    unshown: HashMap<String, AskId>,
}

enum Request {
    /// On its way to the hub.
    Raised(Body),
    Open {
        ask: AskId,
        body: Body,
    },
}

/// How a request ended that was not answered from here.
struct Withdrawn {
    what: Withdraw,
    otherwise: (Receipt, &'static str),
}

impl Withdrawn {
    /// The hub would refuse an answer that does not fit, and the ask would stay open.
    fn keep_fitting(&mut self, body: &Body) {
        self.what.answer.take_if(|answer| Answer::read(body, answer.clone()).is_err());
    }
}

type Effects<P> = Vec<Effect<<P as JoinedProtocol>::Message>>;

impl<P: JoinedProtocol> Ledger<P> {
    pub fn new(protocol: P, name: String) -> Self {
        let (requests, over, unshown) = Default::default();
        Self { protocol, name, asked: 0, requests, over, unshown }
    }

    pub fn input(&mut self, input: P::Input) -> Effects<P> {
        let meanings = self.protocol.read(input);
        meanings.into_iter().flat_map(|meaning| self.means(meaning)).collect()
    }

    fn means(&mut self, meaning: Meaning<P::Message>) -> Effects<P> {
        match meaning {
            Meaning::Asks(asked) => self.asks(asked),
            Meaning::AnsweredElsewhere { id, answer } => {
                let what = Withdraw { why: Withdrawal::Terminal, answer };
                self.end(&id, Withdrawn { what, otherwise: TERMINAL_WAS_FIRST })
            }
            Meaning::Cancels { id } => {
                self.end(&id, Withdrawn { what: Withdrawal::Cancelled.into(), otherwise: TOO_LATE })
            }
            Meaning::Shows { call, receipt, evidence } => {
                let shown = self.unshown.remove(&call);
                shown
                    .into_iter()
                    .map(|ask| Effect::Receipt { ask, receipt, evidence: evidence.clone() })
                    .collect()
            }
            Meaning::Write(message) => vec![Effect::Write { message, delivers: None }],
            Meaning::Knows(news) => vec![Effect::Register(news)],
        }
    }

    fn asks(&mut self, asked: Asked<()>) -> Effects<P> {
        let Asked { id, body, tool_use_id, sub_agent, cwd, can, .. } = asked;
        // The first one still waits under this id, and gets the answer.
        if self.requests.contains_key(&id) || self.requests.len() + self.over.len() >= MOST_OPEN {
            return Vec::new();
        }
        let body = match body {
            Ok(body) => body,
            Err(why) => {
                tracing::debug!(why, "a request that cannot be shown is left to the terminal");
                return Vec::new();
            }
        };
        self.asked += 1;
        let request = format!("{}/{id}", self.asked);
        self.requests.insert(id, (self.asked, Request::Raised(body.clone())));
        let key = Key::from_displayed(&format_args!("{}/{}", self.name, self.asked));
        vec![Effect::Raise(ToRaise { request, key, body, tool_use_id, sub_agent, cwd, can })]
    }

    fn end(&mut self, id: &str, mut end: Withdrawn) -> Effects<P> {
        match self.requests.remove(id) {
            Some((_, Request::Open { ask, body })) => {
                end.keep_fitting(&body);
                vec![withdraw(ask, end)]
            }
            Some((number, Request::Raised(body))) => {
                end.keep_fitting(&body);
                self.over.insert(number, end);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    pub fn news(&mut self, news: AskNews) -> Effects<P> {
        match news {
            AskNews::Raised { request, ask } => {
                self.raised(&request, ask.head.id.clone(), Resolution::by_rule(&ask))
            }
            AskNews::Allowed { request, allowed } => {
                self.raised(&request, allowed.id.clone(), Some(Resolution::allowed(&allowed)))
            }
            AskNews::NotRaised { request, why } => {
                tracing::debug!(why, "a request is left to the terminal");
                self.forget(&request);
                Vec::new()
            }
            AskNews::Resolved { request, resolution } => self.resolved(&request, &resolution),
        }
    }

    /// It is left to the terminal.
    pub fn forget(&mut self, request: &str) {
        let (number, _) = numbered(request);
        self.over.remove(&number);
        self.take(request);
    }

    /// What waits under this name, if it is still the one with this number.
    fn take(&mut self, request: &str) -> Option<Request> {
        let (number, id) = numbered(request);
        let (waiting, _) = self.requests.get(id)?;
        if *waiting != number {
            return None;
        }
        self.requests.remove(id).map(|(_, request)| request)
    }

    fn raised(&mut self, request: &str, ask: AskId, by_rule: Option<Resolution>) -> Effects<P> {
        let (number, id) = numbered(request);
        if let Some(end) = self.over.remove(&number) {
            return vec![withdraw(ask, end)];
        }
        let Some(Request::Raised(body) | Request::Open { body, .. }) = self.take(request) else {
            return Vec::new();
        };
        self.requests.insert(id.to_owned(), (number, Request::Open { ask, body }));
        by_rule.map_or_else(Vec::new, |resolution| self.resolved(request, &resolution))
    }

    fn resolved(&mut self, request: &str, resolution: &Resolution) -> Effects<P> {
        let Some(Request::Open { ask, body }) = self.take(request) else { return Vec::new() };
        let (_, id) = numbered(request);
        match resolution.state {
            AskState::Answered => {
                let Written { message, shown_by } = self.protocol.outcome(id, &body, resolution);
                self.unshown.extend(shown_by.map(|call| (call, ask.clone())));
                vec![Effect::Write { message, delivers: Some(ask) }]
            }
            AskState::Open | AskState::Expired => {
                let (receipt, evidence) = (Receipt::Superseded, TERMINAL_DECIDES.to_owned());
                vec![Effect::Receipt { ask, receipt, evidence }]
            }
            // Nobody but us withdraws it, unless the agent has ended.
            AskState::Withdrawn => Vec::new(),
        }
    }

    /// The agent has ended. What was open is withdrawn with it.
    pub fn ended(&mut self) -> Effects<P> {
        let evidence = || "the agent ended before it showed whether it took this".to_owned();
        let unknown = |(_, ask)| Effect::Receipt { ask, receipt: Receipt::Unknown, evidence: evidence() };
        self.unshown.drain().map(unknown).collect()
    }
}

/// The number of a request, and the agent's name for it.
fn numbered(request: &str) -> (u64, &str) {
    let (number, id) = request.split_once('/').unwrap_or_default();
    (number.parse().unwrap_or_default(), id)
}

fn withdraw<M>(ask: AskId, end: Withdrawn) -> Effect<M> {
    Effect::Withdraw { ask, what: end.what, otherwise: end.otherwise }
}

#[cfg(test)]
mod tests;
