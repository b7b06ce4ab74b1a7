//! Makes text from an agent safe to display: characters that a terminal or a browser would interpret or hide are
//! shown as escapes, and nothing is left out.

use std::borrow::Cow;
use std::fmt::Write;

/// Keeps line breaks and tabs; use [`one_line`] to escape those as well.
pub fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && c != '\t' && is_hidden(c))
}

pub fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden)
}

fn escape(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if hidden(c) => out.push_str("\\n"),
            '\t' if hidden(c) => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Writing to a String cannot fail.
            c if hidden(c) => drop(write!(out, "\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// At most this many characters, then `…`. For text that nobody approves by.
pub fn shorten(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Whether the text itself contains something that looks like an escape, so that its visible form is ambiguous.
pub fn looks_escaped(text: &str) -> bool {
    text.contains("\\u{") || text.contains("\\r")
}

/// Escapes hidden characters in a JSON document as `\uXXXX`: the same value, safe to display.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    // Outside strings, only line breaks are hidden characters, and inside strings they are escaped already.
    let hidden = |c: char| c != '\n' && is_hidden(c);
    if !json.contains(hidden) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out += &format!("\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Control characters, characters that reorder or join text, and characters that show nothing.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}'
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page has the same function in TypeScript and is tested with the same file.
    #[test]
    fn the_vectors_shared_with_the_page_hold() {
        let vectors: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("visible/vectors.json")).unwrap();
        for vector in vectors {
            let text = vector["text"].as_str().unwrap();
            assert_eq!(visible(text), vector["visible"].as_str().unwrap());
            assert_eq!(one_line(text), vector["one_line"].as_str().unwrap());
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(visible("rm\u{1b}[2K -rf"), "rm\\u{1b}[2K -rf");
        assert_eq!(visible("a\rb\u{8}c\u{9b}d"), "a\\rb\\u{8}c\\u{9b}d");
    }

    #[test]
    fn what_reorders_or_hides_text_is_shown() {
        assert_eq!(visible("a\u{202e}b\u{2066}c"), "a\\u{202e}b\\u{2066}c");
        assert_eq!(visible("a\u{200b}b\u{feff}c\u{e0041}"), "a\\u{200b}b\\u{feff}c\\u{e0041}");
        assert_eq!(visible("a\u{2028}b"), "a\\u{2028}b");
    }

    #[test]
    fn json_keeps_its_value_and_shows_what_it_hides() {
        let value =
            serde_json::json!({"a\u{9b}": ["\u{202e}x\u{e0041}\r\n\t\u{1b}\u{85}", 1.5], "plain": "é 日本"});
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let shown = visible_json(&json);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
            assert!(!shown.contains(|c: char| c != '\n' && is_hidden(c)), "{shown}");
            assert!(shown.contains("\\u202ex\\udb40\\udc41") && shown.contains("é 日本"), "{shown}");
        }
    }

    #[test]
    fn ordinary_text_of_any_script_is_left_alone() {
        let text = "größer 日本語 ❤️ →\n\tعربى";
        assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        assert_eq!(one_line("a\nb\tc"), "a\\nb\\tc");
    }
}
