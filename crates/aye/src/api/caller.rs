//! Who is calling, and whether they may.

use super::App;
use super::json::{Failure, ORDINARY};
use super::limits::Connection;
use super::replies::{Cut, end_when_revoked};
use super::table::Needs;
use crate::hub::Credential;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use aye_core::{AgentId, By, Role, Surface};

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

pub const SESSION_COOKIE: &str = "aye_session";
/// Where a page shows the token that its cookie needs beside it.
const PAGE_HEADER: &str = "aye-page";
/// The same among the protocols of a WebSocket, for which a page can set no header.
const PAGE_PROTOCOL: &str = "aye.page.";
/// Where an operator's program says which surface the person used.
const SURFACE_HEADER: &str = "aye-surface";

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub enum Peer {
    Tcp(SocketAddr),
    Unix {
        uid: u32,
        /// The process that connected, by its id and its start: a connection may outlive it and its number.
        process: Option<(u32, u64)>,
    },
}

impl Peer {
    fn address(self) -> Option<IpAddr> {
        match self {
            Peer::Tcp(address) => Some(address.ip()),
            Peer::Unix { .. } => None,
        }
    }
}

/// A caller whose token was right and whose role suffices.
#[derive(Debug, Clone)]
pub struct Caller {
    pub credential: Credential,
    pub surface: Surface,
    /// Until when the page that calls may do so without signing again; none for what is not a page.
    pub page_until: Option<Instant>,
    peer: Option<Peer>,
}

/// A browser that has shown the cookie of its session, from where it signed in, and no more than that.
#[derive(Debug, Clone)]
pub struct CookieOnly(pub Credential);

impl Caller {
    pub fn by(&self) -> By {
        By::Person { name: self.credential.name.clone(), surface: self.surface }
    }

    pub fn who(&self) -> String {
        self.by().to_string()
    }

    /// Whether this comes from a process of the same user on this machine.
    pub fn is_same_user(&self) -> bool {
        same_user(self.peer).is_ok()
    }

    /// An agent's token speaks for that agent alone.
    pub fn speaks_for(&self, agent: &AgentId) -> Result<(), Failure> {
        match self.credential.agent.as_ref() == Some(agent) {
            true => Ok(()),
            false => Err(Failure::new(StatusCode::FORBIDDEN, "this token belongs to another agent")),
        }
    }

    /// Refuses who may not act for a person now: by role, or because the process runs inside an agent.
    /// That is looked up each time, because an agent may become known after its connection.
    pub async fn acts_for_a_person(&self, app: &App) -> Result<(), Failure> {
        let role = self.credential.role;
        if !role.may_act_as(Role::Operator) {
            return Err(lacks(Role::Operator, role));
        }
        if let Some(Peer::Unix { process, .. }) = self.peer
            && let Some(agent) = app.hub.agent_around(process).await?
        {
            let why = format!(
                "this process runs inside the agent {agent}, and an agent never answers for a person"
            );
            return Err(Failure::new(StatusCode::FORBIDDEN, why));
        }
        Ok(())
    }

    pub fn agent(&self) -> Result<AgentId, Failure> {
        let none = || Failure::new(StatusCode::FORBIDDEN, "this token belongs to no agent");
        self.credential.agent.clone().ok_or_else(none)
    }
}

/// Lets a request through to its handler if its caller may make it.
pub async fn authorize(app: App, needs: Needs, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    if needs == Needs::Cookie {
        match cookie_only(&app, request.headers()).await {
            Ok(session) => request.extensions_mut().insert(session),
            Err(failure) => return failure.into_response(),
        };
        return next.run(request).await;
    }
    match permit(&app, needs, peer, request.headers()).await {
        Ok(Some(caller)) => {
            let changes_something = !request.method().is_safe();
            if changes_something && caller.credential.role == Role::Operator {
                match app.hub.counts_everywhere(&caller.credential).await {
                    Ok(true) => {}
                    Ok(false) => {
                        return Failure::new(StatusCode::UNAUTHORIZED, "this token was revoked")
                            .into_response();
                    }
                    Err(problem) => return Failure::from(problem).into_response(),
                }
            }
            if let Some(connection) = request.extensions().get::<Arc<Connection>>()
                && let Err(full) = app.limits.admit(&caller.credential, connection)
            {
                return full.into_response();
            }
            let turn = match may_be_long(&request, &caller.credential) {
                false => None,
                true => match turn_of(&app, &caller.credential).await {
                    Some(turn) => Some(turn),
                    None => {
                        return Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the hub is stopping")
                            .into_response();
                    }
                },
            };
            let (revoked, cut) =
                (caller.credential.revoked.clone(), request.extensions().get::<Cut>().cloned());
            request.extensions_mut().insert(caller);
            end_when_revoked(&app, next.run(request).await, (revoked, turn), cut)
        }
        Ok(None) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

/// True if a call may take much memory: one with a long body, or one of a viewer, who reads lists. Operators do not wait.
fn may_be_long(request: &Request, credential: &Credential) -> bool {
    let has_long_body = || request.body().size_hint().upper().is_none_or(|most| most > ORDINARY as u64);
    match credential.role {
        Role::Operator => false,
        Role::Viewer => true,
        Role::Agent => has_long_body(),
    }
}

/// A turn among the long calls of a token, once there is one.
async fn turn_of(app: &App, credential: &Credential) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        () = credential.revoked.cancelled() => None,
        () = app.stop.cancelled() => None,
        turn = credential.long_calls.clone().acquire_owned() => turn.ok(),
    }
}

async fn permit(
    app: &App,
    needs: Needs,
    peer: Option<Peer>,
    headers: &HeaderMap,
) -> Result<Option<Caller>, Failure> {
    let needed = match needs {
        Needs::Nothing | Needs::Cookie => return Ok(None),
        Needs::SameUser => return same_user(peer).map(|()| None),
        Needs::AnyToken => None,
        Needs::Role(role) => Some(role),
    };
    let caller = identify(app, peer, headers).await?;
    match (needed, caller.credential.role) {
        (Some(Role::Operator), _) => caller.acts_for_a_person(app).await?,
        (Some(needed), role) if !role.may_act_as(needed) => return Err(lacks(needed, role)),
        (Some(Role::Agent | Role::Viewer) | None, _) => {}
    }
    if let Some(agent) = &caller.credential.agent {
        app.hub.heard(agent).await?;
    }
    Ok(Some(caller))
}

fn lacks(needed: Role, role: Role) -> Failure {
    let why = format!("this needs the role {needed}, and the token has the role {role}");
    Failure::new(StatusCode::FORBIDDEN, why)
}

fn same_user(peer: Option<Peer>) -> Result<(), Failure> {
    match peer {
        Some(Peer::Unix { uid, .. }) if uid == rustix::process::getuid().as_raw() => Ok(()),
        _ => Err(Failure::new(
            StatusCode::UNAUTHORIZED,
            "only a process of the same user gets this, and only over the Unix socket; \
             elsewhere use `aye token create --role agent --agent ID`",
        )),
    }
}

async fn identify(app: &App, peer: Option<Peer>, headers: &HeaderMap) -> Result<Caller, Failure> {
    let (credential, page_until) = match bearer(headers) {
        // A browser's session leaves the browser only by theft.
        Some(token) => {
            let credential = app.hub.credential(token).await?;
            let credential = credential.filter(|credential| credential.session.is_none());
            let credential = credential.ok_or_else(|| wrong(app, peer))?;
            if credential.is_owners() && !matches!(peer, Some(Peer::Unix { .. })) {
                return Err(for_the_socket_only());
            }
            (credential, None)
        }
        None => {
            let credential = session(app, headers).await?;
            let lasts = app.hub.page_token_lasts(&credential, page_token(headers));
            let lasts = lasts.and_then(|lasts| Duration::try_from(lasts).ok()).ok_or_else(not_valid)?;
            (credential, Some(Instant::now() + lasts))
        }
    };
    let named = headers.get(SURFACE_HEADER).and_then(|name| name.to_str().ok()).and_then(Surface::named);
    let surface = credential.surface.or(named).unwrap_or(Surface::Api);
    Ok(Caller { credential, surface, page_until, peer })
}

async fn cookie_only(app: &App, headers: &HeaderMap) -> Result<CookieOnly, Failure> {
    session(app, headers).await.map(CookieOnly)
}

/// The session of a cookie. A token that is meant for a header does not become a session by being put there,
/// and a session counts only where its browser signed in: at that origin, or for a read that names none, at its host.
///
/// Wrong cookies are not counted: a page that must sign in again has to be told so, whatever others have tried.
async fn session(app: &App, headers: &HeaderMap) -> Result<Credential, Failure> {
    let token = session_cookie(headers).ok_or_else(|| {
        Failure::new(StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer <token>")
    })?;
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let (origin, host) = (text(header::ORIGIN), text(header::HOST).unwrap_or_default());
    let at_home = |credential: &Credential| {
        credential.session.as_deref().is_some_and(|session| match origin {
            Some(origin) => origin == session.origin,
            None => app.hosts.allows_origin(&session.origin, host),
        })
    };
    app.hub.credential(token).await?.filter(at_home).ok_or_else(not_valid)
}

/// Only on the Unix socket is it seen which process calls, and so whether that runs inside an agent.
fn for_the_socket_only() -> Failure {
    Failure::new(
        StatusCode::UNAUTHORIZED,
        "the token in operator.token is accepted on the Unix socket only; \
         for the network, make one with `aye token create`",
    )
}

fn not_valid() -> Failure {
    Failure::new(StatusCode::UNAUTHORIZED, "this token is not valid, or was revoked")
}

fn wrong(app: &App, peer: Option<Peer>) -> Failure {
    match app.attempts.too_many(peer.and_then(Peer::address), std::time::Instant::now()) {
        true => Failure::new(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens; try again in a minute"),
        false => not_valid(),
    }
}

/// A header that is there but wrong is not made good by a cookie.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or_default();
    let (scheme, token) = value.split_once(' ').unwrap_or_default();
    Some(if scheme.eq_ignore_ascii_case("bearer") { token.trim() } else { "" })
}

fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == SESSION_COOKIE).map(|(_, token)| token)
}

fn page_token(headers: &HeaderMap) -> &str {
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut offered =
        protocols.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim);
    let named = headers.get(PAGE_HEADER).and_then(|value| value.to_str().ok());
    named.or_else(|| offered.find_map(|protocol| protocol.strip_prefix(PAGE_PROTOCOL))).unwrap_or_default()
}

pub fn has_session_cookie(headers: &HeaderMap) -> bool {
    session_cookie(headers).is_some()
}
