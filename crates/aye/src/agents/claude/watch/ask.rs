//! The life of one ask of a watched session: raised, answered here or at the keyboard, typed, and proven.

use super::given;
use crate::agents::before;
use crate::agents::claude::hook::handover::{Dialog, Origin};
use crate::agents::claude::hook::notes::{AskNote, Notes};
use crate::agents::claude::receipts::Expected;
use crate::agents::claude::tmux::decide::decide;
use crate::agents::claude::tmux::deliver::{Stopped, TypingResult, deliver};
use crate::agents::claude::tmux::plan::{Plan, can_answer, plan, untouched};
use crate::agents::claude::tmux::prompt::{DialogCall, DialogChoice, PromptDialog};
use crate::agents::claude::tmux::screen::{ExpectedScreen, OTHER_PROMPT, compare};
use crate::agents::claude::transcript::pending::Closed;
use crate::agents::claude::transcript::scan::{all_open_calls, open_calls};
use crate::agents::tmux::pane::Pane;
use crate::client::{AgentClient, CallError, Try, Waits, Withdrawn};
use crate::processes::Process;
use crate::protocol::{ConversationEvent, NewAsk, Resolution, Withdraw};
use aye_core::{Answer, AskId, AskState, Body, Can, Decision, Key, Question, Receipt, Withdrawal};
use serde_json::json;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long the transcript may take to show an answer that was submitted.
const PROOF_COMES_WITHIN: Duration = Duration::from_secs(30);
pub const TO_THE_TERMINAL: &str = "answer it in its terminal";
/// How often we check whether answers can be typed into its terminal.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// How long the terminal may take to draw the dialog that the transcript tells of.
const DRAWN_WITHIN: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// A refusal is in the transcript at once. What is not there after this long is running.
const RESULT_COMES_WITHIN: Duration = Duration::from_millis(1500);
/// After this many answers that could not be typed, an ask is left to the terminal.
const MOST_TRIES: usize = 3;

/// What is asked, and where.
pub struct WatchedAsk {
    pub client: AgentClient,
    pub origin: Origin,
    pub tool_use_id: String,
    pub tool: String,
    pub body: Body,
    /// As the terminal's dialog must show it; none for what has ended already.
    pub call: Option<DialogCall>,
    /// The dialog may not be drawn yet.
    pub opens_late: bool,
    pub process: Option<Process>,
    pub transcript: PathBuf,
    /// Whether the session says that it waits for the person at its terminal.
    pub waiting: watch::Receiver<bool>,
    /// Whether a person is asked, or the answer is being typed: the terminal still waits for it.
    pub asking: watch::Sender<bool>,
    /// For whoever comes after us, in a session that calls our hooks.
    pub notes: Option<Notes>,
}

/// How the transcript closed the call, once it has.
pub type Ending = watch::Receiver<Option<Closed>>;

/// What can be answered in the terminal now.
enum Answerable<'a> {
    Questions(&'a [Question]),
    Prompt(Box<(PromptDialog, DialogCall)>),
}

impl WatchedAsk {
    /// Follows the ask to its end, through restarts of the hub.
    pub async fn follow(self, mut ending: Ending) {
        if let Err(error) = self.live(&mut ending).await {
            // Refused for good: another ask has this key, or the agent is no longer ours.
            tracing::warn!(%error, agent = %self.client.agent(), call = self.tool_use_id, "an ask could not be followed");
        }
    }

    /// An answer that does not get there is no end while the agent waits: it is asked again, under a key that names
    /// the ask before.
    async fn live(&self, ending: &mut Ending) -> Result<(), CallError> {
        let mut key = self.origin.key.clone();
        for tries in 0.. {
            let Some(failed) = self.ask(key, tries, ending).await? else { return Ok(()) };
            key = Key::from_displayed(&format_args!("{}/after-{failed}", self.origin.key.as_str()));
        }
        Ok(())
    }

    /// Returns the ask if its answer did not get there and the agent still waits.
    async fn ask(&self, key: Key, tries: usize, ending: &mut Ending) -> Result<Option<AskId>, CallError> {
        let tool_use_id = Some(self.tool_use_id.clone().into());
        let can = match tries < MOST_TRIES {
            true => self.can_at_first(ending).await,
            false => Can::elsewhere(format!("answers could not be typed: {TO_THE_TERMINAL}")),
        };
        let before = self.call.as_ref().and_then(|call| before::of(&self.body, &call.cwd));
        let new = NewAsk::new(key.clone(), self.client.agent().clone(), &self.body).with_before(before);
        let cwd = self.origin.cwd.clone().map(Into::into);
        let sub_agent = self.origin.sub_agent.clone().map(Into::into);
        let ask = self.client.raise(&NewAsk { tool_use_id, can, cwd, sub_agent, ..new }).await?.ask;
        let id = &ask.head.id;
        self.note(id, key.clone());
        let (state, answer, message) = match ask.status.state {
            AskState::Open => {
                let resolution = tokio::select! {
                    resolution = self.resolution(id) => resolution?,
                    never = self.keep_telling(id, ask.can, tries) => match never? {},
                    closed = self.closed(ending) => match self.withdraw(id, &closed).await? {
                        Withdrawn::TakenBack => return Ok(self.settled(id)),
                        // Somebody answered in the same moment.
                        Withdrawn::TooLate => self.resolution(id).await?,
                    },
                };
                (resolution.state, resolution.outcome.answer, resolution.outcome.message)
            }
            ended => (ended, ask.status.answer, None),
        };
        let again = match (state, answer, ask.status.receipt) {
            (AskState::Withdrawn, _, _) => false,
            (_, None, _) => {
                let evidence = "nobody answered; it was left to the terminal";
                self.report(id, Receipt::Undelivered, evidence).await?;
                false
            }
            (_, Some(answer), None | Some(Receipt::Pending)) => {
                let message = message.or_else(|| answer.message().map(str::to_owned));
                self.type_in(id, &answer, message.as_deref(), ending).await?
            }
            (_, Some(_), Some(Receipt::Undelivered)) => true,
            // Keys were typed once, by whoever watched before; they are never typed again.
            (_, Some(answer), Some(_)) => {
                self.prove(id, &self.expected(&answer), true, ending).await?;
                false
            }
        };
        self.settled(id);
        Ok((again && ending.borrow().is_none()).then(|| id.clone()))
    }

    /// The dialog that this asks about, if that is what the terminal shows.
    async fn shown(&self) -> Result<(Pane, Answerable<'_>), String> {
        let pane = Pane::of(self.process).await.map_err(|why| why.to_string())?;
        let screen = pane.screen().await.map_err(|why| why.to_string())?;
        let shown = match (&self.body, &self.call) {
            (Body::Question(body), _) => compare(&screen, &body.questions, &untouched(0))
                .map(|()| Answerable::Questions(&body.questions))
                .map_err(|why| why.to_string())?,
            (Body::Permission(_) | Body::Plan(_), Some(call)) => {
                let prompt = PromptDialog::read(&screen).filter(|prompt| prompt.is_for(call));
                let prompt = prompt.ok_or_else(|| OTHER_PROMPT.to_string())?;
                if self.may_be_another(&prompt, call) {
                    return Err("another request that is open looks the same on the screen".into());
                }
                self.is_plan_as_asked()?;
                Answerable::Prompt(Box::new((prompt, call.clone())))
            }
            (Body::Permission(_) | Body::Plan(_), None) => return Err(OTHER_PROMPT.to_string()),
        };
        Ok((pane, shown))
    }

    /// Whether the dialog could be about another call that is open. What was allowed is open while it runs.
    fn may_be_another(&self, prompt: &PromptDialog, call: &DialogCall) -> bool {
        let beside = self.transcript.parent().filter(|_| call.by_sub_agent);
        let files = beside.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let others = files.map(|entry| entry.path()).filter(|path| *path != self.transcript);
        let others = others.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        let mut transcripts = others.chain([self.transcript.clone()]);
        transcripts.any(|transcript| {
            let open = all_open_calls(&transcript).unwrap_or_default();
            let mut others = open.into_iter().filter(|open| open.tool_use_id != self.tool_use_id);
            others.any(|open| {
                let input = open.input.as_deref().and_then(|input| serde_json::from_str(input).ok());
                input.is_some_and(|input| {
                    let change = before::and_after(&open.tool, &input, &call.cwd);
                    let (cwd, by_sub_agent) = (call.cwd.clone(), call.by_sub_agent);
                    prompt.is_for(&DialogCall { tool: open.tool, input, cwd, by_sub_agent, change })
                })
            })
        })
    }

    /// What is approved is the plan's file, which may have been rewritten since.
    fn is_plan_as_asked(&self) -> Result<(), String> {
        let file = self.call.as_ref().and_then(|call| call.input.get("planFilePath")?.as_str());
        match (&self.body, file) {
            (Body::Plan(body), Some(file)) => match std::fs::read_to_string(file) {
                Ok(now) if now == body.plan.as_str() => Ok(()),
                _ => Err("the file with the plan has changed".into()),
            },
            _ => Ok(()),
        }
    }

    async fn can(&self) -> Can {
        match self.shown().await {
            Ok((_, Answerable::Questions(questions))) => {
                Can { why: Some(NOT_IN_A_TERMINAL.into()), ..can_answer(questions) }
            }
            Ok((_, Answerable::Prompt(shown))) => {
                let reason = shown.0.row_for(DialogChoice::DenyWith).is_some();
                let why = Some(NOT_IN_A_TERMINAL.into());
                Can { edit: false, reason, outline: reason, deny_ends_turn: !reason, why, ..Can::default() }
            }
            Err(why) => Can::elsewhere(format!("{why}: {TO_THE_TERMINAL}")),
        }
    }

    /// The transcript tells of a dialog a moment before the terminal has drawn it.
    async fn can_at_first(&self, ending: &Ending) -> Can {
        let until = Instant::now() + DRAWN_WITHIN;
        loop {
            let can = self.can().await;
            let gone = Pane::of(self.process).await.is_err() || ending.borrow().is_some();
            if can.answer || gone || Instant::now() >= until {
                return can;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// A dialog can be covered, or half answered, or leave tmux while it waits, and come back.
    async fn keep_telling(&self, id: &AskId, mut told: Can, tries: usize) -> Result<Infallible, CallError> {
        loop {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            if tries >= MOST_TRIES {
                continue;
            }
            let can = self.can().await;
            if can != told {
                self.client.set_can(id, &can, Try::UntilHeard).await?;
                told = can;
            }
        }
    }

    fn plan(&self, shown: Answerable<'_>, answer: &Answer, message: Option<&str>) -> Result<Plan, String> {
        let planned = match (shown, answer) {
            (Answerable::Questions(questions), Answer::Question(reply)) => plan(questions, reply),
            (Answerable::Prompt(shown), answer) => decide(shown.0, shown.1, answer, message),
            (Answerable::Questions(_), Answer::Permission(_) | Answer::Plan(_)) => {
                return Err("the answer does not fit".into());
            }
        };
        planned.map_err(|why| why.to_string())
    }

    /// Says whether it has to be asked again.
    async fn type_in(
        &self,
        id: &AskId,
        answer: &Answer,
        message: Option<&str>,
        ending: &mut Ending,
    ) -> Result<bool, CallError> {
        let ready = match self.shown().await {
            Ok((pane, shown)) => self.plan(shown, answer, message).map(|plan| (pane, plan)),
            // Another page may be there because somebody was faster.
            Err(_) if !self.is_open() => {
                self.prove(id, &self.expected(answer), false, ending).await?;
                return Ok(false);
            }
            Err(why) => Err(why),
        };
        let (pane, plan) = match ready {
            Ok(ready) => ready,
            Err(why) => return self.failed(id, &format!("nothing was typed, because {why}")).await,
        };
        // On disk before the first key: whoever takes over after a crash must not type it again.
        let typing = "keys were typed into its terminal, and its transcript has not shown the answer yet";
        self.report(id, Receipt::Unknown, typing).await?;
        let still_open = || ending.borrow().is_none() && self.is_open();
        let is_alone = || match plan.steps.first().map(|step| &step.page) {
            Some(ExpectedScreen::Prompt { first, call, .. }) if call.by_sub_agent => {
                !self.may_be_another(first, call)
            }
            _ => self.is_alone(),
        };
        let typed = deliver(&pane, self.questions(), &plan, still_open, is_alone).await;
        tracing::debug!(agent = %self.client.agent(), ask = %id, ?typed, "an answer was typed");
        match typed {
            TypingResult::All => {
                self.report(id, Receipt::Delivered, "typed into its terminal").await?;
                self.prove(id, &plan.expected, true, ending).await?;
            }
            TypingResult::Nothing(Stopped::Answered) | TypingResult::Some(Stopped::Answered) => {
                self.prove(id, &plan.expected, false, ending).await?;
            }
            TypingResult::Nothing(why) => {
                return self.failed(id, &format!("nothing was typed, because {why}")).await;
            }
            TypingResult::Some(why) => {
                return self.failed(id, &format!("it was typed only in part, because {why}")).await;
            }
            TypingResult::Perhaps(why) => {
                let words = format!("Whether the answer was submitted is not known: {why}.");
                let trouble = ConversationEvent::Trouble { text: words, left_out: 0 };
                self.client.event(&trouble, Try::UntilHeard).await?;
                self.prove(id, &plan.expected, true, ending).await?;
            }
        }
        Ok(false)
    }

    async fn failed(&self, id: &AskId, why: &str) -> Result<bool, CallError> {
        self.report(id, Receipt::Undelivered, &format!("{why}; it is asked again")).await?;
        Ok(true)
    }

    fn questions(&self) -> &[Question] {
        match &self.body {
            Body::Question(body) => &body.questions,
            Body::Permission(_) | Body::Plan(_) => &[],
        }
    }

    /// What the transcript must show of an answer whose keys are not ours to type any more.
    fn expected(&self, answer: &Answer) -> Expected {
        match (&self.body, answer) {
            (Body::Question(body), Answer::Question(reply)) => {
                plan(&body.questions, reply).map_or(Expected::Declined, |plan| plan.expected)
            }
            (_, answer) if answer.decision() == Decision::Allow => Expected::Allowed,
            (_, answer) => {
                let message = answer.message().unwrap_or_default().to_owned();
                Expected::Refused { message, interrupt: true }
            }
        }
    }

    /// The transcript is the proof, whenever it comes.
    async fn prove(
        &self,
        id: &AskId,
        expected: &Expected,
        submitted: bool,
        ending: &mut Ending,
    ) -> Result<(), CallError> {
        self.asking.send_replace(false);
        let closed = match tokio::time::timeout(PROOF_COMES_WITHIN, returned(ending)).await {
            Ok(closed) => closed,
            Err(_) => {
                // What was allowed may run for long.
                if *self.waiting.borrow() || matches!(self.body, Body::Question(_)) {
                    let evidence =
                        "keys were typed into its terminal, and its transcript does not show the answer";
                    self.report(id, Receipt::Unknown, evidence).await?;
                }
                returned(ending).await
            }
        };
        let (receipt, evidence) = given::receipt(expected, &closed, submitted);
        self.report(id, receipt, &evidence).await
    }

    /// How the call ended, or that it runs: the dialog about it is gone, and no refusal came.
    async fn closed(&self, ending: &mut Ending) -> Closed {
        let runs = async {
            let mut waiting = self.waiting.clone();
            // Until the session has said that it waits, its silence does not tell that the call was allowed.
            if self.opens_late && waiting.wait_for(|waiting| *waiting).await.is_err() {
                std::future::pending::<()>().await;
            }
            loop {
                if waiting.wait_for(|waiting| !waiting).await.is_err() {
                    std::future::pending::<()>().await;
                }
                let back =
                    tokio::time::timeout(RESULT_COMES_WITHIN, waiting.wait_for(|waiting| *waiting)).await;
                if back.is_err() {
                    return;
                }
            }
        };
        match self.body {
            Body::Permission(_) => tokio::select! {
                closed = returned(ending) => closed,
                () = runs => Closed::Running,
            },
            Body::Question(_) | Body::Plan(_) => returned(ending).await,
        }
    }

    /// Right now, in the transcript itself.
    fn is_open(&self) -> bool {
        let open = open_calls(&self.transcript, &self.tool).unwrap_or_default();
        open.iter().any(|open| open.tool_use_id == self.tool_use_id)
    }

    /// True if no other call of the session itself can show the same dialog.
    fn is_alone(&self) -> bool {
        open_calls(&self.transcript, &self.tool).is_ok_and(|open| open.len() == 1)
    }

    /// Whether the ask could still be taken back.
    async fn withdraw(&self, id: &AskId, closed: &Closed) -> Result<Withdrawn, CallError> {
        let what = match closed {
            Closed::Returned(returned) => {
                Withdraw { why: Withdrawal::Terminal, answer: returned.answer(&self.body) }
            }
            Closed::Running => {
                let allowed = json!({ "decision": "allow", "scope": "once" });
                Withdraw { why: Withdrawal::Terminal, answer: Some(allowed) }
            }
            Closed::PassedOver => Withdrawal::Cancelled.into(),
        };
        self.client.withdraw(id, what, Try::UntilHeard).await
    }

    async fn resolution(&self, id: &AskId) -> Result<Resolution, CallError> {
        self.client.resolution(id, &self.body, Waits::Alone).await
    }

    async fn report(&self, id: &AskId, receipt: Receipt, evidence: &str) -> Result<(), CallError> {
        self.client.receipt(id, receipt, evidence, Try::UntilHeard).await
    }

    fn noted(&self, id: &AskId, key: Key) -> AskNote {
        AskNote {
            ask: id.clone(),
            tool_use_id: Some(self.tool_use_id.clone()),
            kind: self.body.kind(),
            body: self.body.to_json(),
            transcript: self.transcript.clone(),
            offset: 0,
            hook: Process::myself(),
            printed: None,
            waited: false,
            dialog: Dialog::HandedOver(Origin { key, ..self.origin.clone() }),
        }
    }

    /// For the next follower, which goes on with it under this key.
    fn note(&self, id: &AskId, key: Key) {
        if let Some(notes) = &self.notes {
            drop(notes.note(&self.noted(id, key)));
        }
    }

    fn settled(&self, id: &AskId) -> Option<AskId> {
        if let Some(notes) = &self.notes {
            notes.settled(&self.noted(id, self.origin.key.clone()));
        }
        None
    }
}

pub const NOT_IN_A_TERMINAL: &str = "its own terminal does not take that";

/// One whose sender is gone never closes; the task that waits for it is ended.
async fn returned(ending: &mut Ending) -> Closed {
    let found = ending.wait_for(Option::is_some).await.ok().and_then(|closed| closed.clone());
    match found {
        Some(closed) => closed,
        None => std::future::pending().await,
    }
}
