//! Driving an agent without its terminal: the process and its pipes, the way to the hub, the account of a run and the
//! ledger of asks are here once, for every agent. What differs between agents is an [`AgentProtocol`].

pub mod account;
mod activity;
pub mod asks;
mod commands;
mod driver;
pub mod hunks;
pub mod outgoing;
pub mod process;
pub mod rpc;
mod run;
pub mod tools;

pub use account::{RunEvent, Turn};
pub use driver::{Driver, Effect, Event};
pub use process::{Input, Pipes};
pub use run::{Run, Running, start};

use crate::protocol::{Image, Registration, Resolution};
use aye_core::{Body, Can, Receipt};
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tools::RunContext;

/// What a protocol fills in: how its agent is started and reached, how it begins, what its input means, how an outcome
/// is written, and what proves it. Only `connect` and its writer do I/O.
pub trait AgentProtocol: Send + Sized + 'static {
    /// What is read from the agent.
    type Input: Send + 'static;
    /// What the agent is told.
    type Message: Send + 'static;
    /// What must be kept of a request to answer it later.
    type Request: Send + 'static;
    type Writer: Writer<Self::Message>;

    /// Whether the agent ends by itself once its input is closed; a server is told to end instead.
    const ENDS_WITH_INPUT: bool = true;

    /// What makes the program speak this protocol.
    fn arguments(&self) -> Vec<OsString>;

    /// What the program finds in its environment, beside what ours has.
    fn environment(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Reaches the agent that was started. What it says goes to `inputs`, message by message; where that is dropped, it
    /// has said everything.
    fn connect(
        &mut self,
        pipes: Pipes,
        inputs: mpsc::Sender<Self::Input>,
        tasks: &mut JoinSet<()>,
    ) -> impl Future<Output = anyhow::Result<Self::Writer>> + Send;

    /// What the agent is told before its first prompt.
    fn begin(&mut self) -> Vec<Self::Message>;

    fn prompt(&mut self, text: &str, image: Option<&Image>) -> Vec<Self::Message>;

    /// What is written to end the turn, and which requests end with it.
    fn interrupt(&mut self) -> Vec<Meaning<Self>>;

    /// What the agent's input means, in the order in which it is handled.
    fn read(&mut self, input: Self::Input) -> Vec<Meaning<Self>>;

    /// How a person's answer, a rule's, or the lack of one is written.
    fn outcome(
        &mut self,
        id: &str,
        request: Self::Request,
        body: &Body,
        resolution: &Resolution,
    ) -> Written<Self::Message>;

    /// How the agent is told that a request is refused, and nobody decided it.
    fn refusal(&mut self, id: &str, request: &Self::Request, why: &str) -> Self::Message;

    /// How the agent is told that its request is invalid.
    fn fault(&mut self, id: &str, why: &str) -> Self::Message;
}

/// The way to an agent. A message that was written has been handed over; `NotFound` says that the agent no longer waits
/// for it.
pub trait Writer<M>: Send + 'static {
    fn write(&mut self, message: M) -> impl Future<Output = io::Result<()>> + Send;
}

/// An outcome as the agent is told it.
pub struct Written<M> {
    pub message: M,
    /// The call by which the agent will show that it took it, if it will; see [`Meaning::Shows`].
    pub shown_by: Option<String>,
}

/// What an agent's input means.
pub enum Meaning<P: AgentProtocol> {
    /// It asks, and waits.
    Asks(Asked<P::Request>),
    /// It no longer wants to know.
    Cancels { id: String },
    /// It took an answer of somebody who is neither a person here nor a rule, in place of ours or before there was one.
    AnsweredBySomebodyElse { id: String, evidence: &'static str },
    /// What became of the outcome that this call was to show.
    Shows { call: String, receipt: Receipt, evidence: String },
    /// It wants something that no person is asked about. An ask that waits under the same id is not touched.
    Wants { id: String, reply: P::Message },
    /// The protocol has something to say by itself.
    Write(P::Message),
    /// It names its session and its folder.
    Session { id: Option<String>, cwd: Option<String> },
    /// Something new of the agent, for the hub.
    Knows(Registration),
    /// It is at work.
    Works,
    /// It has taken up a prompt.
    TookPrompt,
    /// How many sub-agents work in the background.
    SubAgents(usize),
    /// Its turn is over; what it asked in this turn no longer counts.
    TurnEnded(Turn),
    /// Something for the account of the run.
    Tells(RunEvent),
    /// The run cannot go on, for this reason; nothing more is approved.
    Fails(String),
}

/// What became of the outcome that this call was to show.
pub struct Shown {
    pub call: String,
    pub receipt: Receipt,
    pub evidence: String,
}

impl<P: AgentProtocol> From<Shown> for Meaning<P> {
    fn from(Shown { call, receipt, evidence }: Shown) -> Self {
        Self::Shows { call, receipt, evidence }
    }
}

/// How a run is started.
pub struct Start {
    /// The kind of agent, as config.toml names it.
    pub kind: String,
    pub cwd: PathBuf,
    pub places: aye_policy::OwnPlaces,
    /// None for the mode in which it asks for everything.
    pub mode: Option<String>,
    /// The agent's own name for the session to go on with.
    pub resume: Option<String>,
}

impl Start {
    pub fn context(&self) -> RunContext<'_> {
        RunContext { kind: &self.kind, cwd: &self.cwd, places: &self.places }
    }
}

/// A request that a person is asked about.
#[derive(Debug)]
pub struct Asked<R> {
    /// The agent's name for it.
    pub id: String,
    pub request: R,
    /// Or why it cannot be shown to a person.
    pub body: Result<Body, String>,
    pub tool_use_id: Option<String>,
    pub sub_agent: Option<String>,
    /// The folder it would work in, where that is not the run's.
    pub cwd: Option<PathBuf>,
    /// What the agent can take.
    pub can: Can,
    /// It still counts when the turn ends.
    pub outlives_turn: bool,
}
