//! The hub as an adapter speaks to it for one agent. What a refusal means is decided here, once for all adapters.

use super::{CallError, Client, LONGEST_CALL, Try, read};
use crate::home::Home;
use crate::protocol::{
    AskReceipt, Command, Commands, CommandsQuery, ConversationEvent, Late, NewAsk, NewReport, RaiseQuery,
    RaiseReply, RaisedAsk, Registration, ReportNumber, Reported, Resolution, WaitQuery, Withdraw, calls,
};
use crate::random::random_hex;
use aye_core::{AgentId, AskId, Body, Can, Delivery, Key, Receipt};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Before a hub that is away is called again.
const SHORT_PAUSE: Duration = Duration::from_millis(200);

/// Whether another call of the same agent is its sign of life while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    Alone,
    BesideCommands,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawn {
    TakenBack,
    /// An answer was recorded first, and it waits for a receipt.
    TooLate,
}

/// A name under which whoever reports can number its reports. Without one, events may be recorded twice.
pub fn reporter_name() -> Option<Key> {
    Key::try_from(random_hex::<8>().ok()?).ok()
}

/// Clones share connections and what they know.
#[derive(Clone)]
pub struct AgentClient {
    client: Client,
    agent: AgentId,
    /// What a rule allowed before it was on disk, by ask, until the hub is known to know it.
    unrecorded: Arc<Mutex<HashMap<AskId, Late>>>,
}

impl AgentClient {
    /// Speaks with that agent's own token.
    pub async fn of(home: &Home, agent: AgentId) -> anyhow::Result<Self> {
        let client = Client::for_agent(home, &agent).await?;
        Ok(Self { client, agent, unrecorded: Arc::default() })
    }

    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    pub async fn register(&self, what: &Registration, how: Try) -> Result<(), CallError> {
        let call = async |what: &Registration| {
            self.client.call(&calls::REGISTER, self.agent.as_str(), &(), what, how).await.map(drop)
        };
        match call(what).await {
            // A hub of an earlier version does not know modes.
            Err(error)
                if what.asks.is_some()
                    && matches!(
                        error.status(),
                        Some(StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
                    ) =>
            {
                call(&Registration { asks: None, ..what.clone() }).await
            }
            registered => registered,
        }
    }

    /// Raises an ask, through restarts of the hub: the same key returns the same ask.
    pub async fn raise(&self, ask: &NewAsk) -> Result<RaisedAsk, CallError> {
        match self.raise_with(ask, RaiseQuery { brief: false }).await? {
            RaiseReply::Whole(raised) => Ok(*raised),
            RaiseReply::Brief(_) => Err(CallError::Garbled("the ask is missing".to_owned())),
        }
    }

    /// The same; what a rule allowed at once is told in brief.
    pub async fn raise_briefly(&self, ask: &NewAsk) -> Result<RaiseReply, CallError> {
        self.raise_with(ask, RaiseQuery { brief: true }).await
    }

    async fn raise_with(&self, ask: &NewAsk, query: RaiseQuery) -> Result<RaiseReply, CallError> {
        let reply = self.client.call(&calls::RAISE, "", &query, ask, Try::UntilHeard).await?;
        let (id, voucher) = match &reply {
            RaiseReply::Whole(raised) => (&raised.ask.id, raised.voucher.as_ref()),
            RaiseReply::Brief(allowed) => (&allowed.id, Some(&allowed.voucher)),
        };
        if let Some(voucher) = voucher.cloned() {
            self.unrecorded().insert(id.clone(), Late { ask: ask.clone(), voucher: Some(voucher) });
        }
        Ok(reply)
    }

    /// How an ask ended, whenever that is; the hub may come and go meanwhile.
    pub async fn resolution(&self, ask: &AskId, body: &Body, waits: Waits) -> Result<Resolution, CallError> {
        self.client.resolution(ask, waits).await.map(|sent| Resolution::read(body, sent))
    }

    /// How an ask ended, if it does within this time, for who may not know what it asked; without a time, whenever that
    /// is. A hub that is away may be back in time.
    pub async fn resolution_within(
        &self,
        ask: &AskId,
        within: Option<Duration>,
    ) -> Result<Option<Resolution<Value>>, CallError> {
        let Some(within) = within else {
            let resolution = self.client.resolution(ask, Waits::Alone).await?;
            return serde_json::from_value(resolution)
                .map(Some)
                .map_err(|error| CallError::Garbled(error.to_string()));
        };
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let query = WaitQuery { wait: Some(left.as_secs().min(super::WAIT)) };
            let path = calls::RESOLUTION.path_with(ask.as_str(), &query);
            match self.client.get::<Option<Resolution<Value>>>(&path).await {
                Ok(None) if left.is_zero() => return Ok(None),
                Ok(None) => tokio::time::sleep(left.min(SHORT_PAUSE)).await,
                Err(error) if error.is_passing() && !left.is_zero() => {
                    tokio::time::sleep(left.min(SHORT_PAUSE)).await
                }
                other => return other,
            }
        }
    }

    /// Changes what the agent can take as an answer. An ask that has ended is left as it is.
    pub async fn set_can(&self, ask: &AskId, can: &Can, how: Try) -> Result<(), CallError> {
        match self.client.call(&calls::CAN, ask.as_str(), &(), can, how).await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    pub async fn withdraw(&self, ask: &AskId, what: Withdraw, how: Try) -> Result<Withdrawn, CallError> {
        match self.client.call(&calls::WITHDRAW, ask.as_str(), &(), &what, how).await {
            Ok(_) => Ok(Withdrawn::TakenBack),
            Err(error) if error.is_conflict() => Ok(Withdrawn::TooLate),
            Err(error) => Err(error),
        }
    }

    /// Takes an ask back; of an answer that was faster, this is what became of it.
    pub async fn withdraw_or(
        &self,
        ask: &AskId,
        what: impl Into<Withdraw>,
        (receipt, evidence): (Receipt, &str),
        how: Try,
    ) -> Result<(), CallError> {
        match self.withdraw(ask, what.into(), how).await? {
            Withdrawn::TakenBack => Ok(()),
            Withdrawn::TooLate => self.receipt(ask, receipt, evidence, how).await,
        }
    }

    /// What became of an outcome. What the hub knows already, or knows better, is no failure.
    pub async fn receipt(
        &self,
        ask: &AskId,
        receipt: Receipt,
        evidence: &str,
        how: Try,
    ) -> Result<(), CallError> {
        let delivery = Delivery { receipt, evidence: Some(evidence.into()) };
        let mut told = self.client.call(&calls::RECEIPT, ask.as_str(), &(), &delivery, how).await;
        if told.as_ref().is_err_and(CallError::is_unknown) && self.record_late(ask, how).await {
            told = self.client.call(&calls::RECEIPT, ask.as_str(), &(), &delivery, how).await;
        }
        match told {
            Err(error) if !error.is_conflict() => Err(error),
            _ => {
                self.unrecorded().remove(ask);
                Ok(())
            }
        }
    }

    /// The conversation as it goes. Receipts of asks that the hub lost are told again once those are recorded.
    pub async fn report(&self, report: &NewReport, how: Try) -> Result<(), CallError> {
        let unknown = self.try_report(report, how).await?;
        let mut again: Vec<AskReceipt> = Vec::new();
        for receipt in &report.receipts {
            if !unknown.contains(&receipt.ask) {
                self.unrecorded().remove(&receipt.ask);
            } else if again.iter().any(|other| other.ask == receipt.ask)
                || self.record_late(&receipt.ask, how).await
            {
                again.push(receipt.clone());
            }
        }
        match again.is_empty() {
            true => Ok(()),
            false => {
                self.try_report(&NewReport { receipts: again, ..NewReport::default() }, how).await.map(drop)
            }
        }
    }

    pub async fn event(&self, event: &ConversationEvent, how: Try) -> Result<(), CallError> {
        let number = reporter_name().map(|reporter| ReportNumber { reporter, n: 1 });
        self.report(&NewReport { events: vec![json!(event)], number, ..NewReport::default() }, how).await
    }

    async fn try_report(&self, report: &NewReport, how: Try) -> Result<Vec<AskId>, CallError> {
        let call = async |report: &NewReport| {
            self.client.call(&calls::REPORT, self.agent.as_str(), &(), report, how).await
        };
        let reported: Option<Reported> = match call(report).await {
            // A hub of an earlier version does not know numbers.
            Err(error) if error.status() == Some(StatusCode::BAD_REQUEST) && report.number.is_some() => {
                call(&NewReport { number: None, ..report.clone() }).await?
            }
            reported => reported?,
        };
        Ok(reported.unwrap_or_default().unknown)
    }

    /// Commands after this one, once there are some; those that this version does not know are skipped.
    pub async fn commands(&self, after: u64) -> Result<Vec<(u64, Option<Command>)>, CallError> {
        let wait = self.client.wait_for_commands();
        let path = calls::COMMANDS.path_with(self.agent.as_str(), &CommandsQuery { after, wait: Some(wait) });
        let longest = LONGEST_CALL + Duration::from_secs(wait);
        let reply = self.client.send_within(longest, Method::GET, &path, None).await?;
        let reply: Commands = read(&reply)?;
        let known = |command| serde_json::from_value(command).ok();
        Ok(reply.commands.into_iter().map(|numbered| (numbered.n, known(numbered.command))).collect())
    }

    /// Reports the agent's end, after recording whatever a rule allowed and a crash lost.
    pub async fn end(&self) -> Result<(), CallError> {
        // Of these nothing was reported that the hub could have missed; what it knows stays as it is.
        let unrecorded: Vec<_> = self.unrecorded().keys().cloned().collect();
        for ask in unrecorded {
            self.record_late(&ask, Try::UntilHeard).await;
        }
        self.register(&Registration::ended(), Try::UntilHeard).await
    }

    /// Whether the hub knows the ask now.
    async fn record_late(&self, ask: &AskId, how: Try) -> bool {
        let Some(late) = self.unrecorded().remove(ask) else { return false };
        let recorded = self.client.call(&calls::LATE, ask.as_str(), &(), &late, how).await;
        if let Err(error) = &recorded {
            tracing::warn!(%error, %ask, "what a rule allowed could not be recorded late");
            if error.is_passing() {
                self.unrecorded().insert(ask.clone(), late);
            }
        }
        recorded.is_ok()
    }

    fn unrecorded(&self) -> MutexGuard<'_, HashMap<AskId, Late>> {
        self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
