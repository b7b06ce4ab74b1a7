//! A MAC with the key of the trail over what counts of each row that the hub relies on: one that anybody else wrote
//! counts for nothing, nor does an earlier state of one that stands (`live_rows.rs`).
//!
//! What is marked comes from the program, never from the stored row: a trigger could have changed that one.

use super::live_rows::LiveRows;
use super::sql::{Connection, Row, params};
use super::{Reader, StoreError, Tx};
use crate::home::RowMarks;
use aye_core::digest::{hex, write_string};
use aye_core::trail::ChainKey;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::fmt::Write;
use std::ops::ControlFlow;
use subtle::ConstantTimeEq;

/// A table whose rows carry MACs.
pub struct Marked {
    pub table: &'static str,
    /// Its columns that count, the row's name first. What ends a row (`ended_at`, `revoked_at`, `removed_at`) is not among
    /// them: a row that has ended does not stand any more.
    pub columns: &'static str,
    /// What a row is called when it is reported.
    name: &'static str,
    /// The rows that were marked when MACs came.
    pub taken_over: &'static str,
    /// The rows that have none only if somebody else wrote them.
    must: &'static str,
}

const fn all_of(table: &'static str, columns: &'static str, name: &'static str) -> Marked {
    Marked { table, columns, name, taken_over: "TRUE", must: "TRUE" }
}

pub const GRANTS: Marked = all_of("grants", "id, body", "id");
pub const OUTLINES: Marked = all_of("outlines", "agent, body", "agent");
pub const TOKENS: Marked = all_of(
    "tokens",
    "id, hash, role, agent, name, surface, created_at, expires_at, public_key, origin",
    "id",
);
pub const PASSKEYS: Marked = all_of("passkeys", "id, credential, key, name, rp, created_at", "id");
/// Not what an agent reports of its state, its cost and its mode: nothing is decided by that.
pub const AGENTS: Marked = all_of(
    "agents",
    "id, kind, reach, host, cwd, first_cwd, title, session, tmux, pid, pid_started, created_at",
    "id",
);
/// The same as earlier versions marked it.
pub const AGENTS_BEFORE: Marked =
    Marked { columns: "id, kind, host, cwd, first_cwd, pid, pid_started", ..AGENTS };
/// Asks are many, and of those that ended long ago nobody waits for the outcome any more.
pub const ASKS: Marked = Marked {
    taken_over: "n > (SELECT max(n) FROM asks) - 100000 OR state = 'open' OR receipt = 'pending'",
    must: "(mac IS NOT NULL OR state = 'open' OR receipt = 'pending')",
    ..all_of(
        "asks",
        "id, agent, key, tool_use_id, sub_agent, cwd_checked, digest, created_at, deadline, proof, \
         state, answer, by, why, ended_at",
        "id",
    )
};
pub const COMMANDS: Marked = all_of("commands", "n, agent, body", "n");
pub const MEMORY: Marked = all_of("memory", "surface, kind, key, body", "concat_ws(' ', surface, kind, key)");

pub const TABLES: [Marked; 8] = [GRANTS, OUTLINES, TOKENS, PASSKEYS, AGENTS, ASKS, COMMANDS, MEMORY];

impl Marked {
    /// How many columns count.
    pub const fn len(&self) -> usize {
        let (mut i, mut len) = (0, 1);
        while i < self.columns.len() {
            if self.columns.as_bytes()[i] == b',' {
                len += 1;
            }
            i += 1;
        }
        len
    }

    /// What a statement selects first, so that its rows can be checked: the MAC and what it is over.
    pub fn selected(&self) -> String {
        format!("mac, {}", self.columns)
    }

    /// The MAC of a row with these values, one for each column.
    pub fn mac(&self, key: &ChainKey, values: &[&dyn ToSql]) -> Result<String, StoreError> {
        let mut text = RowText::default();
        for value in values {
            match value.to_sql()? {
                ToSqlOutput::Owned(owned) => text.add(ValueRef::from(&owned)),
                ToSqlOutput::Borrowed(borrowed) => text.add(borrowed),
                _ => return Err(StoreError::Unreadable("a value that is none".to_owned())),
            }
        }
        Ok(text.tag(key, self.table))
    }

    /// Whether this row is exactly as the hub wrote it. It was read with what `selected` names from column `first` on.
    fn is_ours(
        &self,
        row: &Row,
        first: usize,
        key: &ChainKey,
        live_rows: Option<(&LiveRows, Option<u64>)>,
    ) -> Result<bool, StoreError> {
        let given = row.value(first)?.as_str_or_null().ok().flatten().unwrap_or_default();
        if given.is_empty() {
            return Ok(false);
        }
        let mut text = RowText::default();
        for column in first + 1..=first + self.len() {
            text.add(row.value(column)?);
        }
        let good = text.tag(key, self.table);
        let is_ours = bool::from(good.as_bytes().ct_eq(given.as_bytes()));
        Ok(is_ours
            && match live_rows {
                Some((live_rows, moment)) => {
                    live_rows.is_newest(self.table, &in_words(row.value(first + 1)?), given, moment)
                }
                None => true,
            })
    }

    /// The MAC of a row that was read with what `selected` names first, if that is the MAC it must have.
    pub fn mac_if_ours(&self, row: &Row, key: &ChainKey) -> Result<Option<String>, StoreError> {
        match self.is_ours(row, 0, key, None)? {
            true => row.get(0).map(Some),
            false => Ok(None),
        }
    }
}

impl Tx<'_> {
    /// The MAC of a row that is about to be written with these values.
    pub(super) fn mac(&self, marked: &Marked, values: &[&dyn ToSql]) -> Result<String, StoreError> {
        marked.mac(self.key, values)
    }
}

impl Reader {
    /// Whether the hub wrote a row, and nobody put an earlier state of it back. Who only looks cannot know that.
    pub(super) fn is_ours(&self, marked: &Marked, row: &Row, first: usize) -> Result<bool, StoreError> {
        match self.key() {
            Some(key) => {
                marked.is_ours(row, first, key, self.live_rows().map(|live_rows| (live_rows, self.moment())))
            }
            None => Ok(false),
        }
    }

    pub(super) fn check_ours(&self, marked: &Marked, row: &Row) -> Result<(), StoreError> {
        match self.is_ours(marked, row, 0)? {
            true => Ok(()),
            false => Err(StoreError::Foreign { table: marked.table, id: in_words(row.value(1)?) }),
        }
    }
}

/// The table and the name of a row that has no good MAC and must have one.
pub fn first_foreign(
    connection: &Connection,
    key: &ChainKey,
    marks: RowMarks,
) -> Result<Option<(&'static str, String)>, StoreError> {
    for mut marked in TABLES {
        if marks == RowMarks::Macs && marked.table == AGENTS.table {
            // No hub of this version has opened it yet.
            marked = AGENTS_BEFORE;
        }
        let Marked { table, name, must, .. } = marked;
        let sql = format!("SELECT {}, {name} FROM {table} WHERE {must}", marked.selected());
        let mut found = None;
        connection.each(&sql, params![], |row| {
            if !marked.is_ours(row, 0, key, None)? {
                found = Some((table, in_words(row.value(marked.len() + 1)?)));
            }
            Ok::<_, StoreError>(match found {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            })
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// A row that is not ours, or makes no sense, is reported and holds up no other.
pub fn pass_by<T>(table: &str, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(row) => Ok(Some(row)),
        Err(why @ (StoreError::Foreign { .. } | StoreError::Unreadable(_))) => {
            tracing::error!(table, %why, "a row of the database counts for nothing; run `aye verify`");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub fn in_words(value: ValueRef) -> String {
    match value {
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => "?".to_owned(),
    }
}

/// What the MAC of a row is over: its values as an array in canonical JSON. Every row that is read or written for a decision
/// comes by here, so no tree is built for it.
#[derive(Default)]
pub struct RowText(String);

impl RowText {
    pub fn add(&mut self, value: ValueRef) {
        let out = &mut self.0;
        out.push(if out.is_empty() { '[' } else { ',' });
        let named = |name: &str, bytes: &[u8]| format!("{{\"{name}\":\"{}\"}}", hex(bytes));
        match value {
            ValueRef::Null => out.push_str("null"),
            // Writing to a String cannot fail.
            ValueRef::Integer(number) => write!(out, "{number}").unwrap_or_default(),
            ValueRef::Real(number) => write!(out, "{{\"real\":{}}}", number.to_bits()).unwrap_or_default(),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => write_string(text, out),
                Err(_) => out.push_str(&named("text", text)),
            },
            ValueRef::Blob(bytes) => out.push_str(&named("blob", bytes)),
        }
    }

    pub fn tag(mut self, key: &ChainKey, table: &str) -> String {
        self.0.push_str(if self.0.is_empty() { "[]" } else { "]" });
        key.tag(&format!("row of {table}"), &self.0)
    }
}

impl<'v> FromIterator<ValueRef<'v>> for RowText {
    fn from_iter<T: IntoIterator<Item = ValueRef<'v>>>(values: T) -> Self {
        let mut text = Self::default();
        values.into_iter().for_each(|value| text.add(value));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::digest::canonical;
    use proptest::prelude::*;
    use rusqlite::types::Value as Stored;
    use serde_json::{Value, json};

    fn in_json(value: &Stored) -> Value {
        match value {
            Stored::Null => Value::Null,
            Stored::Integer(number) => json!(number),
            Stored::Real(number) => json!({ "real": number.to_bits() }),
            Stored::Text(text) => json!(text),
            Stored::Blob(bytes) => json!({ "blob": hex(bytes) }),
        }
    }

    fn stored() -> impl Strategy<Value = Stored> {
        prop_oneof![
            Just(Stored::Null),
            any::<i64>().prop_map(Stored::Integer),
            any::<f64>().prop_map(Stored::Real),
            any::<String>().prop_map(Stored::Text),
            "[\\x00-\\x7f]{0,20}".prop_map(Stored::Text),
            any::<Vec<u8>>().prop_map(Stored::Blob),
        ]
    }

    proptest! {
        #[test]
        fn a_mac_is_over_the_values_in_canonical_json(row in prop::collection::vec(stored(), 0..6)) {
            let key = ChainKey::new([7; 32]);
            let text = canonical(&Value::Array(row.iter().map(in_json).collect()));
            let written: RowText = row.iter().map(ValueRef::from).collect();
            prop_assert_eq!(written.tag(&key, "asks"), key.tag("row of asks", &text));
        }
    }

    #[test]
    fn text_that_is_none_is_told_from_a_blob_and_from_its_own_digits() {
        let of = |value| RowText::from_iter([value]).0;
        assert_eq!(of(ValueRef::Text(b"\xff\"")), r#"[{"text":"ff22"}"#);
        assert_eq!(of(ValueRef::Blob(b"\xff\"")), r#"[{"blob":"ff22"}"#);
        assert_eq!(of(ValueRef::Text(b"ff22")), r#"["ff22""#);
    }
}
