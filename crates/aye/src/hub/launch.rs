//! Starting a run for somebody who is not at this machine's terminal. The hub only launches `aye run --detach`,
//! which goes on in a session of its own and outlives the hub.

use super::passkeys::SignedAct;
use super::problem::on_another_thread;
use super::run_folder::RunFolder;
use super::{Command as AgentCommand, Hub, Problem};
use crate::config::{AgentProfile, Config, DEFAULT_KIND, KnownAgent};
use crate::protocol::{NewRun, Project, Projects, StartableAgent};
use crate::store::Tx;
use crate::webauthn::Purpose;
use aye_core::{Agent, Invalid, Proof};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// An agent that takes longer to start will not start.
const LONGEST_START: Duration = Duration::from_secs(30);

/// What no program does without.
const BASICS: [&str; 10] =
    ["HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TMPDIR", "XDG_RUNTIME_DIR", "AYE_LOG"];

/// What a passkey signs to start a run: all that makes it.
pub(super) fn run_subject(run: &NewRun) -> Value {
    json!({ "run": run })
}

impl Hub {
    pub fn projects(&self) -> Result<Projects, Problem> {
        let config = self.config()?;
        let agents = config.startable().into_iter();
        let agents = agents
            .map(|(kind, profile)| StartableAgent { kind: kind.to_owned(), modes: profile.modes(kind) });
        let agents = agents.collect();
        let projects = config.projects.into_iter();
        let projects =
            projects.map(|(name, path)| Project { name, path: path.to_string_lossy().into_owned() });
        Ok(Projects { projects: projects.collect(), agents })
    }

    /// Starts a run and waits until it is registered.
    pub async fn start_run(&self, run: NewRun, who: String) -> Result<Agent, Problem> {
        let config = self.config()?;
        let kind = run.agent.as_deref().unwrap_or(DEFAULT_KIND);
        let profile = profile(&config, kind)?;
        let (named, projects) = (run.cwd.clone(), config.projects.clone());
        let look = move || RunFolder::find(named.as_str(), &projects);
        let folder = on_another_thread("the folder could not be looked at", look).await??;
        let arguments = arguments(&run, kind, &profile, &folder.path)?;
        let mut named = profile.env.clone();
        named.extend(KnownAgent::of(kind).map(|known| known.variable.to_owned()));
        let mut environment = environment(&named, std::env::vars_os());
        environment.extend(self.inner.policy.file().parent().map(|home| ("AYE_HOME".into(), home.into())));
        let run = self.prove_run(run, &profile, &folder, &who).await?;
        let id = launch(arguments, environment, &input(&run)).await.map_err(Problem::NotStarted)?;
        let agent = self.agent(&id).await?;
        let mut detail = json!({ "cwd": agent.cwd, "mode": run.mode, "prompt": run.prompt });
        if let Some(image) = &run.image {
            detail["image"] = image.in_the_trail();
        }
        if run.assertion.is_some() {
            detail["run"] = run_subject(&run)["run"].clone();
            detail["proof"] = json!(Proof::Passkey);
        }
        let (now, subject) = (self.inner.clock.now(), agent.id.clone());
        let work = move |tx: &mut Tx| {
            Ok::<_, Problem>(tx.audit(now, "agent.started", &who, Some(&subject), None, detail)?)
        };
        self.inner.store.write(work).await?;
        Ok(agent)
    }

    /// An agent that asks for less does without rules that want a passkey, and one in a folder that nobody listed runs
    /// what is configured there. Starting either takes a passkey.
    async fn prove_run(
        &self,
        run: NewRun,
        profile: &AgentProfile,
        folder: &RunFolder,
        who: &str,
    ) -> Result<NewRun, Problem> {
        let policy = self.policy();
        let kind = run.agent.as_deref().unwrap_or(DEFAULT_KIND);
        let is_plain = folder.is_listed && profile.asks_for_everything(kind, run.mode.as_deref());
        if is_plain || !policy.asks_for_proof() {
            return Ok(NewRun { assertion: None, ..run });
        }
        let now = self.inner.clock.now();
        let presented = self.present(run.assertion.clone(), "#/start".to_owned()).await?;
        let (subject, who) = (run_subject(&run), who.to_owned());
        let work = move |tx: &mut Tx| {
            let act = SignedAct { purpose: Purpose::StartRun, subject, agent: None, ask: None, who: &who };
            presented.check(tx, &act, now)
        };
        self.inner.store.write(work).await?;
        Ok(run)
    }

    fn config(&self) -> Result<Config, Problem> {
        let broken = |error| Problem::NotStarted(format!("config.toml is broken: {error}"));
        Config::load(self.inner.policy.file()).map_err(broken)
    }
}

fn profile(config: &Config, kind: &str) -> Result<AgentProfile, Problem> {
    Ok(config.agent(kind).map_err(|error| Invalid::new("agent", error.to_string()))?)
}

fn arguments(run: &NewRun, kind: &str, profile: &AgentProfile, cwd: &Path) -> Result<Vec<OsString>, Problem> {
    let mut all: Vec<OsString> = ["run", "--detach", "--agent", kind, "--cwd"].map(OsString::from).into();
    all.push(cwd.into());
    if let Some(mode) = &run.mode {
        let modes = profile.modes(kind);
        if !modes.contains(&mode.as_str()) {
            let problem =
                format!("must be one of {}; others need allow_bypass in config.toml", modes.join(", "));
            return Err(Invalid::new("mode", &problem).into());
        }
        all.push(format!("--mode={mode}").into());
    }
    if let Some(session) = &run.resume {
        let plain = session.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if session.is_empty() || session.starts_with('-') || !plain {
            return Err(Invalid::new("resume", "must be the id of a session").into());
        }
        all.push(format!("--resume={session}").into());
    }
    all.extend(run.image.is_some().then(|| "--prompt-in-json".into()));
    // The prompt comes through a pipe: it may be long, and begin with anything.
    all.push("-".into());
    Ok(all)
}

/// What the run reads from its standard input.
fn input(run: &NewRun) -> String {
    match &run.image {
        None => run.prompt.as_str().to_owned(),
        Some(_) => {
            json!(AgentCommand::Prompt { text: run.prompt.clone(), image: run.image.clone() }).to_string()
        }
    }
}

/// What a run gets of our environment: the basics and what the owner named.
fn environment(
    named: &[String],
    ours: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let wanted = |name: &str| {
        let patterns = BASICS.iter().copied().chain(named.iter().map(String::as_str));
        patterns.into_iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        })
    };
    let mut all: Vec<_> = ours.filter(|(name, _)| name.to_str().is_some_and(wanted)).collect();
    let set = named.iter().filter_map(|entry| entry.split_once('='));
    all.extend(set.map(|(name, value)| (name.into(), value.into())));
    all
}

/// The id of the run, or why there is none.
async fn launch(
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    prompt: &str,
) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start a run: {error}"))?;
    let started = async {
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(prompt.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    match tokio::time::timeout(LONGEST_START, started).await {
        Err(_) => Err("the run did not start in time".to_owned()),
        Ok(Err(error)) => Err(format!("the run could not be started: {error}")),
        Ok(Ok(output)) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(Ok(output)) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(said.trim().trim_start_matches("aye: ").to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(value: serde_json::Value) -> NewRun {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_run_gets_the_basics_and_what_was_named_and_no_token() {
        let ours = [("PATH", "/bin"), ("AYE_TOKEN", "t"), ("SECRET", "s"), ("MY_KEY", "k"), ("LC_ALL", "C")];
        let ours = ours.map(|(name, value)| (name.into(), value.into())).into_iter();
        let named = ["MY_*".to_owned(), "MODE=fast=1".to_owned()];
        let given = environment(&named, ours);
        let given: Vec<_> = given.iter().map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap())).collect();
        assert_eq!(given, [("PATH", "/bin"), ("MY_KEY", "k"), ("LC_ALL", "C"), ("MODE", "fast=1")]);
    }

    #[test]
    fn nothing_that_somebody_sent_becomes_an_option() {
        let build = |value| arguments(&run(value), "claude", &AgentProfile::default(), Path::new("/src"));
        let plain =
            build(json!({"cwd": "/src", "prompt": "--version", "mode": "plan", "resume": "0f-3c"})).unwrap();
        assert_eq!(
            plain,
            ["run", "--detach", "--agent", "claude", "--cwd", "/src", "--mode=plan", "--resume=0f-3c", "-"]
        );
        for wrong in [
            json!({"cwd": "/src", "prompt": "x", "mode": "bypassPermissions"}),
            json!({"cwd": "/src", "prompt": "x", "mode": "--help"}),
            json!({"cwd": "/src", "prompt": "x", "resume": "a b"}),
            json!({"cwd": "/src", "prompt": "x", "resume": ""}),
        ] {
            assert!(matches!(build(wrong), Err(Problem::Invalid(_))));
        }
    }
}
