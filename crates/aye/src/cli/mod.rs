//! The commands, one file each.

mod agents;
mod answer;
mod ask;
mod attach;
mod browser;
mod claude;
mod codex;
mod completions;
mod conversation;
mod doctor;
mod handover;
mod hook;
mod hooks;
mod list;
mod listen;
mod log;
mod mcp;
mod named;
mod not_joined;
mod open;
mod opencode;
mod outline;
mod own_terminal;
mod passkey;
mod pending;
mod policy;
mod progress;
mod run;
mod service;
mod show;
mod steer;
mod store;
mod token;
mod up;
mod verify;
mod watch;

use crate::agents::driven::process;
use crate::agents::supervise;
use crate::client::CallError;
use crate::home::Home;
use crate::surfaces::terminal::style::{BAD, paint};
use anstyle::AnsiColor;
use aye_core::visible::{visible, visible_json};
use clap::builder::Styles;
use clap::{Parser, Subcommand};
use futures_util::FutureExt;
use hook::Hook;
use not_joined::NotJoined;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use tokio::runtime::Runtime;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// Your coding agents ask; you answer, from wherever you are.
#[derive(Parser)]
#[command(name = "aye", version, styles = STYLES, max_term_width = 100, after_help = "\
Environment:
  AYE_HOME     folder for configuration, database and tokens (default: a platform data folder)
  AYE_URL      use a hub elsewhere; needs AYE_TOKEN
  AYE_TOKEN    the token to use instead of operator.token in AYE_HOME
  AYE_CA_FILE  a certificate to trust as well, for that hub
  AYE_DATABASE_URL
               a PostgreSQL database to keep everything in, instead of a file
  AYE_CLAUDE   the Claude Code program to start
  AYE_CODEX    the Codex program to start; also AYE_COPILOT, AYE_GEMINI, AYE_KIMI,
               AYE_OPENCODE, AYE_QWEN
  AYE_LOG      what to log: info, debug, aye=trace, …
  NO_COLOR     print no colours

Claude Code, Codex and OpenCode can be joined in their own terminals: aye claude, codex, opencode.
Gemini CLI, Qwen Code, Kimi Code and Copilot CLI cannot: use aye run --agent gemini, qwen, kimi, copilot.

Examples:
  aye up --demo                                 run the hub, with a demo agent that asks
  aye list                                      what is waiting for you
  aye claude                                    Claude Code here, answered from anywhere
  aye ask \"Deploy?\" --option yes --option no    ask a person from any script

Start with `aye up --demo`, then `aye list` in another terminal.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Up),
    Ask(ask::Ask),
    Mcp(mcp::Mcp),
    Claude(claude::Claude),
    Codex(codex::Codex),
    #[command(name = "opencode")]
    OpenCode(opencode::OpenCode),
    Run(run::Run),
    Watch(watch::Watch),
    Pending(pending::Pending),
    Hooks(hooks::Hooks),
    List(list::List),
    Show(show::Show),
    Answer(answer::Answer),
    Agents(agents::Agents),
    Attach(attach::Attach),
    Send(steer::Send),
    Interrupt(steer::Interrupt),
    Stop(steer::Stop),
    Handover(handover::Handover),
    Log(log::Log),
    Verify(verify::Verify),
    Store(store::Store),
    Policy(policy::Policy),
    Outline(outline::Outline),
    Token(token::Token),
    Passkey(passkey::Passkey),
    Open(open::Open),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
    /// Run another program in a session of its own, and keep all that it starts below this process
    #[command(name = process::OWN_SESSION, hide = true)]
    OwnSession {
        /// End it when the program that started this one is gone
        #[arg(long)]
        with_parent: bool,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Become another program that ends when its parent does
    #[command(name = supervise::BOUND, hide = true)]
    Bound {
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    #[command(hide = true)]
    Hook(Hook),
    #[command(hide = true)]
    Gemini(NotJoined),
    #[command(hide = true)]
    Qwen(NotJoined),
    #[command(hide = true)]
    Kimi(NotJoined),
    #[command(hide = true)]
    Copilot(NotJoined),
}

/// How a command ends when nothing went wrong that the person must be told on standard error.
pub type Done = anyhow::Result<ExitCode>;

pub const ERROR: u8 = 1;
pub const DECLINED: u8 = 2;
pub const NOBODY_IN_TIME: u8 = 3;
pub const ALREADY_ENDED: u8 = 4;
pub const INVALID: u8 = 5;
pub const UNCHECKED: u8 = 6;
pub const NOT_NAMED: u8 = 6;
pub const INTERRUPTED: u8 = 130;

pub fn run() -> ExitCode {
    // Whatever this program creates is its owner's alone.
    let usual = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // Claude Code starts one at every step, and those that wait keep in memory whatever they touched of the program: not the
    // description of all commands.
    let is_hook = std::env::args_os().skip(1).eq(["hook"]);
    let parsed = if is_hook {
        Ok(Command::Hook(Hook::default()))
    } else {
        Arguments::try_parse().map(|it| it.command)
    };
    let command = match parsed {
        Ok(command) => command,
        Err(shown) => return show(&shown),
    };
    let is_answer = matches!(command, Command::Answer(_));
    match carry_out(command, usual) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("{} {}", paint(BAD, "aye:"), visible(&in_words(&error)));
            ExitCode::from(exit_code(&error, is_answer))
        }
    }
}

/// Help, or what is wrong with the arguments. The usual code for the latter is 2, which a script that
/// asks would take for a person who declined.
fn show(shown: &clap::Error) -> ExitCode {
    match shown.print() {
        Ok(()) if !shown.use_stderr() => ExitCode::SUCCESS,
        _ => ExitCode::from(ERROR),
    }
}

fn carry_out(command: Command, usual: rustix::fs::Mode) -> Done {
    let home = Home::from_env()?;
    match command {
        Command::Up(up) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let done = runtime.block_on(up.run(home).boxed_local());
            // A call to a database that does not answer would keep the process.
            runtime.shutdown_background();
            done
        }
        Command::Claude(claude) => {
            // What the person's own program creates is not ours.
            rustix::process::umask(usual);
            claude.run(&home, small()?)
        }
        Command::Codex(codex) => {
            rustix::process::umask(usual);
            wait(codex.run(&home))
        }
        Command::OpenCode(opencode) => {
            rustix::process::umask(usual);
            wait(opencode.run(&home))
        }
        Command::Hooks(hooks) => {
            rustix::process::umask(usual);
            hooks.run()
        }
        Command::Hook(hook) => hook.run(&home, small()?),
        Command::Run(run) => {
            rustix::process::umask(usual);
            wait(run.run(&home))
        }
        Command::Ask(ask) => wait(ask.run(&home)),
        Command::Mcp(mcp) => {
            let runtime = small()?;
            let done = runtime.block_on(mcp.run(&home).boxed_local());
            // A read of standard input that nobody waits for any more would keep the process.
            runtime.shutdown_background();
            done
        }
        Command::List(list) => wait(list.run(&home)),
        Command::Show(show) => wait(show.run(&home)),
        Command::Answer(answer) => wait(answer.run(&home)),
        Command::Agents(agents) => wait(agents.run(&home)),
        Command::Attach(attach) => wait(attach.run(&home)),
        Command::Send(send) => wait(send.run(&home)),
        Command::Interrupt(interrupt) => wait(interrupt.run(&home)),
        Command::Stop(stop) => wait(stop.run(&home)),
        Command::Handover(handover) => wait(handover.run(&home)),
        Command::Token(token) => wait(token.run(&home)),
        Command::Passkey(passkey) => wait(passkey.run(&home)),
        Command::Policy(policy) => wait(policy.run(&home)),
        Command::Outline(outline) => wait(outline.run(&home)),
        Command::Open(open) => wait(open.run(&home)),
        Command::Doctor(doctor) => wait(doctor.run(&home)),
        Command::Watch(watch) => wait(watch.run(&home)),
        Command::Pending(pending) => pending.run(),
        Command::Log(log) => log.run(&home),
        Command::Verify(verify) => verify.run(&home),
        Command::Store(store) => store.run(&home),
        Command::Completions(completions) => completions.run(),
        Command::Gemini(gemini) => gemini.run("gemini"),
        Command::Qwen(qwen) => qwen.run("qwen"),
        Command::Kimi(kimi) => kimi.run("kimi"),
        Command::Copilot(copilot) => copilot.run("copilot"),
        Command::OwnSession { with_parent, command } => match command.split_first() {
            Some((program, arguments)) => {
                // What the agent creates is not ours either.
                rustix::process::umask(usual);
                let run = process::run_in_own_session(program, arguments, with_parent);
                wait(async { Ok(ExitCode::from(run.await?)) })
            }
            None => anyhow::bail!("name the program"),
        },
        Command::Bound { command } => {
            rustix::process::umask(usual);
            match command.split_first() {
                Some((program, arguments)) => Err(supervise::become_bound(program, arguments)),
                None => anyhow::bail!("name the program"),
            }
        }
    }
}

fn small() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn wait(work: impl Future<Output = Done>) -> Done {
    small()?.block_on(work.boxed_local())
}

/// Only `aye answer` tells apart how the hub refused.
fn exit_code(error: &anyhow::Error, is_answer: bool) -> u8 {
    if error.is::<named::NotNamed>() {
        return NOT_NAMED;
    }
    let status = error.downcast_ref::<CallError>().and_then(CallError::status);
    match status.map(|status| status.as_u16()) {
        Some(409 | 410) if is_answer => ALREADY_ENDED,
        Some(412 | 422) if is_answer => INVALID,
        _ => ERROR,
    }
}

/// An error with its causes. Some tell their cause themselves, and nothing is said twice.
fn in_words(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words += &format!(": {cause}");
        }
    }
    words
}

/// Whoever read our output has seen enough. A hub that hangs up on us is another matter.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<CallError>().is_none()
        && error.chain().any(|cause| {
            cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
        })
}

/// The database to look at, beside a running hub or without one.
fn open_database(home: &Home) -> anyhow::Result<crate::store::Reader> {
    let path = home.database();
    let missing = || format!("there is no {}: start a hub with `aye up`, or set AYE_HOME", path.display());
    anyhow::Context::with_context(crate::store::open_to_look(home)?, missing)
}

/// Prints for people: colours only where they show.
fn say(text: &str) -> anyhow::Result<()> {
    Ok(anstream::stdout().lock().write_all(text.as_bytes())?)
}

/// Prints JSON and nothing else.
fn say_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    Ok(writeln!(out, "{}", visible_json(&text))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn only_a_reader_of_ours_that_left_is_no_error() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::new(broken()).context("printing")));
        let unreachable = CallError::Unreachable { at: "here".into(), source: broken() };
        assert!(!is_broken_pipe(&anyhow::Error::new(unreachable)));
    }

    #[test]
    fn a_cause_is_told_once() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let unreachable = CallError::Unreachable { at: "here".into(), source: refused };
        let words = in_words(&anyhow::Error::new(unreachable).context("cannot list"));
        assert_eq!(words.matches("connection refused").count(), 1, "{words}");
        assert!(words.starts_with("cannot list: no hub answers at here: connection refused"), "{words}");
    }
}
