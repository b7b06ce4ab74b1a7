//! What the hub is told of an agent, one thing after another. The hub may come and go.

use crate::client::{AgentClient, CallError, Try, reporter_name};
use crate::protocol::{AskReceipt, ConversationEvent, NewReport, Registration, ReportNumber, Withdraw};
use aye_core::{AskId, Key, Receipt};
use futures_util::FutureExt;
use hyper::StatusCode;
use serde_json::json;
use std::pin::pin;
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
    tasks.spawn(send_all(client, receiver).boxed());
    sender
}

async fn send_all(client: AgentClient, mut reports: mpsc::Receiver<HubReport>) {
    let mut reporter = Reporter { client, gathered: NewReport::default(), name: reporter_name(), made: 0 };
    loop {
        let came = next_reports(&mut reports, GATHERING).await;
        if came.is_empty() {
            return;
        }
        for report in came {
            reporter.take(report).await;
        }
        reporter.tell_gathered().await;
    }
}

/// What is told together, once there is something urgent, enough, or nothing more for a while; empty at the end.
async fn next_reports(reports: &mut mpsc::Receiver<HubReport>, gathering: Duration) -> Vec<HubReport> {
    let mut came = Vec::new();
    let mut seen = reports.recv_many(&mut came, MOST_TOGETHER).await;
    let mut gathered = pin!(sleep(gathering));
    while 0 < seen && came.len() < MOST_TOGETHER && !came[came.len() - seen..].iter().any(is_urgent) {
        let room = MOST_TOGETHER - came.len();
        seen = tokio::select! {
            biased;
            () = &mut gathered => return came,
            more = reports.recv_many(&mut came, room) => more,
        };
    }
    came
}

fn is_urgent(report: &HubReport) -> bool {
    match report {
        HubReport::Receipt { awaited, .. } => *awaited,
        HubReport::Register(_) | HubReport::Withdraw { .. } | HubReport::Ended => true,
        HubReport::Event(_) => false,
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
    match told {
        Ok(()) => {}
        Err(error) if error.status() == Some(StatusCode::TOO_MANY_REQUESTS) => {
            tracing::warn!(%error, "what this agent says is not kept");
        }
        Err(error) => tracing::debug!(%error, "the hub did not take a report"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    fn receipt(awaited: bool) -> HubReport {
        let ask = "one".try_into().unwrap();
        HubReport::Receipt { ask, receipt: Receipt::Delivered, evidence: String::new(), awaited }
    }

    #[tokio::test]
    async fn reports_gather_until_one_is_urgent_or_they_are_enough() {
        const SHORT: Duration = Duration::from_millis(1);
        const FOREVER: Duration = Duration::from_secs(3600);
        let (sender, mut reports) = mpsc::channel(QUEUE);
        sender.send(receipt(false)).await.unwrap();
        assert_eq!(next_reports(&mut reports, SHORT).await.len(), 1);

        let later = async {
            sender.send(receipt(false)).await.unwrap();
            tokio::task::yield_now().await;
            sender.send(receipt(true)).await.unwrap();
        };
        let both = async { tokio::join!(next_reports(&mut reports, FOREVER), later) };
        let (came, ()) = timeout(Duration::from_secs(10), both).await.expect("a person waits for the second");
        assert_eq!(came.len(), 2);

        for _ in 0..=MOST_TOGETHER {
            sender.send(receipt(false)).await.unwrap();
        }
        assert_eq!(next_reports(&mut reports, FOREVER).await.len(), MOST_TOGETHER);
        drop(sender);
        assert_eq!(next_reports(&mut reports, FOREVER).await.len(), 1);
        assert!(next_reports(&mut reports, FOREVER).await.is_empty());
    }

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
