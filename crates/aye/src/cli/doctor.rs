mod agents;
mod hubs;

use super::policy::{self, LostByRule};
use super::{Done, ERROR, say, say_json};
use crate::client::{CallError, Client, Try};
use crate::config::Config;
use crate::home::Home;
use crate::protocol::calls;
use crate::store::{self, verify::Against};
use crate::surfaces::telegram::Telegram;
use crate::surfaces::terminal::style::{BAD, DIM, GOOD, HEAD, paint};
use agents::FoundAgent;
use aye_core::Role;
use aye_core::visible::one_line;
use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

/// Check the setup: what works, what is missing, and the command that fixes it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye doctor
  aye doctor --json | jq '.findings[] | select(.fine | not)'
  aye doctor --json | jq '.agents[] | select(.program)'

Exit codes: 0 all is well, 1 something is missing.")]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

struct Finding {
    about: &'static str,
    fine: bool,
    /// Fine, and yet a person should know.
    notable: bool,
    found: String,
    mend: Option<String>,
}

impl Finding {
    fn fine(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, fine: true, notable: false, found: found.into(), mend: None }
    }

    fn wrong(about: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { about, fine: false, notable: true, found: found.into(), mend: Some(mend.into()) }
    }
}

impl Doctor {
    pub async fn run(self, home: &Home) -> Done {
        let found = agents::look(home).await;
        let mut findings = vec![
            directory(home),
            files(home),
            config(home).await,
            rules(home),
            telegram(home).await,
            passkeys(home),
            trail(home),
            hub(home).await,
            token(home).await,
        ];
        findings.extend(hubs::look(home));
        findings.push(agents(&found));
        let fine = findings.iter().all(|finding| finding.fine);
        if self.json {
            let findings: Vec<_> = findings
                .iter()
                .map(|f| json!({ "about": f.about, "fine": f.fine, "found": f.found, "mend": f.mend }))
                .collect();
            say_json(&json!({ "fine": fine, "findings": findings, "agents": found }))?;
        } else {
            say(&in_words(&findings))?;
        }
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(ERROR) })
    }
}

fn in_words(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let mark = match (finding.fine, finding.notable) {
            (true, false) => paint(GOOD, "✓"),
            (true, true) => paint(HEAD, "!"),
            (false, _) => paint(BAD, "✗"),
        };
        out += &format!("{mark} {:<10} {}\n", finding.about, finding.found);
        if let Some(mend) = &finding.mend {
            out += &format!("  {:<10} {}\n", "", paint(DIM, mend));
        }
    }
    out
}

fn directory(home: &Home) -> Finding {
    let path = home.path().display();
    match fs::metadata(home.path()) {
        Err(_) => Finding::wrong("home", format!("{path} is not there yet"), "aye up"),
        Ok(found) if found.mode() & 0o077 != 0 => {
            Finding::wrong("home", format!("{path} can be read by others"), format!("chmod 700 {path}"))
        }
        Ok(_) => Finding::fine("home", path.to_string()),
    }
}

fn files(home: &Home) -> Finding {
    let keys = home.operator_token().parent().map(ToOwned::to_owned).filter(|keys| keys != home.path());
    let folders = [Some(home.path().to_owned()), keys].into_iter().flatten();
    let entries = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let open = entries.filter(|entry| entry.metadata().is_ok_and(|found| found.mode() & 0o077 != 0));
    let open: Vec<_> = open.map(|entry| entry.path().display().to_string()).collect();
    match open.is_empty() {
        true => Finding::fine("files", "for you alone"),
        false => {
            let list = open.join(" ");
            Finding::wrong("files", format!("others can read {list}"), format!("chmod go= {list}"))
        }
    }
}

async fn config(home: &Home) -> Finding {
    let path = home.config().display().to_string();
    let hub = match Client::for_person(home) {
        Ok(client) => client.call(&calls::POLICY, "", &(), &(), Try::Once).await.ok(),
        Err(_) => None,
    };
    let in_force = hub.is_some();
    let (problem, meanwhile) = hub.map_or((None, None), |policy| (policy.problem, policy.meanwhile));
    let problem = match Config::load(&home.config()) {
        Err(error) => error.to_string(),
        Ok(_) => match problem {
            Some(problem) => problem,
            None if home.config().exists() => return Finding::fine("policy", path),
            None => return Finding::fine("policy", format!("no {path}: everything is asked")),
        },
    };
    let meanwhile = meanwhile.unwrap_or_else(|| match in_force {
        true => "The last working policy stays in force.".to_owned(),
        false => "A hub that starts now allows nothing automatically; where a passkey is registered or was \
                 asked for, allowing takes one."
            .to_owned(),
    });
    let found = format!("{path} is broken. {meanwhile}\n{problem}");
    Finding::wrong("policy", found, format!("fix {path}; it takes effect when you save it"))
}

/// Which rules cover less than it seems, and which more.
fn rules(home: &Home) -> Finding {
    let Ok(Config { policy, .. }) = Config::load(&home.config()) else {
        return Finding::fine("rules", "not looked at: config.toml is broken");
    };
    let (mut told, mut mend) = (vec![], vec![]);
    let lost = policy::lost_lately(home, &policy, Timestamp::now()).unwrap_or_default();
    for rule in policy.rules() {
        let less = lost.iter().find(|lost| lost.rule == rule.id);
        let notes = policy::rule_notes(rule, less).into_iter();
        told.extend(notes.map(|note| one_line(&format!("rule {}: {note}", rule.id)).into_owned()));
        if let Some(LostByRule { add, .. }) = less.filter(|lost| !lost.add.is_empty()) {
            let add = format!("rule {}: add {} to allow these again", rule.id, add.join(" "));
            mend.push(one_line(&add).into_owned());
        }
    }
    let indent = format!("\n{:13}", "");
    let found = match told.is_empty() {
        true => format!("{} in order", policy.rules().len()),
        false => told.join(&indent),
    };
    let fine = policy.rules().iter().all(|rule| rule.suspended.is_none());
    let mend = (!mend.is_empty()).then(|| mend.join(&indent));
    Finding { about: "rules", fine, notable: !told.is_empty(), found, mend }
}

async fn telegram(home: &Home) -> Finding {
    let (config, off) = Config::for_surfaces(&home.config());
    if let Some(off) = off.into_iter().find(|off| off.starts_with("Telegram")) {
        return Finding::wrong("telegram", off, "fix it; it takes effect when you save it");
    }
    let telegram = match Telegram::load(&config, home) {
        Ok(telegram) => telegram,
        Err(error) => {
            let words = error.to_string();
            let (found, mend) =
                words.split_once('\n').unwrap_or((&words, "fix it; it takes effect when you save it"));
            return Finding::wrong("telegram", found, mend.trim());
        }
    };
    match telegram.check().await {
        Ok(found) => Finding::fine("telegram", found),
        Err((found, mend)) => Finding::wrong("telegram", found, mend),
    }
}

/// Without one, what takes a passkey can only be refused.
fn passkeys(home: &Home) -> Finding {
    let needed = Config::load(&home.config()).map(|config| config.policy.asks_for_proof());
    let database = store::open_to_look(home).ok().flatten();
    let there = database.map(|database| database.passkeys_to_check().unwrap_or_default().len());
    match (there.unwrap_or_default(), needed.as_ref().is_ok_and(|needed| *needed)) {
        (0, _) if needed.is_err() => Finding::fine("passkeys", "none; config.toml cannot be read"),
        (0, true) => Finding::wrong(
            "passkeys",
            "config.toml asks for a passkey, and none is registered: such requests can only be refused",
            "aye passkey add",
        ),
        (0, false) => Finding::fine("passkeys", "none, and config.toml asks for none"),
        (1, _) => {
            Finding::fine("passkeys", "one is registered; a second one is your way back if you lose it")
        }
        (count, _) => Finding::fine("passkeys", format!("{count} are registered")),
    }
}

fn trail(home: &Home) -> Finding {
    let verified = match store::open_to_look(home) {
        Ok(None) => return Finding::wrong("trail", "there is none yet", "aye up"),
        Ok(Some(database)) => {
            let against = Against::in_home(home).map_err(anyhow::Error::from);
            against.and_then(|against| Ok(database.verify(&against, |_, _| {})?))
        }
        Err(error) => Err(error.into()),
    };
    match verified {
        Ok(verified) if !verified.unchecked.is_empty() => Finding::wrong(
            "trail",
            verified.unchecked.join(" "),
            "put chain.key back from a copy; what it says of the past stays unchecked without it",
        ),
        Ok(verified) => {
            Finding::fine("trail", format!("whole: {} lines, {} asks", verified.lines, verified.asks))
        }
        Err(error) => {
            Finding::wrong("trail", error.to_string(), "keep a copy of aye.db, then look with: aye log")
        }
    }
}

async fn hub(home: &Home) -> Finding {
    let health = match Client::for_person(home) {
        Ok(client) => client.call(&calls::HEALTH, "", &(), &(), Try::Once).await.map_err(anyhow::Error::from),
        Err(error) => Err(error),
    };
    let ours = env!("CARGO_PKG_VERSION");
    match health {
        Ok(health) if health.version == ours => Finding::fine("hub", format!("running, version {ours}")),
        Ok(health) => {
            let theirs = one_line(&health.version);
            Finding::wrong(
                "hub",
                format!("version {theirs} is running, this is {ours}"),
                "restart it: aye up",
            )
        }
        Err(error) => {
            let refused = matches!(error.downcast_ref(), Some(CallError::Refused { .. }));
            let mend = if refused { "look at the database; the hub goes on by itself" } else { "aye up" };
            Finding::wrong("hub", error.to_string().lines().next().unwrap_or_default(), mend)
        }
    }
}

async fn token(home: &Home) -> Finding {
    let me = match Client::for_person(home) {
        Ok(client) => client.me().await,
        Err(error) => return Finding::wrong("token", error.to_string(), "set AYE_TOKEN"),
    };
    match me {
        Ok(me) if me.role == Role::Operator => {
            Finding::fine("token", format!("operator, as {}", one_line(me.name.as_str())))
        }
        Ok(me) => Finding::wrong(
            "token",
            format!("its role is {}, which cannot answer", me.role),
            "aye token create --role operator",
        ),
        Err(CallError::Refused { error, .. }) => {
            Finding::wrong("token", error, "unset AYE_TOKEN, or restart the hub to make a new operator.token")
        }
        Err(_) => Finding::wrong("token", "cannot be tried without a hub", "aye up"),
    }
}

/// None of them is needed: scripts can ask all the same.
fn agents(found: &[FoundAgent]) -> Finding {
    let indent = format!("\n{:13}", "");
    // What is here comes first.
    let (here, others): (Vec<_>, Vec<_>) = found.iter().partition(|agent| agent.is_here());
    let lines = here.into_iter().chain(others).map(FoundAgent::in_words);
    Finding::fine("agents", lines.collect::<Vec<_>>().join(&indent))
}
