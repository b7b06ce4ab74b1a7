//! The commands that a command runs in turn: `sudo rm x` runs `rm x`, and so does `bash -c 'rm x'`. Only deny and ask
//! rules use this, so if it is unclear where the inner command begins, every possibility counts.

use super::{MOST_PARTS, crude_pieces, tree};

/// A program whose remaining arguments are a command.
struct Wrapper {
    names: &'static [&'static str],
    /// One-letter options that take the next word as their value.
    valued: &'static str,
    /// Number of its own arguments before the command.
    own_words: usize,
}

const fn wrapper(names: &'static [&'static str], valued: &'static str, own_words: usize) -> Wrapper {
    Wrapper { names, valued, own_words }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(&["sudo", "doas"], "CDghpRrTtUu", 0),
    wrapper(&["env"], "uCPS", 0),
    wrapper(&["xargs"], "adEIJLnPRSs", 0),
    wrapper(
        &["nohup", "setsid", "command", "builtin", "coproc", "noglob", "nocorrect", "-", "busybox", "!"],
        "",
        0,
    ),
    wrapper(&["time"], "fo", 0),
    wrapper(&["exec"], "a", 0),
    wrapper(&["nice"], "n", 0),
    wrapper(&["ionice"], "cnpPu", 0),
    wrapper(&["stdbuf"], "ioe", 0),
    wrapper(&["strace", "ltrace"], "aeEIoOpPsSuUX", 0),
    wrapper(&["timeout"], "ks", 1),
    wrapper(&["flock"], "wE", 1),
    wrapper(&["chroot", "taskset", "chrt", "repeat"], "", 1),
];

const SHELLS: [&str; 9] = ["bash", "sh", "dash", "zsh", "ksh", "ash", "fish", "su", "runuser"];

/// Programs that run code given as an argument or a file.
const INTERPRETERS: &[&str] = &[
    "python",
    "python3",
    "node",
    "deno",
    "bun",
    "perl",
    "ruby",
    "php",
    "lua",
    "tclsh",
    "osascript",
    "npx",
    "pnpx",
    "bunx",
    "uvx",
    "awk",
    "gawk",
    "mawk",
    "sed",
    "watch",
    "parallel",
    "eval",
    "source",
    ".",
];

/// If a program runs its arguments: the number of its own arguments before those.
pub fn own_words_before_code(name: &str) -> Option<usize> {
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name));
    match wrapper {
        Some(wrapper) => Some(wrapper.own_words),
        None if name == "ssh" => Some(1),
        None => (SHELLS.contains(&name) || INTERPRETERS.contains(&name)).then_some(0),
    }
}

/// A hostile command can nest wrappers without end; a person's never does.
const DEEPEST: usize = 8;
const MOST_WORDS: usize = 100_000;
const MOST_STARTS: usize = 8;
/// Parsing a text costs one word of the budget for each of this many bytes.
const BYTES_PER_WORD: usize = 16;

/// The total number of words in all inner commands of one script: a short script of nested wrappers can lead to
/// millions.
pub struct Budget {
    words: usize,
    /// Whether something was left out because the budget was used up.
    pub exceeded: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self { words: MOST_WORDS, exceeded: false }
    }
}

impl Budget {
    fn spend(&mut self, words: usize) -> bool {
        match self.words.checked_sub(words) {
            Some(left) => self.words = left,
            None => self.exceeded = true,
        }
        !self.exceeded
    }
}

/// The command itself and every command it runs in turn.
pub fn reach(words: &[String], budget: &mut Budget) -> Vec<Vec<String>> {
    let mut reached = Reached { commands: vec![], budget };
    reached.follow(words.to_vec(), 0);
    reached.commands
}

/// A shell without a command and without a file runs its standard input.
pub fn reads_commands(words: &[String]) -> bool {
    let is_operand = |word: &String| !word.starts_with(['-', '+']);
    name(words).is_some_and(|name| SHELLS.contains(&name)) && !words[1..].iter().any(is_operand)
}

/// The commands in a text that some shell will run.
pub fn reach_text(text: &str, budget: &mut Budget) -> Vec<Vec<String>> {
    let mut reached = Reached { commands: vec![], budget };
    reached.follow_text(text, 1);
    reached.commands
}

fn name(words: &[String]) -> Option<&str> {
    words.first()?.rsplit('/').next()
}

struct Reached<'a> {
    commands: Vec<Vec<String>>,
    budget: &'a mut Budget,
}

impl Reached<'_> {
    fn follow(&mut self, words: Vec<String>, depth: usize) {
        if depth > DEEPEST || words.is_empty() || !self.budget.spend(words.len()) {
            return;
        }
        let next = next_commands(&words);
        let texts = next_texts(&words);
        // A rule that denies `rm *` also means `/bin/rm`.
        let by_name = name(&words).map(|name| [&[name.to_owned()], &words[1..]].concat());
        self.commands.extend(by_name.filter(|by_name| *by_name != words));
        self.commands.push(words);
        for command in next {
            self.follow(command, depth + 1);
        }
        for text in texts {
            self.follow_text(&text, depth + 1);
        }
    }

    fn follow_text(&mut self, text: &str, depth: usize) {
        if !self.budget.spend(text.len() / BYTES_PER_WORD) {
            return;
        }
        let found = tree::read(text);
        let guessed = if found.broken { crude_pieces(text) } else { vec![] };
        self.budget.exceeded |= guessed.len() > MOST_PARTS;
        for command in found.commands.into_iter().chain(guessed) {
            self.follow(command, depth);
        }
    }
}

/// The commands that this one runs from its own arguments.
fn next_commands(words: &[String]) -> Vec<Vec<String>> {
    let Some(name) = name(words) else { return vec![] };
    if name == "find" || name == "fd" {
        return executed_by_find(words);
    }
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) else { return vec![] };
    let command = |start: usize| words.get(start + wrapper.own_words..).filter(|rest| !rest.is_empty());
    let starts = command_starts(words, wrapper.valued).into_iter();
    let mut next: Vec<Vec<String>> = starts.filter_map(command).map(<[String]>::to_vec).collect();
    if name == "xargs" {
        // xargs appends what it reads, and `rm *` should match that there is an argument.
        next.iter_mut().for_each(|command| command.push("{}".to_owned()));
    }
    next
}

/// The positions at which the command after a wrapper's options may begin. A long option may or may not take the next
/// word as its value, so there can be several.
fn command_starts(words: &[String], valued: &str) -> Vec<usize> {
    let mut starts = vec![];
    let mut at = 1;
    let mut after_long_option = false;
    while let Some(word) = words.get(at) {
        let is_long = word.starts_with("--") && word != "--";
        let takes_next =
            word.strip_prefix('-').is_some_and(|option| option.len() == 1 && valued.contains(option));
        if word == "--" {
            starts.push(at + 1);
            return starts;
        } else if !word.starts_with('-') && !is_assignment(word) {
            starts.push(at);
            if !after_long_option || starts.len() == MOST_STARTS {
                return starts;
            }
        }
        at += if takes_next { 2 } else { 1 };
        after_long_option = is_long && !word.contains('=');
    }
    starts
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn executed_by_find(words: &[String]) -> Vec<Vec<String>> {
    let executes = |word: &String| {
        matches!(
            word.as_str(),
            "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
        )
    };
    let ends = |word: &String| executes(word) || matches!(word.as_str(), ";" | "+");
    let command = |after: &[String]| after.iter().take_while(|word| !ends(word)).cloned().collect();
    let starts = words.iter().enumerate().filter(|(_, word)| executes(word));
    starts.map(|(at, _)| command(&words[at + 1..])).collect()
}

/// The texts that this command passes to a shell.
fn next_texts(words: &[String]) -> Vec<String> {
    let Some(name) = name(words) else { return vec![] };
    let rest = &words[1..];
    match name {
        "eval" | "watch" => vec![rest.join(" ")],
        "trap" => rest.iter().take(1).cloned().collect(),
        "env" => rest.windows(2).filter(|pair| pair[0] == "-S").map(|pair| pair[1].clone()).collect(),
        name if SHELLS.contains(&name) => given_by_option(rest),
        _ => vec![],
    }
}

/// `bash -lc TEXT`: the text is the first word after the option that is not an option. It could still be the value of
/// another option, so the next word counts as well.
fn given_by_option(words: &[String]) -> Vec<String> {
    let has_c = |word: &String| {
        word == "--command" || (word.starts_with('-') && !word.starts_with("--") && word.contains('c'))
    };
    let Some(at) = words.iter().position(has_c) else { return vec![] };
    let operands = words[at + 1..].iter().filter(|word| !word.starts_with(['-', '+']));
    operands.take(2).cloned().collect()
}
