use data_encoding::BASE64URL_NOPAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes that are written in base64url without padding, as WebAuthn writes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Encoded(pub Vec<u8>);

impl TryFrom<String> for Encoded {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        BASE64URL_NOPAD.decode(text.as_bytes()).map(Self).map_err(|_| "must be in base64url, without padding")
    }
}

impl From<Encoded> for String {
    fn from(bytes: Encoded) -> Self {
        BASE64URL_NOPAD.encode(&bytes.0)
    }
}

impl fmt::Display for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&BASE64URL_NOPAD.encode(&self.0))
    }
}
