use super::App;
use super::caller::Caller;
use super::json::{Failure, PathId, Reply, ok};
use crate::protocol::GrantList;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

pub async fn list(State(app): State<App>) -> Result<Reply<GrantList>, Failure> {
    Ok(ok(GrantList { grants: app.hub.grants().await?, kept_by_agents: app.hub.kept_by_agents().await? }))
}

pub async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<String>,
) -> Result<StatusCode, Failure> {
    app.hub.revoke_grant(id, caller.who()).await?;
    Ok(StatusCode::NO_CONTENT)
}
