//! The audit trail: what happened, in order, each line bound to the one before it.

use crate::digest::{canonical, sha256_hex};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The hash before the first line.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One line. `who` is a person, a rule, an agent or the hub itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub seq: u64,
    pub at: Timestamp,
    /// What happened: `ask.raised`, `ask.answered`, `receipt.confirmed`, `token.revoked`, …
    pub kind: String,
    pub who: String,
    pub agent: Option<String>,
    pub ask: Option<String>,
    pub detail: Value,
}

impl Line {
    /// The hash of this line, which the next line is bound to.
    pub fn hash(&self, previous: &str) -> String {
        let line = serde_json::to_value(self).unwrap_or(Value::Null);
        sha256_hex(format!("{previous}\n{}", canonical(&line)).as_bytes())
    }
}

/// Follows the chain line by line and says where it breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    pub head: String,
    pub lines: u64,
}

impl Default for Chain {
    fn default() -> Self {
        Self { head: GENESIS.to_owned(), lines: 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("line {expected} is missing: line {found} stands in its place")]
    Gap { expected: u64, found: u64 },
    #[error("line {0} is not what was written: its hash does not fit")]
    Changed(u64),
}

impl Chain {
    pub fn follow(&mut self, line: &Line, hash: &str) -> Result<(), Broken> {
        let expected = self.lines + 1;
        if line.seq != expected {
            return Err(Broken::Gap { expected, found: line.seq });
        }
        if line.hash(&self.head) != hash {
            return Err(Broken::Changed(line.seq));
        }
        self.lines = expected;
        self.head = hash.to_owned();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(count: u64) -> Vec<(Line, String)> {
        let mut previous = GENESIS.to_owned();
        let line = |seq| Line {
            seq,
            at: Timestamp::from_second(1).unwrap(),
            kind: "ask.raised".into(),
            who: "hub".into(),
            agent: None,
            ask: None,
            detail: json!({"n": seq}),
        };
        (1..=count)
            .map(|seq| {
                previous = line(seq).hash(&previous);
                (line(seq), previous.clone())
            })
            .collect()
    }

    fn follow(lines: &[(Line, String)]) -> Result<Chain, Broken> {
        let mut chain = Chain::default();
        for (line, hash) in lines {
            chain.follow(line, hash)?;
        }
        Ok(chain)
    }

    #[test]
    fn a_whole_chain_verifies_to_its_last_hash() {
        let lines = written(3);
        assert_eq!(follow(&lines).unwrap(), Chain { head: lines[2].1.clone(), lines: 3 });
    }

    #[test]
    fn a_changed_a_missing_and_a_swapped_line_break_it() {
        let mut changed = written(3);
        changed[1].0.who = "somebody else".into();
        assert_eq!(follow(&changed), Err(Broken::Changed(2)));

        let mut cut = written(3);
        cut.remove(1);
        assert_eq!(follow(&cut), Err(Broken::Gap { expected: 2, found: 3 }));

        let mut rewritten = written(3);
        rewritten[1].0.who = "somebody else".into();
        rewritten[1].1 = rewritten[1].0.hash(&rewritten[0].1);
        assert_eq!(follow(&rewritten), Err(Broken::Changed(3)));
    }
}
