//! The audit trail: what happened, in order. Each line contains the hash of the one before it.

use crate::digest::{hex, sha256_hex, write_canonical, write_string};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;
use std::fmt::Write;

/// The previous hash of the first line.
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
    /// The hash of this line, which the next line contains. With a key it is a MAC: nobody else can compute it.
    pub fn hash(&self, previous: &str, key: Option<&ChainKey>) -> String {
        let mut text = String::with_capacity(512);
        text.push_str(previous);
        text.push('\n');
        self.write_canonical(&mut text);
        match key {
            Some(key) => key.tag("line of the trail", &text),
            None => sha256_hex(text.as_bytes()),
        }
    }

    /// As canonical JSON, which has its fields in this order. Every change writes a line, so no tree is built for it.
    fn write_canonical(&self, out: &mut String) {
        let optional = |text: &Option<String>, out: &mut String| match text {
            Some(text) => write_string(text, out),
            None => out.push_str("null"),
        };
        out.push_str("{\"agent\":");
        optional(&self.agent, out);
        out.push_str(",\"ask\":");
        optional(&self.ask, out);
        // Writing to a String cannot fail.
        write!(out, ",\"at\":\"{}\",\"detail\":", self.at).unwrap_or_default();
        write_canonical(&self.detail, out);
        out.push_str(",\"kind\":");
        write_string(&self.kind, out);
        write!(out, ",\"seq\":{},\"who\":", self.seq).unwrap_or_default();
        write_string(&self.who, out);
        out.push('}');
    }
}

/// A secret of the hub, used for MACs over what it wrote or said.
#[derive(Clone)]
pub struct ChainKey {
    bytes: [u8; 32],
    /// A MAC that has taken in the key and nothing else, which is half of the work for a short text.
    begun: Hmac<Sha256>,
}

impl PartialEq for ChainKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for ChainKey {}

impl ChainKey {
    pub fn new(bytes: [u8; 32]) -> Self {
        // HMAC pads short keys with zeros, so the key is used as it is.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&bytes);
        Self { bytes, begun: Hmac::new(&block.into()) }
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// An identifier for the key that does not reveal it.
    pub fn id(&self) -> String {
        self.tag("name of this key", "")[..16].to_owned()
    }

    /// The MAC of a text for one purpose; it is not valid for any other purpose.
    pub fn tag(&self, purpose: &str, text: &str) -> String {
        hex(&self.tag_bytes(purpose, text))
    }

    /// The same as it is computed.
    pub fn tag_bytes(&self, purpose: &str, text: &str) -> [u8; 32] {
        let mut mac = self.begun.clone();
        for part in ["aye ", purpose, "\n", text] {
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

/// Checks a chain line by line and reports where it breaks.
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
    #[error("line {expected} is missing: line {found} is in its place")]
    Gap { expected: u64, found: u64 },
    #[error("line {0} is not what was written: its hash does not fit")]
    Changed(u64),
}

impl Chain {
    pub fn follow(&mut self, line: &Line, hash: &str, key: Option<&ChainKey>) -> Result<(), Broken> {
        if line.seq == self.lines + 1 && line.hash(&self.head, key) != hash {
            return Err(Broken::Changed(line.seq));
        }
        self.pass_by(line.seq, hash)
    }

    /// Takes a line whose key is missing: only its position can be checked.
    pub fn pass_by(&mut self, seq: u64, hash: &str) -> Result<(), Broken> {
        let expected = self.lines + 1;
        if seq != expected {
            return Err(Broken::Gap { expected, found: seq });
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

    fn written(count: u64, key: Option<&ChainKey>) -> Vec<(Line, String)> {
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
                previous = line(seq).hash(&previous, key);
                (line(seq), previous.clone())
            })
            .collect()
    }

    fn follow(lines: &[(Line, String)], key: Option<&ChainKey>) -> Result<Chain, Broken> {
        let mut chain = Chain::default();
        for (line, hash) in lines {
            chain.follow(line, hash, key)?;
        }
        Ok(chain)
    }

    #[test]
    fn a_line_is_hashed_as_its_canonical_json() {
        let detail = json!({"z": [1, 2.5], "a": {"text": "\u{1}\"é\\"}});
        let lines = written(2, None);
        let texts = [None, Some("a \"name\"\n".to_owned())];
        for text in texts {
            let (agent, ask, detail) = (text.clone(), text, detail.clone());
            let at = Timestamp::from_millisecond(1_234_567).unwrap();
            let line = Line { agent, ask, detail, at, ..lines[0].0.clone() };
            let mut direct = String::new();
            line.write_canonical(&mut direct);
            assert_eq!(direct, crate::digest::canonical(&json!(line)));
        }
    }

    #[test]
    fn a_whole_chain_verifies_to_its_last_hash() {
        let lines = written(3, None);
        assert_eq!(follow(&lines, None).unwrap(), Chain { head: lines[2].1.clone(), lines: 3 });
    }

    #[test]
    fn a_changed_a_missing_and_a_swapped_line_break_it() {
        let mut changed = written(3, None);
        changed[1].0.who = "somebody else".into();
        assert_eq!(follow(&changed, None), Err(Broken::Changed(2)));

        let mut cut = written(3, None);
        cut.remove(1);
        assert_eq!(follow(&cut, None), Err(Broken::Gap { expected: 2, found: 3 }));

        let mut rewritten = written(3, None);
        rewritten[1].0.who = "somebody else".into();
        rewritten[1].1 = rewritten[1].0.hash(&rewritten[0].1, None);
        assert_eq!(follow(&rewritten, None), Err(Broken::Changed(3)));
    }

    #[test]
    fn keyed_lines_fit_with_their_key_and_with_no_other() {
        let (key, other) = (ChainKey::new([1; 32]), ChainKey::new([2; 32]));
        let lines = written(3, Some(&key));
        assert_eq!(follow(&lines, Some(&key)).unwrap().lines, 3);
        assert_eq!(follow(&lines, Some(&other)), Err(Broken::Changed(1)));
        assert_eq!(follow(&lines, None), Err(Broken::Changed(1)));
        assert_ne!(key.id(), other.id());
        assert_ne!(key.tag("a", "b"), key.tag("b", "a"));
    }
}
