//! The `command` of a rule that allows: a pattern over the words of one command.
//!
//! `*` matches any number of plain words. `[…]` is optional and may repeat. A `*` and the `[…]` next to it form a run
//! whose pieces may come in any order. `**` matches anything. Every other word matches itself, and a star inside a word
//! does not match across words. An option is never a plain word: a pattern must name it.
//!
//! `docs/allow-rules.md` explains this with examples that a test reads.

mod advice;
mod machine;
mod parse;
mod word;

pub use advice::{Advice, caution_about};
pub use machine::Fit;
pub use word::is_option;

use machine::Machine;
use std::fmt;
use word::WordPattern;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    steps: Vec<Step>,
    machine: Machine,
}

/// A piece of a pattern, and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    text: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    One(WordPattern),
    /// Any number of these sequences, in any order.
    Run(Vec<Vec<Item>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Word(WordPattern),
    /// `*`: one plain word; repeatable if it is a sequence of a run by itself.
    Plain,
    /// `**`: any number of words.
    Anything,
}

impl CommandPattern {
    /// Never fails: text that is no pattern matches itself.
    pub fn new(written: &str) -> Self {
        let steps = parse::steps(written);
        Self { machine: Machine::new(&steps), steps }
    }

    pub fn covers(&self, words: &[String]) -> bool {
        self.fit(words) == Fit::Covers
    }

    /// How much of a command the pattern covers.
    pub fn fit(&self, words: &[String]) -> Fit {
        self.machine.fit(words)
    }

    /// Whether it uses syntax that globs do not have.
    pub fn has_brackets(&self) -> bool {
        let in_brackets = |piece: &Vec<Item>| !matches!(piece.as_slice(), [Item::Plain | Item::Anything]);
        let of_step = |step: &Step| matches!(&step.what, What::Run(pieces) if pieces.iter().any(in_brackets));
        self.steps.iter().any(of_step)
    }

    /// Warnings about the pattern itself.
    pub fn dangers(&self) -> Vec<String> {
        let mut dangers = vec![];
        let items = || self.steps.iter().flat_map(Step::items);
        if items().any(|item| matches!(item, Item::Anything)) {
            dangers.push("`**` is dangerous: it covers every option and every file there is".to_owned());
        }
        let crosses = |item: &Item| matches!(item, Item::Word(word) if word.crosses_folders());
        if items().any(|item| crosses(&item)) {
            let why = "`**` inside a word is dangerous: it covers `..` and so every folder";
            dangers.push(why.to_owned());
        }
        match self.steps.first().map(|step| &step.what) {
            Some(What::Run(_)) => {
                dangers.push("dangerous: it begins with `*` or `[…]`, so it covers any program".to_owned());
            }
            Some(What::One(word)) => {
                let name = word.literal().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
                if self.leaves_code_open(name) {
                    dangers.push(format!("dangerous: `{name}` runs whatever its words say"));
                }
            }
            None => {}
        }
        dangers.extend(items().filter_map(|item| match item {
            Item::Word(word) => word.danger(),
            Item::Plain | Item::Anything => None,
        }));
        dangers
    }

    /// Whether a star can match code that the program, a shell, a wrapper or an interpreter, then runs.
    fn leaves_code_open(&self, program: &str) -> bool {
        let Some(own_words) = crate::shell::own_words_before_code(program) else { return false };
        let takes_words = |step: &Step| step.items().iter().any(|item| !matches!(item, Item::Word(_)));
        let operand = |step: &&Step| match &step.what {
            What::One(word) => !word.literal().is_some_and(is_option),
            What::Run(_) => false,
        };
        let until_star = || self.steps.iter().skip(1).take_while(|step| !takes_words(step));
        self.steps.iter().any(takes_words) && until_star().filter(operand).count() <= own_words
    }
}

impl Step {
    fn items(&self) -> Vec<Item> {
        match &self.what {
            What::One(word) => vec![Item::Word(word.clone())],
            What::Run(pieces) => pieces.concat(),
        }
    }
}

/// The pattern as it is interpreted: `cargo test*` becomes `cargo test *`.
impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let texts: Vec<&str> = self.steps.iter().map(|step| step.text.as_str()).collect();
        f.write_str(&texts.join(" "))
    }
}

#[cfg(test)]
mod tests;
