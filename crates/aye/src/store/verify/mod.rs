//! Checks the trail: that it is whole, and that asks, grants, tokens and the policy are as it says. Every kind of
//! line has its checker, which takes the lines in order and in the end compares what they told with what is there.

mod agents;
mod approvals;
mod asks;
mod chain;
mod grants;
mod passkeys;
mod policy;
mod tokens;

use super::{Reader, StoreError, head};
use crate::home::{ChainKeyFile, Home, RowMarks};
use agents::Agents;
use approvals::Approvals;
use asks::Asks;
use aye_core::trail::{Broken, Chain, Line};
use chain::Following;
use grants::Grants;
use passkeys::Passkeys;
use policy::PolicyRead;
use tokens::Tokens;

/// What the trail is checked against, beside the database.
#[derive(Default)]
pub struct Against {
    pub key: Option<ChainKeyFile>,
    /// The newest line that the hub noted beside the database. Read before the database is, it is older or the same.
    pub head: Option<Chain>,
    /// The digest of `config.toml` as it is now.
    pub config: Option<String>,
    /// A head that was noted earlier.
    pub contains: Option<String>,
}

impl Against {
    pub fn in_home(home: &Home) -> std::io::Result<Self> {
        let config = crate::config::digest_of(&home.config()).ok();
        let head = head::read(&home.chain_head_file())?;
        Ok(Self { key: home.chain_key()?, head, config, contains: None })
    }
}

/// What a check of the trail found when it found nothing wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub lines: u64,
    pub asks: u64,
    pub grants: u64,
    pub tokens: u64,
    pub head: String,
    /// What could not be checked, and why.
    pub unchecked: Vec<String>,
    /// What is good to know.
    pub remarks: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("the chain is broken: {0}")]
    Chain(#[from] Broken),
    #[error("the keyed part of the trail: {0}")]
    Keyed(String),
    #[error("the trail does not contain that head: its end was cut off, or it is another trail")]
    Cut,
    #[error(
        "line {line} is not the one that chain.head names: the end of the trail was cut off, or another trail was \
         put in its place"
    )]
    Replaced { line: u64 },
    #[error("the database is not as this program made it: {}", .0.join(", "))]
    Schema(Vec<String>),
    #[error("the file of the database is damaged: {0}")]
    Damaged(String),
    #[error("{table} {name}: it was not written by the hub, or changed since")]
    Row { table: &'static str, name: String },
    #[error("asks were raised or ended behind the trail's back")]
    Untold,
    #[error("ask {ask}: {problem}")]
    Ask { ask: String, problem: &'static str },
    #[error("agent {agent}: {problem}")]
    Agent { agent: String, problem: &'static str },
    #[error(
        "agents, their processes, grants, tokens, passkeys or approvals in advance are not as the hub left them"
    )]
    Standing,
    #[error("grant {grant}: {problem}")]
    Grant { grant: String, problem: &'static str },
    #[error("token {token}: {problem}")]
    Token { token: String, problem: &'static str },
    #[error("line {line}: {problem}")]
    Passkey { line: u64, problem: &'static str },
    #[error("passkey {passkey}: {problem}")]
    Registered { passkey: String, problem: &'static str },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Follows the chain from its first line, and compares what it tells with the database. `progress` is told how many
/// lines of how many are done.
pub(super) fn verify(
    db: &Reader,
    against: &Against,
    mut progress: impl FnMut(u64, u64),
) -> Result<Verified, VerifyError> {
    let total = db.count_lines()?;
    let mut chain = Following::new(against);
    let (mut asks, mut grants) = (Asks::new(db), Grants::new(db));
    let (mut tokens, mut policy) = (Tokens::default(), PolicyRead::default());
    let (mut passkeys, mut approvals) = (Passkeys::default(), Approvals::default());
    let mut agents = Agents::default();
    db.whole_trail(|line, hash| {
        chain.take(&line, &hash)?;
        passkeys.take(&line)?;
        match topic(&line) {
            "ask" | "receipt" => asks.take(&line)?,
            "grant" => grants.take(&line)?,
            "token" => tokens.take(&line)?,
            "agent" => {
                agents.take(&line)?;
                grants.take_agent(&line);
            }
            "hub" => {
                policy.take(&line);
                tokens.take_start(&line)?;
            }
            "policy" => policy.take(&line),
            // Nothing in the database depends on the others.
            _ => {}
        }
        approvals.take(&line, &asks, &grants)?;
        progress(line.seq, total);
        Ok::<_, VerifyError>(())
    })?;
    let asks = asks.finish()?;
    let grants = grants.finish()?;
    let tokens = tokens.finish(db)?;
    passkeys.finish(db)?;
    agents.finish(db)?;
    let mut verified = Verified {
        lines: chain.lines(),
        asks,
        grants,
        tokens,
        head: chain.head().to_owned(),
        unchecked: Vec::new(),
        remarks: policy.remarks(against),
    };
    chain.finish(db.is_from_before_keys()?, &mut verified)?;
    let differences = db.schema_differences()?;
    if !differences.is_empty() {
        return Err(VerifyError::Schema(differences));
    }
    db.check_file()?;
    // Compared last: where the trail knows more of a row, that was said.
    if let Some(file) = against.key.as_ref().filter(|file| file.marks != RowMarks::None) {
        if let Some((table, name)) = db.first_foreign(&file.key, file.marks)? {
            return Err(VerifyError::Row { table, name });
        }
        let end = Chain { lines: verified.lines, head: verified.head.clone() };
        if file.marks == RowMarks::Standing && !db.live_rows_are_as_left(&file.key, &end)? {
            return Err(VerifyError::Standing);
        }
    }
    Ok(verified)
}

/// What a line is about: the first word of its kind.
fn topic(line: &Line) -> &str {
    line.kind.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
