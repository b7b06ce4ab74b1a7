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

/// Options of git before its subcommand that take the next word as their value.
const GIT_VALUED: [&str; 8] = [
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--config-env",
    "--super-prefix",
    "--attr-source",
];

const fn wrapper(names: &'static [&'static str], valued: &'static str, own_words: usize) -> Wrapper {
    Wrapper { names, valued, own_words }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(&["sudo", "doas"], "CDghpRrTtUu", 0),
    wrapper(&["env"], "uCPS", 0),
    wrapper(&["xargs"], "adEIJLnPRSs", 0),
    wrapper(
        &[
            "nohup",
            "setsid",
            "command",
            "builtin",
            "coproc",
            "noglob",
            "nocorrect",
            "-",
            "busybox",
            "toybox",
            "!",
        ],
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
    wrapper(&["flock", "script"], "wEtTIOBEmo", 1),
    wrapper(&["chroot", "taskset", "chrt", "repeat", "faketime", "runcon", "gosu", "su-exec"], "", 1),
    wrapper(&["prlimit"], "po", 0),
    // The architecture may be left out.
    wrapper(&["setarch"], "", 1),
    wrapper(&["setarch", "linux32", "linux64", "i386", "x86_64", "uname26"], "", 0),
    wrapper(&["unshare", "nsenter"], "SGRWtwl", 0),
    wrapper(&["systemd-run", "run0"], "puEHMDg", 0),
    wrapper(&["pkexec", "setpriv", "choom", "dbus-run-session", "xvfb-run"], "upn", 0),
    wrapper(&["numactl", "cgexec"], "CNPgimp", 0),
    wrapper(&["valgrind", "unbuffer", "rlwrap", "fakeroot", "eatmydata", "caffeinate", "arch"], "", 0),
    wrapper(&["parallel", "sem"], "IJLNSadjns", 0),
    wrapper(&["catchsegv", "entr", "firejail", "proxychains", "proxychains4", "torsocks"], "f", 0),
    wrapper(&["perf"], "CFGeoprt", 1),
    wrapper(&["gdb"], "dpsx", 0),
    wrapper(&["sshpass"], "Pdefp", 0),
    wrapper(&["screen"], "STcehpst", 0),
    wrapper(&["tmux"], "FLSTcefnstxy", 1),
    wrapper(&["wsl"], "du", 0),
    wrapper(&["watch"], "nq", 0),
    wrapper(&["ssh"], "BbcDEeFIiJLlmOopQRSWw", 1),
];

const SHELLS: [&str; 17] = [
    "bash", "sh", "dash", "zsh", "ksh", "ash", "fish", "su", "runuser", "csh", "tcsh", "mksh", "yash",
    "rbash", "nu", "elvish", "xonsh",
];

/// After these words, near the beginning, a command may begin: `docker exec -it c rm x`, `git bisect run rm x`.
const RUNNING_WORDS: [&str; 3] = ["exec", "run", "foreach"];
const NEAR_BEGINNING: usize = 4;
/// Programs with many options of several values before the command.
const SANDBOXES: [&str; 2] = ["bwrap", "proot"];
/// Words after such a beginning at which the command may begin.
const MOST_LOOSE_STARTS: usize = 16;

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
        None => (SHELLS.contains(&name) || INTERPRETERS.contains(&name)).then_some(0),
    }
}

/// A hostile command can nest wrappers without end; a person's never does.
const DEEPEST: usize = 8;
const MOST_WORDS: usize = 100_000;
const MOST_STARTS: usize = 8;
/// This many bytes of a text or of a long word cost one word of the budget.
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
    /// Spends what copies of a command cost.
    fn spend_on(&mut self, command: &[String]) -> bool {
        self.spend(command.iter().map(|word| 1 + word.len() / BYTES_PER_WORD).sum())
    }

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
    let name = words.first()?.rsplit('/').next()?;
    Some(name.strip_suffix(".exe").unwrap_or(name))
}

struct Reached<'a> {
    commands: Vec<Vec<String>>,
    budget: &'a mut Budget,
}

impl Reached<'_> {
    fn follow(&mut self, words: Vec<String>, depth: usize) {
        if depth > DEEPEST || words.is_empty() || !self.budget.spend_on(&words) {
            return;
        }
        let next = next_commands(&words);
        let texts = next_texts(&words);
        // A rule that denies `rm *` also means `/bin/rm`.
        let by_name = name(&words).map(|name| [&[name.to_owned()], &words[1..]].concat());
        for short in by_name.iter().flat_map(|by_name| without_leading_options(by_name)) {
            if self.budget.spend_on(&short) {
                self.commands.push(short);
            }
        }
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
    let mut next: Vec<Vec<String>> = vec![];
    for wrapper in WRAPPERS.iter().filter(|wrapper| wrapper.names.contains(&name)) {
        for start in command_starts(words, wrapper.valued) {
            let rest = words.get(start + wrapper.own_words..).unwrap_or_default();
            // `setarch x86_64 -R rm x`: options may also come after a wrapper's own arguments.
            let has_options = wrapper.own_words > 0 && rest.first().is_some_and(|word| word.starts_with('-'));
            let further = if has_options { command_starts(&words[start..], wrapper.valued) } else { vec![] };
            let skipped =
                further.into_iter().filter_map(|at| words[start..].get(at + wrapper.own_words - 1..));
            next.extend(skipped.chain([rest]).filter(|rest| !rest.is_empty()).map(<[String]>::to_vec));
        }
    }
    next.extend(loose_starts(words).into_iter().map(|at| words[at..].to_vec()));
    if name == "xargs" {
        // xargs appends what it reads, and `rm *` should match that there is an argument.
        next.iter_mut().for_each(|command| command.push("{}".to_owned()));
    }
    next
}

/// The positions at which a program may begin its command that is in no list: after `--`, and some words after one that says
/// that something is run.
fn loose_starts(words: &[String]) -> Vec<usize> {
    let after_dashes = words.iter().position(|word| word == "--").map(|at| at + 1);
    let is_sandbox = name(words).is_some_and(|name| SANDBOXES.contains(&name));
    let runs = |word: &String| RUNNING_WORDS.contains(&word.as_str());
    let running = words.iter().take(NEAR_BEGINNING).skip(1).position(runs).map(|at| at + 2);
    let begin = if is_sandbox { Some(1) } else { running };
    let is_operand = |at: &usize| !words[*at].starts_with('-');
    let some_words = begin.into_iter().flat_map(|begin| begin..words.len()).filter(is_operand);
    let mut starts: Vec<_> = some_words.take(MOST_LOOSE_STARTS).chain(after_dashes).collect();
    starts.retain(|at| *at < words.len());
    starts.dedup();
    starts
}

/// The positions at which the command after a wrapper's options may begin. A long option may or may not take the next
/// word as its value, so there can be several.
fn command_starts(words: &[String], valued: &str) -> Vec<usize> {
    let mut starts = vec![];
    let mut at = 1;
    let mut may_be_value = false;
    while let Some(word) = words.get(at) {
        let is_long = word.starts_with("--") && word != "--";
        // `sudo -nu ada rm x`
        let ends_valued =
            !is_long && word.len() > 2 && word.starts_with('-') && word.ends_with(|c| valued.contains(c));
        let takes_next =
            word.strip_prefix('-').is_some_and(|option| option.len() == 1 && valued.contains(option));
        if word == "--" {
            starts.push(at + 1);
            return starts;
        } else if !word.starts_with('-') && !is_assignment(word) {
            starts.push(at);
            if !may_be_value || starts.len() == MOST_STARTS {
                return starts;
            }
        }
        at += if takes_next { 2 } else { 1 };
        may_be_value = ends_valued || (is_long && !word.contains('='));
    }
    starts
}

/// `git -C x push` is a `git push`: the command without the options before its first argument. An option may take the
/// next word as its value, so there can be several.
fn without_leading_options(words: &[String]) -> Vec<Vec<String>> {
    let is_option = |word: &String| word.len() > 1 && word.starts_with(['-', '+']);
    let mut found = vec![];
    let mut at = 1;
    let mut may_be_value = false;
    while let Some(word) = words.get(at) {
        if words[0] == "git" && GIT_VALUED.contains(&word.as_str()) {
            at += 2;
            continue;
        }
        if word == "--" || !is_option(word) {
            let start = at + usize::from(word == "--");
            if start > 1 {
                found.push([&words[..1], &words[start..]].concat());
            }
            if !may_be_value || word == "--" || found.len() == MOST_STARTS {
                break;
            }
        }
        may_be_value = is_option(word) && !word.contains('=');
        at += 1;
    }
    found
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
        "env" => given_by_option(rest, 'S', "--split-string"),
        "flock" | "script" | "sg" | "capsh" => given_by_option(rest, 'c', "--command"),
        "ssh" => next_commands(words).iter().map(|command| command.join(" ")).collect(),
        "nix-shell" => {
            [given_by_option(rest, '\0', "--run"), given_by_option(rest, '\0', "--command")].concat()
        }
        "npx" | "npm" => given_by_option(rest, 'c', "--call"),
        "git" if rest.iter().any(|word| word == "foreach") => several_words(words),
        "git" if rest.iter().any(|word| word == "rebase") => given_by_option(rest, 'x', "--exec"),
        "tmux" | "screen" | "hyperfine" | "expect" | "parallel" => several_words(words),
        "cmd" => after_option(rest, |option| matches!(option, "/c" | "/k")),
        "pwsh" | "powershell" => {
            after_option(rest, |option| option.len() > 1 && "-command".starts_with(option))
        }
        name if SHELLS.contains(&name) => given_by_option(rest, 'c', "--command"),
        _ => vec![],
    }
}

/// The arguments that may be whole commands.
fn several_words(words: &[String]) -> Vec<String> {
    words[1..].iter().filter(|word| word.contains(char::is_whitespace)).cloned().collect()
}

/// Everything after an option, which Windows writes in any case.
fn after_option(words: &[String], is_it: impl Fn(&str) -> bool) -> Vec<String> {
    let at = words.iter().position(|word| is_it(&word.to_ascii_lowercase()));
    at.map(|at| words[at + 1..].join(" ")).into_iter().collect()
}

/// `bash -lc TEXT`: the text is the first word after the option that is not an option. It could still be the value of
/// another option, so the next word counts as well. It may also be in the same word: `script -cTEXT`, `--command=TEXT`.
fn given_by_option(words: &[String], short: char, long: &str) -> Vec<String> {
    let is_short = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains(short);
    let Some(at) = words.iter().position(|word| word.starts_with(long) || is_short(word)) else {
        return vec![];
    };
    let same_word = match words[at].split_once('=').filter(|_| words[at].starts_with(long)) {
        Some((_, text)) => Some(text),
        None => words[at].split_once(short).map(|(_, text)| text).filter(|_| is_short(&words[at])),
    };
    let operands = words[at + 1..].iter().filter(|word| !word.starts_with(['-', '+']));
    let same_word = same_word.filter(|text| !text.is_empty()).map(str::to_owned);
    same_word.into_iter().chain(operands.take(2).cloned()).collect()
}
