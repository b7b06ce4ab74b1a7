use super::*;
use crate::mistake::Flaw;
use serde_json::{Value, json};

fn read(file: Value) -> Result<PolicyFile, String> {
    serde_json::from_value(file).map_err(|error| error.to_string())
}

/// What is wrong with a policy of one rule.
fn flaws(rule: Value) -> Vec<Flaw> {
    let problems = match read(json!({"rules": [rule]})).unwrap().check() {
        Ok(_) => vec![],
        Err(problems) => problems,
    };
    let flaw = |problem| if let Mistake::Rule { flaw, .. } = problem { flaw } else { panic!("{problem}") };
    problems.into_iter().map(flaw).collect()
}

#[test]
fn an_empty_file_is_a_policy_that_waits_for_people() {
    let policy = read(json!({})).unwrap().check().unwrap();
    assert_eq!(policy, Policy::default());
    assert_eq!(policy.timeout.of(Kind::Question), None);
    assert_eq!(policy.when_unattended, WhenUnattended::Wait);
    assert_eq!(policy.outline_preapproval, OutlinePreapproval::Same);
}

#[test]
fn every_key_is_read() {
    let policy = read(json!({
        "auto_approve": ["Read", "mcp__docs__*"],
        "timeout": {"question": "300s", "permission": "1h 30m"},
        "when_unattended": "reject",
        "outline_preapproval": "next",
        "rules": [{"name": "tests", "agent": "claude", "cwd": "/src/**", "tool": "Bash", "command": "cargo test*", "action": "allow"}],
    }));
    let policy = policy.unwrap().check().unwrap();
    assert_eq!(policy.timeout.of(Kind::Question), Some(SignedDuration::from_secs(300)));
    assert_eq!(policy.timeout.of(Kind::Permission), Some(SignedDuration::from_mins(90)));
    assert_eq!(policy.timeout.of(Kind::Plan), None);
    assert_eq!(policy.when_unattended, WhenUnattended::Reject(WhenUnattended::USUAL));
    assert_eq!(policy.outline_preapproval, OutlinePreapproval::Next);
    assert_eq!(policy.rules.len(), 1);
}

#[test]
fn a_key_that_nobody_knows_is_an_error_not_a_silence() {
    for file in [
        json!({"autoapprove": ["Read"]}),
        json!({"timeout": {"questions": "never"}}),
        json!({"rules": [{"action": "deny", "comand": "rm *"}]}),
        json!({"rules": [{"action": "deny", "matches": [{"comand": "rm x"}], "tool": "Bash"}]}),
        json!({"rules": [{"tool": "Bash"}]}),
        json!({"rules": [{"action": "permit", "tool": "Bash"}]}),
        json!({"when_unattended": "approve"}),
        json!({"outline_preapproval": "any"}),
    ] {
        assert!(read(file.clone()).is_err(), "{file}");
    }
}

#[test]
fn a_timeout_leaves_time_to_answer() {
    for bad in ["0s", "-5s", "soon", "", "300"] {
        assert!(read(json!({"timeout": {"plan": bad}})).is_err(), "{bad:?}");
    }
}

#[test]
fn auto_approve_never_answers_for_a_person() {
    let problems = |entry: &str| read(json!({"auto_approve": [entry]})).unwrap().check().unwrap_err();
    for entry in ["AskUserQuestion", "Ask*"] {
        let expected = Mistake::AutoApprovePersonOnly { pattern: entry.into(), tool: "AskUserQuestion" };
        assert_eq!(problems(entry), [expected]);
    }
    assert_eq!(
        problems("ExitPlanMode")[0].to_string(),
        "auto_approve: \"ExitPlanMode\" would answer ExitPlanMode in a person's place; \
         questions and plans always go to a person"
    );
    let empty = Mistake::AutoApprovePattern { pattern: String::new(), source: BadPattern::Empty };
    assert_eq!(problems(""), [empty]);
    assert!(read(json!({"auto_approve": ["*"]})).unwrap().check().is_ok());
}

#[test]
fn a_rule_that_cannot_mean_what_it_says_is_refused() {
    assert_eq!(flaws(json!({"action": "allow"})), [Flaw::Unconditional]);
    assert_eq!(flaws(json!({"action": "allow", "tool": "*"})), []);
    assert_eq!(flaws(json!({"action": "deny"})), []);
    assert_eq!(
        flaws(json!({"action": "allow", "tool": "ExitPlanMode"})),
        [Flaw::PersonOnly { tool: "ExitPlanMode" }]
    );
    assert_eq!(flaws(json!({"action": "deny", "tool": "ExitPlanMode"})), []);
    assert_eq!(
        flaws(json!({"action": "allow", "tool": "Read", "command": "x"})),
        [Flaw::NotAShell { tool: "Read".into() }]
    );
    assert_eq!(
        flaws(json!({"action": "deny", "tool": "Read", "command": "x"})),
        [Flaw::NotAShell { tool: "Read".into() }]
    );
    assert_eq!(flaws(json!({"action": "deny", "tool": "mcp__x__run", "command": "x"})), []);
    assert_eq!(flaws(json!({"action": "allow", "command": "x"})), []);
    assert_eq!(
        flaws(json!({"action": "allow", "tool": "B*", "input": {"command": "git *"}})),
        [Flaw::CommandAsInput { tool: "Bash", field: "command".into() }]
    );
    assert_eq!(flaws(json!({"action": "allow", "tool": "mcp__x__run", "input": {"command": "git *"}})), []);
    assert_eq!(flaws(json!({"action": "ask", "tool": "Bash", "message": "no"})), [Flaw::StrayMessage]);
}

#[test]
fn a_bad_pattern_is_named_with_its_field() {
    let flaw = |field: &str, pattern: &str, source| Flaw::Pattern {
        field: field.into(),
        pattern: pattern.into(),
        source,
    };
    assert_eq!(
        flaws(json!({"action": "deny", "tool": "", "command": "x\\", "cwd": "~/x", "input": {"a": ""}})),
        [
            flaw("tool", "", BadPattern::Empty),
            flaw("command", "x\\", BadPattern::DanglingBackslash),
            flaw("input.a", "", BadPattern::Empty),
            flaw("cwd", "~/x", BadPattern::NotAbsolute),
        ]
    );
}

#[test]
fn every_problem_is_told_at_once_and_names_its_rule() {
    let file = read(json!({"auto_approve": [""], "rules": [
        {"action": "allow"},
        {"action": "deny", "tool": "Bash"},
        {"action": "allow", "name": "reads", "tool": ""},
    ]}));
    let told: Vec<String> = file.unwrap().check().unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "auto_approve: \"\": a pattern must not be empty",
            "rule 1: an allow rule needs a condition; to allow every tool, write tool = \"*\"",
            "rule 3 (reads): tool = \"\": a pattern must not be empty",
        ]
    );
}

#[test]
fn examples_hold_a_rule_to_what_its_writer_meant() {
    let rule = |matches: Value, not_matches: Value| {
        flaws(
            json!({"action": "allow", "command": "cargo test*", "matches": matches, "not_matches": not_matches}),
        )
    };
    let good =
        rule(json!(["cargo test", "cargo test; cargo test x"]), json!(["cargo build", "cargo test > f"]));
    assert_eq!(good, []);
    assert_eq!(rule(json!(["cargo build"]), json!([])), [Flaw::MissesExample("\"cargo build\"".into())]);
    assert_eq!(
        rule(json!([]), json!(["cargo test x"])),
        [Flaw::MatchesCounterexample("\"cargo test x\"".into())]
    );
    // One denied part is enough.
    assert_eq!(
        flaws(
            json!({"action": "deny", "command": "rm *", "matches": ["ls; sudo rm x"], "not_matches": ["ls rm x"]})
        ),
        []
    );
}

#[test]
fn a_rule_from_the_time_of_globs_is_never_refused_and_never_allows_its_counterexamples() {
    let rule = |rule: Value| read(json!({"rules": [rule]})).unwrap().check().unwrap().rules[0].clone();
    let less = rule(json!({"action": "allow", "command": "cargo test*", "matches": ["cargo test --all"]}));
    assert_eq!(less.lost_examples, ["\"cargo test --all\""]);
    assert_eq!(less.read_as().as_deref(), Some("cargo test *"));
    assert_eq!(less.suspended, None);
    let more = rule(json!({"action": "allow", "command": "git push *", "not_matches": ["git push"]}));
    assert_eq!(more.suspended.as_deref(), Some("\"git push\""));
    assert!(more.cautions()[0].starts_with("it allows nothing"));
    let policy = Policy { rules: vec![more], ..Policy::default() };
    let input = json!({"command": "git push origin"});
    let (input, places) = (input.as_object().unwrap(), crate::OwnPlaces::default());
    let call = crate::ToolCall {
        agent_kind: "claude",
        cwd: "/",
        folder: crate::Folder::Claimed,
        tool: "Bash",
        input,
        places: &places,
    };
    assert_eq!(policy.decide(&call).action, crate::Action::Ask);
    let new = json!({"action": "allow", "command": "a [-x]", "not_matches": ["a -x"]});
    assert_eq!(flaws(new), [Flaw::MatchesCounterexample("\"a -x\"".into())]);
    for command in
        ["*", "**", "[", "]", "[]", "'", "\"", "a[b", "it's*", "a [b c", "\\*", "--*", "*=*", "***", " "]
    {
        rule(json!({"action": "allow", "command": command}));
    }
}

#[test]
fn an_example_may_be_a_tool_or_a_whole_call() {
    let tools = json!({"action": "allow", "tool": "mcp__docs__*", "matches": ["mcp__docs__read"], "not_matches": ["mcp__mail__send"]});
    assert_eq!(flaws(tools), []);

    let rule = |not_matches: Value| {
        flaws(json!({
            "action": "allow", "tool": "Edit", "agent": "claude", "cwd": "/src/**", "input": {"file_path": "/src/*"},
            "matches": [{"cwd": "/src/a"}, {"tool": "Edit", "input": {"file_path": "/src/x", "new": "y"}}],
            "not_matches": not_matches,
        }))
    };
    let others = json!([
        {"cwd": "/etc"}, {"tool": "Write"}, {"agent": "script"}, {"input": {}}, {"input": {"file_path": "/src/../etc"}},
    ]);
    assert_eq!(rule(others), []);
    let seen = "{\"agent\":null,\"cwd\":\"/src\",\"tool\":null,\"input\":null}";
    assert_eq!(rule(json!([{"cwd": "/src"}])), [Flaw::MatchesCounterexample(seen.into())]);

    assert_eq!(flaws(json!({"action": "deny", "cwd": "/etc", "matches": ["Bash"]})), [Flaw::VagueExample]);
    let shell = json!({"action": "allow", "tool": "Bash", "not_matches": [{"input": {"command": "ls > f"}}]});
    assert_eq!(flaws(shell), []);
}

#[test]
fn a_tilde_is_written_out_on_request() {
    let mut file = read(json!({"rules": [{
        "action": "allow", "tool": "Edit", "cwd": "~/src/**", "input": {"file_path": "~/src/*", "note": "~x"},
        "matches": [{"cwd": "~/src/a"}],
    }]}))
    .unwrap();
    file.expand_home("/home/ada");
    let rule = &file.rules[0];
    assert_eq!(rule.cwd.as_deref(), Some("/home/ada/src/**"));
    assert_eq!(rule.input["file_path"], "/home/ada/src/*");
    assert_eq!(rule.input["note"], "~x");
    assert!(file.check().is_ok());
}
