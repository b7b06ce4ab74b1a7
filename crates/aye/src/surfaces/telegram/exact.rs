//! Text written so that Telegram shows every character of it. Telegram deletes some characters, turns others into
//! blanks and trims ends; whatever it would change, and whatever nobody could see, is written as a sign or an escape.
//! No two texts are written alike: signs and escapes that are in the text itself are escaped.

use aye_core::visible::is_hidden;

const TAB: char = '⇥';
const BLANK: char = '␠';
const BREAK: char = '⏎';
const RETURN: char = '␍';
const NOTHING: char = '∅';
/// What each sign stands for, in words.
const SIGNS: [(char, &str); 5] = [
    (TAB, "a tab"),
    (BLANK, "a space"),
    (BREAK, "a line break"),
    (RETURN, "a carriage return"),
    (NOTHING, "nothing"),
];

/// Code on several lines. Blanks at the ends of lines, and everything at its own ends, are shown.
pub fn block(text: &str) -> String {
    code(text, true)
}

/// Code on one line.
pub fn line(text: &str) -> String {
    code(text, false)
}

/// Text for reading: line breaks and blanks stay as they are, and so do joiners that letters and emoji need.
pub fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        match c {
            '\n' => out.push(c),
            '\u{200c}' | '\u{200d}' if joins(before, rest.chars().next()) => out.push(c),
            c => write(c, rest, &mut out),
        }
        before = Some(c);
    }
    out
}

/// The same on one line.
pub fn words(text: &str) -> String {
    prose(text).replace('\n', &BREAK.to_string())
}

/// The signs in a text that was written here, explained.
pub fn legend(written: &str) -> Option<String> {
    let used = SIGNS.iter().filter(|(sign, _)| written.contains(*sign));
    let words: Vec<_> = used.map(|(sign, words)| format!("{sign} is {words}")).collect();
    (!words.is_empty()).then(|| words.join(" · "))
}

fn code(text: &str, keeps_lines: bool) -> String {
    if text.is_empty() {
        return NOTHING.to_string();
    }
    let is_edge = |c: char| matches!(c, ' ' | '\n');
    let inner = text.trim_matches(is_edge);
    // Only blanks: all of it is edge.
    let start =
        if inner.is_empty() { text.len() } else { text.len() - text.trim_start_matches(is_edge).len() };
    let end = start + inner.len();
    let mut out = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        let is_inside = (start..end).contains(&at);
        match c {
            ' ' if is_inside && ends_no_line(rest) => out.push(c),
            ' ' => out.push(BLANK),
            '\n' if is_inside && keeps_lines => out.push(c),
            '\n' => out.push(BREAK),
            // Other blanks look like this one and are not.
            c if c.is_whitespace() && !matches!(c, '\t' | '\r') => escape(c, &mut out),
            c => write(c, rest, &mut out),
        }
    }
    out
}

fn ends_no_line(rest: &str) -> bool {
    rest.trim_start_matches(' ').chars().next().is_some_and(|c| c != '\n')
}

fn write(c: char, rest: &str, out: &mut String) {
    match c {
        '\t' => out.push(TAB),
        '\r' => out.push(RETURN),
        // It would read as one of our escapes.
        '\\' if rest.starts_with("u{") => escape(c, out),
        c if is_changed(c) || is_hidden(c) || SIGNS.iter().any(|(sign, _)| *sign == c) => escape(c, out),
        c => out.push(c),
    }
}

/// What Telegram deletes from a text and `is_hidden` does not name: rings and double lines over and under letters.
fn is_changed(c: char) -> bool {
    matches!(c, '\u{30a}' | '\u{333}' | '\u{33f}')
}

fn escape(c: char, out: &mut String) {
    out.extend(c.escape_unicode());
}

/// Between emoji a joiner makes one of two; between letters of some scripts it is spelling. Elsewhere it hides.
fn joins(before: Option<char>, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    let emoji = |c: char| {
        matches!(c, '\u{2600}'..='\u{27bf}' | '\u{2190}'..='\u{21ff}' | '\u{2b00}'..='\u{2bff}' | '\u{fe0f}'
            | '\u{1f000}'..='\u{1faff}')
    };
    let joined_script = |c: char| {
        c.is_alphabetic()
            && matches!(c, '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{1780}'..='\u{18aa}')
            || matches!(
                c,
                '\u{94d}' | '\u{9cd}' | '\u{acd}' | '\u{b4d}' | '\u{c4d}' | '\u{ccd}' | '\u{d4d}' | '\u{dca}'
            )
    };
    (emoji(before) && emoji(after)) || (joined_script(before) && joined_script(after))
}

/// What was written here, read back.
#[cfg(test)]
pub fn read(written: &str) -> String {
    let mut out = String::new();
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        if let Some(escaped) = rest.strip_prefix("\\u{")
            && let Some((code, after)) = escaped.split_once('}')
            && let Some(c) = u32::from_str_radix(code, 16).ok().and_then(char::from_u32)
        {
            out.push(c);
            rest = after;
            continue;
        }
        if c != NOTHING {
            out.push(match c {
                TAB => '\t',
                BLANK => ' ',
                BREAK => '\n',
                RETURN => '\r',
                c => c,
            });
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_telegram_would_change_is_shown() {
        assert_eq!(line("https://a\u{30a}cme.example"), "https://a\\u{30a}cme.example");
        assert_eq!(block("-\tx\n+ x"), "-⇥x\n+ x");
        assert_eq!(block("a \nb\r\nc\u{a0}d\u{2028}"), "a␠\nb␍\nc\\u{a0}d\\u{2028}");
        assert_eq!(block("\n  a\n\n"), "⏎␠␠a⏎⏎");
        assert_eq!((block(" "), line("a\nb"), line("")), ("␠".into(), "a⏎b".into(), "∅".into()));
    }

    #[test]
    fn what_looks_like_an_escape_is_escaped_and_nothing_else_is() {
        assert_eq!(block("printf '\\t\\n' ⇥ '\\u{9}'"), "printf '\\t\\n' \\u{21e5} '\\u{5c}u{9}'");
        let text = "größer 日本語 ❤️ →\n  عربى \\";
        assert_eq!(block(text), text);
    }

    #[test]
    fn joiners_stay_in_prose_where_people_write_them() {
        assert_eq!(
            prose("👩\u{200d}💻 می\u{200c}خواهم \n a\u{200d}b"),
            "👩\u{200d}💻 می\u{200c}خواهم \n a\\u{200d}b"
        );
        assert_eq!(prose("a\tb\u{333}"), "a⇥b\\u{333}");
    }

    #[test]
    fn only_signs_that_are_there_are_explained() {
        assert_eq!(legend("a⇥b⏎"), Some("⇥ is a tab · ⏎ is a line break".into()));
        assert_eq!(legend("ab"), None);
    }
}
