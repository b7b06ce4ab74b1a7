//! What follows from each thing that happens to a run, whatever agent it is. No I/O here; see `run.rs`.

use super::account::{RunEvent, Turn};
use super::activity::{Activity, WorkState};
use super::asks::{AskNews, ToRaise};
use super::{AgentProtocol, Asked, Meaning, Written};
use crate::agents::lines::Line;
use crate::agents::reports::TOO_LATE;
use crate::protocol::{Image, Registration, Resolution};
use aye_core::{AskId, AskState, AskView, AsksFor, Body, By, Key, Receipt, ReportedState, Withdrawal};
use std::collections::{HashMap, VecDeque};

/// No person can be meant to answer more than this.
const MOST_OPEN: usize = 500;
/// How many ended requests are remembered, to recognize an id that is used again.
const REMEMBERED: usize = 1000;

/// What happens to a run.
#[derive(Debug)]
pub enum Event<I> {
    /// The agent said something.
    Input(I),
    /// What becomes of an ask of ours.
    Ask(AskNews),
    Prompt {
        text: String,
        image: Option<Image>,
    },
    Interrupt,
    /// No further prompt will come.
    LastPrompt,
    /// The hub does not answer.
    HubAway,
    HubBack,
    /// The run is to end, whatever the agent is doing.
    Stop,
    /// A line that the agent wrote to its standard error.
    ErrorOutput(Line),
    /// No commands can come any more.
    CommandsEnded,
    /// The agent's input is about to be closed.
    Closing,
    /// The agent's output has ended.
    Closed,
}

impl<I> From<AskNews> for Event<I> {
    fn from(news: AskNews) -> Self {
        Self::Ask(news)
    }
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Effect<M> {
    Write(M),
    /// A message that carries an outcome; once written, that outcome is delivered.
    Deliver {
        ask: AskId,
        message: M,
        /// Whether a person waits to see it delivered.
        awaited: bool,
    },
    Raise(ToRaise),
    /// Takes an ask back; of an answer that was faster, `otherwise` became.
    Withdraw {
        ask: AskId,
        why: Withdrawal,
        otherwise: (Receipt, &'static str),
    },
    Receipt {
        ask: AskId,
        receipt: Receipt,
        evidence: String,
    },
    /// Something for the account of the run.
    Tell(RunEvent),
    /// What is now known of the agent, for the hub.
    Register(Registration),
    /// The run is over.
    End,
}

/// The state of a run: what waits, what is over, and which outcomes the agent has not shown yet.
pub struct Driver<P: AgentProtocol> {
    protocol: P,
    /// The keys of this run's asks begin with it.
    run: String,
    /// What the agent waits for, by its request id.
    waiting: HashMap<String, WaitingRequest<P::Request>>,
    /// Requests that are over and their asks: an id that is used again gets no old answer.
    over: OverRequests,
    /// Requests that somebody else answered before the hub had recorded them, and the evidence of it.
    unrecorded: HashMap<String, &'static str>,
    /// Outcomes that the agent has still to show, by the call that shows them.
    unshown: HashMap<String, AskId>,
    activity: Activity,
    /// The agent's mode, if it told.
    asks: Option<AsksFor>,
    asked: u64,
    /// Whether the last turn failed, or the run did.
    failed: bool,
    closing: Option<Closing>,
}

/// The run is about to end.
struct Closing {
    /// The agent had nothing left to do, so it has nothing left to ask for.
    was_idle: bool,
    /// The person knows why nothing is answered any more.
    told: bool,
}

struct WaitingRequest<R> {
    request: R,
    body: Body,
    ask: Option<AskId>,
    outlives_turn: bool,
}

/// The last requests that are over, by id.
#[derive(Default)]
struct OverRequests {
    asks: HashMap<String, Option<AskId>>,
    /// The first to be forgotten first.
    order: VecDeque<String>,
}

impl OverRequests {
    fn remember(&mut self, request: String, ask: Option<AskId>) {
        if self.order.len() == REMEMBERED
            && let Some(first) = self.order.pop_front()
        {
            self.asks.remove(&first);
        }
        if self.asks.insert(request.clone(), ask).is_none() {
            self.order.push_back(request);
        }
    }
}

type Effects<P> = Vec<Effect<<P as AgentProtocol>::Message>>;

impl<P: AgentProtocol> Driver<P> {
    pub fn new(protocol: P, run: String) -> Self {
        Self {
            protocol,
            run,
            waiting: HashMap::new(),
            over: OverRequests::default(),
            unrecorded: HashMap::new(),
            unshown: HashMap::new(),
            activity: Activity::default(),
            asks: None,
            asked: 0,
            failed: false,
            closing: None,
        }
    }

    /// The first messages to the agent.
    pub fn begin(&mut self, prompt: &str, image: Option<&Image>) -> Effects<P> {
        let mut effects = written(self.protocol.begin());
        effects.extend(self.prompt(prompt, image));
        effects
    }

    pub fn work_state(&self) -> WorkState {
        self.activity.work_state()
    }

    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether somebody else answered a request that the hub has not recorded yet.
    pub fn awaits_record(&self) -> bool {
        !self.unrecorded.is_empty()
    }

    fn state(&self) -> ReportedState {
        match self.work_state() {
            WorkState::Working => ReportedState::Working,
            WorkState::WillResume | WorkState::Idle => ReportedState::Idle,
        }
    }

    pub fn handle(&mut self, event: Event<P::Input>) -> Effects<P> {
        match event {
            Event::Input(input) => {
                let meanings = self.protocol.read(input);
                meanings.into_iter().flat_map(|meaning| self.means(meaning)).collect()
            }
            Event::Ask(AskNews::Raised { request, ask }) => self.raised(&request, *ask),
            Event::Ask(AskNews::Allowed { request, allowed }) => {
                self.decided(&request, allowed.id.clone(), &Resolution::allowed(&allowed))
            }
            Event::Ask(AskNews::NotRaised { request, why }) => {
                self.unrecorded.remove(&request);
                self.refuse(&request, &format!("Nobody could be asked: {why}"))
            }
            Event::Ask(AskNews::Resolved { request, resolution }) => self.resolved(&request, resolution),
            Event::Prompt { text, image } => self.prompt(&text, image.as_ref()),
            Event::Interrupt if self.work_state() == WorkState::Idle => Vec::new(),
            Event::Interrupt => self.interrupt(),
            Event::LastPrompt => Vec::new(),
            Event::HubAway => {
                vec![hint(
                    "The hub is away. The agent goes on, and what it asks waits until the hub is back.",
                )]
            }
            Event::HubBack => vec![hint("The hub is back.")],
            Event::Stop if self.work_state() == WorkState::Idle => vec![Effect::End],
            Event::Stop => {
                let mut effects = self.interrupt();
                effects.push(Effect::End);
                effects
            }
            Event::ErrorOutput(Line::Whole(words) | Line::TooLong { beginning: words, .. }) => {
                match words.trim_ascii().is_empty() {
                    true => Vec::new(),
                    false => {
                        vec![trouble(format!(
                            "The agent wrote to standard error: {}",
                            String::from_utf8_lossy(&words)
                        ))]
                    }
                }
            }
            Event::CommandsEnded if self.work_state() == WorkState::Working => Vec::new(),
            Event::CommandsEnded => vec![Effect::End],
            Event::Closing => {
                let was_idle = self.work_state() == WorkState::Idle;
                self.closing = Some(Closing { was_idle, told: self.failed });
                self.withdraw_all()
            }
            Event::Closed => self.closed(),
        }
    }

    fn interrupt(&mut self) -> Effects<P> {
        let meanings = self.protocol.interrupt();
        meanings.into_iter().flat_map(|meaning| self.means(meaning)).collect()
    }

    fn prompt(&mut self, text: &str, image: Option<&Image>) -> Effects<P> {
        self.activity.prompted();
        let mut effects = written(self.protocol.prompt(text, image));
        effects.push(Effect::Register(Registration::state(ReportedState::Working)));
        effects.push(Effect::Tell(RunEvent::Prompt(text.to_owned())));
        effects
    }

    fn means(&mut self, meaning: Meaning<P>) -> Effects<P> {
        match meaning {
            Meaning::Asks(asked) => self.asks(asked),
            Meaning::Cancels { id } => {
                let ask = self.finish(&id).and_then(|waiting| waiting.ask);
                ask.into_iter().flat_map(|ask| withdraw(ask, Withdrawal::Cancelled)).collect()
            }
            Meaning::AnsweredBySomebodyElse { id, evidence } => self.answered_by_somebody_else(id, evidence),
            Meaning::Shows { call, receipt, evidence } => match (self.unshown.remove(&call), receipt) {
                (Some(ask), Receipt::Confirmed) => vec![Effect::Receipt { ask, receipt, evidence }],
                (Some(ask), _) => not_confirmed(ask, receipt, evidence).into(),
                (None, _) => Vec::new(),
            },
            Meaning::Wants { id, .. } if self.waiting.contains_key(&id) => Vec::new(),
            Meaning::Wants { reply: message, .. } | Meaning::Write(message) => vec![Effect::Write(message)],
            Meaning::Session { id: session, cwd } => {
                let (session, cwd) = (session.map(Into::into), cwd.map(Into::into));
                let known = Registration { session, cwd, ..Registration::state(ReportedState::Working) };
                vec![Effect::Register(known)]
            }
            Meaning::Knows(known) => {
                let silent = known.asks == Some(AsksFor::Nothing) && self.asks != known.asks;
                self.asks = known.asks.or(self.asks);
                let told = silent.then(|| hint("In this mode the agent asks for nothing."));
                [Effect::Register(known)].into_iter().chain(told).collect()
            }
            Meaning::Works => {
                self.activity.begins();
                Vec::new()
            }
            Meaning::TookPrompt => {
                self.activity.echoed();
                Vec::new()
            }
            Meaning::SubAgents(working) => {
                self.activity.sub_agents(working);
                vec![Effect::Register(Registration::state(self.state()))]
            }
            Meaning::TurnEnded(turn) => self.turn_ended(turn),
            Meaning::Tells(event) => vec![Effect::Tell(event)],
            Meaning::Fails(why) => {
                self.failed = true;
                vec![trouble(why), Effect::End]
            }
        }
    }

    fn asks(&mut self, asked: Asked<P::Request>) -> Effects<P> {
        let Asked { id, request, body, tool_use_id, sub_agent, cwd, can, outlives_turn } = asked;
        if self.waiting.contains_key(&id) {
            // The first one still waits under this id, and gets the answer.
            let words = format!("The agent used the request id {id} twice; the second request was ignored.");
            return vec![trouble(words)];
        }
        if self.over.asks.contains_key(&id) {
            let why = format!("request id {id} was already answered; use a new id");
            return vec![Effect::Write(self.protocol.fault(&id, &why)), trouble(why)];
        }
        if let Some(closing) = &mut self.closing {
            return closing.asked(&mut self.failed).into_iter().map(trouble).collect();
        }
        if self.waiting.len() >= MOST_OPEN {
            self.failed = true;
            let words = format!(
                "The agent asked for more than {MOST_OPEN} things at once, which is more than anybody can answer. \
                 Nothing more is approved. The run ends."
            );
            return vec![trouble(words), Effect::End];
        }
        match body {
            Ok(body) => {
                let waiting = WaitingRequest { request, body: body.clone(), ask: None, outlives_turn };
                self.waiting.insert(id.clone(), waiting);
                self.asked += 1;
                let key = Key::from_displayed(&format_args!("{}/{}", self.run, self.asked));
                vec![Effect::Raise(ToRaise { request: id, key, body, tool_use_id, sub_agent, cwd, can })]
            }
            Err(why) => vec![Effect::Write(self.protocol.refusal(&id, &request, &why)), trouble(why)],
        }
    }

    /// What waited under this request, which is now over.
    fn finish(&mut self, request: &str) -> Option<WaitingRequest<P::Request>> {
        let waiting = self.waiting.remove(request)?;
        self.over.remember(request.to_owned(), waiting.ask.clone());
        Some(waiting)
    }

    /// A person gets to know of it, whether or not an answer of ours was on its way.
    fn answered_by_somebody_else(&mut self, id: String, evidence: &'static str) -> Effects<P> {
        match self.finish(&id) {
            Some(WaitingRequest { ask: Some(ask), .. }) => answered_elsewhere(ask, evidence).into(),
            Some(WaitingRequest { ask: None, .. }) => {
                self.unrecorded.insert(id, evidence);
                Vec::new()
            }
            None => {
                let Some(ask) = self.over.asks.get(&id).cloned().flatten() else { return Vec::new() };
                // What the call shows from now on is not about our answer.
                self.unshown.retain(|_, unshown| *unshown != ask);
                not_confirmed(ask, Receipt::Disputed, evidence.to_owned()).into()
            }
        }
    }

    /// What becomes of an ask whose request was over before the hub had recorded it.
    fn over_before_recorded(&mut self, request: &str, ask: &AskId) -> Option<Effects<P>> {
        if let Some(evidence) = self.unrecorded.remove(request) {
            return Some(answered_elsewhere(ask.clone(), evidence).into());
        }
        if self.waiting.contains_key(request) {
            return None;
        }
        let (why, otherwise) = (Withdrawal::Cancelled, TOO_LATE);
        Some(vec![Effect::Withdraw { ask: ask.clone(), why, otherwise }])
    }

    fn raised(&mut self, request: &str, ask: AskView) -> Effects<P> {
        if let Some(resolution) = Resolution::by_rule(&ask) {
            return self.decided(request, ask.head.id, &resolution);
        }
        if let Some(effects) = self.over_before_recorded(request, &ask.head.id) {
            return effects;
        }
        if let Some(waiting) = self.waiting.get_mut(request) {
            waiting.ask = Some(ask.id.clone());
        }
        vec![Effect::Tell(RunEvent::Asked(Box::new(ask)))]
    }

    /// A rule decided it in the moment it was raised.
    fn decided(&mut self, request: &str, ask: AskId, resolution: &Resolution) -> Effects<P> {
        if let Some(effects) = self.over_before_recorded(request, &ask) {
            return effects;
        }
        let Some(waiting) = self.waiting.get_mut(request) else { return Vec::new() };
        waiting.ask = Some(ask);
        let tool = aye_policy::tool_and_input(&waiting.body).0.into_owned();
        let decision = resolution.outcome.decision;
        let rule = match &resolution.by {
            Some(By::Rule { rule }) => rule.to_string(),
            Some(By::Person { .. }) | None => String::new(),
        };
        let mut effects = self.deliver(request, resolution, false);
        effects.push(Effect::Tell(RunEvent::Decided { tool, decision, rule }));
        effects
    }

    fn refuse(&mut self, id: &str, why: &str) -> Effects<P> {
        let Some(waiting) = self.finish(id) else { return Vec::new() };
        let refusal = self.protocol.refusal(id, &waiting.request, why);
        let mut effects = vec![Effect::Write(refusal), trouble(why.to_owned())];
        effects.extend(waiting.ask.into_iter().flat_map(|ask| withdraw(ask, Withdrawal::Cancelled)));
        effects
    }

    fn resolved(&mut self, request: &str, resolution: Resolution) -> Effects<P> {
        let Some(WaitingRequest { ask: Some(ask), body, .. }) = self.waiting.get(request) else {
            return Vec::new();
        };
        let (ask, shown) = (ask.clone(), resolution.without_secrets(body));
        let mut effects = match resolution.state {
            // Whoever withdrew it has already told the agent, or the agent no longer wants to know.
            AskState::Withdrawn => {
                self.finish(request);
                Vec::new()
            }
            AskState::Open | AskState::Answered | AskState::Expired => {
                self.deliver(request, &resolution, true)
            }
        };
        effects.push(Effect::Tell(RunEvent::AskEnded { ask, resolution: shown }));
        effects
    }

    fn deliver(&mut self, id: &str, resolution: &Resolution, awaited: bool) -> Effects<P> {
        let Some(WaitingRequest { request, body, ask: Some(ask), .. }) = self.finish(id) else {
            return Vec::new();
        };
        let Written { message, shown_by } = self.protocol.outcome(id, request, &body, resolution);
        self.unshown.extend(shown_by.map(|call| (call, ask.clone())));
        vec![Effect::Deliver { ask, message, awaited }]
    }

    /// Sub-agents go on after the turn in which they were started, and so do their asks. Whatever else is
    /// open no longer counts, and the agent is told so in case it still listens.
    fn turn_ended(&mut self, turn: Turn) -> Effects<P> {
        let mut effects = Vec::new();
        let over: Vec<_> = self.waiting.extract_if(|_, waiting| !waiting.outlives_turn).collect();
        for (id, waiting) in over {
            let why = "The turn ended before anybody answered.";
            effects.push(Effect::Write(self.protocol.refusal(&id, &waiting.request, why)));
            effects.extend(waiting.ask.into_iter().flat_map(|ask| withdraw(ask, Withdrawal::Cancelled)));
        }
        self.activity.turn_ended();
        self.failed = turn.failed;
        let known = Registration { cost: turn.cost, ..Registration::state(self.state()) };
        effects.extend([Effect::Register(known), Effect::Tell(RunEvent::Turn(turn))]);
        effects
    }

    fn withdraw_all(&mut self) -> Effects<P> {
        let open = self.waiting.drain().filter_map(|(_, waiting)| waiting.ask);
        open.flat_map(|ask| withdraw(ask, Withdrawal::Gone)).collect()
    }

    fn closed(&mut self) -> Effects<P> {
        let mut effects = self.withdraw_all();
        for (_, ask) in self.unshown.drain() {
            let evidence = "the agent ended before its transcript showed whether it took this".to_owned();
            effects.extend(not_confirmed(ask, Receipt::Unknown, evidence));
        }
        effects
    }
}

impl Closing {
    /// What the person is told when the agent asks for something now, which nobody will answer any more.
    fn asked(&mut self, failed: &mut bool) -> Option<String> {
        *failed |= self.was_idle;
        let first = !std::mem::replace(&mut self.told, true);
        let when = if self.was_idle { "after it had ended its turn" } else { "while the run was ending" };
        first.then(|| {
            format!("The agent asked for something {when}. Nobody was asked, and nothing was approved.")
        })
    }
}

fn written<M>(messages: Vec<M>) -> Vec<Effect<M>> {
    messages.into_iter().map(Effect::Write).collect()
}

fn trouble<M>(words: String) -> Effect<M> {
    Effect::Tell(RunEvent::Trouble(words))
}

fn hint<M>(words: &str) -> Effect<M> {
    Effect::Tell(RunEvent::Hint(words.to_owned()))
}

fn withdraw<M>(ask: AskId, why: Withdrawal) -> [Effect<M>; 2] {
    let otherwise = TOO_LATE;
    [Effect::Withdraw { ask: ask.clone(), why, otherwise }, Effect::Tell(RunEvent::Withdrawn { ask })]
}

/// An answer from here that was faster than the withdrawal did not count.
fn answered_elsewhere<M>(ask: AskId, evidence: &'static str) -> [Effect<M>; 2] {
    let (why, otherwise) = (Withdrawal::SomebodyElse, (Receipt::Disputed, evidence));
    [Effect::Withdraw { ask: ask.clone(), why, otherwise }, Effect::Tell(RunEvent::Withdrawn { ask })]
}

/// Told to the person as well as to the hub, because it is not confirmed.
fn not_confirmed<M>(ask: AskId, receipt: Receipt, evidence: String) -> [Effect<M>; 2] {
    let event = RunEvent::NotConfirmed { ask: ask.clone(), receipt, evidence: evidence.clone() };
    [Effect::Tell(event), Effect::Receipt { ask, receipt, evidence }]
}
