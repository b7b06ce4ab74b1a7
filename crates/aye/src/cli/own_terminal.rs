//! What the commands begin with that start an agent in the person's own terminal and join it.

use crate::config::{Config, KnownAgent};
use crate::home::Home;
use crate::processes::find_program;
use anyhow::Context;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

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
        find_program(&program).with_context(|| {
            let variable = KnownAgent::of(kind).map(|known| format!("{} or ", known.variable));
            format!(
                "cannot start {}; is it installed? {}`command` in config.toml names another",
                program.display(),
                variable.unwrap_or_default()
            )
        })?;
        let mut command = Command::new(&program);
        command.args(profile.args).env_remove("AYE_TOKEN");
        Ok(Self { program, command, given: std::env::args_os().skip(2).collect() })
    }
}
