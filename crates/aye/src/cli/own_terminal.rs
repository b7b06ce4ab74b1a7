//! What the commands share that start an agent in the person's own terminal and join it.

use crate::agents::driven::Writer;
use crate::agents::joined::{self, JoinedProtocol, Session, Terminal};
use crate::agents::random_name;
use crate::agents::supervise::Supervised;
use crate::config::{Config, KnownAgent};
use crate::home::Home;
use crate::processes::require_program;
use anyhow::Context;
use aye_core::AgentId;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub struct OwnTerminal {
    pub program: PathBuf,
    /// The program with the arguments of config.toml, and none of our credentials.
    pub command: Command,
    /// As they were typed: a `--` among them is for the other program.
    pub given: Vec<OsString>,
}

impl OwnTerminal {
    pub fn of(home: &Home, kind: &str) -> anyhow::Result<Self> {
        let profile = Config::load(&home.config()).context("config.toml")?.agent(kind)?;
        let program = profile.program(kind);
        require_program(&program, KnownAgent::of(kind).map(|known| known.variable))?;
        let mut command = Command::new(&program);
        command.args(profile.args).env_remove("AYE_TOKEN");
        Ok(Self { program, command, given: std::env::args_os().skip(2).collect() })
    }
}

/// Runs the program to its end, with its exit code for a shell; meanwhile what it asks goes to the hub.
pub async fn run_joined<P: JoinedProtocol, W: Writer<P::Message>>(
    home: &Home,
    terminal: Terminal,
    command: &Command,
    protocol: impl FnOnce(Terminal) -> P,
    inputs: impl FnOnce(mpsc::Sender<P::Input>, &mut JoinSet<()>) -> W,
) -> anyhow::Result<u8> {
    let (kind, cwd) = (terminal.kind.clone(), terminal.cwd.clone());
    let agent = AgentId::try_from(format!("{kind}-{}", random_name()?)).map_err(anyhow::Error::msg)?;
    let mut supervised = Supervised::start(command)?;
    let session = Session { agent, kind, cwd, pid: supervised.pid() };
    let ended = CancellationToken::new();
    let running = async {
        let code = supervised.to_its_end().await;
        ended.cancel();
        code
    };
    let joined = joined::follow(home, session, protocol(terminal), inputs, ended.clone());
    let (code, ()) = tokio::join!(running, joined);
    code
}
