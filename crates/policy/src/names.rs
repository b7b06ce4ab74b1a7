//! The names in a tool call that a program might open, for whoever can look at the disk: what a name leads to shows
//! only there. Nothing is opened here.

use crate::call::{FILE_TOOLS, SEARCH_TOOLS, ShellTool, ToolCall};
use crate::home::collect_strings;
use crate::shell::Script;
use std::collections::BTreeSet;

/// More than anybody writes into one command; a call that has more goes to a person.
const MOST: usize = 4096;
/// No system opens a longer name.
const LONGEST: usize = 4096;

/// The names in one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub names: BTreeSet<Name>,
    /// There were more than can be looked at.
    pub too_many: bool,
    /// A command may change its folder and use its names from there.
    pub moves: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// From the root, or from the agent's folder. Detours and links are still in it.
    pub path: String,
    /// Everything below it may be looked at as well.
    pub through: bool,
}

impl Names {
    pub(crate) fn of(call: &ToolCall, script: Option<&Script>) -> Self {
        let mut found = Self::default();
        let shell = ShellTool::named(call.tool);
        let is_file_tool = FILE_TOOLS.contains(&call.tool);
        let is_search = SEARCH_TOOLS.contains(&call.tool);
        // What is no name, whatever it says: what a command is for, and what is searched for in files.
        let is_text = |field: &str| {
            shell.is_some_and(|shell| shell.is_harmless(field)) || (call.tool == "Grep" && field == "pattern")
        };
        let mut strings = vec![];
        for (field, value) in call.input.iter().filter(|(field, _)| !is_text(field)) {
            strings.push(field.as_str());
            collect_strings(value, &mut strings);
        }
        found.moves = !is_file_tool && !is_search;
        for text in strings {
            found.add(call, text, !is_file_tool);
            match shell {
                Some(_) => found.add_words(call, words(text)),
                None if found.moves => found.add_words(call, loose_words(text)),
                None => {}
            }
        }
        // What wrappers and nested shells lead to stands there in words of its own.
        for text in script.iter().flat_map(|script| &script.parts).flat_map(|part| &part.reaches) {
            found.add_words(call, words(text).into_iter().filter(|word| has_a_letter(word)).collect());
        }
        if is_search && !call.input.contains_key("path") {
            found.add(call, ".", true);
        }
        found
    }

    fn add_words(&mut self, call: &ToolCall, words: Vec<String>) {
        for word in words {
            for start in starts(&word) {
                self.add(call, &word[start..], true);
            }
            if self.too_many {
                return;
            }
        }
    }

    fn add(&mut self, call: &ToolCall, text: &str, through: bool) {
        if text.is_empty() || text.len() > LONGEST || text.contains('\0') {
            return;
        }
        if self.names.len() >= MOST {
            self.too_many = true;
            return;
        }
        let text = text.strip_prefix("file://").unwrap_or(text);
        let path = call.home.expand(text);
        // Of a pattern, the folder in which it begins is named.
        if let Some(special) = path.find(['*', '?', '[', '{']) {
            let folder = path[..special].rfind('/').map_or(".", |end| &path[..=end]);
            self.names.insert(Name { path: folder.to_owned(), through: true });
        }
        if path.contains('%') {
            self.names.insert(Name { path: percent_decoded(&path), through });
        }
        self.names.insert(Name { path, through });
    }
}

/// Where a name may begin within a word: `--file=NAME`, `host:NAME`, `@NAME`, `-fNAME`.
fn starts(word: &str) -> impl Iterator<Item = usize> {
    let after_sign =
        word.char_indices().filter(|(_, c)| "=:,@".contains(*c)).map(|(at, c)| at + c.len_utf8());
    let after_option = word
        .char_indices()
        .nth(2)
        .filter(|_| word.starts_with('-') && !word.starts_with("--"))
        .map(|(at, _)| at);
    std::iter::once(0).chain(after_sign).chain(after_option)
}

/// A text that may be a command or not. A sign that stands alone in it (`/`, `~`) is taken for a sign.
fn loose_words(text: &str) -> Vec<String> {
    let mut all = words(text);
    all.extend(text.split_whitespace().map(str::to_owned));
    all.retain(|word| has_a_letter(word));
    all
}

fn has_a_letter(word: &str) -> bool {
    word.contains(char::is_alphanumeric)
}

/// The words of a command, without its quotes and backslashes.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word = String::new();
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '\\') => word.extend(chars.next().filter(|next| *next != '\n')),
            (Some('"'), '\\') if chars.peek().is_some_and(|next| "\"\\$`\n".contains(*next)) => {
                word.extend(chars.next().filter(|next| *next != '\n'));
            }
            (None, c) if c.is_whitespace() || ";|&<>()`".contains(c) => words.push(std::mem::take(&mut word)),
            (_, c) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Folder;
    use crate::home::Home;
    use serde_json::{Value, json};

    fn names(tool: &str, input: Value) -> Vec<String> {
        let home = Home::new(&["/Home/Ada/.aye"], Some("/Home/Ada"));
        let input = input.as_object().unwrap();
        let call =
            ToolCall { agent_kind: "claude", cwd: "/src", folder: Folder::Claimed, tool, input, home: &home };
        let names = Names::of(&call, call.script().as_ref());
        names.names.into_iter().map(|name| name.path).collect()
    }

    #[track_caller]
    fn finds(command: &str, path: &str) {
        let found = names("Bash", json!({"command": command}));
        assert!(found.iter().any(|name| name == path), "{command:?} has {path:?}: {found:?}");
    }

    #[test]
    fn each_word_of_a_command_may_be_a_name() {
        finds("cat a/b", "a/b");
        finds("cat 'a b'/c", "a b/c");
        finds("cat \"it's\"/c", "it's/c");
        finds(r"cat it\'s/c", "it's/c");
        finds(r#"cat "a\b/c""#, r"a\b/c");
        finds("cat $'\\x2fetc/x'", "/etc/x");
        finds("cat <a >b", "b");
        finds("tar --file=/x/y", "/x/y");
        finds("tar -f/x/y", "/x/y");
        finds("curl -d @/x/y", "/x/y");
        finds("scp host:/x/y .", "/x/y");
        finds("bash -c 'cat \"/a b/c\"'", "/a b/c");
        finds("cat /x/%61ye", "/x/aye");
        finds("cat ~/x", "/Home/Ada/x");
        finds("cat \"$HOME\"/x ${HOME}/y", "/Home/Ada/y");
        finds("cat /x/a*/b", "/x/");
        finds("ls *.rs", ".");
    }

    #[test]
    fn the_text_of_a_file_is_no_list_of_names() {
        let found = names("Write", json!({"file_path": "/src/x", "content": "see /etc/passwd"}));
        assert!(
            found.contains(&"/src/x".to_owned()) && !found.contains(&"/etc/passwd".to_owned()),
            "{found:?}"
        );
        let other = names("mcp__run__it", json!({"script": "see /etc/passwd"}));
        assert!(other.contains(&"/etc/passwd".to_owned()), "{other:?}");
    }

    #[test]
    fn what_is_text_is_not_taken_for_a_name() {
        let found =
            names("Bash", json!({"command": "git commit -m 'and / or'", "description": "look at / and ~"}));
        assert!(!found.contains(&"/".to_owned()) && !found.contains(&"/Home/Ada".to_owned()), "{found:?}");
        finds("grep -r x /", "/");
        finds("ls ~", "/Home/Ada");
        let found = names("Grep", json!({"pattern": "/.*x"}));
        assert_eq!(found, ["."]);
        let found = names("Task", json!({"prompt": "one / two, ~ three"}));
        assert!(!found.contains(&"/".to_owned()) && !found.contains(&"/Home/Ada".to_owned()), "{found:?}");
    }

    #[test]
    fn too_many_names_are_not_looked_at() {
        let home = Home::default();
        let many = (0..5000).map(|n| format!("w{n} ")).collect::<String>();
        let input = json!({"text": many});
        let input = input.as_object().unwrap();
        let call = ToolCall {
            agent_kind: "x",
            cwd: "/",
            folder: Folder::Claimed,
            tool: "mcp__x",
            input,
            home: &home,
        };
        assert!(Names::of(&call, None).too_many);
    }
}
