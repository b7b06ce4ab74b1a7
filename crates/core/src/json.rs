//! JSON as we accept it from others: no duplicate keys, no number that would be rounded, limited depth. Parsers disagree
//! about duplicate keys, so a document that has one could be approved in one meaning and run in another; and so could
//! one with a number of which we keep fewer digits.

use crate::decimal::is_kept;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::Cell;
use std::fmt;

/// Many parsers, serde_json among them, stop at 128 levels. We pass documents on nested a few levels deeper, and one ask
/// that is too deep must not make a whole list unreadable.
const DEEPEST: usize = 100;

/// Keys that begin like this mean something to the library itself: it reads such an object as another value.
const RESERVED: &str = "$serde_json::private::";

pub fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let floats = Cell::new(false);
    let value = Strict { levels: DEEPEST, floats: &floats }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    // Integers of 64 bits are kept as they are.
    if floats.get()
        && let Some(number) = numbers(bytes).find(|number| !is_kept(number))
    {
        const SHOWN: usize = 60;
        let (begins, more) = number.split_at_checked(SHOWN).map_or((number, ""), |(begins, _)| (begins, "…"));
        return Err(Error::custom(format_args!(
            "the number {begins}{more} cannot be kept to its last digit: send it as a string"
        )));
    }
    Ok(value)
}

/// The numbers of a document, as they are written.
fn numbers(json: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = json;
    std::iter::from_fn(move || {
        loop {
            let (first, after) = rest.split_first()?;
            match first {
                b'"' => rest = after_string(after),
                b'-' | b'0'..=b'9' => {
                    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                    let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                    let (number, after) = rest.split_at_checked(length)?;
                    rest = after;
                    return std::str::from_utf8(number).ok();
                }
                _ => rest = after,
            }
        }
    })
}

/// The text after the quote that ends the string.
fn after_string(mut rest: &[u8]) -> &[u8] {
    loop {
        rest = match rest {
            [b'\\', _, after @ ..] | [b'\\', after @ ..] => after,
            [b'"', after @ ..] => return after,
            [_, after @ ..] => after,
            [] => return rest,
        };
    }
}

/// Deserializes one value with at most this many levels.
#[derive(Clone, Copy)]
struct Strict<'a> {
    levels: usize,
    /// Whether there was a number that is no integer of 64 bits.
    floats: &'a Cell<bool>,
}

impl Strict<'_> {
    fn inside<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1);
        levels
            .map(|levels| Self { levels, ..self })
            .ok_or_else(|| E::custom(format_args!("it is nested more than {DEEPEST} levels deep")))
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.floats.set(true);
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inside)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key.starts_with(RESERVED) {
                return Err(A::Error::custom(format_args!("the key {key:?} is reserved")));
            }
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} is there twice")));
            }
            object.insert(key, map.next_value_seed(inside)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ordinary_json_is_read_as_it_stands() {
        let text = br#"{"b":[1,-2,2.5,true,null],"a":{"c":"x"}}"#;
        assert_eq!(parse(text).unwrap(), json!({"b": [1, -2, 2.5, true, null], "a": {"c": "x"}}));
    }

    #[test]
    fn a_key_twice_is_refused_at_any_depth() {
        let error = parse(br#"{"a":[{"b":1,"b":2}]}"#).unwrap_err().to_string();
        assert!(error.contains(r#"the key "b" is there twice"#), "{error}");
        // An escaped spelling of a key is still the same key.
        assert!(parse(br#"{"a":1,"\u0061":2}"#).is_err());
    }

    #[test]
    fn depth_is_limited_and_does_not_overflow_the_stack() {
        let deep = |depth: usize| parse(format!("{}{}", "[".repeat(depth), "]".repeat(depth)).as_bytes());
        assert!(deep(DEEPEST).is_ok());
        let error = deep(DEEPEST + 1).unwrap_err().to_string();
        assert!(error.contains("more than 100 levels"), "{error}");
        assert!(deep(100_000).is_err());
    }

    #[test]
    fn a_number_that_would_be_rounded_is_refused_wherever_it_stands() {
        for number in [
            "123456789012345678901234567890",
            "-9223372036854775809",
            "18446744073709551616000001",
            "0.10000000000000001",
            "1.00000000000000000001",
            "1e-400",
            "9007199254740993.0",
            "0.1e99999999999999999999",
        ] {
            for document in [
                number.to_owned(),
                format!("[1,{{\"a\\\\\":[{number}]}}]"),
                format!("{{\"1e-400\":{number}}}"),
            ] {
                assert!(parse(document.as_bytes()).is_err(), "{document}");
            }
        }
        for kept in [
            "0",
            "-0",
            "-0.0",
            "0e9",
            "1.0",
            "1.50",
            "1E2",
            "18446744073709551615",
            "100000000000000000000",
            "0.1",
            "5e-324",
        ] {
            assert!(parse(kept.as_bytes()).is_ok(), "{kept}");
        }
        // In a string it is text.
        assert!(parse(br#"["\"1e-400",2.5,"\\"]"#).is_ok());
    }

    #[test]
    fn an_object_that_the_library_would_take_for_another_value_is_refused() {
        for key in ["RawValue", "Number", ""] {
            assert!(parse(format!(r#"{{"a":{{"$serde_json::private::{key}":"1"}}}}"#).as_bytes()).is_err());
        }
        assert!(parse(br#"{"\u0024serde_json::private::RawValue":"1"}"#).is_err());
        assert!(parse(br#"{"a":"$serde_json::private::RawValue"}"#).is_ok());
    }

    #[test]
    fn bytes_after_the_end_are_refused() {
        assert!(parse(b"{} {}").is_err());
    }
}
