//! Shell commands, taken apart.
//!
//! Every command is parsed twice. The *literal* parser accepts only what all shells interpret alike: plain words joined
//! by `;`, `&`, `&&`, `||`, `|`, `|&` and line breaks, in `( )` and `{ }`, after `!`. The *grammar* parses all of bash. A
//! command can be allowed only if the literal parser accepts it and the grammar finds exactly the same commands. If they
//! differ, one of them is wrong about what will run, and a person decides.
//!
//! Rules that deny or ask see more: every command the grammar finds anywhere, the commands that wrappers such as `sudo`
//! and `bash -c` run, and, where the grammar fails, pieces cut from the raw text. They are not a guarantee: what is known
//! only when the command runs (`$x`, an alias, a script, `base64 -d | sh`) is not seen.

mod literal;
mod reach;
mod tree;
mod words;

pub use reach::own_words_before_code;
pub(crate) use words::line;

use literal::Literal;
use reach::Budget;
use std::fmt;

/// Longer commands are not parsed, and a person is asked. Linux does not pass longer arguments to a program, so
/// `bash -c` could not run them either.
pub const LONGEST: usize = 128 * 1024;
/// For commands with more parts a person is asked; deny rules still see the first ones, up to this number.
pub const MOST_PARTS: usize = 4096;

/// Why a command can never match an allow rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opaque {
    TooLong,
    TooManyParts,
    Unparsable,
    Disputed,
    Substitution,
    Expansion,
    Redirection,
    HereDocument,
    Assignment,
    Glob,
    Escape,
    Comment,
    ControlFlow,
    Hidden(char),
    Unquoted(char),
}

impl Opaque {
    /// Too large to be parsed, so only a person decides; not even `auto_approve` allows it.
    pub fn is_oversize(&self) -> bool {
        matches!(self, Opaque::TooLong | Opaque::TooManyParts)
    }
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Opaque::TooLong => "it is too long to be taken apart (more than 128 KiB)",
            Opaque::TooManyParts => "it has too many parts to be taken apart",
            Opaque::Unparsable => "it cannot be parsed",
            Opaque::Disputed => "shells may read it in more than one way",
            Opaque::Substitution => "it runs a command inside a substitution",
            Opaque::Expansion => "it expands a variable",
            Opaque::Redirection => "it redirects input or output",
            Opaque::HereDocument => "it has a here-document or a here-string",
            Opaque::Assignment => "it sets a variable",
            Opaque::Glob => "it has a wildcard, a brace or a tilde outside quotes",
            Opaque::Escape => "it has an escape that shells read differently",
            Opaque::Comment => "it has a comment",
            Opaque::ControlFlow => "it has a loop, a condition or a function",
            Opaque::Hidden(c) => return write!(f, "it has the hidden character U+{:04X}", u32::from(*c)),
            Opaque::Unquoted(c) => return write!(f, "it has the character {c:?} outside quotes"),
        })
    }
}

/// One command of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What allow rules match against; empty if the text could not be parsed.
    pub words: Vec<String>,
    /// The words as one line, quoted where necessary.
    pub line: String,
    /// The texts that deny and ask rules match against.
    pub reaches: Vec<String>,
    /// Whether it runs `cd` or the like, so that what follows runs in another folder.
    pub moves: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Never empty.
    pub parts: Vec<Part>,
    /// The canonical form of the whole script, or why it cannot be allowed.
    pub plain: Result<String, Opaque>,
}

impl Script {
    pub fn read(text: &str) -> Self {
        if text.len() > LONGEST {
            let start = &text[..text.floor_char_boundary(LONGEST)];
            return Self::opaque(start, tree::Found::unread(), Opaque::TooLong);
        }
        let found = tree::read(text);
        match literal::read(text) {
            Ok(Literal { commands, line }) if !found.broken && commands == found.commands => {
                let mut budget = Budget::default();
                let parts = parts(&commands, &[], &mut budget);
                let whole = !budget.exceeded && commands.len() <= MOST_PARTS;
                Self { parts, plain: whole.then_some(line).ok_or(Opaque::TooManyParts) }
            }
            Ok(_) => Self::opaque(text, found, Opaque::Disputed),
            Err(why) => Self::opaque(text, found, why),
        }
    }

    /// Both scripts as one, which is plain only if both are.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self.plain = self.plain.and_then(|plain| Ok(format!("{plain} ; {}", other.plain?)));
        if self.parts.len() > MOST_PARTS {
            self.parts.truncate(MOST_PARTS);
            self.plain = Err(Opaque::TooManyParts);
        }
        self
    }

    fn opaque(text: &str, mut found: tree::Found, why: Opaque) -> Self {
        // The grammar splits a word at a backslash before a line break; a shell joins the lines.
        if text.contains("\\\n") {
            found.commands.extend(tree::read(&text.replace("\\\n", "")).commands);
        }
        if found.broken {
            found.commands.extend(crude_pieces(text));
        }
        let mut budget = Budget::default();
        let mut parts = parts(&found.commands, &found.fed, &mut budget);
        // Rules always get something to match against, even if nothing was found.
        if found.broken || parts.is_empty() {
            let whole = text.trim().to_owned();
            parts.push(Part { words: vec![], line: whole.clone(), reaches: vec![whole], moves: false });
        }
        let whole = !budget.exceeded && found.commands.len() <= MOST_PARTS;
        Self { parts, plain: Err(if whole || why.is_oversize() { why } else { Opaque::TooManyParts }) }
    }
}

fn parts(commands: &[Vec<String>], fed: &[String], budget: &mut Budget) -> Vec<Part> {
    let commands = &commands[..commands.len().min(MOST_PARTS)];
    let mut reached: Vec<_> = commands.iter().map(|words| reach::reach(words, budget)).collect();
    let runs_what_it_reads =
        |reached: &&mut Vec<_>| reached.iter().any(|words: &Vec<_>| reach::reads_commands(words));
    if let Some(shell) = reached.iter_mut().find(runs_what_it_reads) {
        // `echo 'rm x' | sh`: every text that this script could pipe into the shell counts as a command.
        let quoted = commands.iter().flatten().filter(|word| word.contains(char::is_whitespace));
        for text in fed.iter().chain(quoted) {
            shell.extend(reach::reach_text(text, budget));
        }
    }
    commands.iter().zip(reached).map(|(words, reached)| part(words, &reached)).collect()
}

fn part(words: &[String], reached: &[Vec<String>]) -> Part {
    let moves =
        |words: &Vec<String>| matches!(words.first().map(String::as_str), Some("cd" | "pushd" | "popd"));
    let mut reaches: Vec<_> =
        reached.iter().flat_map(|words| [words::line(words), words.join(" ")]).collect();
    reaches.sort();
    reaches.dedup();
    Part { words: words.to_vec(), line: words::line(words), reaches, moves: reached.iter().any(moves) }
}

/// Possible commands in a text that could not be parsed: up to one more than the limit, so that the caller notices if
/// there are too many.
fn crude_pieces(text: &str) -> Vec<Vec<String>> {
    let pieces = text.split([';', '|', '&', '\n', '(', ')', '{', '}', '`']);
    pieces.map(crude_words).filter(|words| !words.is_empty()).take(MOST_PARTS + 1).collect()
}

fn crude_words(text: &str) -> Vec<String> {
    let bare = |word: &str| word.replace(['\'', '"', '\\'], "");
    text.split_whitespace().map(bare).collect()
}

#[cfg(test)]
mod tests;
