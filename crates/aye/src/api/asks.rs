use super::App;
use super::caller::Caller;
use super::history::FilterParams;
use super::json::{Body, Failure, LARGE, Named, Params, Reply, ok};
use crate::hub::{AnswerCall, AskFilter, Raise, Raised, Voucher};
use crate::webauthn::Assertion;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use aye_core::lifecycle::Delivery;
use aye_core::{AgentId, AnswerKey, Ask, AskId, Digest, Invalid, Key, Kind, RaisedBody, Receipt, Withdrawal};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

const LONGEST_WAIT: u64 = 600;
const MOST_LISTED: u32 = 10_000;
/// In the database; the reply is up to four times as long, because what is asked stands in it as it came and as it is
/// shown.
const MOST_BYTES: usize = 8 * 1024 * 1024;

#[derive(Serialize, JsonSchema)]
pub struct Asks {
    #[schemars(with = "Vec<aye_core::AskView>")]
    asks: Vec<Ask>,
    /// There are more than these: the list goes on with after=, or before= where it begins with the newest, and this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<AskId>,
}

pub async fn list(
    State(app): State<App>,
    Params(params): Params<FilterParams>,
) -> Result<Reply<Asks>, Failure> {
    let filter = AskFilter { most_bytes: Some(MOST_BYTES), ..params.filter(MOST_LISTED)? };
    let page = app.hub.asks(filter).await?;
    Ok(ok(Asks { next: page.next(), asks: page.asks }))
}

/// Answers that the agent's own transcript contradicts, until somebody has seen that.
pub async fn alarms(State(app): State<App>) -> Result<Reply<Asks>, Failure> {
    Ok(ok(Asks { asks: app.hub.alarms().await?, next: None }))
}

pub async fn mark_seen(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<AskId>,
) -> Result<StatusCode, Failure> {
    app.hub.mark_seen(id, caller.who()).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn get(State(app): State<App>, Named(id): Named<AskId>) -> Result<Reply<Ask>, Failure> {
    Ok(ok(app.hub.ask(&id).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerBody {
    #[schemars(with = "aye_core::Answer")]
    pub answer: Value,
    /// Of the ask as it was shown.
    pub digest: Digest,
    /// The sender's own name for this act: sending it again is not answering again.
    pub key: Option<AnswerKey>,
    /// By a passkey, for exactly this answer; needed to allow an ask whose `proof` is `passkey`.
    pub assertion: Option<Assertion>,
}

pub async fn answer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(ask): Named<AskId>,
    Body(body): Body<AnswerBody>,
) -> Result<Reply<Ask>, Failure> {
    let AnswerBody { answer, digest, key, assertion } = body;
    let call = AnswerCall { ask, answer, digest, key, by: caller.by(), assertion };
    Ok(ok(app.hub.answer(call).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RaiseBody {
    pub key: Key,
    pub agent: AgentId,
    pub kind: Kind,
    #[schemars(with = "aye_core::RaisedBody")]
    pub body: Value,
    /// The folder it is asked in. Where that is not the agent's registered one, nothing that is bound to a folder
    /// allows it.
    pub cwd: Option<String>,
    /// How long a person has: `"300s"`, `"5m"`, or a number of seconds. Without it, for ever.
    #[schemars(with = "Option<String>")]
    pub timeout: Option<Value>,
    /// The agent's own name for the tool call behind this ask.
    pub tool_use_id: Option<String>,
    /// Which of its sub-agents asks, in words.
    pub sub_agent: Option<String>,
}

pub async fn raise(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<RaiseBody, LARGE>,
) -> Result<Reply<RaisedAsk>, Failure> {
    caller.speaks_for(&body.agent)?;
    Ok(raised(app.hub.raise(body.raise()?).await?))
}

/// An ask that was raised just now, or earlier under the same key.
#[derive(Serialize, JsonSchema)]
pub struct RaisedAsk {
    #[serde(flatten)]
    #[schemars(with = "aye_core::AskView")]
    ask: Ask,
    /// Set where a rule allowed this and the record is still on its way to the disk. Should the ask be unknown when its
    /// receipt is reported, send this to `/api/asks/{id}/late`.
    #[serde(skip_serializing_if = "Option::is_none")]
    voucher: Option<Voucher>,
}

fn raised(raised: Raised) -> Reply<RaisedAsk> {
    let status = if raised.new { StatusCode::CREATED } else { StatusCode::OK };
    Reply(status, RaisedAsk { ask: raised.ask, voucher: raised.voucher })
}

impl RaiseBody {
    fn raise(self) -> Result<Raise, Invalid> {
        let (body, before) =
            RaisedBody::decode(self.kind, self.body).map_err(|invalid| invalid.under("body"))?;
        Ok(Raise {
            key: self.key,
            agent: self.agent,
            body,
            before,
            cwd: self.cwd,
            timeout: self.timeout.map(|timeout| duration(&timeout)).transpose()?,
            tool_use_id: self.tool_use_id,
            sub_agent: self.sub_agent,
        })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LateBody {
    /// As it was raised.
    ask: RaiseBody,
    /// As it came with the reply. Without it, or with one that is not ours, all that is recorded is that the agent
    /// says it ran this.
    voucher: Option<Voucher>,
}

pub async fn late(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<AskId>,
    Body(body): Body<LateBody, LARGE>,
) -> Result<Reply<RaisedAsk>, Failure> {
    caller.speaks_for(&body.ask.agent)?;
    let raise = body.ask.raise().map_err(|invalid| invalid.under("ask"))?;
    Ok(raised(app.hub.record_late(id, raise, body.voucher).await?))
}

fn duration(timeout: &Value) -> Result<SignedDuration, Invalid> {
    let read = match timeout {
        Value::String(text) => text.parse().ok(),
        Value::Number(seconds) => seconds.as_i64().map(SignedDuration::from_secs),
        _ => None,
    };
    let positive = read.filter(|duration: &SignedDuration| duration.is_positive());
    positive.ok_or_else(|| Invalid::new("timeout", "must be a duration such as \"300s\" or \"5m\""))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitParams {
    pub wait: Option<u64>,
}

impl WaitParams {
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.wait.unwrap_or(0).min(LONGEST_WAIT))
    }
}

pub async fn resolution(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<AskId>,
    Params(params): Params<WaitParams>,
) -> Result<Response, Failure> {
    let agent = caller.agent()?;
    let resolution = tokio::select! {
        resolution = app.hub.resolution(&id, &agent, params.duration()) => resolution?,
        () = app.stop.cancelled() => None,
        () = caller.credential.revoked.cancelled() => None,
    };
    Ok(match resolution {
        Some(resolution) => ok(resolution).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptBody {
    pub receipt: Receipt,
    /// What it was concluded from.
    pub evidence: Option<String>,
}

pub async fn receipt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<AskId>,
    Body(body): Body<ReceiptBody>,
) -> Result<Reply<Ask>, Failure> {
    let delivery = Delivery { receipt: body.receipt, evidence: body.evidence };
    Ok(ok(app.hub.receipt(id, caller.agent()?, delivery).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WithdrawBody {
    pub why: Withdrawal,
    /// What was answered in the agent's own terminal.
    #[schemars(with = "Option<aye_core::Answer>")]
    pub answer: Option<Value>,
}

pub async fn withdraw(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<AskId>,
    Body(body): Body<WithdrawBody>,
) -> Result<Reply<Ask>, Failure> {
    Ok(ok(app.hub.withdraw(id, caller.agent()?, body.why, body.answer).await?))
}
