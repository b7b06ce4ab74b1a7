//! An agent's own tools in the one vocabulary, and back.

use aye_core::{Keeper, Scope, ScopeOffer, Tool};
use aye_policy::{Exactly, Folder, ToolCall};
use serde_json::{Map, Value};
use std::path::Path;

/// What an adapter must know of its run to read a tool call.
pub struct RunContext<'a> {
    pub kind: &'a str,
    pub cwd: &'a Path,
    pub places: &'a aye_policy::OwnPlaces,
}

/// A tool of the vocabulary, as one kind of agent calls it.
pub struct OwnTool {
    pub name: &'static str,
    pub tool: Tool,
    /// Fields of its input that have another name: the agent's, then ours.
    pub fields: &'static [(&'static str, &'static str)],
}

/// The name and the input as an ask has them. What is not listed keeps its name and never passes for a tool of the
/// vocabulary. Neither does an input that has a field under both names: which of them the agent means is not known.
pub fn to_vocabulary(
    tools: &[OwnTool],
    kind: &str,
    name: &str,
    input: Map<String, Value>,
) -> (String, Map<String, Value>) {
    let own = tools.iter().find(|own| own.name == name);
    match own.filter(|own| !own.fields.iter().any(|(_, ours)| input.contains_key(*ours))) {
        Some(own) => (own.tool.name().to_owned(), renamed(input, |(own, ours)| (own, ours), own.fields)),
        None if Tool::named(name).is_some() => (format!("{kind}:{name}"), input),
        None => (name.to_owned(), input),
    }
}

/// An input that a person was shown, and perhaps changed, as the agent writes it. `tool` is the ask's.
pub fn to_own(tools: &[OwnTool], name: &str, tool: &str, input: Map<String, Value>) -> Map<String, Value> {
    match tools.iter().find(|own| own.name == name && own.tool.name() == tool) {
        Some(own) => renamed(input, |(own, ours)| (ours, own), own.fields),
        None => input,
    }
}

/// How far an approval of this call may reach where the agent keeps no rules itself: the hub repeats what is exact.
pub fn kept_by_hub(
    kind: &str,
    tool: &str,
    input: &Map<String, Value>,
    cwd: &Path,
    places: &aye_policy::OwnPlaces,
) -> Vec<ScopeOffer> {
    let (cwd, folder) = (cwd.to_string_lossy(), Folder::Claimed);
    let call = ToolCall { agent_kind: kind, cwd: &cwd, folder, tool, input, places };
    let offer = |scope| ScopeOffer { scope, rule: None, kept_by: Some(Keeper::Hub) };
    let kept = Exactly::of(&call).is_ok().then(|| [Scope::Session, Scope::Always].map(offer));
    std::iter::once(ScopeOffer::once()).chain(kept.into_iter().flatten()).collect()
}

fn renamed<'a>(
    input: Map<String, Value>,
    way: fn((&'a str, &'a str)) -> (&'a str, &'a str),
    fields: &[(&'a str, &'a str)],
) -> Map<String, Value> {
    let new_name = |field: String| {
        let new = fields.iter().copied().map(way).find(|(from, _)| *from == field);
        new.map_or(field, |(_, to)| to.to_owned())
    };
    input.into_iter().map(|(field, value)| (new_name(field), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_policy::{Action, Folder, OwnPlaces, PolicyFile, ToolCall};
    use serde_json::json;

    const OWN: [OwnTool; 4] = [
        OwnTool { name: "shell", tool: Tool::Command, fields: &[("cmd", "command")] },
        OwnTool {
            name: "patch",
            tool: Tool::Edit,
            fields: &[("path", "file_path"), ("old", "old_string"), ("new", "new_string")],
        },
        OwnTool { name: "cat", tool: Tool::Read, fields: &[("path", "file_path")] },
        OwnTool { name: "ask", tool: Tool::Questions, fields: &[] },
    ];

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(fields) = value else { panic!("{value}") };
        fields
    }

    fn decided(name: &str, input: Value) -> &'static str {
        let policy = json!({"auto_approve": ["*"], "rules": [
            {"tool": "Bash", "command": "git push*", "action": "deny"}, {"tool": "Edit", "action": "ask"}]});
        let policy = serde_json::from_value::<PolicyFile>(policy).unwrap().check().unwrap();
        let places = OwnPlaces::new(&["/home/ada/.aye"], Some("/home/ada"));
        let (tool, input) = to_vocabulary(&OWN, "other", name, object(input));
        let (cwd, folder) = ("/src", Folder::Claimed);
        let call = ToolCall { agent_kind: "other", cwd, folder, tool: &tool, input: &input, places: &places };
        match policy.read(&call).decision.action {
            Action::Allow => "allow",
            Action::Deny { .. } => "deny",
            Action::Ask => "ask",
        }
    }

    #[test]
    fn rules_own_files_and_questions_hold_by_whatever_name_the_agent_calls_its_tools() {
        for (name, input, expected) in [
            ("shell", json!({"cmd": "make"}), "allow"),
            ("shell", json!({"cmd": "make; git push"}), "deny"),
            ("shell", json!({"cmd": "cat ~/.aye/operator.token"}), "ask"),
            ("patch", json!({"path": "a", "old": "x", "new": "y"}), "ask"),
            ("cat", json!({"path": "a"}), "allow"),
            ("cat", json!({"path": "/home/ada/.aye/operator.token"}), "ask"),
            ("ask", json!({"question": "Go on?"}), "ask"),
        ] {
            assert_eq!(decided(name, input.clone()), expected, "{name} {input}");
        }
    }

    #[test]
    fn an_input_goes_there_and_back_with_its_other_fields() {
        let own = object(json!({"cmd": "ls", "timeout": 5}));
        let (tool, input) = to_vocabulary(&OWN, "other", "shell", own.clone());
        assert_eq!((tool.as_str(), &input), ("Bash", &object(json!({"command": "ls", "timeout": 5}))));
        assert_eq!(to_own(&OWN, "shell", &tool, input), own);
    }

    #[test]
    fn nothing_passes_for_a_tool_that_it_is_not() {
        let named = |name: &str, input: Value| to_vocabulary(&OWN, "other", name, object(input)).0;
        assert_eq!(named("Read", json!({"file_path": "a"})), "other:Read");
        assert_eq!(named("mcp__x__y", json!({})), "mcp__x__y");
        assert_eq!(named("shell", json!({"cmd": "rm -rf /", "command": "ls"})), "shell");
    }
}
