//! Text of which there is a longest. Whatever an agent sends is kept, and sent to every surface.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::borrow::Cow;
use std::ops::Deref;

/// A folder.
pub type FolderText = Bounded<4096>;
/// A name or a short sentence.
pub type ShortText = Bounded<1024>;
/// What a receipt was concluded from.
pub type Evidence = Bounded<4096>;

/// Text of at most `MOST` bytes. Longer text is refused when it is read; an adapter that writes cuts it with `from`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Bounded<const MOST: usize>(String);

impl<const MOST: usize> Deref for Bounded<MOST> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MOST: usize> From<String> for Bounded<MOST> {
    fn from(mut text: String) -> Self {
        text.truncate(text.floor_char_boundary(MOST));
        Self(text)
    }
}

impl<const MOST: usize> From<&str> for Bounded<MOST> {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl<const MOST: usize> From<Bounded<MOST>> for String {
    fn from(text: Bounded<MOST>) -> Self {
        text.0
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for Bounded<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.len() {
            length if length <= MOST => Ok(Self(text)),
            length => Err(de::Error::custom(format!("may have at most {MOST} bytes, and has {length}"))),
        }
    }
}

impl<const MOST: usize> JsonSchema for Bounded<MOST> {
    fn schema_name() -> Cow<'static, str> {
        format!("TextOf{MOST}Bytes").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MOST })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_that_is_too_long_is_refused_when_it_is_read_and_cut_when_it_is_written() {
        let read = |text: &str| serde_json::from_value::<Bounded<4>>(json!(text));
        assert_eq!(&*read("four").unwrap(), "four");
        assert_eq!(read("fünf").unwrap_err().to_string(), "may have at most 4 bytes, and has 5");
        assert_eq!(&*Bounded::<4>::from("fünf"), "fün");
        assert_eq!(&*Bounded::<2>::from("fünf"), "f");
    }
}
