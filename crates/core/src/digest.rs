//! What an approval is bound to: a digest of exactly what was shown.

use crate::body::Body;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write};

/// `sha256:` and the SHA-256 of `{"body":…,"cwd":…,"kind":…}` in canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    pub fn of(cwd: &str, body: &Body) -> Self {
        let mut shown = String::from("{\"body\":");
        body.write_canonical(&mut shown);
        shown.push_str(",\"cwd\":");
        write_string(cwd, &mut shown);
        shown.push_str(",\"kind\":");
        write_string(body.kind().as_str(), &mut shown);
        shown.push('}');
        Self(format!("sha256:{}", sha256_hex(shown.as_bytes())))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Digest {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble & 15)]);
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(*byte));
    }
    text
}

/// Canonical JSON (RFC 8785), except that integers beyond 2^53 are written in full: two commands that differ only in a
/// long id must not share a digest.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

pub(crate) fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => {
                out.push_str(ryu_js::Buffer::new().format(float));
            }
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => write_string(text, out),
        Value::Array(items) => write_array(items, out, write_canonical),
        Value::Object(fields) => write_object(fields, out),
    }
}

pub(crate) fn write_array<T>(items: &[T], out: &mut String, write: impl Fn(&T, &mut String)) {
    out.push('[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

pub(crate) fn write_object(fields: &Map<String, Value>, out: &mut String) {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_unstable_by(|(a, _), (b, _)| match a.is_ascii() && b.is_ascii() {
        true => a.cmp(b),
        false => a.encode_utf16().cmp(b.encode_utf16()),
    });
    out.push('{');
    for (i, (key, item)) in sorted.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_string(key, out);
        out.push(':');
        write_canonical(item, out);
    }
    out.push('}');
}

/// A text as canonical JSON.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        // Only ASCII is escaped, so this cuts no character in two.
        let (plain, escaped) = rest.split_at(at);
        out.push_str(plain);
        let mut characters = escaped.chars();
        match characters.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\t') => out.push_str("\\t"),
            Some('\n') => out.push_str("\\n"),
            Some('\u{c}') => out.push_str("\\f"),
            Some('\r') => out.push_str("\\r"),
            // Writing to a String cannot fail.
            Some(c) => drop(write!(out, "\\u{:04x}", u32::from(c))),
            None => {}
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(canonical(&value), expected);
    }

    #[test]
    fn keys_are_sorted_by_utf16_and_whitespace_is_dropped() {
        check(r#"{ "b": 1, "a": { "d": [], "c": null } }"#, r#"{"a":{"c":null,"d":[]},"b":1}"#);
        // RFC 8785 sorts by UTF-16 code units: by code point, U+FB33 would come before the emoji.
        check(r#"{"\ufb33":1,"😀":2}"#, "{\"😀\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        check("[1E30,4.50,2e-3,0.000000000000000000000000001,-0.0,1.0]", "[1e+30,4.5,0.002,1e-27,0,1]");
    }

    #[test]
    fn long_integers_keep_every_digit() {
        check("[9007199254740993,18446744073709551615]", "[9007199254740993,18446744073709551615]");
    }

    #[test]
    fn strings_are_escaped_as_little_as_possible() {
        check(r#""\u20ac$\u000F\nA'\u0042\"\\\/\u007f""#, "\"€$\\u000f\\nA'B\\\"\\\\/\u{7f}\"");
    }
}
