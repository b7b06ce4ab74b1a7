//! Who may speak with the hub: tokens, sign-in links and passkeys, as they are made and listed.

use crate::webauthn::Assertion;
use aye_core::{AgentId, Digest, Role, Surface, Text};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    pub status: String,
    pub version: String,
}

/// Who the token in use belongs to.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Me {
    pub role: Role,
    pub agent: Option<AgentId>,
    pub name: Text,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    pub token: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    pub role: Role,
    /// The agent that an agent's token belongs to.
    pub agent: Option<AgentId>,
    /// Whose it is; the name recorded with answers.
    pub name: Option<Text>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TokenList {
    pub tokens: Vec<ListedToken>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListedToken {
    #[serde(flatten)]
    pub info: CredentialInfo,
    /// What a person called the browser that it belongs to.
    pub label: Option<String>,
    /// Whether it is the one in use.
    pub yours: bool,
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialInfo {
    pub id: String,
    pub role: Role,
    pub agent: Option<AgentId>,
    pub name: Text,
    pub surface: Option<Surface>,
    pub created_at: Timestamp,
    /// When it ends by itself, as a browser's session does.
    pub expires_at: Option<Timestamp>,
    pub revoked: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    pub url: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Passkeys {
    pub passkeys: Vec<PasskeyInfo>,
    /// Whether the policy wants one for anything.
    pub needed: bool,
    /// Whether this session came by the link of `aye passkey add`, and there is none yet.
    pub may_add_first: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PasskeyInfo {
    pub id: String,
    pub name: Text,
    /// The host of the page where it can be used.
    pub rp: String,
    pub created_at: Timestamp,
    pub used_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemovePasskey {
    /// By a passkey that is there, this one or another.
    pub assertion: Option<Assertion>,
}

/// What a person decides about the plan that was refused for an outline.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovePlan {
    pub decision: PlanApproval,
    /// Of the refused plan, as the agent's `outline` shows it.
    pub digest: Digest,
    /// By a passkey, for exactly this approval.
    pub assertion: Option<Assertion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanApproval {
    Allow,
    Deny,
}
