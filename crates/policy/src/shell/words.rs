//! Words as the shell passes them to a program, and how they are written as one line.

use std::borrow::Cow;

/// Shell keywords, which may appear where a command could.
const RESERVED: [&str; 19] = [
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in",
    "select", "function", "coproc", "[[", "]]", "foreach",
];

pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Commands that set variables or aliases for what follows.
const SETTING: [&str; 8] =
    ["export", "declare", "typeset", "local", "readonly", "unset", "unsetenv", "alias"];

pub fn is_setting(word: &str) -> bool {
    SETTING.contains(&word)
}

/// Whether an unquoted character is literal in every shell we know, given the previous character of the word. Globs,
/// braces, a leading `~` and zsh's `=name` are not. Neither are letters beyond ASCII, because some systems treat one of
/// their bytes as a blank.
pub fn is_bare(c: char, before: Option<char>) -> bool {
    let within = |b: char| b.is_ascii_alphanumeric() || "_-.@~^#".contains(b);
    match c {
        '~' | '^' | '#' => before.is_some_and(within),
        '=' => before.is_some(),
        c => c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c),
    }
}

/// Joins the words of a command into one line. Words are quoted where necessary, so `git "status x"` does not look like
/// three words.
pub fn line(words: &[String]) -> String {
    let mut out = String::new();
    for (i, word) in words.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        let first_is_special = i == 0 && (word.contains('=') || is_reserved(word));
        out.push_str(&quote(word, first_is_special));
    }
    out
}

fn quote(word: &str, always: bool) -> Cow<'_, str> {
    let mut before = None;
    let bare = |c: char| is_bare(c, before.replace(c));
    if !always && !word.is_empty() && word.chars().all(bare) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: &str) {
        let words: Vec<String> = words.iter().map(|&w| w.to_owned()).collect();
        assert_eq!(line(&words), expected);
    }

    #[test]
    fn a_word_that_could_be_taken_for_more_is_quoted() {
        check(
            &["git", "log", "--format=%H", "HEAD~1", "main^", "a#b"],
            "git log --format=%H HEAD~1 main^ a#b",
        );
        check(&["git", "status x"], "git 'status x'");
        check(&["git", ""], "git ''");
        check(&["echo", "it's"], r"echo 'it'\''s'");
        check(&["echo", "~", "*", "$x", "#", "ä", "a\nb"], "echo '~' '*' '$x' '#' 'ä' 'a\nb'");
        check(&["A=1", "A=1"], "'A=1' A=1");
        check(&["if", "if"], "'if' if");
    }
}
