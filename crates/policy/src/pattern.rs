//! Patterns over text and over folders. The commands of allow rules have a language of their own (see
//! [`crate::command`]). Only `*` is special, a backslash makes the next character literal, and case matters. All other
//! characters are literal, including `?` and `[`, because commands and addresses are full of them.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    #[error("a pattern must not be empty")]
    Empty,
    #[error("the backslash at the end makes nothing literal")]
    DanglingBackslash,
    #[error("a folder must be written from the root (`~` is the caller's to expand), or begin with `**`")]
    NotAbsolute,
    #[error("a folder must be written plainly: no `.`, no `..`, no empty part, no `/` at the end")]
    NotPlain,
    #[error("`**` means whole folders, so it must be between slashes")]
    PartOfDeep,
}

/// A pattern over text. `*` matches any sequence of characters, also an empty one, including spaces, slashes and line
/// breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    written: String,
    /// The literal text between the stars; one piece means that there is no star.
    pieces: Vec<String>,
}

impl Glob {
    pub fn new(written: &str) -> Result<Self, BadPattern> {
        if written.is_empty() {
            return Err(BadPattern::Empty);
        }
        let mut pieces = vec![];
        let mut piece = String::new();
        let mut chars = written.chars();
        while let Some(c) = chars.next() {
            match c {
                '*' => pieces.push(std::mem::take(&mut piece)),
                '\\' => piece.push(chars.next().ok_or(BadPattern::DanglingBackslash)?),
                c => piece.push(c),
            }
        }
        pieces.push(piece);
        Ok(Self { written: written.to_owned(), pieces })
    }

    /// Matches each piece at its first occurrence, which finds a match if there is one, without backtracking.
    pub fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return self.pieces.first().is_some_and(|only| only == text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        for piece in middle {
            let Some((_, after)) = rest.split_once(piece.as_str()) else { return false };
            rest = after;
        }
        rest.ends_with(last.as_str())
    }

    /// A pattern that matches only this text.
    pub fn literal(text: &str) -> Self {
        Self { written: text.to_owned(), pieces: vec![text.to_owned()] }
    }

    /// Like [`Glob::new`], for a piece of a pattern, which may be empty.
    pub(crate) fn literal_or_new(written: &str) -> Option<Self> {
        if written.is_empty() { Some(Self::literal("")) } else { Self::new(written).ok() }
    }

    pub fn as_str(&self) -> &str {
        &self.written
    }

    pub fn has_star(&self) -> bool {
        self.pieces.len() > 1
    }

    /// Whether it ends in a star.
    pub fn ends_open(&self) -> bool {
        self.has_star() && self.pieces.last().is_some_and(String::is_empty)
    }

    pub fn matches_everything(&self) -> bool {
        self.pieces.len() > 1 && self.pieces.iter().all(String::is_empty)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// A pattern over folders. `*` matches within one name; `**` matches any number of folders, also none, so `/src/**`
/// matches `/src` and everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderGlob {
    written: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Deep,
    One(Glob),
}

impl FolderGlob {
    pub fn new(written: &str) -> Result<Self, BadPattern> {
        let below_root = match written.strip_prefix('/') {
            Some(rest) => rest,
            None if written.is_empty() => return Err(BadPattern::Empty),
            None if written == "**" || written.starts_with("**/") => written,
            None => return Err(BadPattern::NotAbsolute),
        };
        let step = |part: &str| match part {
            "**" => Ok(Step::Deep),
            "" | "." | ".." => Err(BadPattern::NotPlain),
            part if part.contains("**") => Err(BadPattern::PartOfDeep),
            part => Glob::new(part).map(Step::One),
        };
        let steps =
            if below_root.is_empty() { Ok(vec![]) } else { below_root.split('/').map(step).collect() };
        Ok(Self { written: written.to_owned(), steps: steps? })
    }

    /// Only a normalised path matches: `/src/../etc` must not count as being inside `/src`.
    pub fn matches(&self, path: &str) -> bool {
        let Some(names) = plain_path(path) else { return false };
        let (mut step, mut name) = (0, 0);
        // Where to continue after a mismatch: the last `**` takes one more folder.
        let mut retry: Option<(usize, usize)> = None;
        while name < names.len() {
            match self.steps.get(step) {
                Some(Step::Deep) => {
                    retry = Some((step + 1, name));
                    step += 1;
                }
                Some(Step::One(glob)) if glob.matches(names[name]) => {
                    step += 1;
                    name += 1;
                }
                Some(Step::One(_)) | None => {
                    let Some((after_deep, taken)) = retry else { return false };
                    retry = Some((after_deep, taken + 1));
                    (step, name) = (after_deep, taken + 1);
                }
            }
        }
        self.steps[step..].iter().all(|step| matches!(step, Step::Deep))
    }

    pub fn as_str(&self) -> &str {
        &self.written
    }
}

impl fmt::Display for FolderGlob {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// The names of an absolute, normalised path; `None` for any other text.
pub fn plain_path(path: &str) -> Option<Vec<&str>> {
    let below_root = path.strip_prefix('/')?;
    if below_root.is_empty() {
        return Some(vec![]);
    }
    let names: Vec<&str> = below_root.split('/').collect();
    let plain = |name: &&str| !matches!(*name, "" | "." | "..");
    names.iter().all(plain).then_some(names)
}

/// Normalises a path without looking at the disk: no `//`, `.` or `..`. Links are not followed.
pub fn settle_path(base: &str, path: &str) -> String {
    let mut names: Vec<&str> = vec![];
    let base = if path.starts_with('/') { "" } else { base };
    for name in base.split('/').chain(path.split('/')) {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let glob = Glob::new(pattern).unwrap();
        for text in matching {
            assert!(glob.matches(text), "{pattern:?} should match {text:?}");
        }
        for text in others {
            assert!(!glob.matches(text), "{pattern:?} should not match {text:?}");
        }
    }

    #[test]
    fn a_star_is_any_run_and_everything_else_is_itself() {
        check("git status", &["git status"], &["git status ", "git statu", "Git status", ""]);
        check(
            "cargo test*",
            &["cargo test", "cargo test -p a", "cargo testing"],
            &["cargo tes", " cargo test"],
        );
        check("cargo test *", &["cargo test -p a", "cargo test "], &["cargo test", "cargo testing"]);
        check("a*b*c", &["abc", "a b b c", "abcbc"], &["ab", "acb", "abcd"]);
        check("*", &["", "anything\nat all"], &[]);
        check("a?[b]", &["a?[b]"], &["axb", "a?b"]);
    }

    #[test]
    fn the_end_does_not_overlap_the_beginning() {
        check("ab*ba", &["abba", "abxba"], &["aba", "ab"]);
        check("a*a", &["aa", "aaa"], &["a"]);
    }

    #[test]
    fn a_backslash_makes_a_star_literal() {
        check(r"rm \*", &["rm *"], &["rm x", r"rm \*"]);
        check(r"a\\*", &[r"a\", r"a\b"], &["a"]);
        assert_eq!(Glob::new("a\\"), Err(BadPattern::DanglingBackslash));
        assert_eq!(Glob::new(""), Err(BadPattern::Empty));
    }

    #[test]
    fn a_folder_star_stays_within_a_name_and_two_go_deep() {
        let matches = |pattern: &str, path: &str| FolderGlob::new(pattern).unwrap().matches(path);
        for path in ["/src", "/src/web", "/src/web/a/b"] {
            assert!(matches("/src/**", path), "{path}");
        }
        assert!(!matches("/src/**", "/srcs"));
        assert!(
            matches("/src/*", "/src/web") && !matches("/src/*", "/src/web/a") && !matches("/src/*", "/src")
        );
        assert!(matches("/home/*/src/**/web", "/home/a/src/web"));
        assert!(matches("/home/*/src/**/web", "/home/a/src/web/b/web"));
        assert!(!matches("/home/*/src/**/web", "/home/a/src/web/b"));
        assert!(matches("**/web", "/a/b/web") && !matches("**/web", "/a/b/webs"));
        assert!(matches("/", "/") && !matches("/", "/a") && matches("**", "/"));
    }

    #[test]
    fn a_path_that_is_not_plain_matches_nothing() {
        let all = FolderGlob::new("**").unwrap();
        for path in ["", "src", "/src/../etc", "/src//web", "/src/.", "/src/", "//", "~/src"] {
            assert!(!all.matches(path), "{path:?}");
        }
    }

    #[test]
    fn folder_patterns_that_could_never_match_are_refused() {
        assert_eq!(FolderGlob::new("~/src"), Err(BadPattern::NotAbsolute));
        assert_eq!(FolderGlob::new("src"), Err(BadPattern::NotAbsolute));
        assert_eq!(FolderGlob::new("/src/"), Err(BadPattern::NotPlain));
        assert_eq!(FolderGlob::new("/src/../etc"), Err(BadPattern::NotPlain));
        assert_eq!(FolderGlob::new("/src/a**"), Err(BadPattern::PartOfDeep));
        assert_eq!(FolderGlob::new(""), Err(BadPattern::Empty));
    }

    #[test]
    fn a_path_is_settled_without_looking_at_the_disk() {
        assert_eq!(settle_path("/a/b", "../c/./d//e"), "/a/c/d/e");
        assert_eq!(settle_path("/a", "/x/../.."), "/");
    }

    /// The simplest possible matcher, as a reference.
    fn slow(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|skip| slow(rest, &text[skip..])),
            [c, rest @ ..] => text.first() == Some(c) && slow(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_plainest_matcher(pattern in "[ab*]{1,8}", text in "[ab]{0,10}") {
            let chars = |s: &str| s.chars().collect::<Vec<_>>();
            prop_assert_eq!(Glob::new(&pattern).unwrap().matches(&text), slow(&chars(&pattern), &chars(&text)));
        }

        #[test]
        fn folders_agree_with_the_plainest_matcher(pattern in "(/(a|b|\\*\\*)){1,6}", path in "(/(a|b)){1,7}") {
            // One character per folder: `**` becomes the star of the reference matcher.
            let chars = |s: &str| s.replace("**", "*").replace('/', "").chars().collect::<Vec<_>>();
            prop_assert_eq!(FolderGlob::new(&pattern).unwrap().matches(&path), slow(&chars(&pattern), &chars(&path)));
        }
    }
}
