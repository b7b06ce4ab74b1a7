//! One request for permission, from being raised to its decision. The terminal's dialog is open all the
//! while, and whoever answers first wins.

use super::super::outcome::permit;
use super::super::receipts::Expected;
use super::super::tmux::prompt::DialogCall;
use super::super::transcript::plans::plan_in;
use super::super::transcript::scan::open_calls;
use super::super::translate;
use super::super::watch::ask::{NOT_IN_A_TERMINAL, TO_THE_TERMINAL};
use super::super::wire::{CanUseTool, Permit};
use super::events::{Session, decision_line};
use super::follower;
use super::handover::{Dialog, Origin};
use super::hold::Hold;
use super::notes::{AskNote, CallSignature, Notes, Printed};
use super::process;
use super::settle::PRINTED;
use super::watch::{DialogState, Seen, TerminalWatch};
use super::{PATIENCE, profile, reach};
use crate::agents::tmux::pane::Pane;
use crate::agents::{before, random_name};
use crate::client::{AgentClient, CallError, Try, Waits, Withdrawn};
use crate::home::Home;
use crate::processes::Process;
use crate::protocol::{NewAsk, Registration, Resolution, Withdraw};
use crate::shutdown::Signals;
use aye_core::digest::sha256_hex;
use aye_core::{
    Answer, AskId, AskState, Body, Can, Key, PlanVerdict, Receipt, ReportedState, Verdict, Withdrawal,
};
use serde_json::{Value, json};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long, and how often, the transcript is looked at for a call that it does not have yet.
const CALL_PATIENCE: Duration = Duration::from_secs(2);
const CALL_LOOKS: Duration = Duration::from_millis(50);
/// How long we hold the agent up, or ourselves, to tell the hub what is already decided.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Claude Code sends SIGTERM first and SIGKILL soon after; this look must end before that.
const LAST_LOOK: Duration = Duration::from_millis(450);

struct Asking<'a> {
    session: &'a Session,
    client: AgentClient,
    notes: Notes,
    tool: CanUseTool,
    body: Body,
    watch: TerminalWatch,
}

enum End {
    /// The hub says how it ended.
    Resolved(Resolution),
    Terminal(Seen),
    /// The agent ends us, as it does when the person interrupts the turn.
    Stopped,
    /// The terminal is to show the dialog that we hold back.
    Released,
    /// The session is gone.
    Gone,
}

/// The hook can be quicker than the line of the call, which may be all that has the plan.
async fn call_written(transcript: &Path, tool: &str) {
    let until = Instant::now() + CALL_PATIENCE;
    while open_calls(transcript, tool).is_ok_and(|calls| calls.is_empty()) && Instant::now() < until {
        sleep(CALL_LOOKS).await;
    }
}

pub async fn ask(
    home: &Home,
    session: &Session,
    mut tool: CanUseTool,
    print: impl FnOnce(&str) -> io::Result<()>,
) -> anyhow::Result<()> {
    let input: Value = serde_json::from_str(tool.input.get())?;
    if tool.tool_name == translate::PLAN && !input["plan"].is_string() {
        call_written(&session.transcript(), translate::PLAN).await;
    }
    if session.sub_agent.is_some() && std::env::var_os("TMUX").is_some() {
        // The answer may be typed, and of the rows of a dialog only the one that allows once is ever chosen.
        tool.permission_suggestions = None;
    }
    let plan = || Some(plan_in(&session.transcript(), translate::PLAN));
    let body = translate::ask_with_plan(&tool, Path::new(&session.cwd), &home.places(), plan)?;
    let notes = Notes::of(home, &session.agent);
    let call = CallSignature::new(&tool.tool_name, &input, session.sub_agent.as_deref());
    let tool_use_id = tool.tool_use_id.clone().or_else(|| notes.claim(&call, &way()));
    let key = match &tool_use_id {
        Some(id) => id.clone(),
        None => format!("{}/{}", session.id, random_name()?),
    };
    let key = Key::try_from(key).map_err(anyhow::Error::msg)?;
    let client = reach(home, session, PATIENCE).await?;
    let process = process::of_agent();
    let news = Registration::state(ReportedState::Working);
    client.register(&profile(session, process.as_ref(), news), Try::Once).await?;

    let before = before::of(&body, Path::new(&session.cwd));
    let raise = NewAsk {
        cwd: Some(session.cwd.clone().into()),
        tool_use_id: tool_use_id.clone().map(Into::into),
        sub_agent: session.sub_agent_kind.clone().map(Into::into),
        ..NewAsk::new(key.clone(), client.agent().clone(), &body).with_before(before)
    };
    let sub_agent = session.sub_agent.as_deref();
    // For a sub-agent in the background the terminal opens no dialog before we end.
    let dialog = process.as_ref().zip(session.config_dir()).filter(|_| sub_agent.is_none());
    let dialog = dialog.map(|(process, config_dir)| DialogState::new(config_dir, process.pid));
    let watch =
        TerminalWatch::new(session.transcript(), call, &tool.tool_name, sub_agent, tool_use_id, dialog);
    let mut hold = match (&body, &process, &session.sub_agent) {
        (Body::Permission(permission), Some(process), Some(_)) => {
            let (tool, input) = (permission.tool.clone(), permission.input.clone());
            let call =
                DialogCall { tool, input, cwd: session.cwd.clone().into(), by_sub_agent: true, change: None };
            Hold::new(home, session, notes.clone(), *process, call)
        }
        _ => None,
    };
    let mut signals = Signals::listen()?;
    let mut asking = Asking { session, client, notes, tool, body, watch };
    asking.notes.raising(&raise)?;
    // The hub was there a moment ago: from here on the ask may be on its disk, and is not given up.
    let early = tokio::select! {
        raised = asking.client.raise(&raise) => match raised {
            Ok(raised) => Ok(raised.ask),
            Err(error) => {
                asking.notes.raised();
                return Err(error.into());
            }
        },
        seen = asking.watch.until_answered() => Err(End::Terminal(seen)),
        () = gone(process.as_ref()) => return Ok(()),
        _ = signals.wait() => Err(End::Stopped),
    };
    let (id, end) = match early {
        Ok(ask) => {
            let mut id = ask.head.id;
            let end = loop {
                asking.note(&id, None)?;
                asking.notes.raised();
                match asking.end_of(&id, process.as_ref(), &mut signals, &mut hold).await {
                    Ok(End::Released) => {
                        if asking.hand_over(&id, key.clone(), process.as_ref()).await {
                            follower::stand_by(session)?;
                            return Ok(());
                        }
                    }
                    // A hub that was killed had not written it yet: nothing was printed, so it is decided again.
                    Err(error) if error.is_unknown() => {
                        asking.notes.settled(&asking.asked(&id, None));
                        id = asking.raise_again(&raise).await?;
                    }
                    other => break other?,
                }
            };
            (id, end)
        }
        Err(end) => {
            let id = asking.raise_again(&raise).await?;
            asking.notes.raised();
            (id, end)
        }
    };
    let end = match end {
        End::Stopped => match tokio::time::timeout(LAST_LOOK, asking.watch.until_answered()).await {
            Ok(seen) => End::Terminal(seen),
            Err(_) => End::Stopped,
        },
        other => other,
    };
    match end {
        // The hub sees it, too.
        End::Gone | End::Released => return Ok(()),
        End::Stopped => {
            asking.client.withdraw(&id, Withdrawal::Cancelled.into(), Try::Once).await?;
        }
        End::Terminal(seen) => {
            tokio::time::timeout(REPORT_TIMEOUT, asking.settled_in_terminal(&id, seen)).await??;
        }
        End::Resolved(resolution) => {
            if asking.resolved(&id, &resolution, print).await? {
                return Ok(());
            }
        }
    }
    asking.notes.settled(&asking.asked(&id, None));
    Ok(())
}

/// Identifies this program among installed hooks: two of them report the same requests.
fn way() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    sha256_hex(program.as_os_str().as_bytes())[..12].to_owned()
}

/// For ever where nothing is held back.
async fn released(hold: &mut Option<Hold<'_>>, asked: &AskNote) {
    match hold {
        Some(hold) => hold.until_released(asked).await,
        None => std::future::pending().await,
    }
}

async fn gone(process: Option<&Process>) {
    loop {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        if process.is_some_and(|process| !process.is_alive()) {
            return;
        }
    }
}

impl Asking<'_> {
    async fn raise_again(&self, raise: &NewAsk) -> anyhow::Result<AskId> {
        Ok(tokio::time::timeout(REPORT_TIMEOUT, self.client.raise(raise)).await??.ask.head.id)
    }

    async fn resolution(&self, id: &AskId) -> Result<Resolution, CallError> {
        self.client.resolution(id, &self.body, Waits::Alone).await
    }

    /// Waits through restarts of the hub.
    async fn end_of(
        &mut self,
        id: &AskId,
        process: Option<&Process>,
        signals: &mut Signals,
        hold: &mut Option<Hold<'_>>,
    ) -> Result<End, CallError> {
        let asked = self.asked(id, None);
        tokio::select! {
            resolution = self.client.resolution(id, &self.body, Waits::Alone) => resolution.map(End::Resolved),
            seen = self.watch.until_answered() => Ok(End::Terminal(seen)),
            () = gone(process) => Ok(End::Gone),
            () = released(hold, &asked) => Ok(End::Released),
            _ = signals.wait() => Ok(End::Stopped),
        }
    }

    /// Leaves the dialog to the terminal and the ask to the follower. False if it was answered meanwhile, or if the
    /// follower could not know of it; then we go on waiting.
    async fn hand_over(&self, id: &AskId, key: Key, process: Option<&Process>) -> bool {
        let Some(tool_use_id) = self.watch.tool_use_id() else { return false };
        let can = match Pane::of(process.copied()).await {
            Ok(_) => Can { edit: false, why: Some(NOT_IN_A_TERMINAL.into()), ..Can::default() },
            Err(why) => Can::elsewhere(format!("{why}: {TO_THE_TERMINAL}")),
        };
        // From here on only answers that can be typed are recorded. One that was recorded before is printed, and one
        // that comes later is typed by the follower, because it reads the hub after we have written that we are done.
        let told = tokio::time::timeout(PATIENCE, async {
            self.client.set_can(id, &can, Try::Once).await?;
            self.client.resolution_within(id, Some(Duration::ZERO)).await
        });
        match told.await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(_))) => return false,
            // A hub that is away must not keep the dialog from the terminal.
            Ok(Err(error)) if !error.is_passing() => return false,
            Ok(Err(_)) | Err(_) => {}
        }
        let handed = Origin {
            key,
            cwd: Some(self.session.cwd.clone()),
            sub_agent: self.session.sub_agent_kind.clone(),
        };
        let (tool_use_id, transcript) = (Some(tool_use_id.to_owned()), self.session.transcript());
        let dialog = Dialog::HandedOver(handed);
        self.notes.note(&AskNote { tool_use_id, transcript, dialog, ..self.asked(id, None) }).is_ok()
    }

    /// What later hooks need to know of this ask.
    fn asked(&self, id: &AskId, printed: Option<Printed>) -> AskNote {
        AskNote {
            ask: id.clone(),
            tool_use_id: self.watch.tool_use_id().map(str::to_owned),
            kind: self.body.kind(),
            body: self.body.to_json(),
            transcript: self.watch.transcript().to_owned(),
            offset: self.watch.from(),
            hook: Process::myself(),
            printed,
            waited: false,
            dialog: Dialog::Beside,
        }
    }

    fn note(&self, id: &AskId, printed: Option<Printed>) -> io::Result<()> {
        self.notes.note(&self.asked(id, printed))
    }

    /// Takes the ask back, with what the terminal answered. If somebody else's answer was recorded in the
    /// same moment, nothing is printed any more, and its receipt says what became of it.
    async fn settled_in_terminal(&self, id: &AskId, seen: Seen) -> Result<(), CallError> {
        let answer = match &seen {
            Seen::Result(shown) => shown.answer(&self.body),
            Seen::Running => match &self.body {
                Body::Permission(_) => Some(json!({ "decision": "allow", "scope": "once" })),
                Body::Question(_) | Body::Plan(_) => None,
            },
        };
        let terminal = Withdraw { why: Withdrawal::Terminal, answer };
        match self.client.withdraw(id, terminal, Try::UntilHeard).await? {
            Withdrawn::TakenBack => {}
            Withdrawn::TooLate => self.too_late(id, &seen).await?,
        }
        if let Seen::Result(shown) = &seen
            && shown.ends_turn()
            && self.session.sub_agent.is_none()
        {
            self.client.register(&Registration::state(ReportedState::Idle), Try::Once).await?;
        }
        Ok(())
    }

    async fn too_late(&self, id: &AskId, seen: &Seen) -> Result<(), CallError> {
        let resolution = self.resolution(id).await?;
        let (receipt, evidence) = match (seen, self.told_of(&resolution)) {
            (Seen::Result(shown), Some((_, expected, edited))) => {
                shown.receipt(&self.body, &expected, edited)
            }
            (Seen::Running, Some(_)) | (_, None) => {
                (Receipt::Superseded, "the terminal was first".to_owned())
            }
        };
        self.client.receipt(id, receipt, &evidence, Try::Once).await
    }

    /// The answer in the agent's terms; none if the ask ended without one.
    fn told_of(&self, resolution: &Resolution) -> Option<(Permit, Expected, bool)> {
        let outcome = &resolution.outcome;
        let answer = outcome.answer.as_ref()?;
        let (permit, expected) = permit(&self.tool, &self.body, answer, outcome.message.as_deref()).ok()?;
        let edited = match answer {
            Answer::Permission(Verdict::Allow { input, .. }) => input.is_some(),
            Answer::Plan(PlanVerdict::Allow { plan }) => plan.is_some(),
            Answer::Question(_) | Answer::Permission(_) | Answer::Plan(_) => false,
        };
        Some((permit, expected, edited))
    }

    /// True if a later hook must still report what became of the answer.
    async fn resolved(
        &mut self,
        id: &AskId,
        resolution: &Resolution,
        print: impl FnOnce(&str) -> io::Result<()>,
    ) -> anyhow::Result<bool> {
        if resolution.state == AskState::Withdrawn {
            return Ok(false);
        }
        // The last look before we print: only one of two answers may reach the agent.
        if let Some(seen) = self.watch.look().ok().flatten() {
            tokio::time::timeout(REPORT_TIMEOUT, self.too_late(id, &seen)).await??;
            return Ok(false);
        }
        let Some((permit, expected, edited)) = self.told_of(resolution) else {
            let evidence = "nothing was approved; the dialog in the terminal decides";
            let reported = self.client.receipt(id, Receipt::Superseded, evidence, Try::Once);
            tokio::time::timeout(REPORT_TIMEOUT, reported).await??;
            return Ok(false);
        };
        let printed = Printed { expected, edited, delivered: false };
        self.note(id, Some(printed.clone()))?;
        // A plan that is allowed without its input is ignored by the agent, and the dialog stays.
        let with_input = edited || matches!(self.body, Body::Question(_) | Body::Plan(_));
        if let Err(error) = print(&decision_line(&permit, with_input)) {
            let evidence = format!("the agent no longer listens: {error}");
            self.client.receipt(id, Receipt::Undelivered, &evidence, Try::Once).await?;
            return Ok(false);
        }
        // The agent goes on once we end, so the hub must not hold it up; the next hook would say the same.
        let reported = self.client.receipt(id, Receipt::Delivered, PRINTED, Try::Once);
        if let Ok(Ok(())) = tokio::time::timeout(LONGEST_DELAY, reported).await {
            self.note(id, Some(Printed { delivered: true, ..printed }))?;
        }
        Ok(true)
    }
}
