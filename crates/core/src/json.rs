//! JSON as we accept it from others: no duplicate keys, limited depth. Parsers disagree about duplicate keys, so a
//! document that has one could be approved in one meaning and run in another.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Many parsers, serde_json among them, stop at 128 levels. We pass documents on nested a few levels deeper, and one ask
/// that is too deep must not make a whole list unreadable.
const DEEPEST: usize = 100;

pub fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { levels: DEEPEST }.deserialize(&mut deserializer)?;
    deserializer.end().map(|()| value)
}

/// Deserializes one value with at most this many levels.
#[derive(Clone, Copy)]
struct Strict {
    levels: usize,
}

impl Strict {
    fn inside<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1);
        levels
            .map(|levels| Self { levels })
            .ok_or_else(|| E::custom(format_args!("it is nested more than {DEEPEST} levels deep")))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
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
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} stands twice")));
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
        assert!(error.contains(r#"the key "b" stands twice"#), "{error}");
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
    fn bytes_after_the_end_are_refused() {
        assert!(parse(b"{} {}").is_err());
    }
}
