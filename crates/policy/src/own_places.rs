//! Paths that belong to aye itself: its tokens, its database, its configuration. An input that names one is never
//! approved without a person, because whoever can read or change those files can approve anything.
//!
//! This module only looks at text. It recognises a path from the root, from the user's home (`~`, `$HOME`) or from the
//! agent's folder, through `.`, `..` and doubled slashes, in quotes, in another case, and as `AYE_HOME`. Symbolic links
//! and parent folders have to be resolved on disk: [`crate::names`] lists the names to look up there. A name that is
//! assembled when the command runs is not recognised.

use crate::pattern::settle_path;
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnPlaces {
    /// Normalised and in lower case, because some file systems ignore case.
    places: Vec<String>,
    user: Option<String>,
    /// In its original case.
    user_spelled: Option<String>,
}

impl OwnPlaces {
    /// The folders and files that belong to aye, as absolute paths, and the user's home folder.
    pub fn new(places: &[&str], user_home: Option<&str>) -> Self {
        let settle = |path: &str| settle_path("/", &path.to_lowercase());
        let mut settled = vec![];
        for place in places.iter().filter(|place| !place.is_empty()).map(|place| settle(place)) {
            // Quotes are removed from a text before it is compared, so a path with quotes in its name must match without.
            let bare = unquoted(&place);
            if bare != place && bare != "/" {
                settled.push(bare);
            }
            settled.push(place);
        }
        Self { places: settled, user: user_home.map(settle), user_spelled: user_home.map(str::to_owned) }
    }

    /// Expands the user's home and the current folder in a name.
    pub(crate) fn expand(&self, name: &str) -> String {
        let name = name.replace("${PWD}", ".").replace("$PWD", ".");
        let name = name.strip_prefix("~+").map(|rest| format!(".{rest}")).unwrap_or(name);
        let Some(user) = &self.user_spelled else { return name };
        let name = with_home(name.replace("${HOME}", user).replace("$HOME", user), user);
        let Some(rest) = name.strip_prefix('~') else { return name };
        let own = user.rsplit('/').next().unwrap_or_default();
        let is_own = |rest: &&str| rest.is_empty() || rest.starts_with('/');
        match rest.strip_prefix(own).filter(is_own).or_else(|| Some(rest).filter(is_own)) {
            Some(below) => format!("{user}{below}"),
            None => name,
        }
    }

    pub fn is_named(&self, cwd: &str, input: &Map<String, Value>) -> bool {
        let cwd = settle_path("/", &cwd.to_lowercase());
        let mut strings = vec![];
        for (key, value) in input {
            strings.push(key.as_str());
            collect_strings(value, &mut strings);
        }
        self.is_inside(&cwd) || strings.into_iter().any(|text| self.is_named_in(text, &cwd))
    }

    /// Whether one of the paths lies below the folder that a search covers.
    pub fn is_below(&self, cwd: &str, input: &Map<String, Value>, pattern_is_path: bool) -> bool {
        let cwd = settle_path("/", &cwd.to_lowercase());
        let named = input.get("path").and_then(Value::as_str).unwrap_or(".").to_lowercase();
        let pattern = input.get("pattern").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let folder = settle_path(&cwd, &self.expand_user(&named));
        // The search pattern itself may begin at the root or contain `..`.
        let roams = pattern_is_path && (pattern.starts_with(['/', '~']) || pattern.contains(".."));
        roams
            || self.places.iter().any(|place| {
                let folder = folder.trim_end_matches('/');
                place.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
            })
    }

    fn is_inside(&self, path: &str) -> bool {
        let below = |place: &String| {
            path.strip_prefix(place.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.places.iter().any(below)
    }

    fn is_named_in(&self, text: &str, cwd: &str) -> bool {
        let text = text.to_lowercase();
        if text.contains("aye_home") {
            return true;
        }
        let quoted = self.expand_user(&text);
        let text = self.expand_user(&unquoted(&text));
        // Most texts have no quotes and no parents in them, and are then looked at once.
        let is_written_in = |text: &str| {
            let is_named = |text: String| self.places.iter().any(|place| names(&text, place));
            is_named(squeeze(text, false)) || (text.contains("..") && is_named(squeeze(text, true)))
        };
        if is_written_in(&text) || (quoted != text && is_written_in(&quoted)) {
            return true;
        }
        let ends_path = |c: char| c.is_whitespace() || "=:,;|&<>()`".contains(c);
        text.split(ends_path)
            .chain([text.as_str(), quoted.as_str()])
            .any(|path| !path.is_empty() && self.is_inside(&settle_path(cwd, path)))
    }

    fn expand_user(&self, text: &str) -> String {
        // Every form of it begins with one of these.
        let Some(user) = self.user.as_ref().filter(|_| text.contains(['~', '$'])) else {
            return text.to_owned();
        };
        let named = format!("~{}", user.rsplit('/').next().unwrap_or_default());
        ["${home}", "$home", named.as_str(), "~"]
            .iter()
            .fold(text.to_owned(), |text, form| text.replace(form, user))
    }
}

/// `${HOME:-x}` and `${HOME%/}` also expand to the user's home.
fn with_home(name: String, user: &str) -> String {
    let Some((before, rest)) = name.split_once("${HOME") else { return name };
    match rest.split_once('}') {
        Some((how, after)) if how.starts_with([':', '%', '#', '/', '-', '+', '?']) => {
            format!("{before}{user}{after}")
        }
        Some(_) | None => name,
    }
}

pub(crate) fn collect_strings<'a>(value: &'a Value, strings: &mut Vec<&'a str>) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => strings.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, strings)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            strings.push(key);
            collect_strings(value, strings);
        }),
    }
}

fn unquoted(text: &str) -> String {
    text.replace(['\'', '"', '\\'], "")
}

/// The text with all paths in it normalised.
fn squeeze(text: &str, and_parents: bool) -> String {
    let mut names: Vec<&str> = vec![];
    for name in text.split('/') {
        match name {
            "" | "." => {}
            ".." if and_parents => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Whether the text contains the path or something below it, not just a name with the same prefix.
fn names(text: &str, place: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(place).any(|(at, _)| !text[at + place.len()..].starts_with(goes_on))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(cwd: &str, input: Value) -> bool {
        let places =
            OwnPlaces::new(&["/home/ada/.local/share/aye", "/run/user/7/aye.sock"], Some("/home/ada"));
        places.is_named(cwd, input.as_object().unwrap())
    }

    #[test]
    fn a_place_is_seen_however_it_is_written() {
        for text in [
            "/home/ada/.local/share/aye",
            "/home/ada/.local/share/aye/operator.token",
            "cat /home/ada/.local/share/aye/operator.token",
            "cat //home/ada/.//.local/share/aye/",
            "cat /home/ada/src/../.local/share/aye/x",
            "cat /home/ada/.local/share/aye/..",
            "cat ~/.local/share/aye/x",
            "cat ~ada/.local/share/aye/x",
            "cat $HOME/.local/share/aye/x",
            "cat \"${HOME}\"/.local/'share'/aye",
            "cat /home/ada/.local/sh\\are/aye/x",
            "cat $AYE_HOME/operator.token",
            "cat ${AYE_HOME}/operator.token",
            "printenv AYE_HOME",
            "tar --file=/home/ada/.local/share/aye",
            "file:///home/ada/.local/share/aye/config.toml",
            "cat /home/ada/.local/share/aye*",
            "CAT /HOME/ADA/.LOCAL/SHARE/AYE",
            "curl --unix-socket /run/user/7/aye.sock http://x",
            "../ada/.local/share/aye",
            "cat < .local/share/aye/operator.token",
        ] {
            assert!(named("/home/ada", json!({"command": text})), "{text:?}");
        }
    }

    #[test]
    fn a_neighbour_is_not_a_place() {
        for text in [
            "/home/ada/.local/share/ayes",
            "~/.local/share/aye-src/x",
            "cat aye",
            "/srv/aye",
            "git log HEAD~1",
            "",
        ] {
            assert!(!named("/home/ada", json!({"command": text})), "{text:?}");
        }
    }

    #[test]
    fn every_string_of_the_input_counts_and_so_does_the_folder() {
        let place = "~/.local/share/aye/x";
        assert!(named("/", json!({"a": [1, {"b": place}]})));
        assert!(named("/", json!({"a": {place: true}})));
        assert!(named("/home/ada/.local/share/aye", json!({})));
        assert!(named("/home/ada/.local/share", json!({"file_path": "aye/config.toml"})));
        assert!(!named("/home/ada", json!({"file_path": "aye/config.toml", "limit": 3})));
    }

    #[test]
    fn a_name_with_quotes_or_backslashes_in_it_is_seen_too() {
        let places = OwnPlaces::new(&["/home/ada/it's \\ours"], Some("/home/ada"));
        let named = |text: &str| places.is_named("/home/ada", json!({"command": text}).as_object().unwrap());
        assert!(named("/home/ada/it's \\ours/x"));
        assert!(named("it's \\ours/x"));
        assert!(named("cat \"/home/ada/it's \\\\ours/x\""));
        assert!(named("cat /home/ada/it\\'s\\ \\\\ours/x"));
        assert!(named("cat ~/'it'\\''s \\ours'/x"));
        assert!(!named("cat /home/ada/its mine"));
    }

    #[test]
    fn a_name_with_a_space_is_still_one_name() {
        let places = OwnPlaces::new(&["/Users/ada/Library/Application Support/aye"], Some("/Users/ada"));
        let named = |text: &str| places.is_named("/", json!({"command": text}).as_object().unwrap());
        assert!(named("cat ~/Library/Application\\ Support/aye/x"));
        assert!(named("cat ~/\"Library/Application Support\"/aye/x"));
        assert!(named("cat ~/Library/x/../Application\\ Support/aye/x"));
        assert!(!named("cat ~/Library/Application\\ Support/other"));
    }
}
