//! The options in the `command` of a rule that denies or asks. They may come in any order and place: `rm -rf *` also
//! means `rm -fr x`, `rm -r -f x` and `rm x -rf`.

use crate::pattern::Glob;
use std::collections::BTreeSet;

/// Programs whose options have one dash and more than one letter, so `-name` is not `-n -a -m -e`.
const LONG_WITH_ONE_DASH: [&str; 10] =
    ["find", "go", "java", "terraform", "tofu", "openssl", "ffmpeg", "gcc", "clang", "xcodebuild"];

/// Short and long options that mean the same to nearly every program.
const SAME: [(&str, &str); 2] = [("-f", "--force"), ("-r", "--recursive")];

/// A pattern with its options taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionPattern {
    program: String,
    /// A command must have all of them.
    options: Vec<Glob>,
    /// Everything else, in its order.
    rest: Glob,
}

impl OptionPattern {
    /// None if the pattern names no program or no option.
    pub fn new(glob: &Glob) -> Option<Self> {
        let mut words = glob.as_str().split_whitespace();
        let program = words.next().filter(|word| is_literal(word))?;
        let (mut rest, mut options) = (program.to_owned(), vec![]);
        for word in words {
            let open = word.strip_suffix('*');
            let name = open.unwrap_or(word);
            if !(is_option(name) && is_literal(name)) {
                rest.push(' ');
                rest.push_str(word);
                continue;
            }
            match (split(program, name).as_slice(), open) {
                ([long], Some(_)) if long.len() > 2 => options.push(word.to_owned()),
                (each, _) => options.extend(each.iter().cloned()),
            }
            if open.is_some() {
                rest.push('*');
            }
        }
        if options.is_empty() {
            return None;
        }
        let options = options.iter().map(|option| Glob::new(option)).collect::<Result<_, _>>().ok()?;
        Some(Self { program: program.to_owned(), options, rest: Glob::new(&rest).ok()? })
    }

    pub fn matches(&self, command: &str) -> bool {
        let mut words = command.split_whitespace();
        if words.next() != Some(self.program.as_str()) {
            return false;
        }
        let (mut options, mut rest, mut are_over) = (BTreeSet::new(), self.program.clone(), false);
        for word in words {
            if !are_over && word == "--" {
                are_over = true;
            } else if !are_over && is_option(word) {
                options.extend(split(&self.program, word));
            } else {
                rest.push(' ');
                rest.push_str(word);
            }
        }
        if self.program == "rm" && options.contains("-R") {
            options.insert("-r".to_owned());
        }
        for (short, long) in SAME {
            if options.contains(short) || options.contains(long) {
                options.extend([short.to_owned(), long.to_owned()]);
            }
        }
        let is_there = |wanted: &Glob| options.iter().any(|option| wanted.matches(option));
        self.options.iter().all(is_there) && self.rest.matches(&rest)
    }
}

fn is_literal(word: &str) -> bool {
    !word.contains(['*', '\\'])
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// Each option in a word: `-rf` has two.
fn split(program: &str, word: &str) -> Vec<String> {
    let letters = word.trim_start_matches('-');
    let is_long = word.starts_with("--") || LONG_WITH_ONE_DASH.contains(&program);
    match is_long || !letters.chars().all(|c| c.is_ascii_alphanumeric()) {
        true => vec![word.to_owned()],
        false => letters.chars().map(|letter| format!("-{letter}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let pattern = OptionPattern::new(&Glob::new(pattern).unwrap()).unwrap();
        for command in matching {
            assert!(pattern.matches(command), "{pattern:?} should match {command:?}");
        }
        for command in others {
            assert!(!pattern.matches(command), "{pattern:?} should not match {command:?}");
        }
    }

    #[test]
    fn options_are_matched_in_any_order_and_place() {
        check(
            "rm -rf *",
            &[
                "rm -rf x",
                "rm -fr x",
                "rm -r -f x",
                "rm -f -r x",
                "rm -rfv x",
                "rm -v -R -f x",
                "rm x -rf",
                "rm -r x -f",
                "rm --recursive --force x",
                "rm -rf -- x",
            ],
            &["rm -r x", "rm x", "rm -rf", "rmdir -rf x", "rm -- -rf", "git rm -rf x"],
        );
        check(
            "git push --force*",
            &[
                "git push --force",
                "git push origin main --force",
                "git push -f",
                "git push --force-with-lease",
            ],
            &["git push", "git pull --force"],
        );
        check(
            "git push -f*",
            &["git push origin -f", "git push -uf", "git push --force"],
            &["git push --follow-tags"],
        );
        check(
            "find * -delete",
            &["find . -delete", "find . -name x -delete"],
            &["find . -type d -empty -ls"],
        );
    }

    #[test]
    fn a_pattern_without_options_or_without_a_program_is_matched_as_text_alone() {
        for pattern in ["rm *", "* -rf", "*", "git push", "rm \\-rf"] {
            assert_eq!(OptionPattern::new(&Glob::new(pattern).unwrap()), None, "{pattern}");
        }
    }
}
