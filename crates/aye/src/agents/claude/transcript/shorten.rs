//! Lines that are too long to be held: their long strings are cut as they are read, and what is left is
//! still an object with the same fields.

/// Strings are cut after this many bytes.
const LONGEST_STRING: usize = 4096;

#[derive(Debug, Default)]
pub struct Shortener {
    kept: Vec<u8>,
    place: Position,
    /// The length of the string we are in.
    length: usize,
}

#[derive(Debug, Default, Clone, Copy)]
enum Position {
    #[default]
    Outside,
    Inside,
    /// Within an escape; this many characters of it are still to come.
    Escape(u8),
    /// Past what is kept of a string.
    Cut,
    CutEscape,
}

impl Shortener {
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.place = self.next(*byte);
            if !matches!(self.place, Position::Cut | Position::CutEscape) {
                self.kept.push(*byte);
            }
        }
    }

    /// A cut begins at a character of its own: neither an escape nor a letter is torn.
    fn next(&mut self, byte: u8) -> Position {
        self.length += 1;
        let may_cut = self.length > LONGEST_STRING && !matches!(byte, 0x80..=0xbf);
        match (self.place, byte) {
            (Position::Outside, b'"') => {
                self.length = 0;
                Position::Inside
            }
            (Position::Outside, _) | (Position::Inside | Position::Cut, b'"') => Position::Outside,
            (Position::Inside, b'\\') => Position::Escape(1),
            (Position::Inside, _) if may_cut => Position::Cut,
            (Position::Inside, _) => Position::Inside,
            (Position::Escape(1), b'u') => Position::Escape(4 + 1),
            (Position::Escape(left @ 3..), _) => Position::Escape(left - 1),
            (Position::Escape(_), _) => Position::Inside,
            (Position::Cut, b'\\') => Position::CutEscape,
            (Position::Cut | Position::CutEscape, _) => Position::Cut,
        }
    }

    /// How much is kept; a line of many small strings does not become short.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    pub fn take(self) -> Vec<u8> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn shortened(json: &str, chunk: usize) -> Value {
        let mut shortener = Shortener::default();
        json.as_bytes().chunks(chunk).for_each(|chunk| shortener.push(chunk));
        serde_json::from_slice(&shortener.take()).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_left_is_the_same_object_with_the_beginnings_of_its_strings(
            parts in prop::collection::vec("[a\\\\\"ä日😀\n\u{1}]{0,40}", 1..4), times in 1_usize..800, chunk in 1_usize..99,
        ) {
            let long: Vec<String> = parts.iter().map(|part| part.repeat(times)).collect();
            let whole = json!({"type": "user", "long": long, "after": [1, true, {"tool_use_id": "toolu_1"}]});
            let escaped = whole.to_string();
            let ascii: String = escaped.chars().map(|c| match c.is_ascii() {
                true => c.to_string(),
                false => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
            }).collect();
            for json in [escaped, ascii] {
                let left = shortened(&json, chunk);
                prop_assert_eq!(&left["after"], &whole["after"]);
                for (left, whole) in left["long"].as_array().unwrap().iter().zip(&long) {
                    prop_assert!(whole.starts_with(left.as_str().unwrap()));
                }
            }
        }
    }

    #[test]
    fn a_long_string_is_not_kept() {
        let json = json!({"image": "x".repeat(1_000_000), "text": "日".repeat(100_000)}).to_string();
        let mut shortener = Shortener::default();
        shortener.push(json.as_bytes());
        assert!(shortener.kept() < 3 * LONGEST_STRING);
    }
}
