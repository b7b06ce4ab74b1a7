//! Parses the text of a pattern into its steps.

use super::word::WordPattern;
use super::{Item, Step, What};

/// A character of a pattern, and whether quotes or a backslash make it literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sign {
    pub c: char,
    pub quoted: bool,
    /// Whether something separates it from the previous character, even if it is only empty quotes.
    apart: bool,
}

impl Sign {
    fn is(self, c: char) -> bool {
        self.c == c && !self.quoted
    }

    pub fn is_star(self) -> bool {
        self.is('*')
    }
}

/// Whether it contains `**`.
pub fn has_two_stars(signs: &[Sign]) -> bool {
    signs.windows(2).any(|pair| pair[0].is_star() && pair[1].is_star() && !pair[1].apart)
}

/// The text between two blanks, and how it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Token {
    signs: Vec<Sign>,
    source: String,
    /// Whether it currently ends with a closing quote.
    apart: bool,
}

pub fn steps(written: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = vec![];
    let tokens = tokens(written);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some((inside, after)) = bracketed(&tokens, at) {
            let (pieces, texts): (Vec<Item>, Vec<String>) = inside.into_iter().flat_map(items).unzip();
            add_to_run(&mut steps, pieces, &format!("[{}]", texts.join(" ")));
            at = after;
            continue;
        }
        for (item, text) in items(token.clone()) {
            match item {
                Item::Word(word) => steps.push(Step { text, what: What::One(word) }),
                Item::Plain | Item::Anything => add_to_run(&mut steps, vec![item], &text),
            }
        }
        at += 1;
    }
    steps
}

fn add_to_run(steps: &mut Vec<Step>, piece: Vec<Item>, text: &str) {
    match steps.last_mut() {
        Some(Step { text: before, what: What::Run(pieces) }) => {
            pieces.push(piece);
            *before = format!("{before} {text}");
        }
        Some(Step { what: What::One(_), .. }) | None => {
            steps.push(Step { text: text.to_owned(), what: What::Run(vec![piece]) });
        }
    }
}

/// The tokens inside a bracket that opens here, and the position after it. A bracket that is not closed is literal.
fn bracketed(tokens: &[Token], at: usize) -> Option<(Vec<Token>, usize)> {
    let opens = |token: &Token| token.signs.first().is_some_and(|sign| sign.is('['));
    let closes = |token: &Token| token.signs.last().is_some_and(|sign| sign.is(']'));
    let length = tokens.get(at..).filter(|rest| opens(&rest[0]))?.iter().position(closes)? + 1;
    let mut inside = tokens[at..at + length].to_vec();
    let (first, last) = (0, length - 1);
    inside[first].signs.remove(0);
    inside[first].source.remove(0);
    inside[last].signs.pop();
    inside[last].source.pop();
    // `[ -p * ]` means the same as `[-p *]`.
    inside.retain(|token| !token.source.is_empty());
    (!inside.is_empty()).then_some((inside, at + length))
}

/// Interprets a token. A star at its end, after a letter or a digit, becomes a word of its own: `test*` is not meant to
/// match `testevil`.
fn items(token: Token) -> Vec<(Item, String)> {
    let Token { mut signs, source, .. } = token;
    let stars = signs.iter().rev().take_while(|sign| sign.is_star()).count();
    let head = signs.len() - stars;
    let star = match has_two_stars(&signs[head..]) {
        true => (Item::Anything, "**".to_owned()),
        false => (Item::Plain, "*".to_owned()),
    };
    let after_letter = head > 0 && signs[head - 1].c.is_alphanumeric();
    match (stars, head) {
        (1.., 0) => vec![star],
        (1.., _) if after_letter && !WordPattern::of(&signs).is_url() => {
            signs.truncate(head);
            vec![(Item::Word(WordPattern::of(&signs)), written(&signs)), star]
        }
        (_, _) => vec![(Item::Word(WordPattern::of(&signs)), source)],
    }
}

/// Writes characters back, with backslashes instead of quotes.
fn written(signs: &[Sign]) -> String {
    let mut text = String::new();
    for sign in signs {
        if sign.quoted && (sign.c.is_whitespace() || "*[]'\"\\".contains(sign.c)) {
            text.push('\\');
        }
        text.push(sign.c);
    }
    text
}

/// Interprets quotes and backslashes as a shell does; a quote that is not closed is literal.
fn tokens(written: &str) -> Vec<Token> {
    let mut tokens = vec![];
    let mut token: Option<Token> = None;
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if c.is_whitespace() {
            tokens.extend(token.take());
            rest = after;
            continue;
        }
        let (text, quoted, length) = match c {
            '\'' | '"' => match after.split_once(c) {
                Some((text, _)) => (text, true, text.len() + 2),
                None => (&rest[..1], true, 1),
            },
            '\\' => match after.chars().next() {
                Some(next) => (&after[..next.len_utf8()], true, 1 + next.len_utf8()),
                None => (&rest[..1], true, 1),
            },
            c => (&rest[..c.len_utf8()], false, c.len_utf8()),
        };
        let token = token.get_or_insert_default();
        let apart = token.apart || quoted;
        token.signs.extend(text.chars().map(|c| Sign { c, quoted, apart }));
        token.apart = quoted;
        token.source.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    tokens.extend(token);
    tokens
}
