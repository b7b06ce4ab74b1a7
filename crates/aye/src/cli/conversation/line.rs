//! The line that a person is typing: its text, the cursor, and what keys do to it. No I/O here.

use anstyle_parse::{Params, Parser, Perform};
use aye_core::visible::one_line;
use unicode_width::UnicodeWidthStr;

/// Lines that can be called back.
const MOST_REMEMBERED: usize = 100;

#[derive(Debug, PartialEq, Eq)]
pub enum LineInput {
    /// Enter.
    Line(String),
    /// Ctrl-D on an empty line.
    End,
}

#[derive(Default)]
pub struct LineEditor {
    parser: Parser,
    state: State,
}

#[derive(Default)]
struct State {
    before: String,
    /// The text after the cursor.
    after: String,
    /// Between the marks that a terminal puts around what is pasted.
    pasting: bool,
    /// A secret is typed: it is neither shown nor remembered.
    hidden: bool,
    history: Vec<String>,
    /// Lines back from the end of the history.
    back: usize,
    keys: Vec<LineInput>,
}

impl LineEditor {
    pub fn is_empty(&self) -> bool {
        self.state.before.is_empty() && self.state.after.is_empty()
    }

    /// Whether what is typed from now on is a secret.
    pub fn hide(&mut self, hidden: bool) {
        self.state.hidden = hidden;
    }

    /// What comes of these bytes.
    pub fn typed(&mut self, bytes: &[u8]) -> Vec<LineInput> {
        for byte in bytes {
            self.parser.advance(&mut self.state, *byte);
        }
        std::mem::take(&mut self.state.keys)
    }

    /// The text, which is then no longer in the line.
    pub fn take(&mut self) -> String {
        self.parser = Parser::default();
        self.state.take()
    }

    pub fn put(&mut self, text: String) {
        self.state.put(text);
    }

    /// The part around the cursor that fits into `width` columns, and how many columns the cursor is from its end.
    pub fn shown(&self, columns: usize) -> (String, usize) {
        if self.state.hidden {
            return (String::new(), 0);
        }
        let [mut before, mut after] = [&self.state.before, &self.state.after].map(|text| shown(text));
        let mut room = columns.saturating_sub(after.width().min(columns / 4));
        while before.width() > room {
            before.remove(0);
        }
        room = columns.saturating_sub(before.width());
        while after.width() > room {
            after.pop();
        }
        let back = after.width();
        (before + &after, back)
    }
}

fn shown(text: &str) -> String {
    one_line(&text.replace('\n', "⏎")).into_owned()
}

impl State {
    fn take(&mut self) -> String {
        self.back = 0;
        std::mem::take(&mut self.before) + &std::mem::take(&mut self.after)
    }

    fn put(&mut self, text: String) {
        (self.before, self.after) = (text, String::new());
    }

    fn enter(&mut self) {
        let line = self.take();
        if !self.hidden && !line.trim().is_empty() && self.history.last() != Some(&line) {
            if self.history.len() == MOST_REMEMBERED {
                self.history.remove(0);
            }
            self.history.push(line.clone());
        }
        self.keys.push(LineInput::Line(line));
    }

    fn erase_word(&mut self) {
        let kept = self
            .before
            .trim_end()
            .rfind(char::is_whitespace)
            .map_or(0, |space| space + self.before[space..].chars().next().map_or(0, char::len_utf8));
        self.before.truncate(kept);
    }

    fn move_to_start(&mut self) {
        self.after.insert_str(0, &std::mem::take(&mut self.before));
    }

    fn move_to_end(&mut self) {
        self.before += &std::mem::take(&mut self.after);
    }

    fn left(&mut self) {
        if let Some(c) = self.before.pop() {
            self.after.insert(0, c);
        }
    }

    fn right(&mut self) {
        if !self.after.is_empty() {
            self.before.push(self.after.remove(0));
        }
    }

    /// Calls back an earlier line, or a later one.
    fn recall(&mut self, back: usize) {
        let place = self.history.len().checked_sub(back);
        if let Some(place) = place.filter(|_| !self.hidden) {
            self.put(self.history.get(place).cloned().unwrap_or_default());
            self.back = back;
        }
    }
}

impl Perform for State {
    fn print(&mut self, c: char) {
        match c {
            '\u{7f}' => drop(self.before.pop()),
            c => self.before.push(c),
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' | b'\n' if self.pasting => self.before.push('\n'),
            b'\t' => self.before.push(' '),
            _ if self.pasting => {}
            b'\r' | b'\n' => self.enter(),
            0x04 if self.before.is_empty() && self.after.is_empty() => self.keys.push(LineInput::End),
            0x08 => drop(self.before.pop()),
            0x01 => self.move_to_start(),
            0x05 => self.move_to_end(),
            0x02 => self.left(),
            0x06 => self.right(),
            0x0b => self.after.clear(),
            0x15 => self.before.clear(),
            0x17 => self.erase_word(),
            0x10 => self.recall(self.back + 1),
            0x0e => self.recall(self.back.saturating_sub(1)),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _intermediates: &[u8], _ignore: bool, action: u8) {
        let number = params.iter().next().and_then(|first| first.first()).copied().unwrap_or(0);
        match (action, number) {
            (b'~', 200) => self.pasting = true,
            (b'~', 201) => self.pasting = false,
            _ if self.pasting => {}
            (b'A', _) => self.recall(self.back + 1),
            (b'B', _) => self.recall(self.back.saturating_sub(1)),
            (b'C', _) => self.right(),
            (b'D', _) => self.left(),
            (b'H', _) | (b'~', 1 | 7) => self.move_to_start(),
            (b'F', _) | (b'~', 4 | 8) => self.move_to_end(),
            (b'~', 3) if !self.after.is_empty() => drop(self.after.remove(0)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(typed: &str) -> LineEditor {
        let mut line = LineEditor::default();
        assert_eq!(line.typed(typed.as_bytes()), []);
        line
    }

    #[track_caller]
    fn types(typed: &str, text: &str) {
        assert_eq!(line(typed).take(), text, "{typed:?}");
    }

    #[test]
    fn keys_edit_the_line() {
        types("abc", "abc");
        types("grün\u{7f}n", "grün");
        types("ab\x1b[D\x1b[Dx\x1b[Cy", "xayb");
        types("two words\x17", "two ");
        types("grüße\u{a0}dich \x17x", "grüße\u{a0}x");
        types("gone\x15here", "here");
        types("end\x01start \x05.", "start end.");
        types("ab\x1b[H\x1b[3~", "b");
        types("a\x1b[15~\x1b[1;5Db\x07", "ba");
        types("a\tb", "a b");
    }

    #[test]
    fn enter_gives_the_line_and_ctrl_d_on_an_empty_one_ends() {
        let mut line = LineEditor::default();
        let keys = line.typed(b"one\rtwo\nhalf\x04");
        assert_eq!(keys, [LineInput::Line("one".into()), LineInput::Line("two".into())]);
        assert_eq!(line.take(), "half");
        assert_eq!(line.typed(b"\x04"), [LineInput::End]);
    }

    #[test]
    fn what_is_pasted_is_one_line_until_enter_is_pressed() {
        let mut line = LineEditor::default();
        assert_eq!(line.typed(b"\x1b[200~a\rb\n\x04c\x1b[201~"), []);
        assert_eq!(line.shown(80), ("a⏎b⏎c".into(), 0));
        assert_eq!(line.typed(b"!\r"), [LineInput::Line("a\nb\nc!".into())]);
    }

    #[test]
    fn earlier_lines_come_back() {
        let mut line = LineEditor::default();
        line.typed(b"one\rtwo\rtwo\r");
        line.typed(b"\x1b[A\x1b[A\x1b[A");
        assert_eq!(line.take(), "one");
        line.typed(b"\x1b[A\x1b[A\x1b[B");
        assert_eq!(line.take(), "two");
    }

    #[test]
    fn a_secret_is_neither_shown_nor_called_back() {
        let mut line = LineEditor::default();
        line.typed(b"before\r");
        line.hide(true);
        line.typed(b"hunter2");
        assert_eq!(line.shown(80), (String::new(), 0));
        assert_eq!(line.typed(b"\x1b[A!\r"), [LineInput::Line("hunter2!".into())]);
        line.hide(false);
        line.typed(b"\x1b[A");
        assert_eq!(line.take(), "before");
    }

    #[test]
    fn a_sequence_that_comes_in_pieces_is_read_as_one() {
        let mut line = LineEditor::default();
        for byte in "ü\x1b[D".as_bytes() {
            line.typed(&[*byte]);
        }
        assert_eq!((line.state.before.as_str(), line.state.after.as_str()), ("", "ü"));
    }

    #[test]
    fn what_is_shown_fits_and_holds_the_cursor() {
        assert_eq!(line("hello").shown(10), ("hello".into(), 0));
        assert_eq!(line("hello world").shown(5), ("world".into(), 0));
        assert_eq!(line("hello\x1b[D\x1b[D").shown(10), ("hello".into(), 2));
        assert_eq!(line("日本語").shown(5), ("本語".into(), 0));
        assert_eq!(line("ab\u{202e}").shown(20), ("ab\\u{202e}".into(), 0));
        let (text, back) = line("0123456789\x01").shown(4);
        assert_eq!((text.as_str(), back), ("0123", 4));
    }
}
