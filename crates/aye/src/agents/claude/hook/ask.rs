//! One request for permission, from being raised to its decision. The terminal's dialog is open all the
//! while, and whoever answers first wins.

use super::super::outcome::permit;
use super::super::receipts::Expected;
use super::super::translate;
use super::super::wire::{CanUseTool, Permit};
use super::events::{Session, decision_line};
use super::notes::{Asked, Call, Notes, Printed};
use super::process;
use super::settle::{PRINTED, receipt_is};
use super::watch::{Dialog, Seen, Watch};
use super::{PATIENCE, profile, reach};
use crate::agents::{before, random_name};
use crate::client::{CallError, Client};
use crate::home::Home;
use crate::processes::Process;
use crate::shutdown::Signals;
use aye_core::digest::sha256_hex;
use aye_core::{AgentId, Answer, Body, PlanVerdict, Receipt, Verdict};
use hyper::Method;
use serde_json::{Value, json};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How long we hold the agent up, or ourselves, to tell the hub what is already decided.
const LONGEST_GOODBYE: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Who is told to end is soon ended by force.
const LAST_LOOK: Duration = Duration::from_millis(450);

struct Asking<'a> {
    session: &'a Session,
    agent: AgentId,
    client: Client,
    notes: Notes,
    tool: CanUseTool,
    body: Body,
    watch: Watch,
}

enum End {
    /// The hub says how it ended.
    Resolved(Value),
    Terminal(Seen),
    /// The agent ends us, as it does when the person interrupts the turn.
    Stopped,
    /// The session is gone.
    Gone,
}

pub async fn ask(
    home: &Home,
    session: &Session,
    tool: CanUseTool,
    print: impl FnOnce(&str) -> io::Result<()>,
) -> anyhow::Result<()> {
    let body = translate::ask(&tool, Path::new(&session.cwd), &home.places())?;
    let notes = Notes::of(home, &session.agent);
    let input: Value = serde_json::from_str(tool.input.get())?;
    let call = Call::new(&tool.tool_name, &input, session.sub_agent.as_deref());
    let tool_use_id = tool.tool_use_id.clone().or_else(|| notes.claim(&call, &way()));
    let key = match &tool_use_id {
        Some(id) => id.clone(),
        None => format!("{}/{}", session.id, random_name()?),
    };
    let (agent, client) = reach(home, session, PATIENCE).await?;
    let process = process::of_agent();
    let news = json!({ "state": "working" });
    client.put(&format!("/api/agents/{agent}"), profile(session, process.as_ref(), news)).await?;

    let raise = json!({
        "key": key, "agent": agent, "kind": body.kind(), "cwd": session.cwd,
        "body": before::raised(&body, Path::new(&session.cwd)),
        "tool_use_id": tool_use_id, "sub_agent": session.sub_agent_kind,
    });
    let sub_agent = session.sub_agent.as_deref();
    // For a sub-agent in the background the terminal opens no dialog before we end.
    let dialog = process.as_ref().zip(session.config_dir()).filter(|_| sub_agent.is_none());
    let dialog = dialog.map(|(process, config_dir)| Dialog::new(config_dir, process.pid));
    let watch = Watch::new(session.transcript(), call, &tool.tool_name, sub_agent, tool_use_id, dialog);
    let mut signals = Signals::listen()?;
    let mut asking = Asking { session, agent, client, notes, tool, body, watch };
    // The hub was there a moment ago: from here on the ask may be on its disk, and is not given up.
    let raised = asking.client.insist(Method::POST, "/api/asks", Some(raise.clone()));
    let early = tokio::select! {
        raised = raised => Ok(raised?),
        seen = asking.watch.until_answered() => Err(End::Terminal(seen)),
        () = gone(process.as_ref()) => return Ok(()),
        _ = signals.wait() => Err(End::Stopped),
    };
    let (id, end) = match early {
        Ok(ask) => {
            let mut id = ask["id"].as_str().unwrap_or_default().to_owned();
            let end = loop {
                asking.note(&id, None)?;
                match asking.end_of(&id, process.as_ref(), &mut signals).await {
                    // A hub that was killed had not written it yet: nothing was printed, so it is decided anew.
                    Err(error) if error.status().is_some_and(|status| status.as_u16() == 404) => {
                        asking.notes.settled(&asking.asked(&id, None));
                        let raised = asking.client.insist(Method::POST, "/api/asks", Some(raise.clone()));
                        let ask = tokio::time::timeout(LONGEST_GOODBYE, raised).await??;
                        id = ask["id"].as_str().unwrap_or_default().to_owned();
                    }
                    other => break other?,
                }
            };
            (id, end)
        }
        Err(end) => {
            let raised = asking.client.insist(Method::POST, "/api/asks", Some(raise));
            let ask = tokio::time::timeout(LONGEST_GOODBYE, raised).await??;
            (ask["id"].as_str().unwrap_or_default().to_owned(), end)
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
        End::Gone => return Ok(()),
        End::Stopped => {
            let withdrawal = json!({ "why": "cancelled" });
            asking.client.post(&format!("/api/asks/{id}/withdraw"), withdrawal).await?;
        }
        End::Terminal(seen) => {
            tokio::time::timeout(LONGEST_GOODBYE, asking.settled_in_terminal(&id, seen)).await??;
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

/// Two installed hooks speak of the same requests; each program is one way in.
fn way() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    sha256_hex(program.as_os_str().as_bytes())[..12].to_owned()
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
    /// Waits through restarts of the hub.
    async fn end_of(
        &mut self,
        id: &str,
        process: Option<&Process>,
        signals: &mut Signals,
    ) -> Result<End, CallError> {
        tokio::select! {
            resolution = self.client.resolution(id) => resolution.map(End::Resolved),
            seen = self.watch.until_answered() => Ok(End::Terminal(seen)),
            () = gone(process) => Ok(End::Gone),
            _ = signals.wait() => Ok(End::Stopped),
        }
    }

    /// What the hooks after us need to know of this ask.
    fn asked(&self, id: &str, printed: Option<Printed>) -> Asked {
        Asked {
            ask: id.to_owned(),
            tool_use_id: self.watch.tool_use_id().map(str::to_owned),
            kind: self.body.kind(),
            body: self.body.to_json(),
            transcript: self.watch.transcript().to_owned(),
            offset: self.watch.from(),
            hook: Process::myself(),
            printed,
            waited: false,
        }
    }

    fn note(&self, id: &str, printed: Option<Printed>) -> io::Result<()> {
        self.notes.note(&self.asked(id, printed))
    }

    /// Takes the ask back, with what the terminal answered. If somebody else's answer was recorded in the
    /// same moment, nothing is printed any more, and its receipt says what became of it.
    async fn settled_in_terminal(&self, id: &str, seen: Seen) -> Result<(), CallError> {
        let answer = match &seen {
            Seen::Result(shown) => shown.answer(&self.body),
            Seen::Running => match &self.body {
                Body::Permission(_) => Some(json!({ "decision": "allow", "scope": "once" })),
                Body::Question(_) | Body::Plan(_) => None,
            },
        };
        let withdrawal = json!({ "why": "terminal", "answer": answer });
        let path = format!("/api/asks/{id}/withdraw");
        match self.client.insist(Method::POST, &path, Some(withdrawal)).await {
            Ok(_) => {}
            Err(error) if error.status().is_some_and(|status| status.as_u16() == 409) => {
                self.too_late(id, &seen).await?;
            }
            Err(error) => return Err(error),
        }
        if let Seen::Result(shown) = &seen
            && shown.ends_turn()
            && self.session.sub_agent.is_none()
        {
            self.client.put(&format!("/api/agents/{}", self.agent), json!({ "state": "idle" })).await?;
        }
        Ok(())
    }

    async fn too_late(&self, id: &str, seen: &Seen) -> Result<(), CallError> {
        let resolution = self.client.resolution(id).await?;
        let (receipt, evidence) = match (seen, self.told_of(&resolution)) {
            (Seen::Result(shown), Some((_, expected, edited))) => {
                shown.receipt(&self.body, &expected, edited)
            }
            (Seen::Running, Some(_)) | (_, None) => {
                (Receipt::Superseded, "the terminal was first".to_owned())
            }
        };
        receipt_is(&self.client, id, receipt, &evidence).await
    }

    /// What an answer means for the agent; nothing for an end that brought none.
    fn told_of(&self, resolution: &Value) -> Option<(Permit, Expected, bool)> {
        if resolution["state"] != "answered" {
            return None;
        }
        let outcome = &resolution["outcome"];
        let answer = Answer::read(&self.body, outcome["answer"].clone()).ok()?;
        let (permit, expected) = permit(&self.tool, &self.body, &answer, outcome["message"].as_str()).ok()?;
        let edited = match &answer {
            Answer::Permission(Verdict::Allow { input, .. }) => input.is_some(),
            Answer::Plan(PlanVerdict::Allow { plan }) => plan.is_some(),
            Answer::Question(_) | Answer::Permission(_) | Answer::Plan(_) => false,
        };
        Some((permit, expected, edited))
    }

    /// Says whether the hooks after us have something left to tell of it.
    async fn resolved(
        &mut self,
        id: &str,
        resolution: &Value,
        print: impl FnOnce(&str) -> io::Result<()>,
    ) -> anyhow::Result<bool> {
        if resolution["state"] == "withdrawn" {
            return Ok(false);
        }
        // The last look before we speak: of two answers only one may be given.
        if let Some(seen) = self.watch.look().ok().flatten() {
            tokio::time::timeout(LONGEST_GOODBYE, self.too_late(id, &seen)).await??;
            return Ok(false);
        }
        let Some((permit, expected, edited)) = self.told_of(resolution) else {
            let evidence = "nothing was approved; the dialog in the terminal decides";
            let reported = receipt_is(&self.client, id, Receipt::Superseded, evidence);
            tokio::time::timeout(LONGEST_GOODBYE, reported).await??;
            return Ok(false);
        };
        let printed = Printed { expected, edited, delivered: false };
        self.note(id, Some(printed.clone()))?;
        // A plan that is allowed without its input is passed by, and the dialog stays.
        let with_input = edited || matches!(self.body, Body::Question(_) | Body::Plan(_));
        if let Err(error) = print(&decision_line(&permit, with_input)) {
            let evidence = format!("the agent no longer listens: {error}");
            receipt_is(&self.client, id, Receipt::Undelivered, &evidence).await?;
            return Ok(false);
        }
        // The agent goes on once we end, so the hub must not hold it up; the next hook would say the same.
        let reported = receipt_is(&self.client, id, Receipt::Delivered, PRINTED);
        if let Ok(Ok(())) = tokio::time::timeout(LONGEST_DELAY, reported).await {
            self.note(id, Some(Printed { delivered: true, ..printed }))?;
        }
        Ok(true)
    }
}
