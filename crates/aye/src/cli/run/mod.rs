mod account;
mod detach;
mod keyboard;
mod printer;
mod typing;

use super::{Done, ERROR};
use crate::agents::claude::driven::ClaudeCode;
use crate::agents::driven::{self, AgentProtocol};
use crate::agents::random_name;
use crate::client::Client;
use crate::config::{AgentProfile, Config, DEFAULT_KIND, ProtocolName, Stdin};
use crate::home::Home;
use crate::protocol::{Command, Image};
use crate::shutdown::Signals;
use anyhow::Context;
use aye_core::AgentId;
use clap::{Args, ValueEnum};
use printer::Printer;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Run Claude Code without its terminal UI; its requests go to the hub.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye run \"add a test for the parser\"
  aye run --cwd ~/src/web --mode plan \"plan the migration\"
  aye run --resume 0f3c… \"go on\"
  aye run --detach \"tidy up\" -- --model opus
  git diff | aye run -                     the prompt from standard input

Prints what the agent says and does. Answer its requests here, on the page or on Telegram.
Ctrl-C interrupts the turn; pressed twice, it ends the run. Exits with the agent's exit code.

With --detach the agent stays after its turn and takes further prompts, from the page, Telegram
or the API, until it is stopped.")]
pub struct Run {
    /// What the agent should do; - reads it from standard input
    prompt: String,
    /// Kind of agent: claude, or an [agents.KIND] in config.toml
    #[arg(long, value_name = "KIND", default_value = DEFAULT_KIND)]
    agent: String,
    /// The agent's working folder (default: the current one)
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The agent's permission mode: default, plan, acceptEdits, …
    #[arg(long)]
    mode: Option<String>,
    /// Continue this session of the agent
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// Run in the background and print the agent's id
    #[arg(long)]
    detach: bool,
    /// What the agent reads from (default: as in config.toml, else pipe)
    #[arg(long, value_name = "KIND")]
    stdin: Option<Stdin>,
    /// The detached run itself, under the id that was announced
    #[arg(long, value_name = "ID", hide = true, conflicts_with = "detach")]
    detached: Option<String>,
    /// Standard input holds a prompt with a picture, in JSON
    #[arg(long, hide = true)]
    prompt_in_json: bool,
    /// Arguments for the agent itself
    #[arg(last = true, value_name = "AGENT ARGS")]
    arguments: Vec<OsString>,
}

impl Run {
    pub async fn run(mut self, home: &Home) -> Done {
        if self.prompt == "-" {
            self.prompt.clear();
            std::io::stdin().read_to_string(&mut self.prompt).context("cannot read the prompt")?;
        }
        anyhow::ensure!(!self.prompt.trim().is_empty(), "the prompt is empty: say what the agent is to do");
        let id = match &self.detached {
            Some(id) => id.clone(),
            None => format!("{}-{}", self.agent, random_name()?),
        };
        let id = AgentId::try_from(id).map_err(anyhow::Error::msg)?;
        if self.detach {
            return detach::launch(home, &id, self.arguments_again(&id)?, &self.prompt).await;
        }
        let profile = Config::load(&home.config()).context("config.toml")?.agent(&self.agent)?;
        let cwd = self.folder()?;
        match profile.protocol {
            ProtocolName::ClaudeCode => {
                let protocol = ClaudeCode::new(cwd.clone(), home.places(), id.to_string(), profile.asks_by);
                drive(home, self.described(id, profile, cwd, protocol)?).await
            }
        }
    }

    fn folder(&self) -> anyhow::Result<PathBuf> {
        let cwd = match &self.cwd {
            Some(cwd) => std::path::absolute(cwd)?,
            None => std::env::current_dir()?,
        };
        anyhow::ensure!(cwd.is_dir(), "{} is not a folder", cwd.display());
        // As the system knows it, which the hub compares it with.
        Ok(cwd.canonicalize()?)
    }

    /// This run once more, as the detached one.
    fn arguments_again(&self, id: &AgentId) -> anyhow::Result<Vec<OsString>> {
        let cwd = match &self.cwd {
            Some(cwd) => std::path::absolute(cwd)?,
            None => std::env::current_dir()?,
        };
        let mut all: Vec<OsString> = vec!["run".into(), format!("--detached={id}").into()];
        all.extend(["--agent".into(), self.agent.clone().into(), "--cwd".into(), cwd.into()]);
        let options = [("--mode", &self.mode), ("--resume", &self.resume)];
        all.extend(
            options.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?).into())),
        );
        if let Some(stdin) = self.stdin.and_then(|stdin| stdin.to_possible_value()) {
            all.push(format!("--stdin={}", stdin.get_name()).into());
        }
        all.extend(self.prompt_in_json.then(|| "--prompt-in-json".into()));
        all.extend(["-".into(), "--".into()]);
        all.extend(self.arguments.iter().cloned());
        Ok(all)
    }

    /// The prompt, and the picture that belongs to it.
    fn prompt(&self) -> anyhow::Result<(String, Option<Image>)> {
        if !self.prompt_in_json {
            return Ok((self.prompt.clone(), None));
        }
        match serde_json::from_str(&self.prompt).context("the prompt is not JSON")? {
            Command::Prompt { text, image } => Ok((text.to_string(), image)),
            Command::Interrupt | Command::Stop => anyhow::bail!("a run begins with a prompt"),
        }
    }

    fn described<P: AgentProtocol>(
        self,
        id: AgentId,
        profile: AgentProfile,
        cwd: PathBuf,
        protocol: P,
    ) -> anyhow::Result<driven::Run<P>> {
        let (prompt, image) = self.prompt()?;
        // Only the kind that needs no entry in config.toml has its program named by the environment.
        let named = std::env::var_os(P::PROGRAM_VARIABLE).filter(|_| self.agent == DEFAULT_KIND);
        let named = named.map(PathBuf::from);
        let program = named.or(profile.command).unwrap_or_else(|| PathBuf::from(&self.agent));
        let mut arguments: Vec<_> = profile.args.into_iter().map(OsString::from).collect();
        arguments.extend(self.arguments);
        Ok(driven::Run {
            protocol,
            ourselves: std::env::current_exe().context("cannot find this program itself")?,
            id,
            kind: self.agent,
            program,
            arguments,
            cwd,
            prompt,
            image,
            // What it does anyway has a name that not every version knows.
            mode: self.mode.filter(|mode| mode != "default"),
            resume: self.resume,
            stdin: self.stdin.unwrap_or(profile.stdin),
            stays: self.detached.is_some(),
        })
    }
}

/// Runs an agent to its end, and ends as it does.
async fn drive<P: AgentProtocol>(home: &Home, agent: driven::Run<P>) -> Done {
    let (id, stays) = (agent.id.clone(), agent.stays);
    let mut signals = Signals::listen()?;
    let (told, account) = mpsc::channel(256);
    let mut printer = JoinSet::new();
    let mut printed = None;
    let status = if stays {
        detach::leave_session()?;
        printer.spawn(account::pass_by(account));
        let running = driven::start(home, agent, told).await?;
        detach::announce(&id)?;
        running.to_its_end(&mut signals).await?
    } else {
        let person = Client::for_person(home).ok();
        let running = driven::start(home, agent, told).await?;
        let (paper, all_printed) = Printer::start()?;
        printed = Some(all_printed);
        printer.spawn(account::show(account, person, paper));
        running.to_its_end(&mut signals).await?
    };
    printer.join_next().await;
    if let Some(printed) = printed {
        // The same signals throughout: one that came in between would be heard by nobody.
        tokio::select! {
            _ = printed => {}
            _ = signals.wait() => {}
        }
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(ERROR);
    Ok(ExitCode::from(code))
}
