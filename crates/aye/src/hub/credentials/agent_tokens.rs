//! One token an agent: derived from a key, so that it can be handed out again and is kept nowhere.

use super::{Credential, Credentials, make_token, sha256};
use crate::hub::write_budget::REGISTRATION;
use crate::hub::{Hub, NO_RANDOMNESS, Problem};
use crate::store::{TokenRow, Tx};
use aye_core::digest::hex;
use aye_core::{AgentId, Role, Text};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

fn agent_token_id(agent: &AgentId) -> String {
    format!("agent:{agent}")
}

impl Credentials {
    fn agent_token(&self, agent: &AgentId) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.agent_key).ok()?;
        mac.update(agent.as_str().as_bytes());
        Some(format!("aye_{}_{}", agent_token_id(agent), hex(&mac.finalize().into_bytes())))
    }
}

impl Hub {
    /// The one token of an agent, the same each time it is asked for.
    /// With `keep` it outlives the agent's end, as a token should that a person made.
    pub async fn hand_out_agent_token(
        &self,
        agent: &AgentId,
        who: &str,
        keep: bool,
    ) -> Result<String, Problem> {
        let credentials = &self.inner.credentials;
        let now = self.inner.clock.now();
        let token = credentials.agent_token(agent).ok_or(NO_RANDOMNESS)?;
        let serves = |credential: Credential| credential.kept || !keep;
        if credentials.in_force.check(&token, now).is_some_and(serves) {
            return Ok(token);
        }
        let id = agent_token_id(agent);
        let _lock = credentials.in_force.lock(&id).await;
        if credentials.in_force.check(&token, now).is_some_and(serves) {
            return Ok(token);
        }
        let name = Text::try_from(agent.as_str()).map_err(|_| Problem::NoSuchAgent)?;
        let row = TokenRow {
            id,
            hash: sha256(&token),
            role: Role::Agent,
            agent: Some(agent.clone()),
            name,
            surface: None,
            session: None,
            kept: keep,
            created_at: now,
            expires_at: None,
        };
        let (kept, who, of) = (row.clone(), who.to_owned(), agent.clone());
        let budget = self.inner.write_budget.clone();
        let work = move |tx: &mut Tx| {
            if tx.is_token_revoked(&kept.id)? {
                return Err(Problem::NotAllowed("the token of this agent was revoked"));
            }
            match tx.has_token_or_makes_room(&kept)? {
                false => {
                    // Anything that runs as the same user may have one made for any name.
                    budget.spend(&of, REGISTRATION, now)?;
                    make_token(tx, &kept, &who)?;
                }
                true if keep => tx.keep_token(&kept.id, &who, now)?,
                true => {}
            }
            Ok(())
        };
        self.inner.store.write(work).await?;
        match credentials.in_force.check(&token, now) {
            Some(_) => credentials.in_force.keep(&row.id),
            None => {
                // One that was in force comes from an earlier agent.key.
                credentials.in_force.dismiss(&row.id);
                credentials.in_force.admit([row], |id| self.inner.store.has_token(id));
            }
        }
        Ok(token)
    }

    /// An agent that has ended needs no token, unless a person made it one; should it come back, it is
    /// handed the same one again.
    pub(in crate::hub) async fn forget_agent_token(&self, agent: &AgentId) -> Result<(), Problem> {
        let id = agent_token_id(agent);
        let _lock = self.inner.credentials.in_force.lock(&id).await;
        if !self.inner.credentials.in_force.is_kept(&id) {
            self.inner.credentials.in_force.dismiss(&id);
            let now = self.inner.clock.now();
            self.inner.store.write(move |tx| tx.forget_token(&id, now)).await?;
        }
        Ok(())
    }
}
