use super::App;
use super::caller::Caller;
use super::history::filter;
use super::json::{Body, Failure, LARGE, Params, PathId, Reply, ok};
use crate::hub::{AnswerCall, AskFilter, Raise, Raised};
use crate::protocol::{
    AllowedAsk, Asks, AsksQuery, Late, NewAnswer, NewAsk, OpaqueVoucher, RaiseQuery, RaiseReply, RaisedAsk,
    WaitQuery, Withdraw,
};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use aye_core::{Ask, AskId, Can, Delivery, Invalid, RaisedBody};
use std::time::Duration;

const LONGEST_WAIT: u64 = 600;
const MOST_LISTED: u32 = 10_000;
/// In the database; the reply is up to four times as long, because what is asked is in it as it came and as it is
/// shown.
const MOST_BYTES: usize = 8 * 1024 * 1024;

pub async fn list(
    State(app): State<App>,
    Params(query): Params<AsksQuery>,
) -> Result<Reply<Asks<Ask>>, Failure> {
    let filter = AskFilter { most_bytes: Some(MOST_BYTES), ..filter(query, MOST_LISTED)? };
    let page = app.hub.asks(filter).await?;
    Ok(ok(Asks { next: page.next(), asks: page.asks }))
}

/// Answers that the agent's own transcript contradicts, until somebody has seen that.
pub async fn alarms(State(app): State<App>) -> Result<Reply<Asks<Ask>>, Failure> {
    Ok(ok(Asks { asks: app.hub.alarms().await?, next: None }))
}

pub async fn mark_seen(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AskId>,
) -> Result<StatusCode, Failure> {
    app.hub.mark_seen(id, caller.who()).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn get(State(app): State<App>, PathId(id): PathId<AskId>) -> Result<Reply<Ask>, Failure> {
    Ok(ok(app.hub.ask(&id).await?))
}

pub async fn answer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(ask): PathId<AskId>,
    Body(body): Body<NewAnswer>,
) -> Result<Reply<Ask>, Failure> {
    let NewAnswer { answer, digest, key, assertion } = body;
    let token = Some(caller.credential.id.clone());
    let call = AnswerCall { ask, answer, digest, key, by: caller.by(), token, assertion };
    Ok(ok(app.hub.answer(call).await?))
}

pub async fn raise(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<RaiseQuery>,
    Body(new): Body<NewAsk, LARGE>,
) -> Result<Reply<RaiseReply<Ask>>, Failure> {
    caller.speaks_for(&new.agent)?;
    let reply = app.hub.raise(checked(new)?).await?;
    if query.brief
        && let Some(allowed) = in_brief(&reply)
    {
        return Ok(Reply(StatusCode::CREATED, RaiseReply::Brief(Box::new(allowed))));
    }
    let Reply(status, whole) = raised(reply);
    Ok(Reply(status, RaiseReply::Whole(Box::new(whole))))
}

/// What a rule allowed before it was on disk; none for anything else.
fn in_brief(raised: &Raised) -> Option<AllowedAsk> {
    let ask = &raised.ask;
    let (voucher, answer, by) = (raised.voucher.as_ref()?, ask.state.answer()?, ask.state.by()?);
    let voucher = OpaqueVoucher::of(voucher);
    Some(AllowedAsk { id: ask.id.clone(), answer: answer.clone(), by: by.clone(), voucher })
}

fn raised(raised: Raised) -> Reply<RaisedAsk<Ask>> {
    let status = if raised.new { StatusCode::CREATED } else { StatusCode::OK };
    let voucher = raised.voucher.map(|voucher| OpaqueVoucher::of(&voucher));
    Reply(status, RaisedAsk { ask: raised.ask, voucher })
}

fn checked(new: NewAsk) -> Result<Raise, Invalid> {
    let (body, before) = RaisedBody::decode(new.kind, new.body).map_err(|invalid| invalid.under("body"))?;
    Ok(Raise {
        key: new.key,
        agent: new.agent,
        body,
        before,
        cwd: new.cwd.map(String::from),
        timeout: new.timeout.map(Into::into),
        tool_use_id: new.tool_use_id.map(String::from),
        sub_agent: new.sub_agent.map(String::from),
        can: new.can,
    })
}

pub async fn late(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AskId>,
    Body(late): Body<Late, LARGE>,
) -> Result<Reply<RaisedAsk<Ask>>, Failure> {
    caller.speaks_for(&late.ask.agent)?;
    let raise = checked(late.ask).map_err(|invalid| invalid.under("ask"))?;
    let voucher = late.voucher.map(OpaqueVoucher::read).transpose();
    let voucher = voucher.map_err(|invalid| invalid.under("voucher"))?;
    Ok(raised(app.hub.record_late(id, raise, voucher).await?))
}

/// How long a call may wait.
pub fn wait(seconds: Option<u64>) -> Duration {
    Duration::from_secs(seconds.unwrap_or(0).min(LONGEST_WAIT))
}

pub async fn resolution(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AskId>,
    Params(query): Params<WaitQuery>,
) -> Result<Response, Failure> {
    let agent = caller.agent()?;
    let resolution = tokio::select! {
        resolution = app.hub.resolution(&id, &agent, wait(query.wait)) => resolution?,
        () = app.stop.cancelled() => None,
        () = caller.credential.revoked.cancelled() => None,
    };
    Ok(match resolution {
        Some(resolution) => ok(resolution).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

pub async fn receipt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AskId>,
    Body(delivery): Body<Delivery>,
) -> Result<Reply<Ask>, Failure> {
    Ok(ok(app.hub.receipt(id, caller.agent()?, delivery).await?))
}

pub async fn set_can(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AskId>,
    Body(can): Body<Can>,
) -> Result<Reply<Ask>, Failure> {
    Ok(ok(app.hub.set_can(id, caller.agent()?, can).await?))
}

pub async fn withdraw(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AskId>,
    Body(body): Body<Withdraw>,
) -> Result<Reply<Ask>, Failure> {
    Ok(ok(app.hub.withdraw(id, caller.agent()?, body.why, body.answer).await?))
}
