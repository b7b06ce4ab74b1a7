//! What holds for every agent, whatever it is called: rules, our own files, and what never goes without a person.

#![allow(clippy::unwrap_used)]

use aye_core::tool::Tool;
use aye_policy::{Action, Folder, OwnPlaces, Policy, PolicyFile, ToolCall};
use serde_json::{Value, json};

const KINDS: [&str; 4] = ["claude", "codex", "opencode", "no-such-agent"];

fn policy() -> Policy {
    let file = json!({"auto_approve": ["*"], "rules": [
        {"name": "no pushes", "tool": "Bash", "command": "git push*", "action": "deny"},
        {"name": "docs", "tool": "WebFetch", "input": {"url": "https://docs.example/*"}, "action": "ask"}]});
    serde_json::from_value::<PolicyFile>(file).unwrap().check().unwrap()
}

fn decided(kind: &str, tool: &str, input: &Value) -> &'static str {
    let places = OwnPlaces::new(&["/home/ada/.aye"], Some("/home/ada"));
    let call = ToolCall {
        agent_kind: kind,
        cwd: "/src",
        folder: Folder::Claimed,
        tool,
        input: input.as_object().unwrap(),
        places: &places,
    };
    match policy().read(&call).decision.action {
        Action::Allow => "allow",
        Action::Deny { .. } => "deny",
        Action::Ask => "ask",
    }
}

#[test]
fn every_tool_of_the_vocabulary_is_judged_alike_for_every_agent() {
    for (tool, input, expected) in [
        (Tool::Command, json!({"command": "make"}), "allow"),
        (Tool::Command, json!({"command": "make && git push"}), "deny"),
        (Tool::Command, json!({"command": "cat ~/.aye/operator.token"}), "ask"),
        (Tool::Write, json!({"file_path": "a", "content": "x"}), "allow"),
        (Tool::Write, json!({"file_path": "/home/ada/.aye/config.toml", "content": "x"}), "ask"),
        (Tool::Edit, json!({"file_path": "a", "old_string": "x", "new_string": "y"}), "allow"),
        (Tool::Edit, json!({"file_path": "~/.aye/config.toml", "old_string": "x", "new_string": "y"}), "ask"),
        (Tool::MultiEdit, json!({"file_path": "/home/ada/src/../.aye/x", "edits": []}), "ask"),
        (Tool::EditNotebook, json!({"notebook_path": "/home/ada/.aye/x"}), "ask"),
        (Tool::Read, json!({"file_path": "a"}), "allow"),
        (Tool::Read, json!({"file_path": "/home/ada/.aye/operator.token"}), "ask"),
        (Tool::ReadNotebook, json!({"notebook_path": "/home/ada/.aye/x"}), "ask"),
        (Tool::Glob, json!({"pattern": "*.rs"}), "allow"),
        (Tool::Glob, json!({"pattern": "/**"}), "ask"),
        (Tool::Grep, json!({"pattern": "token", "path": "/home"}), "ask"),
        (Tool::List, json!({"path": "/home/ada"}), "ask"),
        (Tool::Fetch, json!({"url": "https://docs.example/x"}), "ask"),
        (Tool::Fetch, json!({"url": "https://elsewhere.example/x"}), "allow"),
        (Tool::Questions, json!({"questions": []}), "ask"),
        (Tool::Plan, json!({"plan": "1. x"}), "ask"),
    ] {
        for kind in KINDS {
            assert_eq!(decided(kind, tool.name(), &input), expected, "{kind}: {} {input}", tool.name());
        }
    }
}

#[test]
fn a_tool_outside_the_vocabulary_keeps_its_hands_off_our_files_too() {
    for kind in KINDS {
        assert_eq!(decided(kind, "mcp__files__open", &json!({"where": "/srv/x"})), "allow");
        assert_eq!(decided(kind, "mcp__files__open", &json!({"where": "/home/ada/.aye/x"})), "ask");
    }
}

#[test]
fn every_tool_has_a_name_of_its_own() {
    for tool in Tool::ALL {
        assert_eq!(Tool::named(tool.name()), Some(tool));
    }
}
