use super::progress::Progress;
use super::{Done, say, verify};
use crate::home::Home;
use crate::store::{self, Doing, Step};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Move what the hub keeps to another database.
#[derive(Args)]
pub struct Store {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    Copy(Copy),
}

/// Copy aye.db into an empty PostgreSQL database.
#[derive(Args)]
#[command(after_help = "\
Takes everything along: requests, agents, tokens, grants, conversations, passkeys and the audit
log. No hub may run on AYE_HOME meanwhile. If it is cut off, run it again: it goes on where it was,
and until it is complete no hub uses the database. aye.db stays as it is.

The password is taken from the URL, --password-file, PGPASSWORD or ~/.pgpass.

Example:
  aye store copy --to postgres://aye@db.example/aye")]
struct Copy {
    /// The PostgreSQL database, which must be empty
    #[arg(long, value_name = "URL")]
    to: String,
    /// A file with the password of the database
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// What a hub on another machine needs beside the database.
const FILES: [(&str, &str); 5] = [
    ("chain.key", "the key of the audit log; without it the database is refused"),
    ("chain.head", "the newest entry of the log that this home has seen"),
    ("agent.key", "what agents' tokens are made from"),
    ("operator.token", "your token"),
    ("config.toml", "the rules, and [store] with the URL of the database"),
];

impl Store {
    pub fn run(self, home: &Home) -> Done {
        match self.command {
            StoreCommand::Copy(copy) => copy.run(home),
        }
    }
}

impl Copy {
    fn run(self, home: &Home) -> Done {
        let path = home.database();
        anyhow::ensure!(path.exists(), "there is no {}: nothing to copy", path.display());
        let _lock = home.lock().context("nothing was copied")?;
        let mut bar = Progress::new();
        let copied = store::copy(home, &self.to, self.password_file.as_deref(), |step| show(&mut bar, &step));
        bar.clear();
        let copied = copied?;
        say(&format!(
            "\nEverything in {} is in {} now, and the same on both sides.\n{}\n{}",
            path.display(),
            copied.place,
            verify::in_words(&copied.verified),
            next_steps(home.path())
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A line for each table that is done, and a bar while something takes its time.
fn show(bar: &mut Progress, step: &Step) {
    let of = match step.doing {
        Doing::Checking => format!("lines of {} checked", step.what),
        Doing::Copying => format!("rows of {} copied", step.what),
        Doing::Comparing => format!("rows of {} compared", step.what),
    };
    if step.doing == Doing::Copying && step.done == step.all {
        bar.clear();
        // Who does not look on any more does not stop a copy.
        drop(say(&format!("{:<15} {:>9}\n", step.what, step.all)));
    } else if step.doing == Doing::Copying || verify::is_shown(step.done) {
        bar.show(&of, step.done, step.all);
    }
}

fn next_steps(home: &Path) -> String {
    let files: Vec<_> = FILES.iter().map(|(name, what)| format!("  {name:<15} {what}\n")).collect();
    format!(
        "To go on there, add the database to config.toml and start the hub:\n\n  [store]\n  url = \"postgres://…\"\n\n\
         A hub on another machine needs these files of {} in its AYE_HOME, and telegram.token if there is one:\n\
         {}\nKeep aye.db as a backup and start no hub on it any more: what it wrote would not be in the new database.\n",
        home.display(),
        files.concat()
    )
}
