use super::*;
use proptest::prelude::*;

#[track_caller]
fn check(text: &str, expected: Result<&str, Opaque>) {
    assert_eq!(Script::read(text).plain, expected.map(ToOwned::to_owned), "{text:?}");
}

#[test]
fn there_is_one_way_to_write_a_plain_command() {
    check(" git   'status'\n", Ok("git status"));
    check("git log;\ncargo test;", Ok("git log ; cargo test"));
    check("a&&b||c|d|&e&f", Ok("a && b || c | d |& e & f"));
    check("(a;b)&", Ok("( a ; b ) &"));
    check("{ a\nb\n}", Ok("{ a ; b ; }"));
    check("! a &&\n\n! (b)", Ok("! a && ! ( b )"));
    check("a \\\n b", Ok("a b"));
    check("echo \"a\\\"b\\$c\\d\" '' e\\ f", Ok(r#"echo 'a"b$c\d' '' 'e f'"#));
    check("'A=1' 'if'", Ok("'A=1' if"));
    check("'if' a", Ok("'if' a"));
    check("'!' a; \\! b", Ok("'!' a ; '!' b"));
}

#[test]
fn the_reason_why_a_command_cannot_be_allowed_is_the_one_a_person_sees() {
    for (text, why) in [
        ("a $(b)", Opaque::Substitution),
        ("a `b`", Opaque::Substitution),
        ("a \"`b`\"", Opaque::Substitution),
        ("a <(b)", Opaque::Substitution),
        ("a $b", Opaque::Expansion),
        ("a \"${b}\"", Opaque::Expansion),
        ("a $'b'", Opaque::Escape),
        ("\\a", Opaque::Escape),
        ("a > b", Opaque::Redirection),
        ("a 2>&1", Opaque::Redirection),
        ("a &> b", Opaque::Redirection),
        ("a << b", Opaque::HereDocument),
        ("a <<< b", Opaque::HereDocument),
        ("A=1 b", Opaque::Assignment),
        ("A='b c' d", Opaque::Assignment),
        ("A=", Opaque::Assignment),
        ("a *", Opaque::Glob),
        ("a ~", Opaque::Glob),
        ("a b=~", Opaque::Glob),
        ("a {b,c}", Opaque::Glob),
        ("a # b", Opaque::Comment),
        ("if a; then b; fi", Opaque::ControlFlow),
        ("a\rb", Opaque::Hidden('\r')),
        ("a '\u{202e}'", Opaque::Hidden('\u{202e}')),
        ("a\u{a0}b", Opaque::Hidden('\u{a0}')),
        ("ä", Opaque::Unquoted('ä')),
        ("a (b)", Opaque::Unparsable),
        ("a 'b", Opaque::Unparsable),
        ("", Opaque::Unparsable),
        ("export a", Opaque::Assignment),
        ("'declare' a=1", Opaque::Assignment),
        ("alias git=x", Opaque::Assignment),
        ("a\\\nb", Opaque::Disputed),
        ("%\\\n", Opaque::Disputed),
    ] {
        check(text, Err(why));
    }
    assert_eq!(Opaque::Hidden('\r').to_string(), "it has the hidden character U+000D");
}

#[test]
fn parts_say_where_they_lead() {
    let script = Script::read("cd x && sudo -n make 'a b'");
    let lines: Vec<&str> = script.parts.iter().map(|part| part.line.as_str()).collect();
    assert_eq!(lines, ["cd x", "sudo -n make 'a b'"]);
    // Which of its words is the first argument of `sudo` depends on whether `-n` takes a value.
    let reaches = [
        "make 'a b'",
        "make a b",
        "sudo 'a b'",
        "sudo -n make 'a b'",
        "sudo -n make a b",
        "sudo a b",
        "sudo make 'a b'",
        "sudo make a b",
    ];
    assert_eq!(script.parts[1].reaches, reaches);
    assert_eq!(script.parts.iter().map(|part| part.moves).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn there_is_always_a_part_to_look_at() {
    for text in ["", " ", "# x", "A=1", ")", "x", "> f"] {
        assert!(!Script::read(text).parts.is_empty(), "{text:?}");
    }
}

#[test]
fn a_command_that_is_too_long_is_not_taken_apart_but_its_start_is_still_searched() {
    let fits = format!("echo '{}'", "x".repeat(LONGEST - 7));
    assert_eq!(fits.len(), LONGEST);
    assert_ne!(Script::read(&fits).plain, Err(Opaque::TooLong));
    assert_eq!(Script::read(&format!("{fits} ")).plain, Err(Opaque::TooLong));
    let script = Script::read(&format!("git log; rm x; {}", "ä".repeat(LONGEST)));
    assert_eq!(script.plain, Err(Opaque::TooLong));
    assert!(script.parts.iter().any(|part| part.reaches.contains(&"rm x".to_owned())));
}

#[test]
fn the_number_of_parts_is_bounded_however_they_come_about() {
    let wrapped = format!("{}x", "sudo --a ".repeat(100));
    for text in [
        "a;".repeat(MOST_PARTS + 1),
        "a\n".repeat(MOST_PARTS + 1),
        "a|".repeat(MOST_PARTS + 1),
        format!("bash -c '{}'", "a;".repeat(60_000)),
        format!("{wrapped};").repeat(100),
    ] {
        let script = Script::read(&text);
        assert_eq!(script.plain, Err(Opaque::TooManyParts), "{:.40}", text);
        assert!(script.parts.len() <= MOST_PARTS + 1, "{:.40}", text);
        let reached: usize = script.parts.iter().map(|part| part.reaches.len()).sum();
        assert!(reached <= 500_000, "{reached} for {:.40}", text);
    }
}

proptest! {
    #[test]
    fn words_written_as_a_line_are_read_back_as_the_same_words(
        words in prop::collection::vec("[ -~äß\n]{0,6}", 1..4),
    ) {
        prop_assume!(!words::is_setting(&words[0]));
        let line = words::line(&words);
        let read = literal::read(&line).unwrap();
        prop_assert_eq!(read.commands, vec![words]);
        prop_assert_eq!(read.line, line);
    }
}
