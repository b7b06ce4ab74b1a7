//! One word of a pattern, and which words it matches.

use super::parse::{Sign, has_two_stars};
use crate::pattern::Glob;
use crate::url::UrlPattern;

/// Whether a word could change what a program does rather than name what it works on. A rule must name such a word. Any
/// `=` counts, because `make` takes even `CC := x` as a setting.
pub fn is_option(word: &str) -> bool {
    word.trim_start().starts_with(['-', '+']) || word.contains('=')
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordPattern {
    /// The text before the first star.
    prefix: String,
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Exactly,
    /// One pattern per name between slashes, so that no star matches a slash.
    Names(Vec<Glob>),
    /// With `**`, which also matches slashes.
    Across(Glob),
    Url(UrlPattern),
}

impl WordPattern {
    pub fn of(signs: &[Sign]) -> Self {
        let prefix: String = signs.iter().take_while(|sign| !sign.is_star()).map(|sign| sign.c).collect();
        let written = glob_text(signs);
        let shape = if !signs.iter().any(|sign| sign.is_star()) {
            Some(Shape::Exactly)
        } else if let Some(url) = UrlPattern::new(&written) {
            Some(Shape::Url(url))
        } else if has_two_stars(signs) {
            Glob::new(&written).ok().map(Shape::Across)
        } else {
            let names = signs.split(|sign| sign.c == '/').map(glob_text);
            names.map(|name| Glob::literal_or_new(&name)).collect::<Option<_>>().map(Shape::Names)
        };
        // Text that is no valid pattern matches itself.
        Self { prefix, shape: shape.unwrap_or(Shape::Exactly) }
    }

    pub fn matches(&self, word: &str) -> bool {
        match &self.shape {
            Shape::Exactly => word == self.prefix,
            Shape::Url(url) => url.matches(word),
            Shape::Across(glob) => self.names(word) && glob.matches(word),
            Shape::Names(globs) => {
                let names: Vec<&str> = word.split('/').collect();
                self.names(word)
                    && names.len() == globs.len()
                    && globs.iter().zip(names).all(|(glob, name)| fits(glob, name))
            }
        }
    }

    /// False for an option if a star would match a part of its name.
    fn names(&self, word: &str) -> bool {
        let name = word.find('=').map_or(word.len(), |at| at + 1);
        !is_option(word) || self.prefix.len() >= name
    }

    /// The word itself, if the pattern matches only one.
    pub fn literal(&self) -> Option<&str> {
        (self.shape == Shape::Exactly).then_some(self.prefix.as_str())
    }

    pub fn is_url(&self) -> bool {
        matches!(self.shape, Shape::Url(_))
    }

    pub fn crosses_folders(&self) -> bool {
        matches!(self.shape, Shape::Across(_))
    }

    pub fn danger(&self) -> Option<String> {
        match &self.shape {
            Shape::Url(url) => url.danger(),
            Shape::Exactly | Shape::Names(_) | Shape::Across(_) => None,
        }
    }
}

/// A star never matches `..`, and alone between slashes it matches at least one character: `*/x` does not match `/x`.
fn fits(glob: &Glob, name: &str) -> bool {
    let leads_elsewhere = matches!(name, "." | "..") || (name.is_empty() && glob.matches_everything());
    glob.matches(name) && !(glob.has_star() && leads_elsewhere)
}

/// Writes the characters in the syntax of a [`Glob`].
fn glob_text(signs: &[Sign]) -> String {
    let mut text = String::new();
    for sign in signs {
        if matches!(sign.c, '*' | '\\') && !sign.is_star() {
            text.push('\\');
        }
        text.push(sign.c);
    }
    text
}
