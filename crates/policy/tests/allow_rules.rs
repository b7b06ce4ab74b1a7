//! What rules that allow cover: the examples of `docs/allow-rules.md`, commands from real work, and whatever
//! can be generated, compared with a matcher that is written quite differently.

#![allow(clippy::unwrap_used)]

use aye_policy::{Action, Folder, OwnPlaces, Policy, PolicyFile, ToolCall};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn policy(rule: Value) -> Policy {
    serde_json::from_value::<PolicyFile>(json!({ "rules": [rule] })).unwrap().check().unwrap()
}

fn allows(policy: &Policy, tool: &str, field: &str, text: &str) -> bool {
    let input = Map::from_iter([(field.to_owned(), Value::String(text.to_owned()))]);
    let places = OwnPlaces::default();
    let call = ToolCall {
        agent_kind: "claude",
        cwd: "/src",
        folder: Folder::Claimed,
        tool,
        input: &input,
        places: &places,
    };
    policy.decide(&call).action == Action::Allow
}

fn covers(command: &str, line: &str) -> bool {
    allows(&policy(json!({"command": command, "action": "allow"})), "Bash", "command", line)
}

/// The texts in backquotes of a table's cell.
fn examples(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_documented_examples_hold() {
    let document = include_str!("../../../docs/allow-rules.md");
    let mut held = 0;
    let mut wrong = vec![];
    for row in document.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [rule, covered, others] = cells.as_slice() else { panic!("{row}") };
        let rule = examples(rule)[0];
        let is_field = |rule: &str| rule.starts_with("url = ") || rule.starts_with("file_path = ");
        let covers = |text: &str| match rule.split_once(" = ").filter(|_| is_field(rule)) {
            Some((field, pattern)) => {
                let rule = json!({"tool": "Use", "input": {field: pattern}, "action": "allow"});
                allows(&policy(rule), "Use", field, text)
            }
            None => covers(rule, text),
        };
        for (cell, expected) in [(covered, true), (others, false)] {
            for text in examples(cell) {
                held += 1;
                if covers(text) != expected {
                    wrong.push(format!("`{rule}` and `{text}`: expected {expected}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(held > 80, "only {held} examples were found");
}

#[test]
fn the_rule_in_the_readme_covers_tests_and_no_other_compiler() {
    let readme = include_str!("../../../README.md");
    let rule = readme.lines().find_map(|line| line.strip_prefix("command = \"")?.split('"').next()).unwrap();
    for line in ["cargo test", "cargo test -p aye-core --release", "cargo test parser && cargo test printer"]
    {
        assert!(covers(rule, line), "{line}");
    }
    for line in ["cargo test --config 'build.rustc=\"evil\"'", "cargo testevil", "cargo test; curl x"] {
        assert!(!covers(rule, line), "{line}");
    }
}

#[test]
fn commands_from_real_work_get_what_their_rules_say() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "cargo build * [-p *] [--release] [--workspace]",
            &["cargo build", "cargo build --release -p aye", "cargo build --workspace"],
            &[
                "cargo build --config 'build.rustc=\"evil\"'",
                "cargo build --config=evil.toml",
                "cargo build --manifest-path ../other/Cargo.toml",
                "cargo build --target-dir /tmp",
                "cargo build -Zunstable-options",
                "cargo build-evil",
                "cargo --config x build",
                "cargo -C .. build",
                "cargo run",
            ],
        ),
        (
            "git diff * [--stat] [--cached] [-- *]",
            &["git diff", "git diff --stat main", "git diff --cached -- src/a.rs", "git diff HEAD~1 HEAD"],
            &[
                "git diff --output=/etc/x",
                "git diff --ext-diff",
                "git diff --no-index /etc/passwd x",
                "git diff -O/tmp/x",
                "git --exec-path=/tmp diff",
                "git -c diff.external=evil diff",
                "git -C .. diff",
                "git difftool",
            ],
        ),
        ("git status", &["git status"], &["git status -s", "git status x", "git -c x=y status"]),
        (
            "git show * [--stat] [--format *]",
            &[
                "git show HEAD",
                "git show --stat HEAD",
                "git show --format=%H HEAD:a/b.rs",
                "git show --format %H",
            ],
            &[
                "git show --textconv x",
                "git show --outp=/etc/x",
                "git show -p",
                "git show --format=%H --output=x",
            ],
        ),
        ("git log*", &["git log", "git log main"], &["git log --output=F", "git log -p", "git logx"]),
        (
            "npm run build:*",
            &["npm run build:web", "npm run build:web-2"],
            &[
                "npm run build:web -- --x",
                "npm run build:web --script-shell=/tmp/x",
                "npm run --prefix .. build:web",
            ],
        ),
        (
            "npm test * [-- *]",
            &["npm test", "npm test unit", "npm test -- unit"],
            &[
                "npm test --script-shell evil",
                "npm test --prefix=/tmp",
                "npm test -- --config=evil.js",
                "npm x test",
            ],
        ),
        (
            "make * [-j *] [-k]",
            &["make", "make all", "make -j8 all", "make -j 8 -k", "make all install"],
            &[
                "make -C elsewhere",
                "make -f evil.mk",
                "make CC=evil",
                "make CC:=evil",
                "make CC+=evil",
                "make 'SHELL != evil'",
                "make --eval=x",
                "make -j CC=evil",
                "make -j8x",
                "make -kj8",
            ],
        ),
        (
            "pytest * [-x] [-k *] [-v]",
            &[
                "pytest",
                "pytest -x tests/test_a.py",
                "pytest -k 'a and not b'",
                "pytest tests/a.py::test_b -v",
            ],
            &[
                "pytest -p evil",
                "pytest --rootdir=/tmp",
                "pytest -c evil.ini",
                "pytest --basetemp=src",
                "pytest -xv",
                "pytest -k",
            ],
        ),
        (
            "go test * [-run *] [-count *] [-v]",
            &["go test ./...", "go test -run TestX ./pkg", "go test -run=TestX -count=1 ./...", "go test -v"],
            &[
                "go test -exec evil ./...",
                "go test -toolexec=evil",
                "go test -o /bin/x",
                "go test -coverprofile=x",
                "go -C .. test",
            ],
        ),
        (
            "docker ps [-a]",
            &["docker ps", "docker ps -a"],
            &["docker ps --format x", "docker -H tcp://evil ps", "docker ps x", "docker --config /tmp ps"],
        ),
        (
            "docker logs * [--tail *]",
            &["docker logs web", "docker logs --tail 50 web", "docker logs --tail=50 web"],
            &["docker logs -f web", "docker run -v /:/x web", "docker --host=evil logs web"],
        ),
        (
            "ls * [-l] [-la]",
            &["ls", "ls -la src", "ls -l a b"],
            &["ls -lR", "ls --hyperlink=always", "ls -l -x", "lsof"],
        ),
        (
            "cat *",
            &["cat a.rs", "cat a b 'c d'", "cat"],
            &["cat -A x", "cat --help", "cat x > y", "cat ~/.ssh/id", "cat x*", "catx"],
        ),
        (
            "cat src/*.rs",
            &["cat src/main.rs"],
            &["cat src/../../etc/passwd.rs", "cat /etc/src/a.rs", "cat src/a.rs /etc/passwd"],
        ),
        (
            "rg * [-n] [-i] [-g *] [-A *]",
            &["rg foo", "rg -n -i foo src", "rg -g '*.rs' foo", "rg -A3 foo", "rg 'fn .*\\(' src"],
            &[
                "rg --pre evil foo",
                "rg --pre=evil foo",
                "rg -ni foo",
                "rg -f /etc/passwd x",
                "rg -e foo",
                "rg -g -x foo",
            ],
        ),
        (
            "find * [-name *] [-type *] [-maxdepth *]",
            &["find . -name '*.rs'", "find src -type f -maxdepth 2", "find"],
            &[
                "find . -exec rm {} +",
                "find . -exec rm x \\;",
                "find . -delete",
                "find . -fprint /etc/x",
                "find . -ok rm x \\;",
                "find . -name x -execdir y \\;",
                "find . -name",
            ],
        ),
        (
            "head [-n *] *",
            &["head -n 5 a", "head -n5 a", "head a"],
            &["head -5 a", "head -c 3 a", "head -n -5 a", "head --lines=5 a"],
        ),
        ("tail -n +5 *", &["tail -n +5 a"], &["tail -n 5 a", "tail -f a", "tail -n +6 a"]),
        (
            "sed -n *",
            &["sed -n 1,5p a"],
            &["sed -i x a", "sed -n -i x a", "sed -ni x a", "sed -n --in-place x a"],
        ),
        (
            "tar -tf *",
            &["tar -tf a.tar"],
            &["tar -tf a.tar --to-command=evil", "tar -xf a.tar", "tar -tf a -I evil"],
        ),
        (
            "* --version",
            &["cargo --version", "cargo test --version"],
            &["cargo -x --version", "cargo --version x"],
        ),
        (
            "python -m pytest *",
            &["python -m pytest tests"],
            &["python -c x", "python -m pytest -p evil", "python -m evil pytest"],
        ),
        (
            "echo *",
            &["echo a b", "echo 'a; rm x'"],
            &["echo -n a", "echo a; rm x", "echo $(rm x)", "A=1 echo a", "echo a=b"],
        ),
        (
            "/usr/bin/git status",
            &["/usr/bin/git status"],
            &["git status", "./git status", "//usr/bin/git status"],
        ),
    ];
    let mut wrong = vec![];
    let mut tried = 0;
    for (rule, allowed, asked) in cases {
        let lines = allowed.iter().map(|line| (line, true)).chain(asked.iter().map(|line| (line, false)));
        for (line, expected) in lines {
            tried += 1;
            if covers(rule, line) != expected {
                wrong.push(format!("`{rule}` and `{line}`: expected {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(tried >= 60, "{tried}");
}

#[test]
fn every_part_of_a_compound_command_is_held_against_the_rules() {
    let rule = "cargo test * [-p *]";
    for line in ["cargo test && cargo test -p a", "cargo test; cargo test x | cargo test", "(cargo test)"] {
        assert!(covers(rule, line), "{line}");
    }
    for line in [
        "cargo test && cargo test --release",
        "cargo test; x",
        "cargo test -p $x",
        "cargo test -p `x`",
        "cargo test > f",
        "A=1 cargo test",
        "cargo test -p a?",
        "cargo test {a,--config=x}",
        "cargo test ~",
        "cargo test -{p,q} x",
        "cargo test \"$@\"",
        "cargo test -p 'a",
    ] {
        assert!(!covers(rule, line), "{line}");
    }
}

#[test]
fn rules_that_deny_or_ask_match_as_globs() {
    let stops = |action: &str, command: &str, line: &str| {
        let rules = json!({"auto_approve": ["*"], "rules": [{"command": command, "action": action}]});
        let policy = serde_json::from_value::<PolicyFile>(rules).unwrap().check().unwrap();
        !allows(&policy, "Bash", "command", line)
    };
    for action in ["deny", "ask"] {
        for line in ["rm -rf x", "rm x", "sudo rm --force x", "rmdir x"] {
            assert!(stops(action, "rm*", line), "{line}");
        }
        assert!(stops(action, "git push*", "git push --force=x"));
    }
    let deny = json!({"tool": "Fetch", "input": {"url": "*evil*"}, "action": "deny"});
    let places = OwnPlaces::default();
    let input = json!({"url": "https://x.example/?evil"});
    let input = input.as_object().unwrap();
    let call = ToolCall {
        agent_kind: "claude",
        cwd: "/",
        folder: Folder::Claimed,
        tool: "Fetch",
        input,
        places: &places,
    };
    assert!(matches!(policy(deny).decide(&call).action, Action::Deny { .. }));
}

/// A rule as the test thinks of it: words that must be there, then plain words and named options.
#[derive(Debug, Clone)]
struct Intent {
    start: Vec<String>,
    words: bool,
    flags: Vec<String>,
    valued: Vec<String>,
}

impl Intent {
    fn written(&self) -> String {
        let mut pieces = self.start.clone();
        pieces.extend(self.words.then(|| "*".to_owned()));
        pieces.extend(self.flags.iter().map(|flag| format!("[{flag}]")));
        pieces.extend(self.valued.iter().map(|option| format!("[{option} *]")));
        pieces.join(" ")
    }

    /// What the rule's writer would say of a command: every word is accounted for, one after another.
    fn means(&self, words: &[String]) -> bool {
        let plain = |word: &str| !word.contains('=') && !word.trim_start().starts_with(['-', '+']);
        let Some(rest) = words.strip_prefix(self.start.as_slice()) else { return false };
        let mut rest = rest.iter().peekable();
        while let Some(word) = rest.next() {
            if plain(word) {
                if !self.words {
                    return false;
                }
                continue;
            }
            if self.flags.contains(word) {
                continue;
            }
            if self.valued.contains(word) {
                match rest.next() {
                    Some(value) if plain(value) => continue,
                    _ => return false,
                }
            }
            let carries_value = self.valued.iter().any(|option| {
                let Some(value) = word.strip_prefix(option.as_str()) else { return false };
                let letter = option.len() == 2;
                let number = letter && !value.is_empty() && value.chars().all(|c| c.is_ascii_digit());
                number || value.strip_prefix('=').is_some_and(plain)
            });
            if !carries_value {
                return false;
            }
        }
        true
    }
}

fn option(letters: &str) -> impl Strategy<Value = String> + use<> {
    let shape = format!("-[{letters}]|--[{letters}]{{2,5}}(-[{letters}]{{2,3}})?|-[{letters}]{{3,5}}");
    proptest::string::string_regex(&shape).unwrap()
}

fn intent() -> impl Strategy<Value = Intent> {
    let start = prop::collection::vec("[a-z]{1,5}", 1..3);
    let options = || prop::collection::vec(option("a-m"), 0..3);
    (start, any::<bool>(), options(), options()).prop_map(|(start, words, flags, valued)| {
        // An option that takes a value and one that does not have different names.
        let valued = valued.into_iter().filter(|option| !flags.contains(option)).collect();
        Intent { start, words, flags, valued }
    })
}

fn plain_word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z./:]{1,6}", "[a-z ]{2,6}", Just(String::new()), "[0-9]{1,3}"]
}

/// Words that a command by this rule may have, and some that it may not.
fn command(intent: &Intent) -> impl Strategy<Value = Vec<String>> + use<> {
    let named: Vec<String> =
        intent.flags.iter().chain(&intent.valued).cloned().chain(["--".to_owned()]).collect();
    let named = move || prop::sample::select(named.clone());
    let word = prop_oneof![
        4 => plain_word(),
        4 => named(),
        2 => (named(), "[a-z0-9=/-]{0,4}").prop_map(|(option, value)| format!("{option}={value}")),
        2 => (named(), "[0-9a-m]{1,2}").prop_map(|(option, value)| option + &value),
        1 => option("a-z"),
        1 => "[A-Z]{1,3}=[a-z-]{0,3}",
        1 => "[+][a-z]{1,4}",
        1 => " [-][a-z]{1,2}",
    ];
    let start = intent.start.clone();
    prop::collection::vec(word, 0..6).prop_map(move |words| [start.clone(), words].concat())
}

fn line(words: &[String]) -> String {
    words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect::<Vec<_>>().join(" ")
}

/// An option that no generated rule names.
fn unnamed() -> impl Strategy<Value = String> {
    let value = prop_oneof![Just(String::new()), "=[a-z/]{0,4}"];
    prop_oneof![
        (option("n-z"), value).prop_map(|(option, value)| option + &value),
        "[+][n-z]{1,4}",
        "[A-Z_]{1,4} ?[:+?]?= ?[a-z]{0,3}",
        " -[n-z]",
    ]
}

proptest! {
    #[test]
    fn what_the_language_allows_is_what_its_writer_means(
        (intent, words) in intent().prop_flat_map(|intent| (command(&intent), Just(intent)).prop_map(|(words, intent)| (intent, words))),
    ) {
        prop_assert_eq!(covers(&intent.written(), &line(&words)), intent.means(&words), "{} and {:?}", intent.written(), words);
    }

    #[test]
    fn a_command_with_an_option_that_is_not_named_is_never_allowed(
        (intent, words) in intent().prop_flat_map(|intent| (command(&intent), Just(intent)).prop_map(|(words, intent)| (intent, words))),
        option in unnamed(),
        at in any::<prop::sample::Index>(),
    ) {
        let mut words = words;
        words.insert(at.index(words.len()) + 1, option);
        prop_assert!(!covers(&intent.written(), &line(&words)), "{} and {:?}", intent.written(), words);
    }

    #[test]
    fn any_text_is_a_rule_and_without_two_stars_it_covers_no_option_that_it_does_not_write_out(
        rule in "[a-c*\\[\\]'\"\\\\ =/:.-]{1,16}",
        words in prop::collection::vec("[a-c=/.-]{1,5}", 1..5),
    ) {
        let Ok(file) = serde_json::from_value::<PolicyFile>(json!({"rules": [{"command": rule.clone(), "action": "allow"}]})).unwrap().check() else {
            return Ok(());
        };
        if !rule.contains("**") && allows(&file, "Bash", "command", &line(&words)) {
            let bare = rule.replace(['\'', '"', '\\'], "");
            for word in words.iter().filter(|word| word.starts_with('-') || word.contains('=')) {
                let name = word.split_inclusive('=').next().unwrap().trim_end_matches('=');
                let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
                prop_assert!(bare.contains(name), "{rule:?} and {words:?}");
            }
        }
    }
}
