//! What the hub is told of an agent, one thing after another. The hub may come and go.

use crate::client::{AgentClient, CallError, Try, reporter_name};
use crate::protocol::{AskReceipt, ConversationEvent, NewReport, Registration, ReportNumber, Withdraw};
use aye_core::{AskId, Key, Receipt};
use hyper::StatusCode;
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A full queue makes senders wait.
const QUEUE: usize = 256;
/// More reports than that in one change would keep everybody else waiting for the writer.
const MOST_TOGETHER: usize = 64;
/// How long reports that are not urgent are batched.
const GATHERING: Duration = Duration::from_millis(10);

/// What the hub is told, one after another, each until it got through.
#[derive(Debug)]
pub enum HubReport {
    /// What is new of the agent.
    Register(Registration),
    /// Withdraws an ask. If an answer was recorded first, `otherwise` is reported as its receipt.
    Withdraw { ask: AskId, what: Withdraw, otherwise: (Receipt, &'static str) },
    /// Part of the account.
    Event(ConversationEvent),
    /// What became of an outcome.
    Receipt {
        ask: AskId,
        receipt: Receipt,
        evidence: String,
        /// Whether a person waits to see it.
        awaited: bool,
    },
    /// The agent has ended; the last report.
    Ended,
}

/// Says one thing after another to the hub. Events and receipts that gathered meanwhile go in one call.
struct Reporter {
    client: AgentClient,
    gathered: NewReport,
    /// Its name for the hub, and how many reports it has made.
    name: Option<Key>,
    made: u32,
}

/// The receipt of an answer to an ask that its agent had taken back.
pub const TOO_LATE: (Receipt, &str) =
    (Receipt::Undelivered, "the agent no longer wanted to know when the answer came");

/// A queue of reports, and the task that works through it.
pub fn start(client: AgentClient, tasks: &mut JoinSet<()>) -> mpsc::Sender<HubReport> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tasks.spawn(send_all(client, receiver));
    sender
}

async fn send_all(client: AgentClient, mut reports: mpsc::Receiver<HubReport>) {
    let mut came = Vec::with_capacity(QUEUE);
    let mut reporter = Reporter { client, gathered: NewReport::default(), name: reporter_name(), made: 0 };
    while reports.recv_many(&mut came, MOST_TOGETHER).await > 0 {
        let urgent = |report: &HubReport| {
            let awaited = matches!(report, HubReport::Receipt { awaited: true, .. });
            awaited
                || matches!(report, HubReport::Register(_) | HubReport::Withdraw { .. } | HubReport::Ended)
        };
        if !came.iter().any(urgent) && came.len() < MOST_TOGETHER {
            sleep(GATHERING).await;
            let more = std::iter::from_fn(|| reports.try_recv().ok());
            let room = MOST_TOGETHER.saturating_sub(came.len());
            came.extend(more.take(room));
        }
        for report in came.drain(..) {
            reporter.take(report).await;
        }
        reporter.tell_gathered().await;
    }
}

impl Reporter {
    async fn take(&mut self, report: HubReport) {
        match report {
            HubReport::Event(event) => self.gathered.events.push(json!(event)),
            HubReport::Receipt { ask, receipt, evidence, awaited: _ } => {
                let receipt = AskReceipt { ask, receipt, evidence: Some(evidence.into()) };
                gather(&mut self.gathered.receipts, receipt);
            }
            HubReport::Withdraw { ask, what, otherwise } => {
                self.tell_gathered().await;
                heard(self.client.withdraw_or(&ask, what, otherwise, Try::UntilHeard).await);
            }
            HubReport::Register(what) => {
                self.tell_gathered().await;
                heard(self.client.register(&what, Try::UntilHeard).await);
            }
            HubReport::Ended => {
                self.tell_gathered().await;
                heard(self.client.end().await);
            }
        }
    }

    async fn tell_gathered(&mut self) {
        let report = std::mem::take(&mut self.gathered);
        if report == NewReport::default() {
            return;
        }
        let report = self.numbered(report);
        match self.client.report(&report, Try::UntilHeard).await {
            // Each by itself: only what is too long by itself is left out.
            Err(error) if error.status() == Some(StatusCode::PAYLOAD_TOO_LARGE) => {
                for event in report.events {
                    let alone = self.numbered(NewReport { events: vec![event], ..NewReport::default() });
                    heard(self.client.report(&alone, Try::UntilHeard).await);
                }
                let receipts = NewReport { receipts: report.receipts, ..NewReport::default() };
                heard(self.client.report(&receipts, Try::UntilHeard).await);
            }
            other => heard(other),
        }
    }

    /// Receipts may come twice; events may not.
    fn numbered(&mut self, report: NewReport) -> NewReport {
        self.made += 1;
        let number = self.name.clone().filter(|_| !report.events.is_empty());
        NewReport { number: number.map(|reporter| ReportNumber { reporter, n: self.made }), ..report }
    }
}

/// What the agent shows of an outcome says as well that it got there.
fn gather(receipts: &mut Vec<AskReceipt>, new: AskReceipt) {
    if new.receipt == Receipt::Confirmed {
        receipts.retain(|older| !(older.ask == new.ask && older.receipt == Receipt::Delivered));
    }
    receipts.push(new);
}

/// A refused report is not repeated: the ask has ended, or the hub knows better.
fn heard(told: Result<(), CallError>) {
    if let Err(error) = told {
        tracing::debug!(%error, "the hub did not take a report");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_that_was_shown_before_its_delivery_was_reported_has_one_receipt() {
        let of = |ask: &str, receipt| AskReceipt { ask: ask.try_into().unwrap(), receipt, evidence: None };
        let mut gathered = Vec::new();
        for (ask, receipt) in [
            ("one", Receipt::Delivered),
            ("two", Receipt::Delivered),
            ("three", Receipt::Delivered),
            ("one", Receipt::Confirmed),
            ("three", Receipt::Disputed),
        ] {
            gather(&mut gathered, of(ask, receipt));
        }
        let told = [
            of("two", Receipt::Delivered),
            of("three", Receipt::Delivered),
            of("one", Receipt::Confirmed),
            of("three", Receipt::Disputed),
        ];
        assert_eq!(gathered, told, "that it was delivered matters where it came out as something else");
    }
}
