//! What allowing something takes beside the word of somebody who may answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ordered: the stricter is the greater.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    #[default]
    None,
    /// A signature by a registered passkey, made for this very answer after the person was verified.
    Passkey,
}

impl Proof {
    pub fn is_none(&self) -> bool {
        *self == Proof::None
    }
}
