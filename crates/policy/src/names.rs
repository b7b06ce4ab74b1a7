//! Lists the file names in a tool call that a program might open. The caller resolves them on disk; nothing is opened
//! here.

mod pattern;

use crate::call::{HARMLESS_FIELDS, ToolCall};
use crate::own_places::collect_strings;
use crate::shell::Script;
use aye_core::tool::{Operation, Tool};
use std::collections::BTreeSet;

/// More than anybody writes into one command; for a call with more names a person is asked.
const MOST: usize = 4096;

/// The names in one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub names: BTreeSet<Name>,
    /// Whether there were too many to resolve.
    pub too_many: bool,
    /// For each word, the names it may mean, in the order of the command: a command may change its folder and use later
    /// words from there.
    pub words: Vec<Vec<Name>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Absolute, or relative to the agent's folder; not normalised.
    pub path: String,
    /// Whether everything below it may be read as well.
    pub through: bool,
}

impl Names {
    pub(crate) fn of(call: &ToolCall, script: Option<&Script>) -> Self {
        let mut found = Self::default();
        let (tool, is_shell) = (Tool::named(call.tool), call.runs_command());
        let is_file_tool = matches!(call.act(), Some(Operation::Change | Operation::Read));
        let is_search = call.act() == Some(Operation::Search);
        // Not file names: a command's description, and the text that a search looks for.
        let is_text = |field: &str| {
            (is_shell && HARMLESS_FIELDS.contains(&field)) || (tool == Some(Tool::Grep) && field == "pattern")
        };
        let mut strings = vec![];
        for (field, value) in call.input.iter().filter(|(field, _)| !is_text(field)) {
            strings.push(field.as_str());
            collect_strings(value, &mut strings);
        }
        let moves = !is_file_tool && !is_search;
        for text in strings {
            if found.too_many {
                return found;
            }
            let whole = found.add(call, text, !is_file_tool);
            if is_shell {
                found.add_words(call, words_within(text));
            } else if moves {
                found.words.push(whole);
                found.add_words(call, loose_words(text));
            }
        }
        for part in script.iter().flat_map(|script| &script.parts) {
            // Includes the commands that wrappers and nested shells run.
            let own = part.words.join(" ");
            let others = part.reaches.iter().filter(|text| **text != part.line && **text != own);
            for word in others.flat_map(|text| words(text)).chain(part.words.iter().cloned()) {
                starts(&word).for_each(|name| drop(found.add(call, name, true)));
            }
            if part.reaches.iter().any(|text| goes_home(text)) {
                found.add_words(call, vec!["~".to_owned()]);
            }
        }
        if is_search && !call.input.contains_key("path") {
            found.add(call, ".", true);
        }
        found
    }

    fn add_words(&mut self, call: &ToolCall, words: Vec<String>) {
        for word in words {
            let names = starts(&word).flat_map(|name| self.add(call, name, true)).collect();
            self.words.push(names);
            if self.too_many {
                return;
            }
        }
    }

    /// Records and returns the names that a text may mean.
    fn add(&mut self, call: &ToolCall, text: &str, through: bool) -> Vec<Name> {
        if text.is_empty() || text.contains('\0') {
            return vec![];
        }
        if self.names.len() >= MOST || self.words.len() >= MOST {
            self.too_many = true;
            return vec![];
        }
        let text = ["file://localhost/", "file:///"]
            .iter()
            .find(|start| text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start)))
            .map_or(text, |start| &text[start.len() - 1..]);
        let path = call.places.expand(text);
        let expands = matches!(Tool::named(call.tool), Some(Tool::Command | Tool::Glob));
        let Some(paths) = (if expands { pattern::alternatives(&path) } else { Some(vec![path]) }) else {
            self.too_many = true;
            return vec![];
        };
        let mut found = vec![];
        for path in paths {
            if let Some(up) = pattern::with_steps_upwards(&path).filter(|_| expands) {
                pattern::add(up, through, &mut found);
            }
            pattern::add(path, through, &mut found);
        }
        self.names.extend(found.iter().cloned());
        found
    }
}

/// `cd` without an argument goes to the user's home.
fn goes_home(command: &str) -> bool {
    let mut words = command.split_whitespace();
    words.next() == Some("cd") && words.all(|word| word.starts_with('-') && word != "-")
}

/// Where a name may begin within a word: `--file=NAME`, `host:NAME`, `@NAME`, `-fNAME`, `-xf/NAME`.
fn starts(word: &str) -> impl Iterator<Item = &str> {
    let after_sign =
        word.char_indices().filter(|(_, c)| "=:,@".contains(*c)).map(|(at, c)| at + c.len_utf8());
    let is_short = word.starts_with('-') && !word.starts_with("--");
    let after_letter = word.char_indices().nth(2).map(|(at, _)| at);
    let after_letters = word.find(['/', '.', '~', '$']);
    let after_option = after_letter.into_iter().chain(after_letters).filter(move |_| is_short);
    std::iter::once(0).chain(after_sign).chain(after_option).map(|start| &word[start..])
}

/// A text that may or may not be a command. A single `/` or `~` in it is not taken as a name.
fn loose_words(text: &str) -> Vec<String> {
    let mut all = words(text);
    all.extend(text.split_whitespace().map(str::to_owned));
    all.retain(|word| is_no_mere_sign(word));
    all
}

fn is_no_mere_sign(word: &str) -> bool {
    word.contains(char::is_alphanumeric) || word.contains("..")
}

/// How many levels of quoted commands are parsed.
const DEEPEST: usize = 8;

/// The words of a command; each word that may be a command itself is followed by its words.
fn words_within(text: &str) -> Vec<String> {
    fn collect(text: &str, levels: usize, all: &mut Vec<String>) {
        for word in words(text) {
            let goes_deeper =
                levels < DEEPEST && word != text && word.contains([' ', '\t', '\n', ';', '|', '&']);
            if levels == 0 || is_no_mere_sign(&word) {
                all.push(word.clone());
            }
            if goes_deeper && all.len() <= MOST {
                collect(&word, levels + 1, all);
            }
        }
    }
    let mut all = vec![];
    collect(text, 0, &mut all);
    all
}

/// The words of a command, without quotes and backslashes.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Folder;
    use crate::own_places::OwnPlaces;
    use serde_json::{Value, json};

    fn names(tool: &str, input: Value) -> Vec<String> {
        let places = OwnPlaces::new(&["/Home/Ada/.aye"], Some("/Home/Ada"));
        let input = input.as_object().unwrap();
        let call = ToolCall {
            agent_kind: "claude",
            cwd: "/src",
            folder: Folder::Claimed,
            tool,
            input,
            places: &places,
        };
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
    fn what_a_shell_makes_of_a_word_is_a_name_too() {
        finds("cat {../..,x}/a", "../../a");
        finds("cat {.,}./{.,}./a", "../../a");
        finds("cat .?/.*/.[.]/a", "../../../a");
        finds("cat ~+/../a", "./../a");
        finds("cat \"$PWD\"/../a ${PWD}/../b", "./../b");
        finds("cat ../../$x/a", "../../");
        finds("tar -cC../.. a", "../..");
        finds("cat ${HOME:-x}/a ${HOME%/}/b", "/Home/Ada/a");
        finds("cat ${HOME:-x}/a ${HOME%/}/b", "/Home/Ada/b");
        finds("bash -c 'cd ../..; cat a'", "../..");
        finds("bash -c 'cd / && cat a'", "/");
        finds("eval 'cd ..'", "..");
        finds("cat file://localhost/x/y", "/x/y");
        for command in ["cd && cat a", "cd; cat a", "(cd -P\ncat a)", "cd -- || x", "bash -c 'cd; cat a'"] {
            finds(command, "/Home/Ada");
        }
        let long = format!("/x/{}y", "./".repeat(5000));
        assert!(names("Read", json!({"file_path": long})).contains(&"/x/y".to_owned()));
        assert!(names("Glob", json!({"pattern": "{.,x}./a/*"})).contains(&"../a/".to_owned()));
        for command in ["cd - && cat a", "cd src && cat a", "echo cd", "cat ${HOME}x"] {
            assert!(
                !names("Bash", json!({"command": command})).contains(&"/Home/Ada".to_owned()),
                "{command}"
            );
        }
    }

    #[test]
    fn words_are_kept_in_their_order_with_those_of_commands_in_quotes() {
        let places = OwnPlaces::default();
        let input = json!({"command": "cd .. && bash -c \"cd ..; cat 'a b'\""});
        let input = input.as_object().unwrap();
        let folder = Folder::Claimed;
        let call = ToolCall { agent_kind: "x", cwd: "/", folder, tool: "Bash", input, places: &places };
        let words = Names::of(&call, call.script().as_ref()).words;
        let first: Vec<_> = words.iter().filter_map(|names| Some(names.first()?.path.as_str())).collect();
        let expected =
            ["command", "cd", "..", "bash", "-c", "cd ..; cat 'a b'", "cd", "..", "cat", "a b", "a", "b"];
        assert_eq!(first, expected);
    }

    #[test]
    fn braces_that_stand_for_too_much_are_not_looked_at() {
        let places = OwnPlaces::default();
        let input = json!({"command": format!("cat {}", "{a,b}".repeat(9))});
        let input = input.as_object().unwrap();
        let folder = Folder::Claimed;
        let call = ToolCall { agent_kind: "x", cwd: "/", folder, tool: "Bash", input, places: &places };
        assert!(Names::of(&call, call.script().as_ref()).too_many);
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
        let places = OwnPlaces::default();
        let many = (0..5000).map(|n| format!("w{n} ")).collect::<String>();
        let input = json!({"text": many});
        let input = input.as_object().unwrap();
        let call = ToolCall {
            agent_kind: "x",
            cwd: "/",
            folder: Folder::Claimed,
            tool: "mcp__x",
            input,
            places: &places,
        };
        assert!(Names::of(&call, None).too_many);
        let input = json!({"same": vec!["a/b"; 5000]});
        let names = Names::of(&ToolCall { input: input.as_object().unwrap(), ..call }, None);
        assert!(names.too_many && names.words.len() < 2 * MOST);
    }
}
