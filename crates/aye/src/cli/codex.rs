use super::own_terminal::{OwnTerminal, run_joined};
use super::{Done, claude};
use crate::agents::codex::{JoinedCodex, Server, rollout};
use crate::agents::joined::Terminal;
use crate::agents::supervise::supervise;
use crate::home::Home;
use crate::surfaces::terminal::style::{HEAD, paint};
use clap::Args;
use futures_util::FutureExt;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const KIND: &str = "codex";
/// Files of sessions whose lines are waited for.
const MOST_FILES: usize = 64;

/// Run Codex in this terminal, and answer it here or anywhere else: the first answer wins
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  aye codex
  aye codex --model gpt-5 \"fix the build\"
  aye codex resume --last

Takes every argument that codex takes, but --remote and --no-daemon, and exits with its exit code. Nothing is
installed. Codex runs with a server of its own, which ends with it. Whether to carry out a plan is asked in
the terminal alone. Codex's other commands (aye codex exec …) start as they are."
)]
pub struct Codex {
    /// Arguments for codex itself
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    _arguments: Vec<OsString>,
}

impl Codex {
    pub async fn run(self, home: &Home) -> Done {
        let OwnTerminal { program, mut command, given } = OwnTerminal::of(home, KIND)?;
        let Some(cwd) = folder_of_session(&given)? else {
            return Ok(ExitCode::from(supervise(command.args(given)).await?));
        };
        for (taken, why) in [
            ("--no-daemon", "Codex without a server cannot be joined"),
            ("--remote", "aye codex starts the server that it joins"),
            ("--remote-auth-token-env", "aye codex starts the server that it joins"),
        ] {
            anyhow::ensure!(
                !options(&given).any(|option| name_of(option) == taken),
                "{why}: leave out {taken}, or start codex itself"
            );
        }
        claude::look_for_hub(home).await;
        let server = match Server::start(&program, &for_server(&given)).await {
            Ok(server) => server,
            Err(error) => {
                let why = format!("Codex cannot be joined ({error:#}); its requests stay in this terminal");
                anstream::eprintln!("{} {}", paint(HEAD, "aye:"), aye_core::visible::one_line(&why));
                return Ok(ExitCode::from(supervise(command.args(given)).await?));
            }
        };
        server.serve(&mut command);
        command.args(given);
        let terminal = Terminal { kind: KIND.to_owned(), cwd, places: home.places() };
        let (files, to_follow) = mpsc::channel(MOST_FILES);
        let address = server.address.clone();
        let inputs = |inputs: mpsc::Sender<_>, tasks: &mut JoinSet<()>| {
            tasks.spawn(rollout::follow(to_follow, inputs.clone()).boxed());
            address.join(inputs, tasks)
        };
        let protocol = |terminal| JoinedCodex::new(terminal, files);
        let code = run_joined(home, terminal, &command, protocol, inputs).await;
        server.end().await;
        Ok(ExitCode::from(code?))
    }
}

/// Options that are followed by a value of their own.
const WITH_VALUE: [&str; 18] = [
    "-c",
    "--config",
    "--enable",
    "--disable",
    "-m",
    "--model",
    "-p",
    "--profile",
    "-s",
    "--sandbox",
    "-C",
    "--cd",
    "-a",
    "--ask-for-approval",
    "--add-dir",
    "--local-provider",
    "-i",
    "--image",
];
/// Options that the server takes as well.
const FOR_SERVER: [&str; 4] = ["-c", "--config", "--enable", "--disable"];
/// Commands that open a session in the terminal.
const SESSIONS: [&str; 2] = ["resume", "fork"];

fn options(given: &[OsString]) -> impl Iterator<Item = &OsStr> {
    given.iter().map(OsString::as_os_str).take_while(|given| *given != "--")
}

/// `--model` of `--model=gpt-5`.
fn name_of(option: &OsStr) -> &str {
    let option = option.to_str().unwrap_or_default();
    option.split_once('=').map_or(option, |(name, _)| name)
}

/// The options of these names with their values, however they are written.
fn valued<'a>(given: &'a [OsString], names: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a OsStr)> {
    let given: Vec<_> = options(given).collect();
    let mut found = Vec::new();
    let mut rest = given.as_slice();
    while let [option, after @ ..] = rest {
        let name = name_of(option);
        let joined = option.to_str().and_then(|option| option.split_once('='));
        rest = match (WITH_VALUE.contains(&name), joined, after) {
            (true, None, [value, after @ ..]) => {
                found.push((name, *value));
                after
            }
            (true, Some((name, value)), _) => {
                found.push((name, OsStr::new(value)));
                after
            }
            _ => after,
        };
    }
    found.into_iter().filter(move |(name, _)| names.contains(name))
}

fn for_server(given: &[OsString]) -> Vec<OsString> {
    valued(given, &FOR_SERVER).flat_map(|(name, value)| [name.into(), value.to_owned()]).collect()
}

/// Where a session will run; none where no session is started.
fn folder_of_session(given: &[OsString]) -> anyhow::Result<Option<PathBuf>> {
    let asks_about_it = |given: &OsStr| ["-h", "--help", "-V", "--version"].iter().any(|asks| given == *asks);
    if options(given).any(asks_about_it) || command(given).is_some_and(|command| !SESSIONS.contains(&command))
    {
        return Ok(None);
    }
    let named = valued(given, &["-C", "--cd"]).last().map(|(_, folder)| Path::new(folder).to_owned());
    Ok(Some(std::env::current_dir()?.join(named.unwrap_or_default()).canonicalize()?))
}

/// Codex's own commands. Any other first word is a prompt.
const COMMANDS: [&str; 32] = [
    "agents",
    "exec",
    "e",
    "review",
    "login",
    "logout",
    "mcp",
    "plugin",
    "app-server",
    "remote-control",
    "completion",
    "update",
    "doctor",
    "sandbox",
    "debug",
    "apply",
    "a",
    "resume",
    "queue",
    "archive",
    "delete",
    "migrate-rollouts",
    "migrate-nfs-db",
    "unarchive",
    "fork",
    "cloud",
    "exec-server",
    "features",
    "help",
    "mcp-server",
    "execpolicy",
    "responses-api-proxy",
];

fn command(given: &[OsString]) -> Option<&str> {
    let mut words = options(given);
    while let Some(word) = words.next() {
        let word = word.to_str()?;
        if !word.starts_with('-') {
            return COMMANDS.contains(&word).then_some(word);
        }
        if WITH_VALUE.contains(&word) {
            words.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn a_session_is_told_apart_from_codexs_other_commands() {
        for session in
            ["", "fix it", "-m gpt-5 fix", "resume --last", "--model exec", "-c a=b fork", "-- exec"]
        {
            assert!(folder_of_session(&words(session)).unwrap().is_some(), "{session}");
        }
        for other in
            ["exec hi", "-m gpt-5 exec hi", "--help", "resume --help", "mcp list", "-c x=y login", "-V"]
        {
            assert!(folder_of_session(&words(other)).unwrap().is_none(), "{other}");
        }
    }

    #[test]
    fn the_server_is_configured_as_the_terminal_is() {
        let given = words("-c a=1 --config=b=2 -m gpt-5 --enable x resume -c -- -c d=3");
        assert_eq!(for_server(&given), words("-c a=1 --config b=2 --enable x"));
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(folder_of_session(&words("-C src fix")).unwrap(), Some(here.join("src")));
    }
}
