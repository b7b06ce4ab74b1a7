//! The first of two parsers: it accepts a small language that all shells interpret alike, plain words joined by plain
//! operators, and rejects everything else. Only what it accepts can be allowed.

use super::Opaque;
use super::words::{is_bare, is_reserved, is_setting, line};
use aye_core::visible::is_hidden;
use std::iter::Peekable;
use std::str::Chars;

/// A command that contains nothing for the shell to expand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal {
    pub commands: Vec<Vec<String>>,
    /// The canonical form: two commands are the same if and only if their canonical forms are.
    pub line: String,
}

pub fn read(text: &str) -> Result<Literal, Opaque> {
    let strange = |c: char| (is_hidden(c) && c != '\n' && c != '\t') || (c.is_whitespace() && !c.is_ascii());
    if let Some(c) = text.chars().find(|&c| strange(c)) {
        return Err(Opaque::Hidden(c));
    }
    let reader = Reader {
        rest: text.chars().peekable(),
        commands: vec![],
        words: vec![],
        open: vec![],
        pieces: vec![],
    };
    reader.read()
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<Vec<String>>,
    /// The words of the current command.
    words: Vec<String>,
    /// The open brackets, each as the character that closes it.
    open: Vec<char>,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Command(String),
    /// `(`, `{` and `!`: a command must follow.
    Opens(char),
    /// `)` and `}`: only an operator may follow.
    Closes(char),
    /// `;` and `&`: a command may follow.
    Ends(&'static str),
    /// `&&`, `||`, `|` and `|&`: a command must follow.
    Joins(&'static str),
}

struct Word {
    text: String,
    /// Written without quotes, so the shell may treat it as a keyword.
    bare: bool,
    /// Has a `=` outside quotes.
    assigns: bool,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Literal, Opaque> {
        while let Some(&c) = self.rest.peek() {
            match c {
                ' ' | '\t' => drop(self.rest.next()),
                '\n' => {
                    self.rest.next();
                    self.end_line();
                }
                ';' | '&' | '|' => self.operator()?,
                '(' => {
                    self.rest.next();
                    self.open_bracket('(', ')')?;
                }
                ')' => {
                    self.rest.next();
                    self.close_bracket(')')?;
                }
                _ => self.word()?,
            }
        }
        self.finish_command();
        if self.pieces.last() == Some(&Piece::Ends(";")) {
            self.pieces.pop();
        }
        let complete =
            matches!(self.pieces.last(), Some(Piece::Command(_) | Piece::Closes(_) | Piece::Ends(_)));
        if complete && self.open.is_empty() {
            Ok(Literal { line: write(&self.pieces), commands: self.commands })
        } else {
            Err(Opaque::Unparsable)
        }
    }

    fn finish_command(&mut self) {
        if !self.words.is_empty() {
            let words = std::mem::take(&mut self.words);
            self.pieces.push(Piece::Command(line(&words)));
            self.commands.push(words);
        }
    }

    /// A line break ends a command like `;`, and means nothing where a command is still expected.
    fn end_line(&mut self) {
        self.finish_command();
        if matches!(self.pieces.last(), Some(Piece::Command(_) | Piece::Closes(_))) {
            self.pieces.push(Piece::Ends(";"));
        }
    }

    fn operator(&mut self) -> Result<(), Opaque> {
        let first = self.rest.next();
        let piece = match (first, self.rest.peek()) {
            (Some('&'), Some('>')) => return Err(Opaque::Redirection),
            (Some('&'), Some('&')) => Piece::Joins("&&"),
            (Some('|'), Some('|')) => Piece::Joins("||"),
            (Some('|'), Some('&')) => Piece::Joins("|&"),
            (Some('|'), _) => Piece::Joins("|"),
            (Some('&'), _) => Piece::Ends("&"),
            _ => Piece::Ends(";"),
        };
        if matches!(piece, Piece::Joins(two) if two.len() == 2) {
            self.rest.next();
        }
        self.finish_command();
        match self.pieces.last() {
            Some(Piece::Command(_) | Piece::Closes(_)) => {
                self.pieces.push(piece);
                Ok(())
            }
            Some(Piece::Opens(_) | Piece::Ends(_) | Piece::Joins(_)) | None => Err(Opaque::Unparsable),
        }
    }

    fn command_may_start(&self) -> bool {
        let after_command = matches!(self.pieces.last(), Some(Piece::Command(_) | Piece::Closes(_)));
        self.words.is_empty() && !after_command
    }

    fn open_bracket(&mut self, bracket: char, closed_by: char) -> Result<(), Opaque> {
        if !self.command_may_start() {
            return Err(Opaque::Unparsable);
        }
        self.open.push(closed_by);
        self.pieces.push(Piece::Opens(bracket));
        Ok(())
    }

    fn close_bracket(&mut self, bracket: char) -> Result<(), Opaque> {
        self.finish_command();
        let complete = match self.pieces.last() {
            Some(Piece::Command(_) | Piece::Closes(_)) => bracket == ')',
            Some(Piece::Ends(_)) => true,
            Some(Piece::Opens(_) | Piece::Joins(_)) | None => false,
        };
        if !complete || self.open.pop() != Some(bracket) {
            return Err(Opaque::Unparsable);
        }
        self.pieces.push(Piece::Closes(bracket));
        Ok(())
    }

    fn negate(&mut self) -> Result<(), Opaque> {
        if !self.command_may_start() {
            return Err(Opaque::Unparsable);
        }
        self.pieces.push(Piece::Opens('!'));
        Ok(())
    }

    fn word(&mut self) -> Result<(), Opaque> {
        let Some(Word { text, bare, assigns }) = self.take_word()? else { return Ok(()) };
        // `time` is a keyword, and a command starts after it.
        if self.words.iter().all(|word| word == "time" || word == "-p") {
            match text.as_str() {
                "{" if bare => return self.open_bracket('{', '}'),
                "}" if bare => return self.close_bracket('}'),
                "!" if bare => return self.negate(),
                _ if self.words.is_empty() && !self.command_may_start() => return Err(Opaque::Unparsable),
                word if bare && is_reserved(word) => return Err(Opaque::ControlFlow),
                word if assigns || is_setting(word) => return Err(Opaque::Assignment),
                _ => {}
            }
        }
        self.words.push(text);
        Ok(())
    }

    /// One word, or `None` for a mere line continuation.
    fn take_word(&mut self) -> Result<Option<Word>, Opaque> {
        let mut word = Word { text: String::new(), bare: true, assigns: false };
        let mut before = None;
        while !self.at_word_end() {
            let Some(c) = self.rest.next() else { break };
            match c {
                '\'' => self.single_quoted(&mut word.text)?,
                '"' => self.double_quoted(&mut word.text)?,
                '\\' => match self.rest.next() {
                    Some('\n') => continue,
                    Some(c) if c.is_ascii_punctuation() || c == ' ' => word.text.push(c),
                    _ => return Err(Opaque::Escape),
                },
                c if is_bare(c, before) => word.text.push(c),
                '{' | '}' | '!' if before.is_none() && self.at_word_end() => word.text.push(c),
                c => return Err(self.why_not_bare(c, before)),
            }
            word.bare &= !matches!(c, '\'' | '"' | '\\');
            word.assigns |= c == '=';
            before = Some(c);
        }
        Ok(before.map(|_| word))
    }

    fn at_word_end(&mut self) -> bool {
        self.rest.peek().is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')'))
    }

    fn single_quoted(&mut self, word: &mut String) -> Result<(), Opaque> {
        loop {
            match self.rest.next().ok_or(Opaque::Unparsable)? {
                '\'' => return Ok(()),
                '\t' => return Err(Opaque::Hidden('\t')),
                c => word.push(c),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut String) -> Result<(), Opaque> {
        loop {
            match self.rest.next().ok_or(Opaque::Unparsable)? {
                '"' => return Ok(()),
                '\t' => return Err(Opaque::Hidden('\t')),
                '\\' => match self.rest.next().ok_or(Opaque::Unparsable)? {
                    '\n' => {}
                    c @ ('"' | '\\' | '$' | '`') => word.push(c),
                    c => word.extend(['\\', c]),
                },
                c @ ('$' | '`') => return Err(self.why_not_bare(c, None)),
                c => word.push(c),
            }
        }
    }

    fn why_not_bare(&mut self, c: char, before: Option<char>) -> Opaque {
        let next = self.rest.peek().copied();
        match (c, next) {
            ('`', _) | ('$' | '<' | '>', Some('(')) => Opaque::Substitution,
            ('$', Some('\'' | '"')) => Opaque::Escape,
            ('$', _) => Opaque::Expansion,
            ('<', Some('<')) => Opaque::HereDocument,
            ('<' | '>', _) => Opaque::Redirection,
            ('*' | '?' | '[' | ']' | '{' | '}' | '~' | '^' | '!' | '=', _) => Opaque::Glob,
            ('#', _) if before.is_none() => Opaque::Comment,
            ('#', _) => Opaque::Glob,
            (c, _) => Opaque::Unquoted(c),
        }
    }
}

fn write(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Command(line) => line.clone(),
        Piece::Opens(c) | Piece::Closes(c) => c.to_string(),
        Piece::Ends(operator) | Piece::Joins(operator) => (*operator).to_owned(),
    };
    pieces.iter().map(text).collect::<Vec<_>>().join(" ")
}
