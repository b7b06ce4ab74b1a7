//! What the agent offers as answers to a request. Exactly that can be answered, and nothing else.

use aye_core::visible::{one_line, shorten};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const LONGEST_SHOWN: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasts {
    Once,
    Session,
    Always,
}

/// One answer on offer.
#[derive(Debug, PartialEq)]
pub struct Choice {
    pub id: String,
    pub name: String,
    /// How long it allows; none where it refuses once.
    allows: Option<Lasts>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Options(Vec<Choice>);

impl Options {
    /// `says_what_it_keeps`: whether the agent's words for what it would allow from then on say what that is. Refused if two
    /// options have one id: a reply names its option by the id alone, so a refusal could be taken for an approval.
    pub fn read(options: &Value, says_what_it_keeps: bool) -> Result<Self, String> {
        let all = options.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut ids = BTreeSet::new();
        if let Some(twice) =
            all.iter().filter_map(|option| option["optionId"].as_str()).find(|id| !ids.insert(*id))
        {
            return Err(format!(
                "two of its options have the id {:?}",
                shorten(&one_line(twice), LONGEST_SHOWN)
            ));
        }
        let read = |option: &Value| {
            let (id, name) = (option["optionId"].as_str()?.to_owned(), option["name"].as_str()?.to_owned());
            let allows = match option["kind"].as_str()? {
                "allow_once" => Some(Lasts::Once),
                "allow_always" if !says_what_it_keeps => return None,
                "allow_always" if is_for_session(&name) => Some(Lasts::Session),
                "allow_always" => Some(Lasts::Always),
                "reject_once" => None,
                // A person who says no has not said "never".
                _ => return None,
            };
            Some(Choice { id, name, allows })
        };
        Ok(Self(all.iter().filter_map(read).collect()))
    }

    /// The first that allows for so long.
    pub fn allowing(&self, lasts: Lasts) -> Option<&Choice> {
        self.0.iter().find(|choice| choice.allows == Some(lasts))
    }

    /// Whether "allow" could mean several things, so that a person must say which.
    pub fn differ(&self) -> bool {
        self.0.iter().filter(|choice| choice.allows == Some(Lasts::Once)).count() > 1
    }

    /// All that allow no longer than once.
    pub fn for_once(&self) -> impl Iterator<Item = &Choice> {
        self.0.iter().filter(|choice| matches!(choice.allows, None | Some(Lasts::Once)))
    }

    /// The one by this id that allows once, or else the first that does.
    pub fn allowing_once_as(&self, id: &str) -> Option<&Choice> {
        let once = |choice: &&Choice| choice.allows == Some(Lasts::Once);
        self.0.iter().filter(once).find(|choice| choice.id == id).or(self.allowing(Lasts::Once))
    }

    pub fn refusing(&self) -> Option<&Choice> {
        self.0.iter().find(|choice| choice.allows.is_none())
    }

    /// The reply that refuses. Where the agent offers none, only its whole turn can be ended.
    pub fn refused(&self) -> Value {
        self.refusing().map_or_else(cancelled, Choice::selected)
    }
}

impl Choice {
    /// The reply that picks it.
    pub fn selected(&self) -> Value {
        json!({ "outcome": { "outcome": "selected", "optionId": self.id } })
    }

    pub fn allows(&self) -> bool {
        self.allows.is_some()
    }
}

/// Whether an agent says of what it keeps that it keeps it no longer than its session.
fn is_for_session(name: &str) -> bool {
    let name = name.to_lowercase();
    let words: Vec<_> = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_longer = words.iter().any(|word| matches!(*word, "sessions" | "future" | "every" | "always"));
    !is_longer && words.windows(2).any(|pair| matches!(pair, ["this" | "the" | "current", "session"]))
}

pub fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_offers_can_be_picked_and_nothing_else() {
        let offered = |kinds: &[(&str, &str)]| {
            let option = |(n, (kind, name)): (usize, &(&str, &str))| json!({"optionId": format!("o{n}"), "kind": kind, "name": name});
            Options::read(&kinds.iter().enumerate().map(option).collect(), true).unwrap()
        };
        let picked = |choice: Option<&Choice>| choice.map(|choice| choice.id.clone());
        for (kinds, expected) in [
            (&[("allow_once", "Yes"), ("reject_once", "No")][..], [Some("o0"), None, None, Some("o1")]),
            (
                &[("allow_always", "For this session"), ("allow_once", "Yes")],
                [Some("o1"), Some("o0"), None, None],
            ),
            (&[("allow_always", "Always"), ("reject_always", "Never")], [None, None, Some("o0"), None]),
            (&[("reject_once", "No")], [None, None, None, Some("o0")]),
            (&[("other", "?")], [None; 4]),
        ] {
            let options = offered(kinds);
            let lasts =
                [Lasts::Once, Lasts::Session, Lasts::Always].map(|lasts| picked(options.allowing(lasts)));
            let found: Vec<_> = lasts.into_iter().chain([picked(options.refusing())]).collect();
            assert_eq!(found, expected.map(|id| id.map(str::to_owned)), "{kinds:?}");
        }
        let several = offered(&[
            ("allow_once", "A"),
            ("allow_once", "B"),
            ("reject_once", "Skip"),
            ("allow_always", "C"),
        ]);
        assert!(several.differ());
        assert_eq!(
            several.for_once().map(|choice| choice.name.as_str()).collect::<Vec<_>>(),
            ["A", "B", "Skip"]
        );
        assert!(!offered(&[("allow_once", "A"), ("allow_always", "B")]).differ());
        assert_eq!(offered(&[("allow_once", "A")]).refused(), cancelled());
        let vague = Options::read(
            &json!([{"optionId": "a", "kind": "allow_always", "name": "For this session"}]),
            false,
        );
        assert_eq!(vague, Ok(Options::default()));
    }

    #[test]
    fn options_that_share_an_id_are_refused_whatever_they_are() {
        for kinds in [
            ["allow_once", "reject_once"],
            ["reject_once", "allow_once"],
            ["allow_always", "reject_once"],
            ["reject_always", "allow_once"],
            ["allow_once", "allow_once"],
            ["allow_once", "no_such_kind"],
        ] {
            let options = kinds.map(|kind| json!({"optionId": "a", "kind": kind, "name": kind}));
            let refused = Options::read(&json!(options), true);
            assert_eq!(refused, Err("two of its options have the id \"a\"".into()), "{kinds:?}");
        }
    }

    #[test]
    fn only_what_the_agent_keeps_for_this_one_session_is_for_the_session() {
        for (name, lasts) in [
            ("Allow for this session", Lasts::Session),
            ("Yes, for the session.", Lasts::Session),
            ("Allow (current session)", Lasts::Session),
            ("THIS SESSION", Lasts::Session),
            ("Allow for all future sessions", Lasts::Always),
            ("Allow in every session", Lasts::Always),
            ("Allow for this session and all future sessions", Lasts::Always),
            ("Always allow, not only in this session", Lasts::Always),
            ("Allow for this and every other session", Lasts::Always),
            ("Allow beyond these sessions", Lasts::Always),
            ("Session", Lasts::Always),
            ("Always", Lasts::Always),
        ] {
            let options = json!([{"optionId": "a", "kind": "allow_always", "name": name}]);
            let options = Options::read(&options, true).unwrap();
            assert_eq!(options.0[0].allows, Some(lasts), "{name}");
        }
    }
}
