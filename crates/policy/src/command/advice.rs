//! Suggests what to add to a pattern so that it covers a command, and warns about the additions.

use super::{CommandPattern, Fit, Step, What, is_option};

/// How to change a rule so that it covers a command that it covers only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// How many words are covered.
    pub covered: usize,
    /// The first word that is not.
    pub word: String,
    /// The pieces to add; empty if the rule cannot be extended to cover the command.
    pub add: Vec<String>,
    /// The rule's command with all of it added.
    pub amended: Option<String>,
    /// Warnings about the additions.
    pub cautions: Vec<String>,
}

/// With more additions than this, it would be a different rule.
const MOST_ADDITIONS: usize = 8;

impl CommandPattern {
    /// Why the pattern does not cover a command; `None` if they do not even begin alike.
    pub fn advise(&self, words: &[String]) -> Option<Advice> {
        let Fit::Stops { word: first, .. } = self.fit(words) else { return None };
        if first == 0 {
            return None;
        }
        let word = words[first].clone();
        let mut advice = Advice { covered: first, word, add: vec![], amended: None, cautions: vec![] };
        let mut pattern = self.clone();
        let mut last = None;
        while let Fit::Stops { word, step, inside } = pattern.fit(words) {
            let at_the_end = step + 1 == pattern.steps.len();
            let helped = last.replace(word) != Some(word);
            let extendable = helped && !inside && (at_the_end || is_option(&words[word]));
            if !extendable || advice.add.len() == MOST_ADDITIONS {
                let another_command = word == first && !inside && !is_option(&words[word]);
                return (!another_command).then(|| advice.without_additions());
            }
            let addition = addition(&words[word], words.get(word + 1));
            advice.cautions.extend(caution_about(&words[word]));
            pattern = pattern.with(step, &addition);
            advice.add.push(addition);
        }
        if !pattern.covers(words) {
            return Some(advice.without_additions());
        }
        advice.amended = Some(pattern.to_string());
        Some(advice)
    }

    /// The pattern with one more piece after a step.
    fn with(&self, step: usize, addition: &str) -> Self {
        let mut texts: Vec<&str> = self.steps.iter().map(|step| step.text.as_str()).collect();
        texts.insert(step + 1, addition);
        Self::new(&texts.join(" "))
    }
}

impl Advice {
    fn without_additions(self) -> Self {
        Self { add: vec![], amended: None, cautions: vec![], ..self }
    }
}

impl Step {
    pub fn takes_plain_words(&self) -> bool {
        match &self.what {
            What::One(_) => false,
            What::Run(pieces) => pieces.iter().any(|piece| matches!(piece.as_slice(), [super::Item::Plain])),
        }
    }
}

/// A piece that covers a word, and the next one with it where that looks like its value.
fn addition(word: &str, next: Option<&String>) -> String {
    let setting = |name: &str, value: &str| match value.contains('/') {
        true => quoted(&format!("{name}={value}")),
        false => format!("{}=*", quoted(name)),
    };
    if !is_option(word) {
        return "*".to_owned();
    }
    if !word.starts_with('-') {
        return match word.split_once('=').filter(|(name, _)| !is_option(name)) {
            Some((name, value)) => format!("[{}]", setting(name, value)),
            None => format!("[{}]", quoted(word)),
        };
    }
    match (word.split_once('='), next) {
        (Some((name, value)), _) if !is_option(value) => format!("[{} *]", quoted(name)),
        (Some((name, value)), _) => format!("[{}]", setting(name, value)),
        (None, _) if word == "--" => "[-- *]".to_owned(),
        (None, Some(next)) if !is_option(next) => format!("[{} *]", quoted(word)),
        (None, Some(next)) => match next.split_once('=').filter(|(name, _)| !is_option(name)) {
            Some((name, value)) => format!("[{} {}]", quoted(word), setting(name, value)),
            None => format!("[{}]", quoted(word)),
        },
        (None, None) => format!("[{}]", quoted(word)),
    }
}

/// Quotes a word so that a pattern matches it literally.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_+=./:,@%^~#".contains(c);
    match word.chars().all(plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

const RUNS: &str = "can make it run another program";
const WRITES: &str = "can make it write or delete files";
const ELSEWHERE: &str = "can make it work with other files than those of its folder";

/// Options that do more than their name says, by program.
const RISKY: &[(&str, &[&str])] = &[
    (
        RUNS,
        &[
            "--config",
            "-c",
            "--config-env",
            "--exec",
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "--exec-batch",
            "-x",
            "-X",
            "--upload-pack",
            "--receive-pack",
            "--ext-diff",
            "--textconv",
            "--pre",
            "--pager",
            "-O",
            "--open-files-in-pager",
            "--rsh",
            "-e",
            "--eval",
            "--command",
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "-I",
            "--script-shell",
            "-toolexec",
            "--toolexec",
            "--exec-path",
            "-p",
            "--plugin",
            "--entrypoint",
            "--privileged",
            "-vettool",
            "--proxy-command",
            "-o",
            "--call",
            "--node-options",
            "-Z",
            "--env",
            "--require",
            "-r",
            "--loader",
            "--import",
        ],
    ),
    (
        WRITES,
        &[
            "--output",
            "--output-file",
            "-delete",
            "--delete",
            "--target-dir",
            "--out-dir",
            "-fprint",
            "-fprint0",
            "-fprintf",
            "-fls",
            "--junitxml",
            "--junit-xml",
            "--log-file",
            "--artifact-dir",
            "-coverprofile",
            "-cpuprofile",
            "-memprofile",
            "-outputdir",
            "--force",
            "-f",
            "--basetemp",
            "--fix",
        ],
    ),
    (
        ELSEWHERE,
        &[
            "-C",
            "--directory",
            "--git-dir",
            "--work-tree",
            "--manifest-path",
            "--file",
            "--makefile",
            "--prefix",
            "--rootdir",
            "--cwd",
            "-v",
            "--volume",
            "--mount",
            "--workspace-dir",
            "--no-index",
            "-chdir",
            "--confcutdir",
        ],
    ),
];

/// The known danger of an option.
pub fn caution_about(word: &str) -> Option<String> {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    if word == "--" {
        return Some("`--`: what follows goes to another program".to_owned());
    }
    if word.starts_with('+') {
        return Some(format!("`{name}` can choose another version of the program"));
    }
    if !word.starts_with('-') {
        return word.contains('=').then(|| format!("`{name}=` {RUNS}, by setting a variable"));
    }
    let risk = RISKY.iter().find(|(_, names)| names.contains(&name));
    risk.map(|(what, _)| format!("`{name}` {what}"))
}
