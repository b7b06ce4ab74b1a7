//! What a token is made of: a public id, and randomness of which only the hash is kept.

use crate::random::random_hex;
use crate::store::TokenRow;
use aye_core::{Role, Surface, Text};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

pub fn sha256(text: &str) -> Vec<u8> {
    Sha256::digest(text.as_bytes()).to_vec()
}

pub fn random_token(
    role: Role,
    name: Text,
    surface: Option<Surface>,
    now: Timestamp,
) -> Result<(String, TokenRow), getrandom::Error> {
    token_with_id(random_hex::<6>()?, role, name, surface, now)
}

pub fn token_with_id(
    id: String,
    role: Role,
    name: Text,
    surface: Option<Surface>,
    now: Timestamp,
) -> Result<(String, TokenRow), getrandom::Error> {
    let token = format!("aye_{id}_{}", random_hex::<32>()?);
    let hash = sha256(&token);
    let row = TokenRow {
        id,
        hash,
        role,
        agent: None,
        name,
        surface,
        session: None,
        kept: true,
        created_at: now,
        expires_at: None,
    };
    Ok((token, row))
}
