//! What OpenCode must ask for. Its own configuration may allow more, so a session gets rules that come after all others.

use aye_core::AsksFor;
use serde_json::{Map, Value, json};

const ASK: &str = "ask";
const ALLOW: &str = "allow";
const DENY: &str = "deny";

/// A permission, a pattern for what it is about, and what happens. The last rule that matches counts.
pub type Rule = (String, String, &'static str);

/// Tools that change nothing, and those whose own steps are asked for.
const FREE: [&str; 5] = ["todowrite", "todoread", "question", "task", "skill"];
/// Tools that only look at files.
const LOOKS: [&str; 3] = ["glob", "grep", "list"];
/// Named because a configuration may name them as well, and a name counts for more than `*`.
const ASKED: [&str; 6] = ["bash", "edit", "webfetch", "websearch", "codesearch", "external_directory"];
/// OpenCode's own idea of files that hold secrets.
const READS: [(&str, &str); 4] = [("*", ALLOW), ("*.env", ASK), ("*.env.*", ASK), ("*.env.example", ALLOW)];

/// The rules of a permission mode. Where aye's own files can be seen from the agent's folder, looking is asked for, too.
pub fn of_mode(mode: Option<&str>, sees_own_files: bool) -> Vec<Rule> {
    let rule = |name: &str, pattern: &str, action| (name.to_owned(), pattern.to_owned(), action);
    let all = |action| move |name: &&str| rule(name, "*", action);
    if mode == Some("full-access") {
        return vec![rule("*", "*", ALLOW)];
    }
    let mut rules = vec![rule("*", "*", ASK)];
    rules.extend(ASKED.iter().map(all(ASK)));
    rules.extend(FREE.iter().map(all(ALLOW)));
    if !sees_own_files {
        rules.extend(LOOKS.iter().map(all(ALLOW)));
        rules.extend(READS.iter().map(|(pattern, action)| rule("read", pattern, action)));
    }
    match mode {
        Some("plan") => rules.push(rule("edit", "*", DENY)),
        Some("acceptEdits") => rules.push(rule("edit", "*", ALLOW)),
        _ => {}
    }
    rules
}

/// Whether this tool does nothing without a request, by these rules. Of tools that are not known, nobody can tell.
pub fn must_ask(rules: &[Rule], tool: &str) -> bool {
    let permission = match tool {
        "bash" | "webfetch" => tool,
        "edit" | "write" | "apply_patch" => "edit",
        _ => return false,
    };
    let decides = rules.iter().rfind(|(name, _, _)| name == "*" || name == permission);
    decides.is_some_and(|(_, _, action)| *action == ASK)
}

/// What a person's own configuration refuses stays refused.
pub fn refused_by(config: &Value) -> Vec<Rule> {
    let entries = config["permission"].as_object().into_iter().flatten();
    let patterns = |(name, action): (&String, &Value)| match action {
        Value::Object(patterns) => {
            let refused = patterns.iter().filter(|(_, action)| **action == DENY);
            refused.map(|(pattern, _)| (name.clone(), pattern.clone(), DENY)).collect()
        }
        action if *action == DENY => vec![(name.clone(), "*".to_owned(), DENY)],
        _ => Vec::new(),
    };
    entries.flat_map(patterns).collect()
}

/// Reads how much an agent of OpenCode asks for from the rules that its server lists. Rules for single patterns do not count:
/// they are the person's own.
pub fn asks_by(listed: &Value) -> AsksFor {
    let rules = listed.as_array().map(Vec::as_slice).unwrap_or_default();
    let decides = |name: &str| {
        let fits = |rule: &&Value| {
            rule["pattern"] == "*" && (rule["permission"] == "*" || rule["permission"] == name)
        };
        rules.iter().rfind(fits)?["action"].as_str()
    };
    let decided: Vec<_> = ["bash", "edit", "external_directory"].into_iter().filter_map(decides).collect();
    match decided.iter().filter(|action| **action == ALLOW).count() {
        _ if decided.is_empty() => AsksFor::Unknown,
        0 => AsksFor::Everything,
        allowed if allowed == decided.len() => AsksFor::Nothing,
        _ => AsksFor::Some,
    }
}

/// As a session takes them.
pub fn for_session(rules: &[Rule]) -> Value {
    let rule = |(permission, pattern, action): &Rule| json!({ "permission": permission, "pattern": pattern, "action": action });
    rules.iter().map(rule).collect()
}

/// As the environment carries them to sub-agents, whose sessions have no rules of ours.
pub fn for_environment(rules: &[Rule]) -> Value {
    let mut all = Map::new();
    for (permission, pattern, action) in rules {
        let patterns = all.entry(permission.clone()).or_insert_with(|| json!({}));
        patterns[pattern] = (*action).into();
    }
    // Some permissions take one action and no patterns.
    for patterns in all.values_mut() {
        if let Some(action) =
            patterns.get("*").filter(|_| patterns.as_object().is_some_and(|all| all.len() == 1))
        {
            *patterns = action.clone();
        }
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(rules: &[Rule], permission: &str, pattern: &str) -> &'static str {
        let fits = |name: &str, found: &str| name == "*" || name == found;
        rules.iter().rfind(|(name, like, _)| fits(name, permission) && fits(like, pattern)).unwrap().2
    }

    #[test]
    fn all_but_looking_is_asked_for_unless_the_mode_says_otherwise() {
        let rules = of_mode(None, false);
        for (permission, action) in
            [("bash", ASK), ("edit", ASK), ("read", ALLOW), ("external_directory", ASK), ("github_push", ASK)]
        {
            assert_eq!(decided(&rules, permission, "x"), action, "{permission}");
        }
        assert_eq!(decided(&rules, "read", "*.env"), ASK);
        assert_eq!(decided(&of_mode(None, true), "grep", "x"), ASK);
        assert_eq!(decided(&of_mode(Some("plan"), false), "edit", "x"), DENY);
        assert_eq!(decided(&of_mode(Some("acceptEdits"), false), "edit", "x"), ALLOW);
        assert_eq!(decided(&of_mode(Some("acceptEdits"), false), "bash", "x"), ASK);
        assert_eq!(decided(&of_mode(Some("full-access"), false), "bash", "x"), ALLOW);
    }

    #[test]
    fn what_a_configuration_refuses_stays_refused_and_what_it_allows_is_asked_for() {
        let config = json!({"permission": {"bash": {"git *": "allow", "rm *": "deny"}, "webfetch": "deny", "edit": "allow"}});
        let mut rules = of_mode(None, false);
        rules.extend(refused_by(&config));
        assert_eq!(decided(&rules, "bash", "rm *"), DENY);
        assert_eq!(decided(&rules, "bash", "git *"), ASK);
        assert_eq!(decided(&rules, "webfetch", "x"), DENY);
        assert_eq!(decided(&rules, "edit", "x"), ASK);
        assert!(refused_by(&json!({"permission": "allow"})).is_empty());
    }

    #[test]
    fn what_an_agent_asks_for_follows_from_its_last_rules() {
        let rule = |name: &str, pattern: &str, action: &str| json!({"permission": name, "pattern": pattern, "action": action});
        // As 1.18.33 lists them without a configuration.
        let mut rules = vec![rule("*", "*", ALLOW), rule("external_directory", "*", ASK)];
        rules.push(rule("external_directory", "/tmp/opencode/*", ALLOW));
        assert_eq!(asks_by(&json!(rules)), AsksFor::Some);
        let with = |more: &[Value]| asks_by(&json!([&rules[..], more].concat()));
        assert_eq!(with(&[rule("*", "*", ALLOW)]), AsksFor::Nothing);
        let asking = [rule("bash", "*", ASK), rule("edit", "*", DENY)];
        assert_eq!(with(&asking), AsksFor::Everything);
        assert_eq!(with(&[asking[0].clone(), rule("bash", "git *", ALLOW)]), AsksFor::Some);
        assert_eq!(asks_by(&Value::Null), AsksFor::Unknown);
    }

    #[test]
    fn the_environment_has_an_action_or_patterns() {
        let all = for_environment(&of_mode(None, false));
        assert_eq!((&all["bash"], &all["question"]), (&json!("ask"), &json!("allow")));
        assert_eq!(all["read"]["*.env"], "ask");
    }
}
