//! What allowing something requires in addition to an operator's credential.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ordered from lax to strict, so that `max` picks the stricter one.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    #[default]
    None,
    /// A signature by a registered passkey over exactly this answer, with user verification.
    Passkey,
}

impl Proof {
    pub fn is_none(&self) -> bool {
        *self == Proof::None
    }
}
