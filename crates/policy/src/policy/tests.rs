use super::*;
use crate::file::PolicyFile;
use crate::own_places::OwnPlaces;
use proptest::prelude::*;
use serde_json::{Value, json};

fn policy(file: Value) -> Policy {
    serde_json::from_value::<PolicyFile>(file).unwrap().check().unwrap()
}

fn rules(rules: Value) -> Policy {
    policy(json!({"rules": rules}))
}

fn decide_in(policy: &Policy, cwd: &str, tool: &str, input: Value) -> Decision {
    let places = OwnPlaces::new(&["/home/ada/.aye"], Some("/home/ada"));
    let input = input.as_object().unwrap();
    policy.decide(&ToolCall {
        agent_kind: "claude",
        cwd,
        folder: Folder::Claimed,
        tool,
        input,
        places: &places,
    })
}

fn decide(policy: &Policy, tool: &str, input: Value) -> Decision {
    decide_in(policy, "/src/web", tool, input)
}

fn action(policy: &Policy, tool: &str, input: Value) -> Action {
    decide(policy, tool, input).action
}

fn bash(policy: &Policy, command: &str) -> Decision {
    decide(policy, "Bash", json!({"command": command}))
}

#[test]
fn without_a_policy_everything_goes_to_a_person() {
    let decision = decide(&Policy::default(), "Read", json!({"file_path": "/x"}));
    assert_eq!(decision, Decision::ask("no rule covers Read".into()));
    assert!(decision.is_open_to_grants());
}

#[test]
fn the_first_rule_that_matches_decides_and_is_named() {
    let policy = rules(json!([
        {"name": "secrets", "tool": "Read", "input": {"file_path": "*.pem"}, "action": "deny", "message": "Keys stay private."},
        {"tool": "Read", "action": "allow"},
        {"tool": "Read", "action": "deny"},
    ]));
    let denied = decide(&policy, "Read", json!({"file_path": "/src/a.pem"}));
    assert_eq!(denied.action, Action::Deny { message: "Keys stay private.".into() });
    assert_eq!(denied.source.to_string(), "rule 1 (secrets)");
    assert_eq!(denied.because, "rule 1 (secrets) denies Read");
    let allowed = decide(&policy, "Read", json!({"file_path": "/src/a.rs"}));
    assert_eq!((allowed.action, allowed.because.as_str()), (Action::Allow, "rule 2 allows it"));
}

#[test]
fn each_part_gets_its_first_rule_and_deny_beats_ask_beats_allow() {
    let policy = rules(json!([
        {"command": "git status", "action": "allow"},
        {"command": "git push*", "action": "ask"},
        {"command": "git *", "action": "allow"},
        {"name": "no removing", "command": "rm *", "action": "deny"},
    ]));
    let because = |command: &str| bash(&policy, command).because;
    assert_eq!(because("git status && git log"), "every part of it is allowed by rule 1 and rule 3");
    assert_eq!(because("git log && git show"), "every part of it is allowed by rule 3");
    assert_eq!(because("git log; git push -f"), "rule 2 asks about `git push -f`");
    assert_eq!(
        because("git push; sudo rm x"),
        "rule 4 (no removing) denies `rm x`, which `sudo rm x` leads to"
    );
    assert_eq!(because("git log; make"), "no rule covers `make`");
    assert_eq!(because("git log > f"), "no rule can allow this command: it redirects input or output");
    let denied = bash(&policy, "rm x").action;
    let message = "Denied by rule 4 (no removing) of the policy; no person was asked.".to_owned();
    assert_eq!(denied, Action::Deny { message });
}

#[test]
fn a_rule_that_asks_is_not_open_to_grants() {
    let policy = rules(json!([{"command": "git push*", "action": "ask"}]));
    assert!(!bash(&policy, "git push").is_open_to_grants());
    assert!(bash(&policy, "git pull").is_open_to_grants());
}

#[test]
fn a_rule_for_all_commands_still_allows_only_plain_ones() {
    let policy = rules(json!([{"tool": "Bash", "action": "allow"}]));
    assert_eq!(bash(&policy, "make; make install").action, Action::Allow);
    for command in ["make > f", "make $(x)", "A=1 make", "make; (", "", "# x"] {
        assert_eq!(bash(&policy, command).action, Action::Ask, "{command:?}");
    }
    assert_eq!(action(&policy, "Bash", json!({})), Action::Ask);
    assert_eq!(action(&policy, "Bash", json!({"command": ["make"]})), Action::Ask);
}

#[test]
fn a_rule_that_denies_all_commands_denies_even_what_is_none() {
    let policy = rules(json!([{"tool": "Bash", "action": "deny"}]));
    for input in [json!({}), json!({"command": ""}), json!({"command": 1}), json!({"command": "# x"})] {
        assert!(matches!(action(&policy, "Bash", input.clone()), Action::Deny { .. }), "{input}");
    }
}

#[test]
fn an_allow_rule_over_commands_says_nothing_of_other_tools() {
    let policy = rules(json!([{"command": "x", "action": "allow"}]));
    assert_eq!(action(&policy, "Run", json!({"command": "x"})), Action::Ask);
    assert_eq!(action(&policy, "mine:execute", json!({"command": "x"})), Action::Ask);
}

#[test]
fn rules_that_deny_or_ask_see_the_command_of_every_tool() {
    let inputs = [
        ("Bash", json!({"command": "rm -rf /srv"})),
        ("Run", json!({"command": "rm -rf /srv"})),
        ("mine:execute", json!({"command": "cd /srv && rm -rf x"})),
        ("copilot:execute", json!({"command": ["bash", "-c", "rm -rf /srv"]})),
        ("mcp__shell__run", json!({"command": "sudo rm -fr /srv"})),
        ("mcp__shell__run", json!({"line": "rm -r -f /srv"})),
        ("mcp__x__y", json!({"cmd": "rm", "args": ["-rf", "/srv"]})),
        ("mcp__x__y", json!({"steps": [{"script": "rm -rf /srv"}]})),
        ("Read", json!({"file_path": "/x", "command": "rm -rf /srv"})),
        ("Unclear", json!({"title": "rm -rf /srv", "kind": "execute"})),
        ("Unclear", json!({"title": "Clean up", "rawInput": {"command": "rm -rf /srv"}})),
    ];
    for rule in [
        json!({"command": "rm -rf *", "action": "deny"}),
        json!({"tool": "Bash", "command": "rm -rf *", "action": "deny"}),
        json!({"tool": "Bash", "action": "deny"}),
    ] {
        let careless =
            policy(json!({"auto_approve": ["*"], "rules": [rule, {"tool": "*", "action": "allow"}]}));
        for (tool, input) in &inputs {
            let found = action(&careless, tool, input.clone());
            assert!(matches!(found, Action::Deny { .. }), "{rule}: {tool} {input}: {found:?}");
        }
        for (tool, input) in
            [("Write", json!({"file_path": "/x", "content": "rm -rf x"})), ("Task", json!({}))]
        {
            assert_eq!(action(&careless, tool, input), Action::Allow, "{rule}: {tool}");
        }
    }
    let asks = policy(json!({
        "auto_approve": ["*"],
        "rules": [{"tool": "Bash", "command": "git push*", "action": "ask", "proof": "passkey"}],
    }));
    for command in ["git push", "git -C . push", "x=push; git $x"] {
        let decision = decide(&asks, "mine:execute", json!({"command": command}));
        assert_eq!((decision.action, decision.proof), (Action::Ask, Proof::Passkey), "{command}");
    }
    let fine = decide(&asks, "mine:execute", json!({"command": "make"}));
    assert_eq!((fine.action, fine.proof), (Action::Allow, Proof::None));
}

#[test]
fn a_rule_for_a_tool_that_is_no_shell_comes_after_what_an_earlier_rule_might_have_missed() {
    let denies = json!({"command": "rm *", "action": "deny"});
    let allows = json!({"tool": "mcp__shell__*", "action": "allow"});
    let run = |rules: Value, command: &str| {
        action(&policy(json!({"rules": rules})), "mcp__shell__run", json!({"command": command}))
    };
    assert_eq!(run(json!([denies, allows]), "make; make install"), Action::Allow);
    assert_eq!(run(json!([denies, allows]), "$(echo rm) x"), Action::Ask);
    assert_eq!(run(json!([allows, denies]), "$(echo rm) x"), Action::Allow, "the first rule decides");
    assert_eq!(run(json!([allows]), &"a;".repeat(100_000)), Action::Allow, "nobody looks for commands");
}

#[test]
fn rules_that_deny_or_ask_count_in_every_folder_that_the_agent_may_be_in() {
    let policy = policy(json!({"auto_approve": ["*"], "rules": [
        {"cwd": "/work/prod/**", "command": "rm *", "action": "deny"},
        {"cwd": "/work/prod", "tool": "Write", "action": "ask", "proof": "passkey"},
        {"tool": "Read", "input": {"file_path": "/work/prod/keys/*"}, "action": "deny"},
        {"command": "git log", "action": "allow"},
    ]}));
    let places = OwnPlaces::default();
    let decide = |tool: &str, cwd: &str, folder: Folder, input: Value| {
        let input = input.as_object().unwrap();
        policy.decide(&ToolCall { agent_kind: "claude", cwd, folder, tool, input, places: &places })
    };
    let prod = ["/work/prod".to_owned()];
    let rm = json!({"command": "rm x"});
    for claim in ["/tmp", "/work/prod/..", "prod/..", "..", "", "/work/prod/sub", "/work/production"] {
        for folder in [Folder::Disputed(&prod), Folder::Known("/work/prod")] {
            assert!(
                matches!(decide("Bash", claim, folder, rm.clone()).action, Action::Deny { .. }),
                "{claim:?} {folder:?}"
            );
            let asked = decide("Write", claim, folder, json!({"file_path": "a"}));
            assert_eq!((asked.action, asked.proof), (Action::Ask, Proof::Passkey), "{claim:?} {folder:?}");
            let read = decide("Read", claim, folder, json!({"file_path": "keys/a"}));
            assert!(matches!(read.action, Action::Deny { .. }), "{claim:?} {folder:?}");
        }
        // Nothing is allowed by a rule, and whoever allows it proves that they may.
        for (tool, input) in [("Bash", json!({"command": "git log"})), ("Glob", json!({"pattern": "*.rs"}))] {
            let asked = decide(tool, claim, Folder::Disputed(&prod), input);
            assert_eq!((asked.action, asked.proof), (Action::Ask, Proof::Passkey), "{claim:?} {tool}");
        }
    }
    assert!(matches!(
        decide("Bash", "/work/prod", Folder::Disputed(&[]), rm.clone()).action,
        Action::Deny { .. }
    ));
    let elsewhere = decide("Bash", "/tmp", Folder::Known("/tmp"), rm);
    assert_eq!((elsewhere.action, elsewhere.proof), (Action::Allow, Proof::None));
}

#[test]
fn an_agent_that_names_no_folder_may_be_in_any() {
    let policy = policy(json!({"auto_approve": ["*"], "rules": [
        {"name": "prod", "cwd": "/work/prod/**", "command": "rm *", "action": "deny"},
        {"cwd": "/work/prod/**", "command": "git push*", "action": "ask", "proof": "passkey"},
    ]}));
    for (cwd, folder) in [("", Folder::Claimed), ("", Folder::Known("")), ("prod/..", Folder::Unproven)] {
        let decide = |command: &str| {
            let (places, input) = (OwnPlaces::default(), json!({ "command": command }));
            let input = input.as_object().unwrap();
            policy.decide(&ToolCall { agent_kind: "x", cwd, folder, tool: "Bash", input, places: &places })
        };
        let asked = decide("rm x");
        assert_eq!((asked.action, asked.proof), (Action::Ask, Proof::Passkey));
        assert_eq!(asked.because, "rule 1 (prod) is about `rm x` in a folder, and this agent names none");
        assert_eq!(decide("git push").action, Action::Ask);
        assert_eq!(decide("ls").action, Action::Allow);
    }
}

#[test]
fn a_field_that_may_lift_a_sandbox_is_allowed_only_by_name() {
    let policy = rules(json!([
        {"command": "make", "action": "allow"},
        {"command": "ls", "input": {"unsandboxed": "true"}, "action": "allow"},
    ]));
    let with = |command: &str, field: &str, value: Value| {
        action(&policy, "Bash", json!({"command": command, "timeout": 5, field: value}))
    };
    assert_eq!(with("make", "description", json!("build")), Action::Allow);
    assert_eq!(with("make", "unsandboxed", json!(false)), Action::Allow);
    assert_eq!(with("make", "unsandboxed", json!(true)), Action::Ask);
    assert_eq!(with("ls", "unsandboxed", json!(true)), Action::Allow);
    assert_eq!(with("ls", "unsandboxed", json!("yes")), Action::Ask);
}

#[test]
fn a_folder_that_is_not_plain_is_never_allowed_but_still_denied() {
    let policy = rules(json!([
        {"cwd": "/src/**", "tool": "Edit", "action": "allow"},
        {"cwd": "/etc/**", "action": "deny"},
    ]));
    let inside = |cwd: &str| decide_in(&policy, cwd, "Edit", json!({})).action;
    assert_eq!(inside("/src/web"), Action::Allow);
    assert_eq!(inside("/src/../home"), Action::Ask);
    assert_eq!(inside("/src/web/"), Action::Ask);
    assert!(matches!(inside("/src/../etc"), Action::Deny { .. }));
}

#[test]
fn a_rule_for_a_folder_allows_nothing_that_leaves_it() {
    let policy = rules(json!([
        {"command": "cd *", "action": "allow"},
        {"command": "command cd *", "action": "allow"},
        {"cwd": "/src/**", "command": "make*", "action": "allow"},
    ]));
    assert_eq!(bash(&policy, "make clean").action, Action::Allow);
    assert_eq!(bash(&policy, "cd /").action, Action::Allow);
    for command in ["cd / && make clean", "command cd / && make clean", "make; cd /; make"] {
        assert_eq!(bash(&policy, command).action, Action::Ask, "{command:?}");
    }
}

#[test]
fn a_field_is_matched_whole_and_a_detour_in_a_path_never_widens_a_rule() {
    let policy = rules(json!([
        {"tool": "Edit", "input": {"file_path": "/etc/*"}, "action": "deny"},
        {"tool": "Edit", "input": {"file_path": "/src/*"}, "action": "allow"},
        {"tool": "Fetch", "input": {"pages": "3", "url": "https://docs.example/*"}, "action": "allow"},
        {"tool": "Set", "input": {"value": "{\"a\":*}"}, "action": "allow"},
    ]));
    let edit = |path: Value| action(&policy, "Edit", json!({"file_path": path}));
    assert_eq!(edit(json!("/src/a/b.rs")), Action::Allow);
    assert_eq!(edit(json!("/src/../home/x")), Action::Ask);
    assert!(matches!(edit(json!("/src/../etc/passwd")), Action::Deny { .. }));
    assert!(matches!(edit(json!("//etc/passwd")), Action::Deny { .. }));
    assert_eq!(edit(json!(null)), Action::Ask);
    assert_eq!(action(&policy, "Edit", json!({})), Action::Ask);
    let url = "https://docs.example/x";
    assert_eq!(action(&policy, "Fetch", json!({"pages": 3, "url": url})), Action::Allow);
    assert_eq!(action(&policy, "Fetch", json!({"url": url})), Action::Ask);
    assert_eq!(action(&policy, "Set", json!({"value": {"b": 1, "a": 2}})), Action::Allow);
}

#[test]
fn another_kind_of_agent_is_another_matter() {
    let policy = rules(json!([{"agent": "script", "tool": "*", "action": "allow"}]));
    assert_eq!(action(&policy, "Read", json!({})), Action::Ask);
    let policy = rules(json!([{"agent": "claude", "tool": "*", "action": "allow"}]));
    assert_eq!(action(&policy, "Read", json!({})), Action::Allow);
}

#[test]
fn auto_approve_comes_after_every_rule() {
    let policy = policy(json!({
        "auto_approve": ["*"],
        "rules": [{"command": "rm *", "action": "deny"}, {"command": "git push*", "action": "ask"}],
    }));
    let decision = bash(&policy, "make all");
    assert_eq!((decision.action, decision.source), (Action::Allow, Source::AutoApprove));
    assert_eq!(decision.because, "auto_approve has \"*\"");
    assert!(matches!(bash(&policy, "make && rm x").action, Action::Deny { .. }));
    assert_eq!(bash(&policy, "make && git push").action, Action::Ask);
    assert_eq!(action(&policy, "Read", json!({"file_path": "/x"})), Action::Allow);
}

#[test]
fn auto_approve_passes_what_cannot_be_read_only_where_no_rule_watches_commands() {
    let careless = policy(json!({"auto_approve": ["Bash"]}));
    assert_eq!(bash(&careless, "$(echo rm) x").action, Action::Allow);
    let watched = policy(json!({"auto_approve": ["Bash"], "rules": [{"command": "rm *", "action": "deny"}]}));
    let decision = bash(&watched, "$(echo rm) x");
    assert_eq!(decision.action, Action::Ask);
    assert!(decision.because.contains("might not see all that this one runs"), "{}", decision.because);
}

#[test]
fn a_command_that_is_too_large_to_be_looked_through_goes_to_a_person() {
    let careless = policy(json!({"auto_approve": ["*"], "rules": [{"tool": "Bash", "action": "allow"}]}));
    for (command, why) in [
        ("a;".repeat(2_000_000), "it is too long to be taken apart (more than 128 KiB)"),
        ("a;".repeat(60_000), "it has too many parts to be taken apart"),
    ] {
        let decision = bash(&careless, &command);
        assert_eq!(decision, Decision::ask(format!("no rule can allow this command: {why}")));
    }
    let deny = rules(json!([{"tool": "Bash", "action": "deny"}]));
    assert!(matches!(bash(&deny, &"a;".repeat(2_000_000)).action, Action::Deny { .. }));
}

#[test]
fn a_search_that_reaches_our_own_files_goes_to_a_person() {
    let policy = policy(json!({"auto_approve": ["Grep", "Glob", "Read"]}));
    let places = OwnPlaces::new(&["/home/ada/.local/share/aye"], Some("/home/ada"));
    let grep = |cwd: &str, input: Value| {
        let input = input.as_object().unwrap().clone();
        policy
            .decide(&ToolCall {
                agent_kind: "claude",
                cwd,
                folder: Folder::Claimed,
                tool: "Grep",
                input: &input,
                places: &places,
            })
            .action
    };
    assert_eq!(grep("/src", json!({"pattern": "/api/x"})), Action::Allow);
    assert_eq!(grep("/src", json!({"pattern": "x", "path": "/home/ada/.local"})), Action::Ask);
    assert_eq!(grep("/src", json!({"pattern": "x", "path": "~"})), Action::Ask);
    assert_eq!(grep("/home/ada", json!({"pattern": "x"})), Action::Ask);
    assert_eq!(grep("/home/ada", json!({"pattern": "x", "path": "src"})), Action::Allow);
}

#[test]
fn rules_that_stop_see_through_paths_that_begin_in_the_agents_folder() {
    let policy = policy(json!({
        "auto_approve": ["Read"],
        "rules": [{"tool": "Read", "input": {"file_path": "/home/ada/.ssh/*"}, "action": "deny"}],
    }));
    let places = OwnPlaces::default();
    let read = |path: &str| {
        let input = json!({ "file_path": path }).as_object().unwrap().clone();
        policy
            .decide(&ToolCall {
                agent_kind: "claude",
                cwd: "/home/ada",
                folder: Folder::Claimed,
                tool: "Read",
                input: &input,
                places: &places,
            })
            .action
    };
    assert!(matches!(read(".ssh/id_rsa"), Action::Deny { .. }));
    assert!(matches!(read("src/../.ssh/id_rsa"), Action::Deny { .. }));
    assert_eq!(read("src/main.rs"), Action::Allow);
}

#[test]
fn auto_approve_names_tools_exactly_or_by_pattern() {
    let policy = policy(json!({"auto_approve": ["Read", "mcp__docs__*"]}));
    for (tool, expected) in [
        ("Read", Action::Allow),
        ("ReadMore", Action::Ask),
        ("read", Action::Ask),
        ("mcp__docs__find", Action::Allow),
        ("mcp__mail__send", Action::Ask),
    ] {
        assert_eq!(action(&policy, tool, json!({})), expected, "{tool}");
    }
}

#[test]
fn what_names_a_place_of_aye_goes_to_a_person_or_is_denied() {
    let policy = policy(json!({
        "auto_approve": ["Read"],
        "rules": [{"command": "rm *", "action": "deny"}, {"command": "cat *", "action": "allow"}],
    }));
    let decision = bash(&policy, "cat /home/ada/.aye/operator.token");
    assert_eq!(decision.action, Action::Ask);
    assert_eq!(
        decision.because,
        "rule 2 allows it, but the input names a place that belongs to aye, and that always goes to a person"
    );
    assert_eq!(bash(&policy, "cat /home/ada/x").action, Action::Allow);
    assert_eq!(action(&policy, "Read", json!({"file_path": "/home/ada/.aye/config.toml"})), Action::Ask);
    assert_eq!(action(&policy, "Read", json!({"file_path": "/home/ada/x"})), Action::Allow);
    assert!(matches!(bash(&policy, "rm -rf ~/.aye").action, Action::Deny { .. }));
}

#[test]
fn questions_and_plans_may_be_denied_but_never_allowed() {
    let all = policy(json!({"auto_approve": ["*"], "rules": [{"tool": "*", "action": "allow"}]}));
    for tool in ["AskUserQuestion", "ExitPlanMode"] {
        let decision = decide(&all, tool, json!({}));
        assert_eq!(decision, Decision::ask(format!("{tool} always goes to a person")));
    }
    let deny = rules(json!([{"tool": "*", "action": "allow"}, {"tool": "ExitPlanMode", "action": "deny"}]));
    assert!(matches!(action(&deny, "ExitPlanMode", json!({})), Action::Deny { .. }));
}

#[test]
fn a_long_command_is_cut_in_the_explanation_and_shown_visibly() {
    let because = bash(&Policy::default(), &format!("make '{}'", "x".repeat(500))).because;
    assert!(because.ends_with("xx…`") && because.len() < 250, "{because}");
    let policy = rules(json!([{"command": "rm *", "action": "deny"}]));
    assert!(bash(&policy, "rm '\u{202e}'").because.contains("\\u{202e}"));
}

fn any_rule() -> impl Strategy<Value = Value> {
    let verb = prop_oneof![Just("allow"), Just("ask")];
    let tool = prop_oneof![Just("*"), Just("Read"), Just("*Mode*x*"), Just("B*")];
    (verb, tool).prop_map(|(action, tool)| json!({"action": action, "tool": tool}))
}

proptest! {
    #[test]
    fn no_policy_ever_answers_for_a_person(
        some in prop::collection::vec(any_rule(), 0..5),
        tool in prop_oneof![Just("AskUserQuestion"), Just("ExitPlanMode")],
        auto in prop_oneof![Just(json!([])), Just(json!(["*"])), Just(json!(["**", "Read"]))],
    ) {
        let policy = policy(json!({"rules": some, "auto_approve": auto}));
        prop_assert_eq!(action(&policy, tool, json!({"command": "x"})), Action::Ask);
    }

    #[test]
    fn nothing_that_names_a_place_of_aye_is_ever_allowed(before in "[ -~]{0,12}", after in "(/[ -~]{0,12})?") {
        let policy = policy(json!({"auto_approve": ["*"]}));
        let text = format!("{before}/home/ada/.aye{after}");
        prop_assert_eq!(action(&policy, "Read", json!({"file_path": text.clone()})), Action::Ask);
        prop_assert_eq!(bash(&policy, &text).action, Action::Ask);
    }
}

#[test]
fn a_rule_that_wants_proof_counts_for_every_part_and_for_what_may_hide_it() {
    let policy = rules(json!([
        {"command": "git status", "action": "ask"},
        {"command": "git push*", "action": "ask", "proof": "passkey"},
        {"command": "ls*", "action": "allow"},
    ]));
    let proof = |command: &str| bash(&policy, command).proof;
    assert_eq!(proof("git push"), Proof::Passkey);
    assert_eq!(proof("git status && git push"), Proof::Passkey);
    assert_eq!(proof("ls; sudo git push -f"), Proof::Passkey);
    // What it runs is known only when it runs.
    for hidden in ["$x push", "sh -c \"$(cat f)\"", "git $(echo push)", "x=push; git $x"] {
        assert_eq!(proof(hidden), Proof::Passkey, "{hidden}");
    }
    assert_eq!(proof("git status"), Proof::None);
    assert_eq!(decide(&policy, "Write", json!({"file_path": "/x"})).proof, Proof::None);
    assert!(policy.asks_for_proof() && !rules(json!([])).asks_for_proof());
}

#[test]
fn an_unclear_call_takes_the_strictest_proof_of_all_rules() {
    for rule in [
        json!({"tool": "Bash", "action": "ask", "proof": "passkey"}),
        json!({"command": "git push*", "action": "ask", "proof": "passkey"}),
        json!({"tool": "Write", "input": {"file_path": "/etc/*"}, "action": "ask", "proof": "passkey"}),
    ] {
        let strict = rules(json!([{"tool": "Read", "action": "ask"}, rule]));
        assert_eq!(decide(&strict, "Unclear", json!({"title": "ls"})).proof, Proof::Passkey, "{rule}");
        assert_eq!(decide(&strict, "Read", json!({"file_path": "/x"})).proof, Proof::None);
    }
    let lax = rules(json!([{"tool": "Bash", "action": "ask"}]));
    assert_eq!(decide(&lax, "Unclear", json!({"title": "ls"})).proof, Proof::None);
}

#[test]
fn a_question_that_can_allow_something_is_unclear_to_rules_and_others_are_questions() {
    for (allows, tool) in [(true, "Unclear"), (false, "AskUserQuestion")] {
        let question =
            json!({"question": "Go?", "options": [{"label": "Yes", "allows": allows}, {"label": "No"}]});
        let body =
            aye_core::body::Body::decode(aye_core::body::Kind::Question, json!({"questions": [question]}));
        assert_eq!(crate::call::tool_and_input(&body.unwrap()).0, tool);
    }
}

#[test]
fn a_policy_that_wants_proof_wants_it_for_everything_and_no_rule_loosens_it() {
    let strict =
        policy(json!({"proof": "passkey", "rules": [{"tool": "Bash", "action": "ask", "proof": "none"}]}));
    assert_eq!(bash(&strict, "ls").proof, Proof::Passkey);
    assert_eq!(decide(&strict, "ExitPlanMode", json!({})).proof, Proof::Passkey);
}

#[test]
fn only_a_rule_that_asks_can_want_proof() {
    for action in ["allow", "deny"] {
        let file = json!({"rules": [{"tool": "Bash", "action": action, "proof": "passkey"}]});
        let flaws = serde_json::from_value::<PolicyFile>(file).unwrap().check().unwrap_err();
        assert!(flaws[0].to_string().contains("only a rule that asks"), "{flaws:?}");
    }
    assert!(serde_json::from_value::<PolicyFile>(json!({"proof": "password"})).is_err());
}

#[test]
fn a_rule_for_a_folder_allows_nothing_where_the_agent_is_known_to_be_elsewhere() {
    let policy = rules(json!([
        {"tool": "Bash", "cwd": "/work/**", "action": "allow"},
        {"tool": "Write", "cwd": "/src/**", "action": "deny"},
    ]));
    let places = OwnPlaces::default();
    let decide = |tool: &str, cwd: &str, folder: Folder| {
        let input = json!({"command": "make"});
        let input = input.as_object().unwrap();
        policy.read(&ToolCall { agent_kind: "claude", cwd, folder, tool, input, places: &places })
    };
    let action = |tool, cwd, folder| decide(tool, cwd, folder).decision.action;
    assert_eq!(action("Bash", "/work/a", Folder::Claimed), Action::Allow);
    assert_eq!(action("Bash", "/work/a", Folder::Known("/work/a")), Action::Allow);
    assert_eq!(action("Bash", "/work/a/b", Folder::Known("/work/a")), Action::Allow);
    assert_eq!(action("Bash", "/work/a", Folder::Known("/")), Action::Ask);
    assert_eq!(action("Bash", "/work/a", Folder::Unproven), Action::Ask);
    let disputed = Folder::Disputed(&[]);
    assert_eq!(action("Bash", "/work/a", disputed), Action::Ask);
    assert_eq!(decide("Bash", "/work/a", disputed).exactly, None, "grants are for a folder, too");
    assert!(decide("Bash", "/src/a", Folder::Known("/src/a")).exactly.is_some());
    assert!(matches!(action("Write", "/src/a", disputed), Action::Deny { .. }));
}
