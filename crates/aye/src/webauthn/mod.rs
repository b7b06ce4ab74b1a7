//! Passkeys (WebAuthn), without a hub: what is signed, and whether a signature is good. The hub asks when an answer
//! arrives, and `aye verify` asks again of what is in the trail.

mod data;
mod encoded;
mod key;
mod pages;
#[cfg(test)]
mod tests;

pub use encoded::Encoded;
pub use pages::{Pages, Site};

use aye_core::digest::canonical;
use data::AuthenticatorData;
use key::PublicKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Keeps our challenges apart from whatever else is ever signed by the same passkey.
const DOMAIN: &str = "aye passkey 1";

/// What a signature is for: one made for one purpose is good for no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Making a new passkey; nothing is signed by it yet.
    Register,
    Allow,
    ApprovePlan,
    StartRun,
    AddPasskey,
    RemovePasskey,
}

/// What a person signs: for this purpose, this once, exactly this.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    pub purpose: Purpose,
    pub nonce: &'a str,
    pub subject: &'a Value,
}

impl Statement<'_> {
    pub fn challenge(&self) -> Encoded {
        let Self { purpose, nonce, subject } = self;
        let stated = json!({ "domain": DOMAIN, "purpose": purpose, "nonce": nonce, "subject": subject });
        Encoded(Sha256::digest(canonical(&stated).as_bytes()).to_vec())
    }
}

/// A signature by a passkey, as the browser gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Assertion {
    /// Of the challenge that was signed.
    pub nonce: String,
    pub credential: Encoded,
    pub authenticator_data: Encoded,
    pub client_data: Encoded,
    pub signature: Encoded,
}

/// A new passkey, as the browser gives it. Nothing vouches for it but whoever may add one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PasskeyRegistration {
    pub nonce: String,
    pub authenticator_data: Encoded,
    pub client_data: Encoded,
}

/// What is kept of a new passkey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    pub credential: Encoded,
    /// A COSE key.
    pub key: Encoded,
    pub rp: String,
    pub counter: u32,
}

/// Why something does not count as proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    #[error("what the passkey sent cannot be read: {0}")]
    Unreadable(&'static str),
    #[error("the passkey signed something else than this")]
    OtherChallenge,
    #[error("the passkey was used on another page than this hub's")]
    OtherOrigin,
    #[error("the passkey was used for another site")]
    OtherSite,
    #[error("the passkey did not verify who used it: a fingerprint, a face or a PIN is needed")]
    NotVerified,
    #[error("the signature is not by that passkey")]
    OtherKey,
    #[error("this kind of key is not supported: it must be ES256, EdDSA or RS256")]
    Unsupported,
    #[error("the passkey's public key is invalid or too weak")]
    WeakKey,
    #[error("the passkey is not registered here, or was removed")]
    UnknownPasskey,
    #[error("the challenge was used already, or is too old")]
    Stale,
}

/// The fields of `clientDataJSON` that count.
#[derive(Deserialize)]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: Encoded,
    origin: String,
    #[serde(default, rename = "crossOrigin")]
    cross_origin: bool,
    /// The page around it, where there is one.
    #[serde(default, rename = "topOrigin")]
    top_origin: Option<Value>,
}

impl ClientData {
    fn read(bytes: &Encoded, kind: &str, statement: Statement) -> Result<Self, Unproven> {
        let unreadable = |_| Unproven::Unreadable("the client data");
        let value = aye_core::json::parse(&bytes.0).map_err(unreadable)?;
        let data: Self =
            serde_json::from_value(value).map_err(|_| Unproven::Unreadable("the client data"))?;
        if data.kind != kind || data.challenge != statement.challenge() {
            return Err(Unproven::OtherChallenge);
        }
        // In a frame of another page, a person does not see what they sign for.
        match data.cross_origin || data.top_origin.is_some() {
            true => Err(Unproven::OtherOrigin),
            false => Ok(data),
        }
    }
}

/// Whether a passkey signed this statement, on a page that is ours, after it verified the person. Gives the counter
/// of its signatures.
pub fn check_assertion(
    assertion: &Assertion,
    statement: Statement,
    (key, rp): (&Encoded, &str),
    is_ours: impl Fn(&Site) -> bool,
) -> Result<u32, Unproven> {
    let client = ClientData::read(&assertion.client_data, "webauthn.get", statement)?;
    if !is_ours(&Site { origin: client.origin, rp: rp.to_owned() }) {
        return Err(Unproven::OtherOrigin);
    }
    let data = AuthenticatorData::read(&assertion.authenticator_data.0)?;
    data.check(rp)?;
    if data.credential.is_some() {
        return Err(Unproven::Unreadable("there is a new key in it"));
    }
    let mut signed = assertion.authenticator_data.0.clone();
    signed.extend(Sha256::digest(&assertion.client_data.0));
    PublicKey::read(&key.0)?.verify(&signed, &assertion.signature.0)?;
    Ok(data.counter)
}

pub fn check_registration(
    registration: &PasskeyRegistration,
    statement: Statement,
    pages: &Pages,
) -> Result<Registered, Unproven> {
    let client = ClientData::read(&registration.client_data, "webauthn.create", statement)?;
    let site = pages.site(&client.origin).ok_or(Unproven::OtherOrigin)?;
    let data = AuthenticatorData::read(&registration.authenticator_data.0)?;
    data.check(&site.rp)?;
    let (credential, key) = data.credential.ok_or(Unproven::Unreadable("there is no new key in it"))?;
    PublicKey::read(key)?;
    Ok(Registered {
        credential: Encoded(credential.to_vec()),
        key: Encoded(key.to_vec()),
        rp: site.rp.clone(),
        counter: data.counter,
    })
}
