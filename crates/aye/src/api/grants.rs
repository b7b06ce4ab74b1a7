use super::App;
use super::caller::Caller;
use super::json::{Failure, PathId, Reply, ok};
use crate::hub::{GrantInfo, KeptRule};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub struct Grants {
    grants: Vec<GrantInfo>,
    /// What agents keep by rules of their own, as far as the latest asks tell.
    kept_by_agents: Vec<KeptRule>,
}

pub async fn list(State(app): State<App>) -> Result<Reply<Grants>, Failure> {
    Ok(ok(Grants { grants: app.hub.grants().await?, kept_by_agents: app.hub.kept_by_agents().await? }))
}

pub async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<String>,
) -> Result<StatusCode, Failure> {
    app.hub.revoke_grant(id, caller.who()).await?;
    Ok(StatusCode::NO_CONTENT)
}
