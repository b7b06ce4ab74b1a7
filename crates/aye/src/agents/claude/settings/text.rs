//! A settings file as text: its hooks are replaced, and every other byte stays.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;

/// The fields of an object, in order and as they are written.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// The position of a piece of a text.
fn span(text: &str, piece: &str) -> (usize, usize) {
    let start = piece.as_ptr().addr() - text.as_ptr().addr();
    (start, start + piece.len())
}

#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("has hooks twice")]
    Twice,
    #[error("has hooks that are not an object")]
    NoObject,
}

fn parse(text: &str) -> Result<Fields<'_>, Unusable> {
    let fields: Fields = serde_json::from_str(text)?;
    match fields.0.iter().filter(|(key, _)| key == "hooks").count() {
        0 | 1 => Ok(fields),
        _ => Err(Unusable::Twice),
    }
}

/// The hooks in this text; none is an empty object.
pub fn hooks(text: &str) -> Result<Map<String, Value>, Unusable> {
    let fields = parse(text)?;
    match fields.0.iter().find(|(key, _)| key == "hooks") {
        None => Ok(Map::new()),
        Some((_, raw)) => match serde_json::from_str(raw.get())? {
            Value::Object(hooks) => Ok(hooks),
            _ => Err(Unusable::NoObject),
        },
    }
}

/// Whether the person switched all hooks off.
pub fn are_off(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|settings| settings["disableAllHooks"] == true)
}

/// The hooks in this text as they are written.
pub fn written_hooks(text: &str) -> Result<Option<&str>, Unusable> {
    Ok(parse(text)?.0.into_iter().find(|(key, _)| key == "hooks").map(|(_, raw)| raw.get()))
}

/// The same text with other hooks; with none, without the key.
pub fn with_hooks(text: &str, hooks: &Map<String, Value>) -> Result<String, Unusable> {
    let written = in_place(hooks, indentation(text))?;
    with_written(text, (!hooks.is_empty()).then_some(&written))
}

/// The same with hooks that are put in as they are written here.
pub fn with_written(text: &str, written: Option<&str>) -> Result<String, Unusable> {
    let fields = parse(text)?.0;
    let indent = indentation(text);
    let at = fields.iter().position(|(key, _)| key == "hooks");
    let ends: Vec<_> = fields.iter().map(|(_, raw)| span(text, raw.get())).collect();
    Ok(match (at, written) {
        (None, None) => text.to_owned(),
        (Some(at), Some(written)) => replaced(text, ends[at], written),
        (None, Some(written)) => match ends.last() {
            Some((_, end)) => replaced(text, (*end, *end), &format!(",\n{indent}\"hooks\": {written}")),
            None => {
                let (open, close) = braces(text);
                replaced(text, (open, close + 1), &format!("{{\n{indent}\"hooks\": {written}\n}}"))
            }
        },
        (Some(0), None) if fields.len() == 1 => {
            let (open, close) = braces(text);
            replaced(text, (open, close + 1), "{}")
        }
        (Some(0), None) => {
            let first = after_blanks(text, braces(text).0 + 1);
            // Between two values are a comma and the next key.
            let next = after_blanks(text, after_blanks(text, ends[0].1) + 1);
            replaced(text, (first, next), "")
        }
        (Some(at), None) => replaced(text, (ends[at - 1].1, ends[at].1), ""),
    })
}

fn replaced(text: &str, (start, end): (usize, usize), by: &str) -> String {
    format!("{}{by}{}", &text[..start], &text[end..])
}

fn braces(text: &str) -> (usize, usize) {
    (text.find('{').unwrap_or(0), text.rfind('}').unwrap_or(0))
}

fn after_blanks(text: &str, from: usize) -> usize {
    from + text[from..].find(|c: char| !c.is_ascii_whitespace()).unwrap_or(0)
}

/// What the file's own first line is indented by.
fn indentation(text: &str) -> &str {
    let line = text.lines().find(|line| line.starts_with([' ', '\t']) && line.trim_start().starts_with('"'));
    line.map_or("  ", |line| &line[..line.len() - line.trim_start().len()])
}

/// The hooks as they are one level deep.
fn in_place(hooks: &Map<String, Value>, indent: &str) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    let mut serializer =
        Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(indent.as_bytes()));
    serde::Serialize::serialize(hooks, &mut serializer)?;
    // JSON strings have no line breaks of their own.
    Ok(String::from_utf8_lossy(&bytes).replace('\n', &format!("\n{indent}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn some() -> Map<String, Value> {
        json!({"Stop": [1]}).as_object().unwrap().clone()
    }

    /// With hooks added, and with them taken out again.
    fn there_and_back(text: &str) -> (String, String) {
        let with = with_hooks(text, &some()).unwrap();
        assert_eq!(hooks(&with).unwrap(), some(), "{with}");
        let without = with_hooks(&with, &Map::new()).unwrap();
        assert!(hooks(&without).unwrap().is_empty(), "{without}");
        (with, without)
    }

    #[test]
    fn every_other_byte_stays() {
        let text =
            "{\n\t\"big\": 123456789012345678901234567890,\n\t\"model\" :  \"x\\u00e4\",  \"e\": 1e5\n}\n";
        let (with, without) = there_and_back(text);
        assert_eq!(without, text);
        let expected = "{\n\t\"big\": 123456789012345678901234567890,\n\t\"model\" :  \"x\\u00e4\",  \"e\": 1e5,\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t1\n\t\t]\n\t}\n}\n";
        assert_eq!(with, expected);
    }

    #[test]
    fn hooks_anywhere_in_the_file_are_found_and_taken_out() {
        for (text, without) in [
            ("{}", "{}"),
            (" { \n } \n", " {} \n"),
            ("{\"hooks\":{}}", "{}"),
            ("{\"hooks\":{},\"a\":1}", "{\"a\":1}"),
            ("{ \"hooks\" : {} , \"a\":1}", "{ \"a\":1}"),
            ("{\"a\":\"}\",\"hooks\":{},\"b\":2}", "{\"a\":\"}\",\"b\":2}"),
            ("{\"a\":1,\n\"hooks\":{}}", "{\"a\":1}"),
            ("{\"a\":{\"hooks\":3}}", "{\"a\":{\"hooks\":3}}"),
        ] {
            assert_eq!(there_and_back(text).1, without, "{text}");
        }
    }

    #[test]
    fn what_is_no_object_or_not_clear_is_refused() {
        for text in
            ["", "[]", "null", "{", "{} {}", "{\"a\":1,}", "// x\n{}", "{\"hooks\":[]}", "{\"hooks\":null}"]
        {
            assert!(hooks(text).is_err(), "{text}");
        }
        assert!(matches!(hooks("{\"hooks\":{},\"hooks\":{}}"), Err(Unusable::Twice)));
    }
}
