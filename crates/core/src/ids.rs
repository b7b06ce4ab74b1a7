//! Names and texts that are valid by construction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! checked_string {
    ($(#[$doc:meta])* $name:ident, $accepts:expr, $problem:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = &'static str;

            fn try_from(value: String) -> Result<Self, Self::Error> {
                let accepts: fn(&str) -> bool = $accepts;
                if accepts(&value) { Ok(Self(value)) } else { Err($problem) }
            }
        }

        impl TryFrom<&str> for $name {
            type Error = &'static str;

            fn try_from(value: &str) -> Result<Self, Self::Error> {
                Self::try_from(value.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn is_name(value: &str, longest: usize) -> bool {
    (1..=longest).contains(&value.len())
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}

fn is_key(value: &str, longest: usize) -> bool {
    (1..=longest).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic())
}

checked_string! {
    /// The id of an ask. Short, because people type it; random, so that an old id never means a new ask.
    AskId, |v| is_name(v, 64), "must be 1 to 64 letters, digits or ._:-"
}

checked_string! {
    /// The id of one running agent session.
    AgentId, |v| is_name(v, 128), "must be 1 to 128 letters, digits or ._:-"
}

checked_string! {
    /// What an agent is, `claude` for one; rules may be for one kind.
    AgentKind, |v| !v.trim().is_empty() && v.len() <= 128, "must be 1 to 128 bytes, and not blank"
}

checked_string! {
    /// The adapter's own name for an ask, unique within an agent.
    Key, |v| is_key(v, 256), "must be 1 to 256 visible ASCII characters"
}

checked_string! {
    /// The sender's idempotency key for an answer: sending it twice has the same effect as sending it once.
    AnswerKey, |v| is_key(v, 128), "must be 1 to 128 visible ASCII characters"
}

checked_string! {
    /// Text that a person wrote: never blank, kept exactly as written.
    Text, |v| !v.trim().is_empty(), "must not be empty"
}

impl Text {
    /// Text of our own; a blank one becomes a dash.
    pub fn from_displayed(value: &impl fmt::Display) -> Self {
        Self::try_from(value.to_string()).unwrap_or_else(|_| Self("-".to_owned()))
    }
}

impl Key {
    /// A key made of other names; characters that a key may not contain become dashes.
    pub fn from_displayed(value: &impl fmt::Display) -> Self {
        let name = value.to_string();
        let name: String =
            name.chars().take(256).map(|c| if c.is_ascii_graphic() { c } else { '-' }).collect();
        Self::try_from(name).unwrap_or_else(|_| Self("-".to_owned()))
    }
}

/// Crockford's alphabet, without letters that are easily confused.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl AskId {
    /// Ten characters from fifty random bits, which the caller provides.
    pub fn from_random(bits: u64) -> Self {
        let letters = (0..10).map(|i| {
            let index = (bits >> (5 * i)) as usize % ALPHABET.len();
            char::from(ALPHABET[index])
        });
        Self(letters.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        assert!(AgentId::try_from("claude-7f_3.a:1").is_ok());
        for bad in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(129)] {
            assert!(AgentId::try_from(bad).is_err(), "{bad:?}");
        }
        assert!(Key::try_from("session/toolu_1").is_ok());
        for bad in ["", "a b", "ä", "a\n", &"x".repeat(257)] {
            assert!(Key::try_from(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn text_is_never_blank_and_never_trimmed() {
        assert!(Text::try_from(" \n\t").is_err());
        assert_eq!(Text::try_from(" x ").unwrap().as_str(), " x ");
    }

    #[test]
    fn ids_use_every_bit_they_are_given() {
        assert_eq!(AskId::from_random(0).as_str(), "0000000000");
        assert_eq!(AskId::from_random(u64::MAX).as_str(), "zzzzzzzzzz");
        assert_eq!(AskId::from_random(1 << 45).as_str(), "0000000001");
    }
}
