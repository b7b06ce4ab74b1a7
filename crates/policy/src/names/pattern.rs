//! Names that are patterns: the folders they begin in, and the names they may expand to.

use super::Name;
use crate::pattern::settle_path;

/// No system opens a longer path, but a program may normalise one before it opens it.
const LONGEST: usize = 4096;
/// More alternatives than anybody writes into one word.
const MOST_ALTERNATIVES: usize = 64;

/// Records a path with everything it may expand to. For a pattern, or a name known only when the command runs, that is
/// the folder in which it begins.
pub fn add(path: String, through: bool, found: &mut Vec<Name>) {
    let path = match path.len() {
        0..=LONGEST => path,
        _ if path.starts_with('/') => settle_path("/", &path),
        _ => settle_path("/", &path).trim_start_matches('/').to_owned(),
    };
    if path.len() > LONGEST {
        return;
    }
    if let Some(special) = path.find(['*', '?', '[', '{', '$', '`']) {
        let folder = path[..special].rfind('/').map_or(".", |end| &path[..=end]);
        found.push(Name { path: folder.to_owned(), through: true });
    }
    if path.contains('%') {
        found.push(Name { path: percent_decoded(&path), through });
    }
    found.push(Name { path, through });
}

/// Expands braces: `{a,b}c` is `ac` and `bc`. `None` if there are too many results.
pub fn alternatives(word: &str) -> Option<Vec<String>> {
    let mut open = vec![word.to_owned()];
    let mut all = vec![];
    while let Some(word) = open.pop() {
        match first_brace(&word) {
            None => all.push(word),
            Some((before, choices, after)) => {
                open.extend(choices.iter().map(|choice| format!("{before}{choice}{after}")));
            }
        }
        if open.len() + all.len() > MOST_ALTERNATIVES {
            return None;
        }
    }
    Some(all)
}

/// Splits at the first brace expression: the text before it, its alternatives, and the text after it.
fn first_brace(word: &str) -> Option<(&str, Vec<&str>, &str)> {
    let starts = word.match_indices('{').map(|(at, _)| at);
    starts.filter(|at| !word[..*at].ends_with('$')).find_map(|start| {
        let (mut depth, mut from, mut choices) = (0, start + 1, vec![]);
        for (at, c) in word[start..].char_indices().map(|(at, c)| (start + at, c)) {
            match (c, depth) {
                ('{', _) => depth += 1,
                (',', 1) => {
                    choices.push(&word[from..at]);
                    from = at + 1;
                }
                ('}', 1) if choices.is_empty() => return None,
                ('}', 1) => {
                    choices.push(&word[from..at]);
                    return Some((&word[..start], choices, &word[at + 1..]));
                }
                ('}', _) => depth -= 1,
                _ => {}
            }
        }
        None
    })
}

/// The same path with `.?` and `.*` replaced by `..`, which many shells let them match.
pub fn with_steps_upwards(path: &str) -> Option<String> {
    let may_be_upwards = |name: &str| {
        let rest = name.strip_prefix('.').unwrap_or_default();
        let signs = |c: char| matches!(c, '?' | '*' | '.' | '[' | ']' | '!' | '^');
        rest.contains(['?', '*', '[']) && (rest.chars().all(signs) || rest.starts_with('['))
    };
    let names: Vec<&str> =
        path.split('/').map(|name| if may_be_upwards(name) { ".." } else { name }).collect();
    let up = names.join("/");
    (up != path).then_some(up)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
