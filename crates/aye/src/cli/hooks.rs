use super::{Done, say};
use crate::agents::claude::settings::{FileChange, HookCommand, SettingsFile, missing};
use crate::agents::claude::watch::sessions::ConfigDir;
use crate::surfaces::terminal::style::{BAD, DIM, GOOD, paint};
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use std::process::ExitCode;

/// Connect every Claude Code session, through hooks in its settings
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye hooks install                     for every session of yours
  aye hooks install --scope local       for this project, on this machine
  aye hooks status
  aye hooks remove

Nothing else in the settings file changes; its previous version is kept beside it as
settings.json.aye-backup. Without a running hub the hooks do nothing.
For a single session, use `aye claude` instead.")]
pub struct Hooks {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Add the hooks, or update them
    Install {
        /// Whose settings to change
        #[arg(long, value_enum, default_value_t = Scope::User)]
        scope: Scope,
    },
    /// Remove the hooks
    Remove {
        /// Whose settings to change
        #[arg(long, value_enum, default_value_t = Scope::User)]
        scope: Scope,
    },
    /// Show where hooks are installed, and whether they call this program
    Status {
        /// Which settings to look at (default: all)
        #[arg(long, value_enum)]
        scope: Option<Scope>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scope {
    /// Your own settings, for every project
    User,
    /// This project's settings, for everybody who works on it
    Project,
    /// This project's settings, on this machine only
    Local,
}

impl Scope {
    fn file(self) -> anyhow::Result<SettingsFile> {
        let here = || std::env::current_dir().context("this folder is gone");
        Ok(SettingsFile::at(match self {
            Scope::User => {
                let config =
                    ConfigDir::from_env().context("there is no home directory: set CLAUDE_CONFIG_DIR")?;
                config.path().join("settings.json")
            }
            Scope::Project => here()?.join(".claude/settings.json"),
            Scope::Local => here()?.join(".claude/settings.local.json"),
        }))
    }

    fn name(self) -> &'static str {
        match self {
            Scope::User => "user",
            Scope::Project => "project",
            Scope::Local => "local",
        }
    }
}

impl Hooks {
    pub fn run(self) -> Done {
        let command = HookCommand::of_this_program()?;
        match self.action {
            Action::Install { scope } => {
                let file = scope.file()?;
                let change = file.install(&command)?;
                let done = format!("Claude Code now calls {} in every session", command.program.display());
                told(&file, change, &done, "the hooks are already there")?;
            }
            Action::Remove { scope } => {
                let file = scope.file()?;
                let change = file.remove()?;
                told(&file, change, "the hooks are removed", "it has no hooks of aye")?;
            }
            Action::Status { scope } => {
                let scopes = scope.map_or_else(|| Scope::value_variants().to_vec(), |scope| vec![scope]);
                for scope in scopes {
                    let file = scope.file()?;
                    let state = status(&file, &command);
                    say(&format!(
                        "{:8} {state}\n         {}\n",
                        scope.name(),
                        paint(DIM, file.path().display())
                    ))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn told(file: &SettingsFile, change: FileChange, done: &str, nothing: &str) -> anyhow::Result<()> {
    let path = file.path().display();
    match change {
        FileChange::Unchanged => say(&format!("{path}: {nothing}; nothing was changed\n")),
        FileChange::Changed { backup: None } => say(&format!("{path}: {done}\n")),
        FileChange::Changed { backup: Some(backup) } => {
            say(&format!("{path}: {done}\nIts previous version is in {}\n", backup.display()))
        }
    }
}

fn status(file: &SettingsFile, command: &HookCommand) -> String {
    let installed = match file.installed() {
        Ok(installed) => installed,
        Err(trouble) => return format!("{} {trouble}", paint(BAD, "cannot tell:")),
    };
    let Some((_, found)) = installed.first() else { return "not installed".to_owned() };
    let lacking = missing(&installed, found);
    let mut words = match found == command {
        true => format!("{}, and calls this program", paint(GOOD, "installed")),
        false => {
            let whose = found.home.as_ref().map(|home| format!(" with AYE_HOME={home}")).unwrap_or_default();
            let there = if found.program.is_file() { "" } else { ", which is not there" };
            format!(
                "{} calls {}{whose}{there}; `aye hooks install` makes it this one",
                paint(BAD, "another:"),
                found.program.display()
            )
        }
    };
    if !lacking.is_empty() {
        words += &format!("; not at {}: `aye hooks install` adds it", lacking.join(", "));
    }
    if file.are_hooks_off() {
        words += "; but disableAllHooks is set, so none is called";
    }
    words
}
