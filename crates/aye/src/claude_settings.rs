//! Where Claude Code keeps what a person allowed for longer than once. Its adapters put that into words when they offer
//! it; the hub finds it again by those words, and looks whether the settings still have it.

use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    Session,
    ProjectLocal,
    Project,
    Person,
}

const PLACES: [(Destination, &str, &str); 4] = [
    (Destination::Session, "session", " for this session"),
    (Destination::ProjectLocal, "localSettings", " in this project's local settings"),
    (Destination::Project, "projectSettings", " in this project's settings, for everybody who works on it"),
    (Destination::Person, "userSettings", " in your settings, for every project"),
];
/// Between two of them.
const AND: &str = "; ";

const ALLOW: &str = "allow";
pub const MODE: &str = "switch to the mode";
pub const FOLDERS: &str = "let it work in";

/// What ends the words for a rule that Claude Code keeps at this destination.
pub fn place_words(destination: Option<&str>) -> &'static str {
    let known = PLACES.iter().find(|(_, name, _)| destination == Some(name));
    known.map_or(" where the agent keeps its rules", |(_, _, words)| words)
}

pub fn in_words(rules: &[String]) -> String {
    rules.join(AND)
}

/// What was offered in these words, each with its place where that is a known one.
pub fn read(mut words: &str) -> Vec<(&str, Option<Destination>)> {
    let mut read = Vec::new();
    // A rule may itself have a semicolon, so each ends with its place.
    let ends_at = |words: &str, end: &str| {
        let ends = |(at, _): &(usize, &str)| {
            let rest = &words[at + end.len()..];
            rest.is_empty() || rest.starts_with(AND)
        };
        words.match_indices(end).find(ends).map(|(at, _)| at)
    };
    while !words.is_empty() {
        let ends =
            PLACES.iter().filter_map(|(place, _, end)| Some((ends_at(words, end)?, *place, end.len())));
        let Some((at, place, length)) = ends.min_by_key(|(at, _, _)| *at) else {
            read.push((words, None));
            break;
        };
        read.push((&words[..at], Some(place)));
        words = words[at + length..].trim_start_matches(AND);
    }
    read
}

/// The file for this place of a session that was started in `folder`.
pub fn file(place: Destination, folder: &Path) -> Option<PathBuf> {
    match place {
        Destination::Session => None,
        Destination::ProjectLocal => Some(folder.join(".claude/settings.local.json")),
        Destination::Project => Some(folder.join(".claude/settings.json")),
        Destination::Person => Some(config_dir()?.join("settings.json")),
    }
}

/// `CLAUDE_CONFIG_DIR`, or where the program keeps its settings and transcripts by default.
pub fn config_dir() -> Option<PathBuf> {
    let named = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(std::env::home_dir()?.join(".claude")))
}

/// Whether the settings have what was put into these words; none where the words say something else.
pub fn has(settings: &Value, words: &str) -> Option<bool> {
    let permissions = &settings["permissions"];
    let lists = |field: &str, entries: &str| {
        let listed = permissions[field].as_array().map(Vec::as_slice).unwrap_or_default();
        let has = |entry: &str| listed.iter().any(|listed| listed == entry);
        has(entries) || entries.split(", ").all(has)
    };
    let after = |verb: &str| words.strip_prefix(verb)?.strip_prefix(' ');
    let allowed = after(ALLOW).map(|rules| lists("allow", rules));
    let allowed = allowed.or_else(|| after(FOLDERS).map(|folders| lists("additionalDirectories", folders)));
    allowed.or_else(|| after(MODE).map(|mode| permissions["defaultMode"] == mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_put_into_words_is_read_back() {
        let local = place_words(Some("localSettings"));
        let session = place_words(Some("session"));
        let words = in_words(&[
            format!("allow Bash(a; b for this session c){local}"),
            format!("let it work in /x{session}"),
        ]);
        assert_eq!(
            read(&words),
            [
                ("allow Bash(a; b for this session c)", Some(Destination::ProjectLocal)),
                ("let it work in /x", Some(Destination::Session)),
            ]
        );
        assert_eq!(read("Always allow this"), [("Always allow this", None)]);
        assert_eq!(read(""), []);
    }

    #[test]
    fn settings_have_rules_folders_and_a_mode() {
        let settings = json!({"permissions": {"allow": ["Bash(touch two *)", "Read(//a/**)", "Bash(echo a, b)"],
            "additionalDirectories": ["/x"], "defaultMode": "acceptEdits"}});
        for (words, expected) in [
            ("allow Bash(touch two *)", Some(true)),
            ("allow Bash(touch two *), Read(//a/**)", Some(true)),
            ("allow Bash(echo a, b)", Some(true)),
            ("allow Bash(rm *)", Some(false)),
            ("let it work in /x", Some(true)),
            ("let it work in /y", Some(false)),
            ("switch to the mode acceptEdits", Some(true)),
            ("switch to the mode plan", Some(false)),
            ("Always allow", None),
        ] {
            assert_eq!(has(&settings, words), expected, "{words}");
        }
        assert_eq!(has(&json!([]), "allow Bash(rm *)"), Some(false));
    }
}
