//! Limits on connections, in all and per token. Agents wait in calls that last for hours, and each holds a connection;
//! however many they make, people still get in.

use super::json::Failure;
use crate::hub::Credential;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use aye_core::Role;
use rustix::process::{Resource, getrlimit};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const MOST_CONNECTIONS: usize = 8192;
/// Descriptors for everything that is not a connection: the database, log, files that are read, processes of agents.
const OTHER_DESCRIPTORS: usize = 256;
/// The share of the connections that only people get.
const FOR_PEOPLE: usize = 8;
/// The share that only the owner's socket gets, whatever comes over the network.
const FOR_SOCKET: usize = 16;
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

/// A connection: its slot, and its place among those of the token that it was last used with. A WebSocket keeps this for
/// as long as it is open.
pub struct Connection {
    _slot: ConnectionSlot,
    token: Mutex<Option<TokenPlace>>,
}

struct TokenPlace {
    among: Arc<Semaphore>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    pub fn new(slot: ConnectionSlot) -> Self {
        Self { _slot: slot, token: Mutex::default() }
    }

    /// Counts this connection for a token's calls, and no longer for what it was used for before.
    fn count_for(&self, among: &Arc<Semaphore>) -> Result<(), Full> {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.as_ref().is_some_and(|place| Arc::ptr_eq(&place.among, among)) {
            return Ok(());
        }
        let permit = among.clone().try_acquire_owned().map_err(|_| Full::Token)?;
        *token = Some(TokenPlace { among: among.clone(), _permit: permit });
        Ok(())
    }

    /// Counts it among the token's WebSockets instead of its calls: a token whose sockets are all taken can still call.
    pub fn becomes_socket(&self, credential: &Credential) -> Result<(), Full> {
        self.count_for(&credential.sockets)
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::within(getrlimit(Resource::Nofile).current)
    }
}

impl ConnectionLimits {
    /// As many as this many open files allow; without a limit on those, as many as there may be.
    fn within(descriptors: Option<u64>) -> Self {
        let descriptors = descriptors.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let all = descriptors.saturating_sub(OTHER_DESCRIPTORS.min(descriptors / 2)).min(MOST_CONNECTIONS);
        Self::of(all, all / FOR_PEOPLE, all / FOR_SOCKET)
    }

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

    /// Admits a call that is made with this token on this connection. A connection has one call at a time, so counting
    /// connections also bounds calls that wait and replies that nobody reads.
    pub fn admit(&self, credential: &Credential, connection: &Connection) -> Result<(), Full> {
        match credential.role {
            Role::Agent | Role::Viewer if self.is_crowded() => Err(Full::Connections),
            Role::Agent | Role::Viewer | Role::Operator => connection.count_for(&credential.calls),
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
            Full::Token => {
                "too many calls with this token are waiting, or too many of its WebSockets are open: end some, or try again later"
            }
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

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        let room = |descriptors| {
            let limits = ConnectionLimits::within(descriptors);
            (limits.all.available_permits(), limits.network.available_permits(), limits.for_people)
        };
        assert_eq!(room(None), (8192, 7680, 1024));
        assert_eq!(room(Some(1 << 20)), (8192, 7680, 1024));
        assert_eq!(room(Some(1024)), (768, 720, 96));
        assert_eq!(room(Some(256)), (128, 120, 16));
    }

    #[tokio::test]
    async fn a_connection_counts_once_for_the_token_it_is_used_with() {
        let limits = ConnectionLimits::of(6, 3, 1);
        let connection = Connection::new(limits.slot(true).await.unwrap());
        let (one, other) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1)));
        assert_eq!((connection.count_for(&one), connection.count_for(&one)), (Ok(()), Ok(())));
        assert_eq!(one.available_permits(), 0);
        assert_eq!(connection.count_for(&other), Ok(()));
        assert_eq!((one.available_permits(), other.available_permits()), (1, 0));
        let second = Connection::new(limits.slot(true).await.unwrap());
        assert_eq!(second.count_for(&other), Err(Full::Token));
        drop(connection);
        assert_eq!(second.count_for(&other), Ok(()));
    }
}
