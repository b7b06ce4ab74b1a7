//! The `aye.db` that is copied.

use super::super::sql::Connection;
use super::super::{Reader, sqlite};
use super::{CopyError, Table};
use rusqlite::Statement;
use rusqlite::types::{Value, ValueRef};
use std::path::Path;

/// A batch has no more rows than this, and ends with the row that makes it larger than this.
const MOST_ROWS: usize = 1_000;
const LARGE_BYTES: usize = 4 * 1024 * 1024;

pub struct Source<'a>(&'a rusqlite::Connection);

impl<'a> Source<'a> {
    /// A database with the newest schema. It is only read.
    pub fn open(path: &Path) -> Result<Reader, CopyError> {
        if !path.exists() {
            return Err(CopyError::NoSource(path.to_owned()));
        }
        let reader = sqlite::open_to_read(path)?;
        match sqlite::schema_version(Source::of(&reader)?.0)? == sqlite::MIGRATIONS.len() {
            true => Ok(reader),
            false => Err(CopyError::OldSource(path.to_owned())),
        }
    }

    pub fn of(reader: &'a Reader) -> Result<Self, CopyError> {
        match &reader.connection {
            Connection::Sqlite(connection) => Ok(Self(connection)),
            Connection::Postgres(_) => Err(super::StoreError::Closed.into()),
        }
    }

    pub fn count(&self, table: &Table) -> Result<u64, CopyError> {
        self.number(&format!("SELECT count(*) FROM {}", table.from))
    }

    pub fn number(&self, sql: &str) -> Result<u64, CopyError> {
        Ok(self.0.query_row(sql, [], |row| row.get(0))?)
    }

    /// All of them, by their names there: one that PostgreSQL does not have would be refused, not left out.
    pub fn columns(&self, table: &Table) -> Result<Vec<String>, CopyError> {
        let statement = self.0.prepare(&format!("SELECT * FROM {}", table.from))?;
        Ok(statement.column_names().map(|name| format!("\"{name}\"")).collect())
    }

    /// The rows of a table in the order of its key, without the first so many.
    pub fn select(&self, table: &Table, skipped: u64) -> Result<Statement<'a>, CopyError> {
        let Table { from, key, .. } = table;
        Ok(self.0.prepare(&format!("SELECT * FROM {from} ORDER BY {key} LIMIT -1 OFFSET {skipped}"))?)
    }

    /// The same in batches.
    pub fn batches(
        &self,
        table: &'static Table,
        skipped: u64,
        mut take: impl FnMut(Vec<Vec<Value>>) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let mut statement = self.select(table, skipped)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let mut values = Vec::with_capacity(columns);
            for i in 0..columns {
                let value = row.get_ref(i)?;
                bytes += size(value);
                values.push(fitting(value).ok_or_else(|| unfit(table, row))?);
            }
            batch.push(values);
            if batch.len() >= MOST_ROWS || bytes >= LARGE_BYTES {
                take(std::mem::take(&mut batch))?;
                bytes = 0;
            }
        }
        if batch.is_empty() { Ok(()) } else { take(batch) }
    }
}

fn size(value: ValueRef) -> usize {
    match value {
        ValueRef::Null => 1,
        ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
    }
}

/// None for text that PostgreSQL cannot keep.
fn fitting(value: ValueRef) -> Option<Value> {
    match value {
        ValueRef::Text(text) if text.contains(&0) => None,
        ValueRef::Text(text) => std::str::from_utf8(text).ok().map(|text| Value::Text(text.to_owned())),
        other => other.try_into().ok(),
    }
}

fn unfit(table: &'static Table, row: &rusqlite::Row) -> CopyError {
    let row = row.get_ref(0).map(super::super::row_mac::in_words).unwrap_or_default();
    CopyError::Text { table: table.name, row }
}
