use crate::store::StoreError;
use aye_core::{Ask, AskId, Invalid, Refused};
use jiff::SignedDuration;

/// Why the hub did not do what it was asked to. Nothing was changed, except that an ask past its
/// deadline has been ended.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("there is no such request")]
    NoSuchAsk,
    #[error("there is no such agent")]
    NoSuchAgent,
    #[error("no active token has this id")]
    NoSuchToken,
    #[error("there is no such passkey")]
    NoSuchPasskey,
    #[error("no active grant has this id")]
    NoSuchGrant,
    #[error("{refused}")]
    Refused { refused: Refused, ask: Box<Ask> },
    #[error("the request is not the one that was shown: look at it again before answering")]
    OtherDigest { ask: Box<Ask> },
    #[error("another plan was refused meanwhile: look at it before approving")]
    OtherPlan,
    #[error("this key was already used for another request")]
    KeyReused,
    /// It takes a passkey, and there was none or not the right one; there it can be done.
    #[error("{why}")]
    Unproven { why: String, page: String },
    #[error(
        "this agent has {asks} requests open already ({} KB of text), which is as much as a person is shown at once: \
         wait until some of them are answered, then ask again", bytes / 1024
    )]
    TooMuchOpen { asks: u64, bytes: u64 },
    #[error(
        "{whose} had {} MB written within a day, which is as much as may be: try again in {}",
        most / 1024 / 1024, in_minutes(*wait)
    )]
    WroteTooMuch { whose: &'static str, most: u64, wait: SignedDuration },
    #[error("{0}")]
    NotAllowed(&'static str),
    #[error("{0}")]
    Conflict(&'static str),
    #[error("the run could not be started: {0}")]
    NotStarted(String),
    #[error("{}", .0.problem)]
    Invalid(#[from] Invalid),
    /// Something broke inside the hub. It says nothing about the ask or the call, which may succeed later.
    #[error("the hub has a fault: {0}. Its log says more")]
    Fault(&'static str),
    #[error(transparent)]
    Store(StoreError),
}

pub const NO_RANDOMNESS: Problem = Problem::Fault("the system has no randomness");

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Panicked => Problem::Fault("a database operation failed"),
            error => Problem::Store(error),
        }
    }
}

/// Rounded up, such as `2h 5m`.
fn in_minutes(wait: SignedDuration) -> String {
    format!("{:#}", SignedDuration::from_mins(wait.as_secs() / 60 + 1))
}

pub fn random_id() -> Result<AskId, Problem> {
    getrandom::u64().map(AskId::from_random).map_err(|_| NO_RANDOMNESS)
}

/// Runs what may take long on a thread where it holds up nobody. A panic there is a fault.
pub async fn on_another_thread<T: Send + 'static>(
    fault: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "{fault}");
        Problem::Fault(fault)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_on_another_thread_is_a_fault() {
        let read = on_another_thread("the policy could not be read", || panic!("a bug")).await;
        assert!(matches!(read, Err(Problem::Fault("the policy could not be read"))));
    }
}
