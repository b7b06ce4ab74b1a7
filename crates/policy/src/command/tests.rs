use super::*;

fn words(line: &str) -> Vec<String> {
    let script = crate::shell::Script::read(line);
    assert!(script.plain.is_ok() && script.parts.len() == 1, "{line}");
    script.parts[0].words.clone()
}

#[track_caller]
fn check(pattern: &str, covered: &[&str], others: &[&str]) {
    let pattern = CommandPattern::new(pattern);
    for line in covered {
        assert!(pattern.covers(&words(line)), "`{pattern}` should cover `{line}`");
    }
    for line in others {
        assert!(!pattern.covers(&words(line)), "`{pattern}` should not cover `{line}`");
    }
}

#[test]
fn a_pattern_is_shown_as_it_is_read() {
    for (written, read) in [
        ("cargo test*", "cargo test *"),
        ("cargo test**", "cargo test **"),
        ("npm run build:*", "npm run build:*"),
        ("cat src/*.rs *", "cat src/*.rs *"),
        ("  a   b ", "a b"),
        ("a [ -p * ] [--x*]", "a [-p *] [--x *]"),
        ("a [-p", "a [-p"),
        ("'te st'* b", r"te\ st * b"),
        ("a [] b]", "a [] b]"),
        ("echo 'a b' \"c*\" it's", "echo 'a b' \"c*\" it's"),
        ("curl https://docs.rs/serde*", "curl https://docs.rs/serde*"),
    ] {
        assert_eq!(CommandPattern::new(written).to_string(), read, "{written}");
    }
}

#[test]
fn quotes_and_backslashes_make_signs_stand_for_themselves() {
    check("rg '*' src", &["rg '*' src"], &["rg x src", "rg '**' src"]);
    check(r"rg \* src", &["rg '*' src"], &["rg x src"]);
    check("git commit -m 'two words'", &["git commit -m \"two words\""], &["git commit -m two words"]);
    check("a '[-p *]'", &["a '[-p *]'"], &["a -p x", "a"]);
    check("a ''", &["a ''"], &["a"]);
    check("a *''*", &["a b"], &["a -x"]);
    check("a s/*''*", &["a s/b"], &["a s/b/c"]);
    check("a 'b'*''*", &["a b c"], &["a b -x"]);
    check(r"a 'it'\''s'", &[r"a it\'s"], &["a its"]);
}

#[test]
fn brackets_stand_in_any_order_and_number_and_only_where_they_are_written() {
    check(
        "git [-C *] log * [--oneline] [-n *]",
        &["git log", "git -C x log a --oneline b -n 3 --oneline", "git -C a -C b log", "git log -n5 -n=7"],
        &[
            "git log -C x",
            "git --oneline log",
            "git -C log",
            "git -C -x log",
            "git log -n",
            "git log -n --oneline",
        ],
    );
    check("a [b c] d", &["a d", "a b c d", "a b c b c d"], &["a b d", "a b c", "a c b d"]);
    check("a [-x * *]", &["a -x 1 2", "a -x=1 2", "a"], &["a -x 1", "a -x 1 2 3"]);
    check("a [-- **] *", &["a b -- -x --y c", "a"], &["a -x -- b"]);
    check("a [** b] c", &["a c", "a -x b c", "a x b y b c"], &["a x", "a x c"]);
    check("a ** b", &["a b", "a -x --y=z b"], &["a", "a b c"]);
}

#[test]
fn a_pattern_that_can_be_read_in_many_ways_is_still_read_in_no_time() {
    let pattern = CommandPattern::new(&format!("a {}", "[x **] [** x] * ".repeat(20)));
    let long: Vec<String> =
        std::iter::once("a").chain(std::iter::repeat_n("x", 5_000)).map(Into::into).collect();
    assert!(pattern.covers(&long));
}

#[track_caller]
fn advised(pattern: &str, line: &str) -> Option<(String, String, Vec<String>)> {
    let advice = CommandPattern::new(pattern).advise(&words(line))?;
    if let Some(amended) = &advice.amended {
        assert!(CommandPattern::new(amended).covers(&words(line)), "`{amended}` should cover `{line}`");
    }
    Some((advice.word, advice.amended.unwrap_or_default(), advice.cautions))
}

#[test]
fn what_is_missing_is_named_with_what_to_add_and_what_speaks_against_it() {
    let some = |word: &str, amended: &str, cautions: &[&str]| {
        Some((word.to_owned(), amended.to_owned(), cautions.iter().map(|&c| c.to_owned()).collect()))
    };
    let rule = "cargo test *";
    assert_eq!(advised(rule, "cargo test --release"), some("--release", "cargo test * [--release]", &[]));
    assert_eq!(
        advised(rule, "cargo test -q x --config a.toml"),
        some("-q", "cargo test * [-q *] [--config *]", &["`--config` can make it run another program"])
    );
    assert_eq!(
        advised(rule, "cargo test --config 'build.rustc=\"evil\"'"),
        some(
            "--config",
            "cargo test * [--config build.rustc=*]",
            &["`--config` can make it run another program"]
        )
    );
    assert_eq!(advised(rule, "cargo test a -- --nocapture x").unwrap().0, "--");
    let sets = "`CC=` can make it run another program, by setting a variable";
    assert_eq!(advised("make *", "make CC=evil"), some("CC=evil", "make * [CC=*]", &[sets]));
    assert_eq!(
        advised("make *", "make CC=/bin/evil"),
        some("CC=/bin/evil", "make * [CC=/bin/evil]", &[sets])
    );
    assert_eq!(
        advised("git log *", "git -c core.pager=evil log"),
        some("-c", "git [-c core.pager=*] log *", &["`-c` can make it run another program"])
    );
    assert_eq!(
        advised("cargo test", "cargo +nightly test"),
        some("+nightly", "cargo [+nightly] test", &["`+nightly` can choose another version of the program"])
    );
    assert_eq!(advised("git status", "git status x"), some("x", "git status *", &[]));
    assert_eq!(advised("cargo test * [-p *]", "cargo test -p --release"), some("--release", "", &[]));
    assert_eq!(advised("cargo test *", "cargo build --release"), None);
    assert_eq!(advised("cargo test *", "git status"), None);
    assert_eq!(advised("git push origin", "git push"), None);
}

#[test]
fn what_covers_more_than_it_seems_is_called_dangerous() {
    for pattern in [
        "a **",
        "a [-- **]",
        "a**",
        "a src/**",
        "* x",
        "*",
        "[a] b",
        "sudo *",
        "/bin/bash *",
        "python3 * [-m *]",
        "bash -c *",
        "ssh host *",
        "timeout 5 *",
        "sed -n *",
        "sudo [-n] *",
        "curl https://*/*",
    ] {
        let dangers = CommandPattern::new(pattern).dangers();
        assert!(dangers.iter().any(|danger| danger.contains("dangerous")), "{pattern}: {dangers:?}");
    }
    for pattern in [
        "cargo test * [-p *]",
        "bash scripts/check *",
        "time cargo test *",
        "python -m pytest *",
        "timeout 5 cargo test *",
        "sudo -n make",
        "cat src/*.rs",
        "curl https://*.example.org/*",
    ] {
        assert_eq!(CommandPattern::new(pattern).dangers(), [""; 0], "{pattern}");
    }
}
