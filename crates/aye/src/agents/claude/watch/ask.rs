//! The life of one ask of a watched session: raised, answered here or at the keyboard, typed, and proven.

use super::given;
use crate::agents::claude::tmux::deliver::{Stopped, Typed, deliver};
use crate::agents::claude::tmux::pane::Pane;
use crate::agents::claude::tmux::plan::{Meant, Plan, plan};
use crate::agents::claude::tmux::screen::has_previews;
use crate::agents::claude::transcript::pending::Closed;
use crate::agents::claude::transcript::scan::open_calls;
use crate::client::{AgentClient, CallError, Try, Waits, Withdrawn};
use crate::processes::Process;
use crate::protocol::{NewAsk, Resolution, Withdraw};
use aye_core::{Answer, AskId, AskState, Body, Can, Key, Question, Receipt, Withdrawal};
use serde_json::json;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// How long the transcript may take to show an answer that was submitted.
const PROOF_COMES_WITHIN: Duration = Duration::from_secs(30);
const TO_THE_TERMINAL: &str = "answer it in its terminal";
const ONLY_QUESTIONS: &str = "only questions of a watched session can be answered from here";
/// Between two looks at whether its terminal can be reached.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// What is asked, and where.
pub struct Asked {
    pub client: AgentClient,
    pub key: Key,
    pub tool_use_id: String,
    pub tool: String,
    pub body: Body,
    pub process: Option<Process>,
    pub transcript: PathBuf,
}

/// How the transcript closed the call, once it has.
pub type Ending = watch::Receiver<Option<Closed>>;

impl Asked {
    /// Follows the ask to its end, through restarts of the hub.
    pub async fn follow(self, mut ending: Ending) {
        if let Err(error) = self.live(&mut ending).await {
            // Refused for good: another ask has this key, or the agent is no longer ours.
            tracing::warn!(%error, agent = %self.client.agent(), call = self.tool_use_id, "an ask could not be followed");
        }
    }

    async fn live(&self, ending: &mut Ending) -> Result<(), CallError> {
        let tool_use_id = Some(self.tool_use_id.clone().into());
        let can = self.can().await;
        let new = NewAsk::new(self.key.clone(), self.client.agent().clone(), &self.body);
        let ask = self.client.raise(&NewAsk { tool_use_id, can, ..new }).await?.ask;
        let id = &ask.id;
        let (state, answer) = match ask.state {
            AskState::Open => {
                let resolution = tokio::select! {
                    resolution = self.resolution(id) => resolution?,
                    never = self.keep_telling(id, ask.can) => match never? {},
                    closed = closed(ending) => match self.withdraw(id, &closed).await? {
                        Withdrawn::TakenBack => return Ok(()),
                        // Somebody answered in the same moment.
                        Withdrawn::TooLate => self.resolution(id).await?,
                    },
                };
                (resolution.state, resolution.outcome.answer)
            }
            ended => (ended, ask.answer),
        };
        if state == AskState::Withdrawn {
            return Ok(());
        }
        let untouched = matches!(ask.receipt, None | Some(Receipt::Pending));
        match answer {
            None => {
                self.report(id, Receipt::Undelivered, "nobody answered; it was left to the terminal").await
            }
            Some(answer) => match self.plan(&answer) {
                Ok((questions, plan)) if untouched => self.type_in(id, questions, plan, ending).await,
                // Keys were typed once, by whoever watched before; they are never typed again.
                Ok((questions, plan)) => self.prove(id, questions, &plan.meant, true, ending).await,
                Err(why) => self.report(id, Receipt::Undelivered, &format!("{why}: {TO_THE_TERMINAL}")).await,
            },
        }
    }

    /// What can be typed into its terminal.
    async fn can(&self) -> Can {
        let questions = match &self.body {
            Body::Question(body) => &body.questions,
            Body::Permission(_) | Body::Plan(_) => {
                return Can::elsewhere(format!("{ONLY_QUESTIONS}: {TO_THE_TERMINAL}"));
            }
        };
        match Pane::of(self.process).await {
            Ok(_) => Can {
                response: questions.len() == 1,
                text: !questions.iter().any(has_previews),
                notes: questions.iter().all(has_previews),
                reason: false,
                ..Can::default()
            },
            Err(why) => Can::elsewhere(format!("{why}: {TO_THE_TERMINAL}")),
        }
    }

    /// A session can leave tmux while it waits, and come back to it.
    async fn keep_telling(&self, id: &AskId, mut told: Can) -> Result<Infallible, CallError> {
        loop {
            let can = self.can().await;
            if can != told {
                self.client.set_can(id, &can, Try::UntilHeard).await?;
                told = can;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    fn plan(&self, answer: &Answer) -> Result<(&[Question], Plan), String> {
        match (&self.body, answer) {
            (Body::Question(body), Answer::Question(reply)) => {
                let plan = plan(&body.questions, reply).map_err(|why| why.to_string())?;
                Ok((&body.questions, plan))
            }
            _ => Err(ONLY_QUESTIONS.into()),
        }
    }

    async fn type_in(
        &self,
        id: &AskId,
        questions: &[Question],
        plan: Plan,
        ending: &mut Ending,
    ) -> Result<(), CallError> {
        let pane = match Pane::of(self.process).await {
            Ok(pane) => pane,
            Err(why) => {
                let evidence = format!("nothing was typed, because {why}: {TO_THE_TERMINAL}");
                return self.report(id, Receipt::Undelivered, &evidence).await;
            }
        };
        // On disk before the first key: whoever takes over after a crash must not type it again.
        let typing = "keys were typed into its terminal, and its transcript has not shown the answer yet";
        self.report(id, Receipt::Unknown, typing).await?;
        let typed = deliver(&pane, questions, &plan, || ending.borrow().is_none() && self.is_open()).await;
        tracing::debug!(agent = %self.client.agent(), ask = %id, ?typed, "an answer was typed");
        match typed {
            Typed::All => {
                self.report(id, Receipt::Delivered, "typed into its terminal").await?;
                self.prove(id, questions, &plan.meant, true, ending).await
            }
            Typed::Nothing(Stopped::Answered) | Typed::Some(Stopped::Answered) => {
                self.prove(id, questions, &plan.meant, false, ending).await
            }
            Typed::Nothing(why) => {
                let evidence = format!("nothing was typed, because {why}: {TO_THE_TERMINAL}");
                self.report(id, Receipt::Undelivered, &evidence).await
            }
            Typed::Some(why) => {
                self.complain(&format!(
                    "The answer was typed only in part, because {why}. Finish it in the terminal."
                ))
                .await?;
                self.prove(id, questions, &plan.meant, false, ending).await
            }
            Typed::Perhaps(why) => {
                self.complain(&format!("Whether the answer was submitted is not known: {why}.")).await?;
                self.prove(id, questions, &plan.meant, true, ending).await
            }
        }
    }

    /// The transcript is the proof, whenever it comes.
    async fn prove(
        &self,
        id: &AskId,
        questions: &[Question],
        meant: &Meant,
        submitted: bool,
        ending: &mut Ending,
    ) -> Result<(), CallError> {
        let closed = match tokio::time::timeout(PROOF_COMES_WITHIN, closed(ending)).await {
            Ok(closed) => closed,
            Err(_) => {
                let evidence =
                    "keys were typed into its terminal, and its transcript does not show the answer";
                self.report(id, Receipt::Unknown, evidence).await?;
                closed(ending).await
            }
        };
        let (receipt, evidence) = given::receipt(meant, questions, &closed, submitted);
        self.report(id, receipt, &evidence).await
    }

    /// Right now, in the transcript itself.
    fn is_open(&self) -> bool {
        let open = open_calls(&self.transcript, &self.tool).unwrap_or_default();
        open.iter().any(|open| open.tool_use_id == self.tool_use_id)
    }

    /// Whether the ask could still be taken back.
    async fn withdraw(&self, id: &AskId, closed: &Closed) -> Result<Withdrawn, CallError> {
        let what = match closed {
            Closed::Returned(returned) => {
                Withdraw { why: Withdrawal::Terminal, answer: returned.answer(&self.body) }
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

    async fn complain(&self, words: &str) -> Result<(), CallError> {
        self.client.event(json!({ "type": "trouble", "text": words }), Try::UntilHeard).await
    }
}

/// One whose sender is gone never closes; the task that waits for it is ended.
async fn closed(ending: &mut Ending) -> Closed {
    let found = ending.wait_for(Option::is_some).await.ok().and_then(|closed| closed.clone());
    match found {
        Some(closed) => closed,
        None => std::future::pending().await,
    }
}
