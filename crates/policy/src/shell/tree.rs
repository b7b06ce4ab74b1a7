//! The second of two parsers: a grammar for all of bash. It finds every command, also in substitutions, loops and
//! functions, for deny and ask rules.

use super::crude_words;
use tree_sitter::{Node, Parser, Tree, TreeCursor};

/// The parser takes quadratic time for some inputs, mostly those full of syntax errors. With these limits the worst case
/// we found takes a quarter of a second instead of a minute.
const LONGEST: usize = 16 * 1024;
const MOST_SIGNS: usize = 800;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// In the order of the text.
    pub commands: Vec<Vec<String>>,
    /// The contents of here-documents and here-strings.
    pub fed: Vec<String>,
    /// Whether there were syntax errors, so that there may be more commands than were found.
    pub broken: bool,
}

impl Found {
    /// The result for a text that was not parsed.
    pub fn unread() -> Self {
        Self { broken: true, ..Self::default() }
    }
}

pub fn read(text: &str) -> Found {
    let Some(tree) = parse(text) else { return Found::unread() };
    let mut found = Found { broken: tree.root_node().has_error(), ..Found::default() };
    let mut cursor = tree.walk();
    // Not recursive, because a hostile command can nest deeply enough to overflow the stack.
    loop {
        note(cursor.node(), text, &mut found);
        if !cursor.goto_first_child() && !goto_next(&mut cursor) {
            return found;
        }
    }
}

fn goto_next(cursor: &mut TreeCursor) -> bool {
    loop {
        if cursor.goto_next_sibling() {
            return true;
        }
        if !cursor.goto_parent() {
            return false;
        }
    }
}

fn parse(text: &str) -> Option<Tree> {
    let signs = text.bytes().filter(|b| b"|()<>[]{}$?;&!=`\\".contains(b)).count();
    if text.len() > LONGEST || signs > MOST_SIGNS {
        return None;
    }
    // The grammar's scanner indexes a table of ASCII characters and reads out of bounds for others. To the shell, a
    // byte beyond ASCII is just part of a word, so it is replaced by a letter.
    let stand_in = |byte: u8| if byte.is_ascii() && byte != 0 { byte } else { b'x' };
    let ascii: Vec<u8> = text.bytes().map(stand_in).collect();
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    parser.parse(ascii, None)
}

fn note(node: Node, text: &str, found: &mut Found) {
    match node.kind() {
        "command" => found.commands.push(command_words(node, text)),
        "declaration_command" | "unset_command" | "test_command" => {
            found.commands.push(crude_words(source(node, text)));
        }
        "heredoc_body" => found.fed.push(source(node, text).to_owned()),
        "herestring_redirect" => {
            found.fed.extend(node.named_children(&mut node.walk()).map(|child| resolve(child, text)));
        }
        _ => {}
    }
}

fn source<'a>(node: Node, text: &'a str) -> &'a str {
    text.get(node.byte_range()).unwrap_or_default()
}

fn command_words(command: Node, text: &str) -> Vec<String> {
    let mut words = vec![];
    for child in command.children(&mut command.walk()) {
        match child.kind() {
            "variable_assignment" | "herestring_redirect" => {}
            "file_redirect" => words.extend(words_after_target(child, text)),
            _ => words.push(resolve(child, text)),
        }
    }
    // `rm >log file`: the grammar treats words after the target of a redirection as part of the redirection.
    if let Some(parent) = command.parent().filter(|parent| parent.kind() == "redirected_statement") {
        for redirect in parent.children_by_field_name("redirect", &mut parent.walk()) {
            words.extend(words_after_target(redirect, text));
        }
    }
    words
}

fn words_after_target(redirect: Node, text: &str) -> Vec<String> {
    let field = if redirect.kind() == "heredoc_redirect" { "argument" } else { "destination" };
    let skipped = usize::from(field == "destination");
    let mut cursor = redirect.walk();
    redirect
        .children_by_field_name(field, &mut cursor)
        .skip(skipped)
        .map(|word| resolve(word, text))
        .collect()
}

/// A word with its quotes and escapes removed. Expansions, which are known only when the command runs, stay as written.
fn resolve(node: Node, text: &str) -> String {
    let written = source(node, text);
    let inside = |opening: &str, closing: &str| {
        written.strip_prefix(opening).and_then(|rest| rest.strip_suffix(closing)).unwrap_or(written)
    };
    match node.kind() {
        "command_name" | "concatenation" => {
            node.children(&mut node.walk()).map(|child| resolve(child, text)).collect()
        }
        "word" => unescape(written, |_| true),
        "raw_string" => inside("'", "'").to_owned(),
        "string" => unescape(inside("\"", "\""), |c| "\"\\$`".contains(c)),
        "translated_string" => unescape(inside("$\"", "\""), |c| "\"\\$`".contains(c)),
        "ansi_c_string" => unescape_ansi_c(inside("$'", "'")),
        _ => written.to_owned(),
    }
}

/// Removes backslashes before characters that need one, and joins continued lines.
fn unescape(written: &str, needs_one: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        match (c, if c == '\\' { rest.next() } else { None }) {
            ('\\', Some('\n')) => {}
            ('\\', Some(next)) if needs_one(next) => out.push(next),
            ('\\', Some(next)) => out.extend(['\\', next]),
            (c, _) => out.push(c),
        }
    }
    out
}

/// `$'\x72m'` and `$'\162m'` are `rm`; less common escapes stay as written.
fn unescape_ansi_c(written: &str) -> String {
    let mut out = String::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let (marker, radix, most) = match after.chars().next() {
            Some('x') => (1, 16, 2),
            Some('u') => (1, 16, 4),
            Some('U') => (1, 16, 8),
            _ => (0, 8, 3),
        };
        let digits: String = after[marker..].chars().take(most).take_while(|c| c.is_digit(radix)).collect();
        match u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32) {
            Some(c) => {
                out.push(c);
                rest = &after[marker + digits.len()..];
            }
            None => {
                let next = after.chars().next();
                out.extend(next.map(|c| if c == 'n' { '\n' } else { c }));
                rest = &after[next.map_or(0, char::len_utf8)..];
            }
        }
    }
    out + rest
}
