//! Serializes raises under one key. A rule's allow is returned before it is written, so the store alone cannot detect
//! a second raise.

use aye_core::{AgentId, Key};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

type Name = (AgentId, Key);

#[derive(Default)]
pub struct Claims {
    turns: Mutex<HashMap<Name, Arc<Turn<()>>>>,
}

/// Held until the ask is on disk, or is known not to get there.
pub struct Claim {
    claims: Arc<Claims>,
    name: Name,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Claims {
    pub async fn claim(self: &Arc<Self>, agent: &AgentId, key: &Key) -> Claim {
        let name = (agent.clone(), key.clone());
        // Made before the wait, so that whoever gives up waiting leaves nothing behind either.
        let mut claim = Claim { claims: self.clone(), name: name.clone(), turn: None };
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.entry(name).or_default().clone()
        };
        claim.turn = Some(turn.lock_owned().await);
        claim
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut turns = self.claims.turns.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.turn.take());
        if turns.get(&self.name).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_key_is_claimed_by_one_at_a_time_and_forgotten_after_the_last() {
        let claims = Arc::new(Claims::default());
        let (agent, key, other) =
            (AgentId::try_from("a").unwrap(), Key::try_from("k").unwrap(), Key::try_from("o").unwrap());
        let first = claims.claim(&agent, &key).await;
        assert!(claims.claim(&agent, &key).now_or_never().is_none());
        assert!(claims.claim(&agent, &other).now_or_never().is_some());
        let mut second = Box::pin(claims.claim(&agent, &key));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let second = second.await;
        assert_eq!(claims.turns.lock().unwrap().len(), 1);
        drop(second);
        assert!(claims.turns.lock().unwrap().is_empty());
    }
}
