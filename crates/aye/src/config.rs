//! `config.toml`: what people decided once. All of it is optional.

#[cfg(test)]
mod documented;
mod known;
mod protocol;
mod stamp;
mod telegram;

pub use known::{KNOWN_AGENTS, KnownAgent, Mode, Way, asks_in};
pub use protocol::ProtocolName;
pub use stamp::{Stamp, WatchedFiles};
pub use telegram::{Span, TelegramSection};

use crate::processes::find_program;
use crate::url::HubUrl;
use aye_core::AsksFor;
use aye_core::digest::sha256_hex;
use aye_policy::{Policy, PolicyFile};
use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File as OpenFile;
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Nobody writes as much by hand, and what a link leads to may never end.
const LONGEST: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct File {
    policy: PolicyFile,
    hub: HubSection,
    agents: BTreeMap<String, AgentProfile>,
    projects: BTreeMap<String, PathBuf>,
    telegram: Option<TelegramSection>,
    history: HistorySection,
    store: StoreSection,
}

/// Where everything is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSection {
    /// A PostgreSQL database; without it, the file `aye.db`.
    pub url: Option<String>,
    /// Holds the password of the database, if its URL does not.
    pub password_file: Option<PathBuf>,
}

impl StoreSection {
    /// Of a file that is broken elsewhere it counts by itself. If it is broken too, nothing is taken in its place: answers
    /// would be kept where nobody looks for them. Only where nothing can be read at all, an `aye.db` that is there says that
    /// it is in use.
    pub fn read(path: &Path, database: &Path) -> Result<Self, ConfigError> {
        match Config::read(path).config {
            Ok(config) => Ok(config.store),
            Err(error) => {
                let text = read(path).ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok());
                let text = match text {
                    None if database.exists() => return Ok(Self::default()),
                    text => text.ok_or(error)?,
                };
                let mut off = Vec::new();
                match section(&text, "store", "the database", &mut off) {
                    Some(section) => Ok(section),
                    None => off.pop().map_or_else(|| Ok(Self::default()), |why| Err(ConfigError(why))),
                }
            }
        }
    }
}

/// How long conversations are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HistorySection {
    /// What is older is forgotten.
    pub days: u16,
    /// An agent's oldest events are forgotten when its conversation is larger.
    pub megabytes: u32,
}

impl Default for HistorySection {
    fn default() -> Self {
        Self { days: 90, megabytes: 50 }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HubSection {
    /// What links on other devices point to; also an allowed Host.
    pub public_url: Option<HubUrl>,
}

/// How an agent of this kind is started, and how it speaks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentProfile {
    /// The program; found on `PATH` unless it has a slash.
    pub command: Option<PathBuf>,
    /// Arguments before all others.
    pub args: Vec<String>,
    /// What a run that the hub starts gets of the hub's environment beside the basics: `NAME`, `PREFIX_*`, or
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Whether the page and Telegram may start runs that ask for no permissions.
    pub allow_bypass: bool,
    /// What the kind is known to speak, unless it says so.
    pub protocol: Option<ProtocolName>,
    pub stdin: Stdin,
    pub asks_by: AsksBy,
}

/// What the agent reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    #[default]
    Pipe,
    /// A pseudo-terminal in raw mode, for agents that read from nothing else.
    Pty,
}

/// How an agent asks its questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AsksBy {
    /// By a request on the control channel, which gets a response.
    #[default]
    Control,
    /// By calling its tool and nothing else; the answer is the tool's result.
    ToolUse,
}

/// The kind of agent that a run is of unless it says otherwise.
pub const DEFAULT_KIND: &str = "claude";

/// The mode of a run that names none. Every agent has it, under this name or another.
pub const DEFAULT_MODE: &str = "default";

/// True if these arguments set the mode of Claude Code, whatever else is said.
pub fn names_mode<'a>(mut arguments: impl Iterator<Item = &'a OsStr>) -> bool {
    arguments.any(|argument| {
        let argument = argument.to_string_lossy();
        argument.starts_with("--permission-mode") || argument == "--dangerously-skip-permissions"
    })
}

impl AgentProfile {
    /// The program to start. Only a kind that needs no entry in config.toml has it named by the environment.
    pub fn program(&self, kind: &str) -> PathBuf {
        let named = KnownAgent::of(kind).and_then(|known| std::env::var_os(known.variable));
        named.map(PathBuf::from).or_else(|| self.command.clone()).unwrap_or_else(|| kind.into())
    }

    /// Where that program is, if it is installed.
    pub fn find(&self, kind: &str) -> Option<PathBuf> {
        find_program(&self.program(kind))
    }

    pub fn speaks(&self) -> ProtocolName {
        self.protocol.unwrap_or_default()
    }

    fn all_modes(&self, kind: &str) -> &'static [Mode] {
        let known = KnownAgent::of(kind).filter(|known| known.protocol == self.speaks());
        known.map_or(self.speaks().modes(), |known| known.modes)
    }

    /// The modes in which anybody who may start a run can start one from another surface.
    pub fn modes(&self, kind: &str) -> Vec<&'static str> {
        let modes = self.all_modes(kind).iter();
        modes.filter(|mode| self.allow_bypass || !mode.needs_consent).map(|mode| mode.name).collect()
    }

    /// True if an agent asks for everything in this mode. It may not in a mode that is not known, nor if its arguments name
    /// another.
    pub fn asks_for_everything(&self, kind: &str, mode: Option<&str>) -> bool {
        let asks = asks_in(self.all_modes(kind), mode.unwrap_or(DEFAULT_MODE));
        asks == AsksFor::Everything && !names_mode(self.args.iter().map(OsStr::new))
    }
}

/// A configuration that was checked.
#[derive(Debug, Clone, Default)]
pub struct Config {
    pub policy: Policy,
    pub hub: HubSection,
    agents: BTreeMap<String, AgentProfile>,
    /// Folders by the names people gave them.
    pub projects: BTreeMap<String, PathBuf>,
    pub telegram: Option<TelegramSection>,
    pub history: HistorySection,
    store: StoreSection,
}

/// Everything that is wrong with a file, a line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The digest of the file as it is now; one that is not there is an empty one.
pub fn digest_of(path: &Path) -> std::io::Result<String> {
    read(path).map(|bytes| digest(&bytes.unwrap_or_default()))
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256_hex(bytes))
}

/// None if there is no file. A pipe or a device in its place would keep us waiting, so it is not read.
fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenFile::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    match file.take(LONGEST + 1).read_to_end(&mut bytes)? as u64 {
        0..=LONGEST => Ok(Some(bytes)),
        _ => Err(Error::other("it is too long")),
    }
}

/// What came of reading the file.
#[derive(Debug)]
pub struct ConfigRead {
    pub config: Result<Config, ConfigError>,
    /// Of what was read, if it could be; a file that is not there is an empty one.
    pub digest: Option<String>,
    pub is_missing: bool,
}

impl Config {
    /// A file that is not there is an empty one.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::read(path).config
    }

    pub fn read(path: &Path) -> ConfigRead {
        let unreadable = |error: &dyn std::fmt::Display| ConfigError(format!("cannot be read: {error}"));
        match read(path) {
            Ok(found) => {
                let (is_missing, bytes) = (found.is_none(), found.unwrap_or_default());
                let text = std::str::from_utf8(&bytes).map_err(|error| unreadable(&error));
                ConfigRead { config: text.and_then(Self::parse), digest: Some(digest(&bytes)), is_missing }
            }
            Err(error) => ConfigRead { config: Err(unreadable(&error)), digest: None, is_missing: false },
        }
    }

    /// What people are reached by. Of a file that is broken elsewhere, `[hub]` and `[telegram]` count if each is in order
    /// by itself, so that somebody can still be asked; its policy does not. Also what is off meanwhile, a sentence each.
    pub fn for_surfaces(path: &Path) -> (Self, Vec<String>) {
        if let Ok(config) = Self::load(path) {
            return (config, Vec::new());
        }
        let text = read(path).ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok());
        let (text, mut off) = (text.unwrap_or_default(), Vec::new());
        let hub = section(&text, "hub", "public_url", &mut off);
        let telegram = section(&text, "telegram", "Telegram", &mut off);
        (Self { hub: hub.unwrap_or_default(), telegram, ..Self::default() }, off)
    }

    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut file: File =
            toml::from_str(text).map_err(|error| ConfigError(error.to_string().trim().to_owned()))?;
        if let Some(home) = std::env::home_dir() {
            file.policy.expand_home(&home.to_string_lossy());
            for folder in file.projects.values_mut() {
                if let Ok(rest) = folder.strip_prefix("~") {
                    *folder = home.join(rest);
                }
            }
        }
        if let Some((name, _)) = file.projects.iter().find(|(_, folder)| !folder.is_absolute()) {
            return Err(ConfigError(format!("projects.{name}: must be a whole path, or begin with ~/")));
        }
        let problems = |problems: Vec<aye_policy::Mistake>| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            ConfigError(lines.join("\n"))
        };
        let policy = file.policy.check().map_err(problems)?;
        let (agents, projects) = (file.agents, file.projects);
        let File { hub, telegram, history, store, .. } = file;
        Ok(Self { policy, hub, agents, projects, telegram, history, store })
    }

    /// The agents that a run can be of: the one it is of unless it says otherwise, and all others that are installed.
    pub fn startable(&self) -> Vec<(&str, AgentProfile)> {
        let known = KNOWN_AGENTS.iter().map(|known| known.kind);
        let others: BTreeSet<_> = known.chain(self.agents.keys().map(String::as_str)).collect();
        let others = others.into_iter().filter(|kind| *kind != DEFAULT_KIND);
        std::iter::once(DEFAULT_KIND)
            .chain(others)
            .filter_map(|kind| Some((kind, self.agent(kind).ok()?)))
            .filter(|(kind, profile)| *kind == DEFAULT_KIND || profile.find(kind).is_some())
            .collect()
    }

    /// The kinds that config.toml alone has.
    pub fn own_kinds(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(String::as_str).filter(|kind| KnownAgent::of(kind).is_none())
    }

    /// Known kinds of agents need no entry; any other does.
    pub fn agent(&self, kind: &str) -> Result<AgentProfile, ConfigError> {
        let protocol = KnownAgent::of(kind).map(|known| known.protocol);
        match (self.agents.get(kind), protocol) {
            (Some(profile), _) => {
                Ok(AgentProfile { protocol: profile.protocol.or(protocol), ..profile.clone() })
            }
            (None, Some(_)) => Ok(AgentProfile { protocol, ..AgentProfile::default() }),
            (None, None) => Err(ConfigError(format!("there is no [agents.{kind}] in config.toml"))),
        }
    }
}

/// The files that a configuration names as secrets. Of a file that is broken elsewhere, each section counts by itself.
pub fn secret_files(config: &Path, home: &Path) -> Vec<PathBuf> {
    let text =
        read(config).ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let whole = toml::from_str::<toml::Table>(&text).ok();
    let named = |name: &str, key: &str| {
        let own = match &whole {
            Some(whole) => whole.get(name)?.as_table().cloned(),
            None => section(&text, name, name, &mut Vec::new()),
        };
        Some(PathBuf::from(own?.get(key)?.as_str()?))
    };
    let token = named("telegram", "token_file").map(|file| home.join(file));
    let password = named("store", "password_file").and_then(|file| std::path::absolute(file).ok());
    token.into_iter().chain(password).collect()
}

/// One section of a file that is broken elsewhere: its lines up to the next heading.
fn section<T: DeserializeOwned>(text: &str, name: &str, what: &str, off: &mut Vec<String>) -> Option<T> {
    let heading = |line: &&str| line.split('#').next().unwrap_or_default().trim() == format!("[{name}]");
    let own = text.lines().skip_while(|line| !heading(line)).skip(1);
    let own: Vec<_> = own.take_while(|line| !line.trim_start().starts_with('[')).collect();
    let read = match text.lines().filter(heading).count() {
        0 => return None,
        1 => toml::from_str(&own.join("\n")).map_err(|error| error.message().to_owned()),
        _ => Err("it is there twice".to_owned()),
    };
    read.map_err(|why| off.push(format!("{what} is off: [{name}] in config.toml is broken: {why}"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_broken_file_what_reaches_people_still_counts_where_it_is_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let (config, off) = Config::for_surfaces(&file);
            (config.hub.public_url.is_some(), config.telegram.map(|telegram| telegram.users), off)
        };
        let hub = "[hub] # the public name\npublic_url = \"https://aye.example\"\n";
        let telegram = "[telegram]\nusers = [1]\nchats = [\n  1,\n]\n";
        for broken in ["[policy\n", "[policy]\nnonsense = 1\n", "[[policy.rules]]\ntool = \"Bash\n"] {
            let read = read(&format!("{hub}{telegram}{broken}"));
            assert_eq!(read, (true, Some(vec![1]), vec![]), "{broken}");
        }
        let (_, users, off) = read(&format!("{hub}[telegram]\nusers = [1\n[policy]\nproof = 1"));
        assert_eq!((users, off.len()), (None, 1));
        assert!(off[0].starts_with("Telegram is off: [telegram] in config.toml is broken"), "{off:?}");
        assert_eq!(read(&format!("{telegram}{telegram}")).1, None, "which of the two counts is not clear");
        assert_eq!(read("[policy"), (false, None, vec![]));
        std::fs::remove_file(&file).unwrap();
        assert!(Config::for_surfaces(&file).1.is_empty());
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        let text = r#"
            [policy]
            when_unattended = "reject"
            [hub]
            public_url = "https://aye.example"
            [agents.other]
            stdin = "pty"
            asks_by = "tool_use"
            [projects]
            web = "~/src/web"
            [telegram]
            users = [11111111]
            notify_after = "30s"
        "#;
        let config = Config::parse(text).unwrap();
        let telegram = config.telegram.as_ref().unwrap();
        assert_eq!((&telegram.users, telegram.notify_after.0.as_secs()), (&vec![11111111], 30));
        assert_eq!(config.hub.public_url.as_ref().unwrap().to_string(), "https://aye.example");
        assert_eq!(
            config.policy.when_unattended,
            aye_policy::WhenUnattended::Reject(aye_policy::WhenUnattended::USUAL)
        );
        let times = |text: &str| {
            Config::parse(&format!("[policy]\nwhen_unattended = {text:?}"))
                .map(|config| config.policy.when_unattended.to_string())
        };
        assert_eq!(times("reject after 0s").as_deref(), Ok("reject after 0s"));
        assert_eq!(times("reject after 5m").as_deref(), Ok("reject after 5m"));
        assert!(times("reject after -5m").is_err() && times("reject soon").is_err());
        let other = config.agent("other").unwrap();
        assert_eq!((other.stdin, other.asks_by), (Stdin::Pty, AsksBy::ToolUse));
        assert!(config.projects["web"].ends_with("src/web") && config.projects["web"].is_absolute());
    }

    #[test]
    fn modes_that_ask_for_less_need_the_owners_word() {
        let modes = |kind: &str, text: &str| Config::parse(text).unwrap().agent(kind).unwrap().modes(kind);
        assert!(!modes("claude", "").contains(&"bypassPermissions"));
        assert!(modes("claude", "[agents.claude]\nallow_bypass = true").contains(&"bypassPermissions"));
        assert_eq!(modes("gemini", ""), ["default", "plan", "autoEdit"]);
        assert_eq!(modes("qwen", "[agents.qwen]\ncommand = \"/opt/qwen\""), ["default", "plan", "auto-edit"]);
        let others = "[agents.mine]\nprotocol = \"acp\"\nallow_bypass = true";
        assert_eq!(modes("mine", others), ["default"], "nothing is known of its own");
        assert!(Config::default().agent("other").unwrap_err().to_string().contains("[agents.other]"));
    }

    #[test]
    fn a_mistake_says_where_it_is() {
        let wrong = |text: &str| Config::parse(text).unwrap_err().to_string();
        assert!(wrong("[policy]\nauto_aprove = []").contains("auto_aprove"));
        assert!(wrong("[policy]\nauto_approve = [\"ExitPlanMode\"]").contains("always go to a person"));
        assert!(wrong("[[policy.rules]]\ntool = \"Bash\"").contains("action"));
        assert!(wrong("[projects]\nweb = \"src/web\"").contains("whole path"));
        assert!(wrong("nonsense").contains("line 1"));
        assert!(wrong("[telegram]\nuser = [1]").contains("user"));
        assert!(wrong("[telegram]\nnotify_after = \"soon\"").contains("such as"));
        assert!(wrong("[hub]\npublic_url = \"aye.example/x\"").contains("must look like http"));
    }
}
