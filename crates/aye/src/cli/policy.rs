mod rules;

pub use rules::{LostByRule, lost_lately, rule_notes};

use super::{Done, open_database, say, say_json};
use crate::client::{Client, Try};
use crate::config::{Config, DEFAULT_KIND};
use crate::home::Home;
use crate::hub::why_asked;
use crate::protocol::{GrantList, calls};
use crate::surfaces::terminal::style::{BAD, DIM, GOOD, HEAD, NAME, paint};
use crate::surfaces::terminal::summary;
use anyhow::{Context, bail};
use aye_core::visible::one_line;
use aye_core::{Ask, By, Proof, State, Withdrawal};
use aye_policy::{Action as Verdict, Decision, Folder, ToolCall, Verb, tool_and_input};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Test the rules in config.toml, and list grants.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye policy list                           the rules, how each is interpreted, and warnings
  aye policy test \"cargo test && git push\"  what the rules say about a command, and why
  aye policy test --tool Read --input '{\"file_path\":\"/etc/passwd\"}'
  aye policy replay --since 7d              what these rules would have decided, and what people did
  aye policy replay --config draft.toml     the same with rules that are not in force yet
  aye policy grants                         what was allowed for a session or for always
  aye policy grants --revoke g-k3v9m2pqxx")]
pub struct Policy {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the rules, how each is interpreted, and warnings
    List(rules::List),
    /// Show what the policy decides for a tool call, and why
    Test(Test),
    /// Compare the rules with what people decided in the last days
    Replay(Replay),
    /// List or revoke what was allowed for a session or for always
    Grants(Grants),
}

impl Policy {
    pub async fn run(self, home: &Home) -> Done {
        match self.action {
            Action::List(list) => list.run(home),
            Action::Test(test) => test.run(home),
            Action::Replay(replay) => replay.run(home),
            Action::Grants(grants) => grants.run(home).await,
        }
    }
}

#[derive(Args)]
struct Rules {
    /// Use this file instead of the config.toml in force
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Rules {
    fn load(&self, home: &Home) -> anyhow::Result<aye_policy::Policy> {
        let path = self.config.clone().unwrap_or_else(|| home.config());
        if self.config.is_some() && !path.exists() {
            bail!("there is no {}", path.display());
        }
        let config = Config::load(&path).with_context(|| format!("{} is broken", path.display()))?;
        Ok(config.policy)
    }
}

#[derive(Args)]
struct Test {
    /// A shell command, for the tool Bash
    #[arg(conflicts_with = "input", required_unless_present = "input")]
    command: Option<String>,
    /// The tool's name
    #[arg(long, default_value = "Bash")]
    tool: String,
    /// The tool's complete input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Where the agent works (default: here)
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The agent's kind
    #[arg(long, value_name = "KIND", default_value = DEFAULT_KIND)]
    agent: String,
    #[command(flatten)]
    rules: Rules,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Test {
    fn run(self, home: &Home) -> Done {
        let policy = self.rules.load(home)?;
        let input: Map<String, Value> = match (&self.input, &self.command) {
            (Some(input), _) => serde_json::from_str(input).context("--input must be a JSON object")?,
            (None, command) => [("command".to_owned(), json!(command))].into_iter().collect(),
        };
        let cwd = match self.cwd {
            Some(cwd) => std::path::absolute(cwd)?,
            None => std::env::current_dir()?,
        };
        let (cwd, places) = (cwd.to_string_lossy(), home.places());
        let (agent_kind, folder) = (&self.agent, Folder::Claimed);
        let call =
            ToolCall { agent_kind, cwd: &cwd, folder, tool: &self.tool, input: &input, places: &places };
        let mut reading = policy.read(&call);
        if let Some(why) = why_asked(home.own_places(), &reading.names, &cwd) {
            reading.goes_to_a_person(&why);
        }
        let decision = reading.decision;
        let misses = if decision.action == Verdict::Ask { policy.near_misses(&call) } else { vec![] };
        let cautions = rules::cautions_of(&policy, &decision, &misses);
        if self.json {
            let message = match &decision.action {
                Verdict::Deny { message } => Some(message),
                Verdict::Allow | Verdict::Ask => None,
            };
            let (action, source) = (word(&decision), decision.source.to_string());
            say_json(
                &json!({ "action": action, "by": source, "because": decision.because, "message": message, "proof": decision.proof,
                    "not_covered": misses.iter().map(rules::miss_json).collect::<Vec<_>>(), "cautions": cautions }),
            )?;
        } else {
            let painted = match decision.action {
                Verdict::Allow => paint(GOOD, "allow"),
                Verdict::Deny { .. } => paint(BAD, "deny"),
                Verdict::Ask => paint(HEAD, "ask a person"),
            };
            say(&format!("{painted}: {}\n", one_line(&decision.because)))?;
            if decision.action == Verdict::Ask && decision.proof == Proof::Passkey {
                say(&format!("{}\n", paint(DIM, "allowing it takes a passkey")))?;
            }
            if let Verdict::Deny { message } = &decision.action {
                say(&format!("{}\n", paint(DIM, format_args!("the agent is told: {}", one_line(message)))))?;
            }
            say(&misses.iter().map(rules::miss_words).collect::<String>())?;
            for caution in cautions {
                say(&format!("{} {}\n", paint(BAD, "!"), one_line(&caution)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn word(decision: &Decision) -> &'static str {
    match decision.action {
        Verdict::Allow => "allow",
        Verdict::Deny { .. } => "deny",
        Verdict::Ask => "ask",
    }
}

fn word_of(verb: Verb) -> &'static str {
    match verb {
        Verb::Allow => "allow",
        Verb::Deny => "deny",
        Verb::Ask => "ask",
    }
}

#[derive(Args)]
struct Replay {
    /// How far back
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: String,
    #[command(flatten)]
    rules: Rules,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One past ask, and the two decisions on it.
struct Compared {
    ask: Ask,
    ours: Decision,
    theirs: &'static str,
}

impl Compared {
    /// The one kind of difference that is dangerous: a rule would have let pass what a person refused.
    fn is_dangerous(&self) -> bool {
        self.ours.action == Verdict::Allow && self.theirs == "deny"
    }

    fn differs(&self) -> bool {
        word(&self.ours) != "ask" && word(&self.ours) != self.theirs
    }
}

impl Replay {
    fn run(self, home: &Home) -> Done {
        let policy = self.rules.load(home)?;
        let since = super::log::moment(&self.since, Timestamp::now())?;
        let database = open_database(home)?;
        let places = home.places();
        let mut compared = Vec::new();
        database.permissions_since(since, |ask, kind| {
            let (tool, input) = tool_and_input(&ask.body);
            let (agent_kind, folder) = (&kind, Folder::Claimed);
            let call =
                ToolCall { agent_kind, cwd: &ask.cwd, folder, tool: &tool, input: &input, places: &places };
            let ours = policy.decide(&call);
            let theirs = match &ask.state {
                State::Answered { by: By::Person { .. }, answer, .. }
                | State::Withdrawn { why: Withdrawal::Terminal, answer: Some(answer), .. } => {
                    answer.decision().as_str()
                }
                State::Answered { by: By::Rule { .. }, .. } => "decided by a rule",
                State::Open | State::Expired { .. } | State::Withdrawn { .. } => "not answered",
            };
            compared.push(Compared { ask, ours, theirs });
        })?;
        compared.sort_by_key(|compared| !compared.is_dangerous());
        match self.json {
            true => say_json(&replay_json(&compared))?,
            false => say(&replay_words(&compared))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn replay_json(compared: &[Compared]) -> Value {
    let asks = compared.iter().map(|one| {
        json!({
            "ask": one.ask.id, "at": one.ask.created_at, "rules": word(&one.ours), "by": one.ours.source.to_string(),
            "because": one.ours.because, "people": one.theirs, "dangerous": one.is_dangerous(),
        })
    });
    json!({ "asks": asks.collect::<Vec<_>>() })
}

fn replay_words(compared: &[Compared]) -> String {
    let by_people = |one: &&Compared| matches!(one.theirs, "allow" | "deny");
    let people = compared.iter().filter(by_people).count();
    let decided = compared.iter().filter(by_people).filter(|one| word(&one.ours) != "ask").count();
    let differ: Vec<_> = compared.iter().filter(by_people).filter(|one| one.differs()).collect();
    let mut out = format!(
        "{} permissions were asked for; people decided {people} of them.\n\
         These rules would have decided {decided} of those without asking, {} of them otherwise than people did.\n",
        compared.len(),
        differ.len()
    );
    for one in differ {
        let mark = if one.is_dangerous() { paint(BAD, "!") } else { " ".to_owned() };
        out += &format!(
            "{mark} {}  people: {:<5}  {} would {}   {}\n",
            paint(NAME, &one.ask.id),
            one.theirs,
            one_line(&one.ours.source.to_string()),
            word(&one.ours),
            paint(DIM, summary(&one.ask.body, 60)),
        );
    }
    out
}

#[derive(Args)]
struct Grants {
    /// Revoke this grant
    #[arg(long, value_name = "ID")]
    revoke: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Grants {
    async fn run(self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        if let Some(id) = self.revoke {
            client.call(&calls::REVOKE_GRANT, &id, &(), &(), Try::Once).await?;
            say(&format!("{id} is revoked. You are asked again next time.\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = client.call(&calls::GRANTS, "", &(), &(), Try::Once).await?;
        if self.json {
            say_json(&list)?;
            return Ok(ExitCode::SUCCESS);
        }
        let GrantList { grants, kept_by_agents: kept } = list;
        if grants.is_empty() && kept.is_empty() {
            say(&format!("{}\n", paint(DIM, "Nothing is allowed for longer than once.")))?;
        }
        for grant in grants {
            let by = paint(DIM, format_args!("by {}", one_line(&grant.by.to_string())));
            say(&format!("{}  {}  {by}\n", paint(NAME, &grant.id), one_line(&grant.words)))?;
        }
        if !kept.is_empty() {
            say(&format!("{}\n", paint(HEAD, "Kept by the agents themselves:")))?;
        }
        for kept in kept {
            let (rule, words) = (one_line(&kept.rule), paint(DIM, one_line(&kept.words)));
            say(&format!("{}  {rule}\n    {words}\n", paint(NAME, &kept.ask)))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
