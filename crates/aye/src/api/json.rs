//! JSON in and out. What comes in is read strictly; what goes wrong says what and where.

use super::caller::Caller;
use crate::hub::{Problem, StoreError};
use crate::protocol::{Failed, Reason};
use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use aye_core::invalid::decode;
use aye_core::{Ask, Invalid, Proof, Refused, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

pub const ORDINARY: usize = 256 * 1024;
pub const LARGE: usize = 4 * 1024 * 1024;
const SLOWEST_BODY: Duration = Duration::from_secs(30);
/// Longer bodies are parsed on another thread: a request that comes meanwhile would wait for that, even if a core is free.
const QUICKLY_READ: usize = 4 * 1024;

/// A request's body, decoded; `LIMIT` is how many bytes it may have.
pub struct Body<T, const LIMIT: usize = ORDINARY>(pub T);

impl<T: DeserializeOwned, S: Sync, const LIMIT: usize> FromRequest<S> for Body<T, LIMIT> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        Ok(Self(decode(content(request, LIMIT).await?)?))
    }
}

/// What a request's body says, if it has no more bytes than that.
async fn content(request: Request, most: usize) -> Result<Value, Failure> {
    let revoked = request.extensions().get::<Caller>().map(|caller| caller.credential.revoked.clone());
    let revoked = revoked.unwrap_or_default();
    let read = tokio::select! {
        biased;
        () = revoked.cancelled() => {
            return Err(Failure::new(StatusCode::UNAUTHORIZED, "the token was revoked"));
        }
        read = tokio::time::timeout(SLOWEST_BODY, to_bytes(request.into_body(), most)) => read,
    };
    let bytes = read
        .map_err(|_| Failure::new(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive"))?
        .map_err(|_| {
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body may have at most {most} bytes"))
        })?;
    let parsed = match bytes.len() <= QUICKLY_READ {
        true => aye_core::json::parse(&bytes),
        false => {
            let parsing = tokio::task::spawn_blocking(move || aye_core::json::parse(&bytes));
            parsing.await.map_err(|_| Problem::Fault("the body could not be read"))?
        }
    };
    parsed.map_err(|error| Failure::new(StatusCode::BAD_REQUEST, format!("not acceptable JSON: {error}")))
}

/// The query of a request.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let query = Query::try_from_uri(&parts.uri);
        query
            .map(|Query(params)| Self(params))
            .map_err(|error| Failure::new(StatusCode::BAD_REQUEST, error.body_text()))
    }
}

/// An id in the path; a malformed one is answered with 404.
pub struct PathId<T>(pub T);

impl<T: TryFrom<String>, S: Send + Sync> FromRequestParts<S> for PathId<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let nothing = || Failure::new(StatusCode::NOT_FOUND, "there is nothing by that name");
        let Path(name) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| nothing())?;
        T::try_from(name).map(Self).map_err(|_| nothing())
    }
}

/// A successful reply.
pub struct Reply<T>(pub StatusCode, pub T);

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.1) {
            Ok(text) => (self.0, [(header::CONTENT_TYPE, "application/json")], text).into_response(),
            Err(error) => {
                tracing::error!(%error, "a reply could not be written");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

pub fn ok<T: Serialize>(content: T) -> Reply<T> {
    Reply(StatusCode::OK, content)
}

/// A call that was not carried out, and why.
#[derive(Debug)]
pub struct Failure {
    pub status: StatusCode,
    pub why: Failed<Ask>,
}

impl Failure {
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, why: Failed::new(error) }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        Reply(self.status, self.why).into_response()
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        let why = Failed { field: Some(invalid.field), ..Failed::new(invalid.problem) };
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, why }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let status = match &problem {
            Problem::NoSuchAsk
            | Problem::NoSuchAgent
            | Problem::NoSuchToken
            | Problem::NoSuchPasskey
            | Problem::NoSuchGrant => StatusCode::NOT_FOUND,
            Problem::Refused { refused: Refused::Expired, .. } => StatusCode::GONE,
            Problem::Refused { .. } | Problem::KeyReused | Problem::Conflict(_) => StatusCode::CONFLICT,
            Problem::OtherDigest { .. } | Problem::OtherPlan => StatusCode::PRECONDITION_FAILED,
            Problem::NotAllowed(_) | Problem::Unproven { .. } => StatusCode::FORBIDDEN,
            Problem::TooMuchOpen { .. } | Problem::WroteTooMuch { .. } => StatusCode::TOO_MANY_REQUESTS,
            Problem::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Problem::NotStarted(_) => StatusCode::BAD_GATEWAY,
            Problem::Store(StoreError::Full) => StatusCode::INSUFFICIENT_STORAGE,
            Problem::Store(
                StoreError::Closed
                | StoreError::Away(_)
                | StoreError::Undecided(_)
                | StoreError::Outdated { .. },
            ) => StatusCode::SERVICE_UNAVAILABLE,
            Problem::Store(_) | Problem::Fault(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::error!(error = %problem, "a call could not be carried out");
        }
        let mut why = Failed::new(problem.to_string());
        match problem {
            Problem::Invalid(invalid) => return invalid.into(),
            Problem::Refused { refused, ask } => {
                match refused {
                    Refused::Ended => why.error = how_it_ended(&ask),
                    Refused::Expired => {
                        let how = ask.state.why_unanswered().unwrap_or("nobody answered in time");
                        why.error = format!("{how}, and the agent is told so");
                    }
                    Refused::NotDue | Refused::NothingSent | Refused::Receipt { .. } => {}
                }
                why.ask = Some(ask);
            }
            Problem::Unproven { page, .. } => {
                (why.proof, why.page) = (Some(Proof::Passkey), Some(page));
            }
            Problem::OtherDigest { ask } => why.ask = Some(ask),
            Problem::Store(StoreError::Away(_)) => why.reason = Some(Reason::DatabaseAway),
            Problem::Store(StoreError::RolledBack { .. } | StoreError::Outdated { .. }) => {
                why.reason = Some(Reason::DatabaseBehind)
            }
            _ => {}
        }
        Self { status, why }
    }
}

fn how_it_ended(ask: &Ask) -> String {
    match &ask.state {
        State::Answered { by, .. } => format!("this request was already answered by {by}"),
        State::Open | State::Expired { .. } | State::Withdrawn { .. } => {
            format!(
                "this request is no longer open: {}",
                ask.state.why_unanswered().unwrap_or(ask.state.name())
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_never_taken_for_an_ask_that_ended() {
        for fault in [crate::hub::NO_RANDOMNESS, Problem::Fault("a bug"), StoreError::Panicked.into()] {
            assert_eq!(Failure::from(fault).status, StatusCode::INTERNAL_SERVER_ERROR);
        }
    }
}
