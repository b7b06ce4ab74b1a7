//! Sessions that a person runs in their own terminal, of agents that take an answer from us as well. The terminal's
//! dialog stays open all the while, and whoever answers first wins. What we cannot show or decide is left to the
//! terminal: nothing is ever refused by us alone.

mod ledger;
mod run;

pub use run::{Session, follow};

use crate::agents::driven::{Asked, Shown, Written};
use crate::protocol::{Registration, Resolution};
use aye_core::{Body, Receipt};
use serde_json::Value;
use std::path::PathBuf;

/// What a protocol fills in: what the agent's input means, and how an answer is written. It does no I/O.
pub trait JoinedProtocol: Send + 'static {
    type Input: Send + 'static;
    /// What the agent is told.
    type Message: Send + 'static;

    fn read(&mut self, input: Self::Input) -> Vec<Meaning<Self::Message>>;

    /// How the answer of a person or a rule is written.
    fn outcome(&mut self, id: &str, body: &Body, resolution: &Resolution) -> Written<Self::Message>;
}

/// A session in its own terminal: which agent, and where it was started.
pub struct Terminal {
    /// The kind of agent, as config.toml names it.
    pub kind: String,
    pub cwd: PathBuf,
    pub places: aye_policy::OwnPlaces,
}

impl<M> From<Shown> for Meaning<M> {
    fn from(Shown { call, receipt, evidence }: Shown) -> Self {
        Self::Shows { call, receipt, evidence }
    }
}

/// What the agent's input means.
pub enum Meaning<M> {
    /// It asks, here and in its terminal.
    Asks(Asked<()>),
    /// Somebody else answered; in this way, where the agent says it.
    AnsweredElsewhere { id: String, answer: Option<Value> },
    /// It no longer wants to know.
    Cancels { id: String },
    /// What became of the outcome that this call was to show.
    Shows { call: String, receipt: Receipt, evidence: String },
    /// The protocol has something to say by itself.
    Write(M),
    /// Something new of the agent, for the hub.
    Knows(Registration),
}
