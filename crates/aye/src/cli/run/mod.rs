mod detach;

use super::conversation::{self, Beginning, Keyboard, KeyboardUser, Printer, say_if_not_read};
use super::{Done, ERROR, named, say};
use crate::agents::acp::Acp;
use crate::agents::claude::driven::ClaudeCode;
use crate::agents::codex::Codex;
use crate::agents::driven::{self, AgentProtocol, Start};
use crate::agents::opencode::OpenCode;
use crate::agents::random_name;
use crate::client::{Client, Try};
use crate::config::{
    AgentProfile, Config, DEFAULT_KIND, DEFAULT_MODE, KnownAgent, ProtocolName, Stdin, names_mode,
};
use crate::home::Home;
use crate::protocol::{AgentsQuery, Command, Image, calls};
use crate::random::random_hex;
use crate::shutdown::Signals;
use crate::surfaces::terminal::style::{DIM, paint};
use anyhow::Context;
use aye_core::{Agent, AgentId, AgentState, Reach};
use clap::{Args, ValueEnum};
use futures_util::FutureExt;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How long a detached agent may say nothing before it is taken for one that has started.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// Run an agent without its terminal UI; its requests go to the hub.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye run \"add a test for the parser\"
  aye run --cwd ~/src/web --mode plan \"plan the migration\"
  aye run --resume claude-k3v9 \"go on\"    goes on with a run that has ended
  aye run --continue \"go on\"              goes on with the newest run of this folder
  aye run --detach \"tidy up\" -- --model opus
  aye run --agent codex \"add a test\"
  git diff | aye run -                     the prompt from standard input

Prints what the agent says and does. Answer its requests here, on the page or on Telegram; y and n are
short for allow and deny.
In a terminal the run goes on after a turn: type the next prompt, or Ctrl-D to end it. Without a
terminal, with its output in a pipe, or with --once, it ends after one turn. Ctrl-C interrupts
the turn; pressed twice, it ends the run. Exits with the agent's exit code.

Gemini CLI, Qwen Code, Kimi Code and Copilot CLI are reached in this way alone: they cannot be joined
in their own terminals, as Claude Code, Codex and OpenCode can.

With --detach the agent stays in the background and takes further prompts, by `aye attach` and
`aye send`, from the page and from Telegram, until it is stopped.")]
pub struct Run {
    /// What the agent should do; - reads it from standard input. Without it, you are asked for it
    prompt: Option<String>,
    /// Kind of agent: claude, codex, copilot, gemini, kimi, opencode, qwen, or an [agents.KIND] in config.toml
    /// [default: claude, or that of the run that goes on]
    #[arg(long, value_name = "KIND")]
    agent: Option<String>,
    /// The agent's working folder (default: the current one)
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The agent's permission mode: default, plan, acceptEdits, … [default: default]
    #[arg(long)]
    mode: Option<String>,
    /// Go on with a run that has ended: its id, or the agent's own id of a session
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// Go on with the newest run of this folder
    #[arg(long = "continue", conflicts_with_all = ["resume", "agent", "detached"])]
    newest: bool,
    /// End after one turn
    #[arg(long, conflicts_with = "detach")]
    once: bool,
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
        // Before the terminal is changed: a signal must not leave it so.
        let mut signals = Signals::listen()?;
        let resumed = match self.newest {
            true => Some(self.newest_run(home).await?),
            false => self.resume.take(),
        };
        if let Some(name) = resumed {
            self.resume(home, name).await?;
        }
        let types = !self.detach && self.detached.is_none() && !self.once;
        let keyboard = Keyboard::open().filter(|_| types);
        if types {
            say_if_not_read();
        }
        let Some((prompt, keyboard)) = self.first_prompt(keyboard, &mut signals).await? else {
            return Ok(ExitCode::SUCCESS);
        };
        anyhow::ensure!(!prompt.trim().is_empty(), "the prompt is empty: say what the agent should do");
        let id = match &self.detached {
            Some(id) => id.clone(),
            None => format!("{}-{}", self.kind(), random_name()?),
        };
        let id = AgentId::try_from(id).map_err(anyhow::Error::msg)?;
        if self.detach {
            return detach::launch(home, &id, self.arguments_again(&id)?, &prompt).await;
        }
        let profile = Config::load(&home.config()).context("config.toml")?.agent(self.kind())?;
        anyhow::ensure!(
            self.kind() != DEFAULT_KIND || self.stdin.unwrap_or(profile.stdin) == Stdin::Pipe,
            "Claude Code takes its input from a pipe only: leave out --stdin pty, and stdin = \"pty\" under \
             [agents.{DEFAULT_KIND}]. An agent that wants a terminal gets an [agents.KIND] of its own in config.toml"
        );
        let cwd = self.folder()?;
        let mode = self.mode.take().filter(|mode| mode != DEFAULT_MODE);
        let (kind, places, resume) = (self.kind().to_owned(), home.places(), self.resume.take());
        let start = Start { kind, cwd: cwd.clone(), places, mode, resume };
        match profile.speaks() {
            ProtocolName::ClaudeCode => {
                let Start { cwd: folder, places, mode, resume, .. } = start;
                let protocol = ClaudeCode::new(folder, places, id.to_string(), profile.asks_by);
                let protocol = protocol.started(mode, resume);
                let own = profile.args.iter().map(OsStr::new);
                let protocol = match names_mode(own.chain(self.arguments.iter().map(OsString::as_os_str))) {
                    true => protocol,
                    false => protocol.checking_mode(),
                };
                drive(home, self.described(id, profile, cwd, protocol, prompt)?, keyboard, signals).await
            }
            ProtocolName::Acp => {
                let arguments = KnownAgent::of(self.kind()).map_or(&[][..], |known| known.arguments);
                let protocol = Acp::new(start, arguments);
                drive(home, self.described(id, profile, cwd, protocol, prompt)?, keyboard, signals).await
            }
            ProtocolName::OpenCode => {
                let protocol = OpenCode::new(start, random_hex::<32>()?);
                drive(home, self.described(id, profile, cwd, protocol, prompt)?, keyboard, signals).await
            }
            ProtocolName::Codex => {
                let protocol = Codex::new(start);
                drive(home, self.described(id, profile, cwd, protocol, prompt)?, keyboard, signals).await
            }
        }
    }

    /// The id of the newest run in this folder that can be resumed.
    async fn newest_run(&self, home: &Home) -> anyhow::Result<String> {
        let folder = self.folder()?;
        let client = Client::for_person(home)?;
        let known = client.call(&calls::AGENTS, "", &AgentsQuery { all: true }, &(), Try::Once).await?;
        let here = known.agents.into_iter().filter(|agent| {
            agent.reach == Reach::Driven && agent.session.is_some() && Path::new(&agent.cwd) == folder
        });
        let newest = here.max_by_key(|agent| agent.created_at);
        let newest = newest.with_context(|| format!("no run in {} can be resumed", folder.display()))?;
        Ok(newest.id.to_string())
    }

    /// Finds the session behind one of our own ids, and its folder, which an agent looks for its sessions in.
    async fn resume(&mut self, home: &Home, name: String) -> anyhow::Result<()> {
        let client = Client::for_person(home)?;
        let agent: Agent = match client.get(&calls::AGENT.at(&name)).await {
            Ok(agent) => agent,
            Err(error) if error.is_unknown() => match named::find(&client, &name).await {
                Ok(agent) => agent,
                // The hub need not know a session that the agent knows.
                Err(_) if is_session(&name) => {
                    self.resume = Some(name);
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error.into()),
        };
        let id = &agent.id;
        anyhow::ensure!(
            agent.state == AgentState::Ended || agent.reach != Reach::Driven,
            "{id} is still running: aye attach {id}"
        );
        let session = agent.session.clone();
        self.resume =
            Some(session.with_context(|| format!("{id} never named its session, so it cannot go on"))?);
        // Whoever started us has looked at this kind of agent, and at no other.
        if let Some(kind) = self.agent.as_ref().filter(|kind| **kind != agent.kind) {
            anyhow::bail!("{id} is a session of {}, not of {kind}", agent.kind);
        }
        self.agent = Some(agent.kind);
        self.cwd.get_or_insert_with(|| PathBuf::from(agent.cwd));
        Ok(())
    }

    /// What was given, or else typed. None if the person left instead.
    async fn first_prompt(
        &mut self,
        keyboard: Option<Keyboard>,
        signals: &mut Signals,
    ) -> anyhow::Result<Option<(String, Option<Keyboard>)>> {
        let given = self.prompt.take();
        Ok(match (given, keyboard) {
            (Some(given), keyboard) if given != "-" => Some((given, keyboard)),
            (None, Some(keyboard)) => conversation::first_prompt(keyboard, signals)
                .await?
                .map(|(prompt, keyboard)| (prompt, Some(keyboard))),
            (None, None) => anyhow::bail!("the prompt is missing: say what the agent should do"),
            (Some(_), _) => {
                let mut read = String::new();
                std::io::stdin().read_to_string(&mut read).context("cannot read the prompt")?;
                Some((read, None))
            }
        })
    }

    fn kind(&self) -> &str {
        self.agent.as_deref().unwrap_or(DEFAULT_KIND)
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
        all.extend(["--agent".into(), self.kind().into(), "--cwd".into(), cwd.into()]);
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
    fn prompt(&self, given: String) -> anyhow::Result<(String, Option<Image>)> {
        if !self.prompt_in_json {
            return Ok((given, None));
        }
        match serde_json::from_str(&given).context("the prompt is not JSON")? {
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
        prompt: String,
    ) -> anyhow::Result<driven::Run<P>> {
        let (prompt, image) = self.prompt(prompt)?;
        let kind = self.kind().to_owned();
        let variable = KnownAgent::of(&kind).map(|known| known.variable);
        let program = profile.program(&kind);
        let mut arguments: Vec<_> = profile.args.into_iter().map(OsString::from).collect();
        arguments.extend(self.arguments);
        Ok(driven::Run {
            protocol,
            ourselves: std::env::current_exe().context("cannot find this program itself")?,
            id,
            kind,
            program,
            variable,
            arguments,
            cwd,
            prompt,
            image,
            stdin: self.stdin.unwrap_or(profile.stdin),
            stays: self.detached.is_some(),
        })
    }
}

/// Whether it could be an agent's own id of a session.
fn is_session(name: &str) -> bool {
    let is_uuid = name.len() >= 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uuid || name.starts_with("ses_") || name.starts_with("session_")
}

/// Runs an agent to its end, and ends as it does.
async fn drive<P: AgentProtocol>(
    home: &Home,
    mut agent: driven::Run<P>,
    keyboard: Option<Keyboard>,
    mut signals: Signals,
) -> Done {
    let (id, prompt) = (agent.id.clone(), agent.prompt.clone());
    let (told, account) = mpsc::channel(256);
    let mut printer = JoinSet::new();
    if agent.stays {
        detach::leave_session()?;
        let announcement = detach::Announcement::prepare(id)?;
        let (paper, all_printed) = Printer::start()?;
        let running = driven::start(home, agent, told).await?;
        let beginning = Beginning { asked: None, working: true };
        printer.spawn(conversation::show(account, None, paper, beginning).boxed());
        let speaks = running.speaks();
        let mut ending = std::pin::pin!(running.to_its_end(&mut signals));
        // An agent that ends before it says anything was never there: its log says why.
        let status = tokio::select! {
            status = &mut ending => status,
            () = speaks.cancelled() => {
                announcement.make()?;
                ending.await
            }
            () = tokio::time::sleep(LONGEST_SILENCE) => {
                announcement.make()?;
                ending.await
            }
        };
        printer.join_next().await;
        drop(all_printed.await);
        return Ok(ended_as(status?));
    }
    let client = Client::for_person(home);
    let keyboard = keyboard.filter(|_| client.is_ok());
    agent.stays = keyboard.is_some();
    let running = driven::start(home, agent, told).await?;
    let (paper, all_printed) = Printer::start()?;
    let person = client.ok().zip(keyboard).map(|(client, keyboard)| KeyboardUser {
        client,
        agent: id.clone(),
        keyboard,
        leaves: running.no_more_prompts(),
        on_leaving: "The run ends when this turn is over.",
    });
    let in_terminal = person.is_some() || std::io::stdout().is_terminal();
    let mut attending = JoinSet::new();
    if let Some(person) = &person {
        attending.spawn(conversation::attend(person.client.clone()).boxed());
    }
    printer.spawn(
        conversation::show(account, person, paper, Beginning { asked: Some(prompt), working: true }).boxed(),
    );
    let status = running.to_its_end(&mut signals).await;
    printer.join_next().await;
    // The same signals throughout: one that came in between would be heard by nobody.
    tokio::select! {
        _ = all_printed => {}
        _ = signals.wait() => {}
    }
    let status = status?;
    if in_terminal {
        say(&format!("{}\n", paint(DIM, format_args!("Go on later: aye run --resume {id}"))))?;
    }
    Ok(ended_as(status))
}

fn ended_as(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(ERROR);
    ExitCode::from(code)
}
