use super::App;
use super::caller::{Caller, Peer};
use super::json::{Body, Failure, PathId, Reply, ok};
use crate::protocol::{CredentialInfo, Link, ListedToken, Me, NewToken, Token, TokenList};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use aye_core::{AgentId, Invalid, Role, Text};
use schemars::JsonSchema;
use serde::Deserialize;

pub async fn me(Extension(caller): Extension<Caller>) -> Reply<Me> {
    let credential = caller.credential;
    ok(Me { role: credential.role, agent: credential.agent, name: credential.name })
}

/// What an agent starts may speak for that agent or for a new one, never for another that is there.
pub async fn hand_out(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathId(agent): PathId<AgentId>,
) -> Result<Reply<Token>, Failure> {
    if let Peer::Unix { process, .. } = peer
        && let Some(around) = app.hub.agent_around(process).await?
        && around != agent
        && app.hub.agent(agent.as_str()).await.is_ok()
    {
        let why = format!("this process runs inside the agent {around} and may not speak for {agent}");
        return Err(Failure::new(StatusCode::FORBIDDEN, why));
    }
    let token = app.hub.hand_out_agent_token(&agent, "a process of the same user", false).await?;
    Ok(ok(Token { token }))
}

pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Reply<TokenList>, Failure> {
    let mut labels = app.hub.browser_names().await?;
    let listed = |info: CredentialInfo| ListedToken {
        label: labels.remove(&info.id),
        yours: info.id == caller.credential.id,
        info,
    };
    Ok(ok(TokenList { tokens: app.hub.tokens().await?.into_iter().map(listed).collect() }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Label {
    label: Text,
}

pub async fn label(
    State(app): State<App>,
    PathId(id): PathId<String>,
    Body(new): Body<Label>,
) -> Result<StatusCode, Failure> {
    if !app.hub.tokens().await?.iter().any(|token| token.id == id) {
        return Err(Failure::new(StatusCode::NOT_FOUND, "there is no such token"));
    }
    app.hub.name_browser(id, new.label).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<NewToken>,
) -> Result<Reply<Token>, Failure> {
    let who = caller.who();
    let token = match (new.role, new.agent) {
        (Role::Agent, Some(agent)) => app.hub.hand_out_agent_token(&agent, &who, true).await?,
        (Role::Agent, None) => {
            return Err(Invalid::new("agent", "an agent's token needs the agent it belongs to").into());
        }
        (Role::Viewer | Role::Operator, Some(_)) => {
            return Err(Invalid::new("agent", "only an agent's token belongs to an agent").into());
        }
        (role @ (Role::Viewer | Role::Operator), None) => {
            let name = new.name.unwrap_or(caller.credential.name);
            app.hub.create_token(role, name, &who).await?
        }
    };
    Ok(Reply(StatusCode::CREATED, Token { token }))
}

pub async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<String>,
) -> Result<StatusCode, Failure> {
    app.hub.revoke_token(&id, &caller.who()).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn link(State(app): State<App>) -> Result<Reply<Link>, Failure> {
    Ok(Reply(StatusCode::CREATED, Link { url: app.sign_in_link().await? }))
}
