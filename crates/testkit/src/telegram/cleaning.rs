//! What Telegram changes in a text before anybody sees it.
//!
//! Source: tdlib, which the Bot API server is built on: `clean_input_string` and `replace_offending_characters` in
//! `td/telegram/misc.cpp`; `clean_input_string_with_entities`, `remove_invalid_entities`, `fix_formatted_text` and
//! `get_input_message_entities` in `td/telegram/MessageEntity.cpp`; its own examples in `test/string_cleaning.cpp`.

use super::html::{Entity, Marked};

/// Of entities that cannot be split (code, blocks, links) the server keeps this many; the rest lose their markup.
const MOST_WHOLE_ENTITIES: usize = 100;
const WHOLE: [&str; 4] = ["code", "pre", "a", "blockquote"];

/// What people see of a text: cleaned, and without blanks and line breaks at its ends.
pub fn displayed(marked: Marked) -> Marked {
    trimmed(cleaned(marked))
}

/// As a button's label and other texts without markup are cleaned.
pub fn clean(text: &str) -> String {
    let marked = Marked { text: text.chars().collect(), entities: vec![] };
    cleaned(marked).text.into_iter().collect()
}

fn cleaned(marked: Marked) -> Marked {
    let mut text = Vec::with_capacity(marked.text.len());
    // Where each character is afterwards.
    let mut moved = Vec::with_capacity(marked.text.len() + 1);
    for c in &marked.text {
        moved.push(text.len());
        text.extend(kept(*c));
    }
    moved.push(text.len());
    replace_marks(&mut text);
    let entities = marked.entities.into_iter();
    let entities =
        entities.map(|entity| Entity { start: moved[entity.start], end: moved[entity.end], ..entity });
    Marked { text, entities: entities.collect() }
}

fn kept(c: char) -> Option<char> {
    match c {
        '\n' => Some(c),
        '\r' | '\u{2028}'..='\u{202e}' | '\u{333}' | '\u{33f}' | '\u{30a}' => None,
        '\0'..='\u{1f}' => Some(' '),
        c => Some(c),
    }
}

/// Of several direction marks in a row, only the last stays one.
fn replace_marks(text: &mut [char]) {
    let is_mark = |c: char| matches!(c, '\u{200e}' | '\u{200f}');
    for at in 0..text.len().saturating_sub(1) {
        if is_mark(text[at]) && is_mark(text[at + 1]) {
            text[at] = '\u{200c}';
        }
    }
}

fn is_blank(c: &char) -> bool {
    matches!(c, ' ' | '\n')
}

fn trimmed(marked: Marked) -> Marked {
    let Marked { text, entities } = marked;
    let end = text.iter().rposition(|c| !is_blank(c)).map_or(0, |at| at + 1);
    let mut entities: Vec<_> = entities.into_iter().filter_map(|entity| shrunk(&text, entity, end)).collect();
    let first = entities.iter().map(|entity| entity.start).min().unwrap_or(end);
    let start = text[..first].iter().position(|c| !is_blank(c)).unwrap_or(first);
    for entity in &mut entities {
        entity.start -= start;
        entity.end -= start;
    }
    let mut entities = joined(entities);
    let mut whole = 0;
    entities.retain(|entity| {
        whole += usize::from(WHOLE.contains(&entity.kind));
        !WHOLE.contains(&entity.kind) || whole <= MOST_WHOLE_ENTITIES
    });
    Marked { text: text[start..end].to_vec(), entities }
}

/// Stretches of the same kind side by side are one, unless they cannot be split (`fix_entities`).
fn joined(entities: Vec<Entity>) -> Vec<Entity> {
    let mut out: Vec<Entity> = Vec::with_capacity(entities.len());
    for entity in entities {
        match out.iter_mut().rev().find(|last| last.kind == entity.kind && last.end == entity.start) {
            Some(last) if !WHOLE.contains(&entity.kind) => last.end = entity.end,
            _ => out.push(entity),
        }
    }
    out
}

/// An entity loses the blanks it begins with, and is nothing where it has only blanks.
fn shrunk(text: &[char], entity: Entity, end: usize) -> Option<Entity> {
    let blanks = text[entity.start..entity.end].iter().take_while(|c| is_blank(c)).count();
    let (start, end) = (entity.start + blanks, entity.end.min(end));
    (start < end).then_some(Entity { start, end, ..entity })
}

/// Whether nothing of a text can be seen: blanks of every width, and characters without any.
pub fn is_empty(text: &str) -> bool {
    text.chars().all(|c| {
        matches!(c, ' ' | '\n' | '\t' | '\r' | '\0' | '\u{b}'
            | '\u{1680}' | '\u{180e}' | '\u{2000}'..='\u{200f}' | '\u{202e}' | '\u{202f}' | '\u{205f}' | '\u{2800}'
            | '\u{3000}' | '\u{fffc}' | '\u{a0}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    })
}

#[cfg(test)]
mod tests {
    use super::super::html::parse;
    use super::*;

    /// The examples of tdlib's own tests.
    #[test]
    fn tdlibs_own_examples_hold() {
        assert_eq!(clean("/abc"), "/abc");
        assert_eq!(clean("\r\n\r\n\r"), "\n\n");
        let controls: String = (0..=0x21_u8).map(char::from).collect();
        assert_eq!(clean(&controls), format!("{}\n{}!", " ".repeat(10), " ".repeat(21)));
        let lines: String = ('\u{2027}'..='\u{202f}').collect();
        assert_eq!(clean(&lines), "\u{2027}\u{202f}");
        assert_eq!(
            clean("\u{200f}\u{200f}  \u{200e}\u{200e}\u{200e}\u{200c} \u{200f}\u{200e} \u{200f}"),
            "\u{200c}\u{200f}  \u{200c}\u{200c}\u{200e}\u{200c} \u{200c}\u{200e} \u{200f}"
        );
        assert_eq!(clean("\u{333}\u{33f}\u{30a}"), "");
        assert!(is_empty("\u{200b}\u{a0}\u{2800} \n") && !is_empty("\u{200b}a"));
    }

    #[test]
    fn entities_move_with_their_text_and_lose_leading_blanks() {
        let shown = displayed(parse(" \r<b>a\u{30a}b</b> <pre>\t x\r</pre> <i> </i>").unwrap());
        assert_eq!(shown.plain(), "ab   x");
        let found: Vec<_> = shown.entities.iter().map(|entity| (entity.kind, shown.of(entity))).collect();
        assert_eq!(found, [("b", "ab".to_owned()), ("pre", "x".to_owned())]);
    }

    #[test]
    fn bold_words_side_by_side_are_one_and_code_is_not() {
        let shown = displayed(parse("<b>a</b><b>b</b> <code>x</code><code>y</code>").unwrap());
        let found: Vec<_> = shown.entities.iter().map(|entity| shown.of(entity)).collect();
        assert_eq!(found, ["ab", "x", "y"]);
    }

    #[test]
    fn the_hundred_and_first_block_loses_its_markup() {
        let shown = displayed(parse(&"<code>x</code> ".repeat(101)).unwrap());
        assert_eq!(shown.entities.len(), 100);
    }
}
