//! How many connections there may be. Agents wait in calls that last for hours, and each holds a connection; however many
//! they make, people still get in.

use super::json::Failure;
use crate::hub::Credential;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use aye_core::Role;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const CONNECTIONS: usize = 8192;
/// Of these, what only people get.
const FOR_PEOPLE: usize = 1024;
/// Of these in turn, what only the owner's socket gets, whatever comes over the network.
const FOR_SOCKET: usize = 512;
/// Seconds after which it is worth trying again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

pub struct ConnectionLimits {
    all: Arc<Semaphore>,
    network: Arc<Semaphore>,
    for_people: usize,
}

/// One of the connections that there may be; free again when this is dropped.
pub struct ConnectionSlot {
    _all: OwnedSemaphorePermit,
    _network: Option<OwnedSemaphorePermit>,
}

/// Held by a call for as long as it is under way; none for a person's.
pub type CallSlot = Option<OwnedSemaphorePermit>;

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::of(CONNECTIONS, FOR_PEOPLE, FOR_SOCKET)
    }
}

impl ConnectionLimits {
    fn of(all: usize, for_people: usize, for_socket: usize) -> Self {
        let network = Arc::new(Semaphore::new(all.saturating_sub(for_socket)));
        Self { all: Arc::new(Semaphore::new(all)), network, for_people }
    }

    /// Waits for a slot. None only if there will never be one.
    pub async fn slot(&self, over_network: bool) -> Option<ConnectionSlot> {
        let network = match over_network {
            true => Some(self.network.clone().acquire_owned().await.ok()?),
            false => None,
        };
        Some(ConnectionSlot { _all: self.all.clone().acquire_owned().await.ok()?, _network: network })
    }

    /// Whether what is left is for people.
    pub fn is_crowded(&self) -> bool {
        let left = self.all.available_permits().min(self.network.available_permits());
        left < self.for_people
    }

    /// Admits a call of this token.
    pub fn admit(&self, credential: &Credential) -> Result<CallSlot, Full> {
        match credential.role {
            Role::Operator => Ok(None),
            Role::Agent | Role::Viewer if self.is_crowded() => Err(Full::Connections),
            Role::Viewer => Ok(None),
            Role::Agent => {
                let slot = credential.calls.clone().try_acquire_owned();
                slot.map(Some).map_err(|_| Full::Token)
            }
        }
    }
}

/// Why a call was not admitted. It may be made again later, and nothing has been done.
#[derive(Debug, PartialEq, Eq)]
pub enum Full {
    Connections,
    Token,
}

impl IntoResponse for Full {
    fn into_response(self) -> Response {
        let why = match self {
            Full::Connections => {
                "the hub has too many connections, and keeps the rest for people: try again later"
            }
            Full::Token => "too many calls with this token are waiting: end some, or try again later",
        };
        let mut response = Failure::new(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        // Where connections are short, this one is not kept.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_left_at_last_is_for_people_and_for_the_socket() {
        let limits = ConnectionLimits::of(6, 3, 1);
        let mut held = Vec::new();
        for _ in 0..3 {
            assert!(!limits.is_crowded());
            held.push(limits.slot(true).await.unwrap());
        }
        assert!(limits.is_crowded());
        held.push(limits.slot(true).await.unwrap());
        held.push(limits.slot(true).await.unwrap());
        // The network has had its share; the socket still gets in.
        let more = tokio::time::timeout(std::time::Duration::from_millis(10), limits.slot(true)).await;
        assert!(more.is_err());
        held.push(limits.slot(false).await.unwrap());
        held.clear();
        assert!(!limits.is_crowded());
    }
}
