//! SQL as the files of the tables write it: text with parameters, rows with columns. What is called here does not depend
//! on the database; the few words that do are methods of `Connection`.

use super::asks::unreadable;
use super::postgres::{self, Postgres, values};
use super::{OpenError, StoreError, audit, sqlite};
use crate::home::RowMarks;
use aye_core::trail::{Chain, ChainKey};
pub use rusqlite::params;
use rusqlite::types::{FromSql, ToSql, ValueRef};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

/// Changes that share a commit.
pub const LARGEST_GROUP: usize = 256;
const LARGEST_ON_A_SERVER: usize = 64;
const LONGEST_ON_A_SERVER: Duration = Duration::from_millis(5);

pub enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(Box<Postgres>),
}

/// The parameters of a statement: `?1`, `?2`, … or by their names. Names that the statement does not have are left out.
#[derive(Clone, Copy)]
pub enum Params<'a> {
    InOrder(&'a [&'a dyn ToSql]),
    Named(&'a [(&'a str, &'a dyn ToSql)]),
}

impl<'a> From<&'a [&'a dyn ToSql]> for Params<'a> {
    fn from(params: &'a [&'a dyn ToSql]) -> Self {
        Self::InOrder(params)
    }
}

impl<'a> From<&'a [(&'a str, &'a dyn ToSql)]> for Params<'a> {
    fn from(params: &'a [(&'a str, &'a dyn ToSql)]) -> Self {
        Self::Named(params)
    }
}

/// WHERE conditions and their parameters.
#[derive(Default)]
pub struct Conditions<'a> {
    all: Vec<&'a str>,
    values: Vec<(&'a str, &'a dyn ToSql)>,
}

impl<'a> Conditions<'a> {
    pub fn must(&mut self, condition: &'a str) {
        self.all.push(condition);
    }

    /// A condition with one parameter of this name, if there is a value for it.
    pub fn given<T: ToSql>(&mut self, name: &'a str, value: &'a Option<T>, condition: &'a str) {
        if value.is_some() {
            self.all.push(condition);
            self.values.push((name, value));
        }
    }

    /// Only the conditions that were asked for: an index serves no others.
    pub fn text(&self) -> String {
        match self.all.is_empty() {
            true => "TRUE".to_owned(),
            false => self.all.join(" AND "),
        }
    }

    pub fn values(&self) -> &[(&'a str, &'a dyn ToSql)] {
        &self.values
    }
}

/// The pattern of a text that contains this one.
pub fn containing(text: &str) -> String {
    let mut pattern = String::from("%");
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// One row of what was found.
pub enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

/// A column by its name, or by its place, which is quicker.
pub trait Column: rusqlite::RowIndex {
    fn place(&self, row: &tokio_postgres::Row) -> Option<usize>;
}

impl Column for &str {
    fn place(&self, row: &tokio_postgres::Row) -> Option<usize> {
        row.columns().iter().position(|column| column.name() == *self)
    }
}

impl Column for usize {
    fn place(&self, _: &tokio_postgres::Row) -> Option<usize> {
        Some(*self)
    }
}

impl Row<'_> {
    pub fn get<T: FromSql>(&self, column: impl Column) -> Result<T, StoreError> {
        match self {
            Self::Sqlite(row) => Ok(row.get(column)?),
            Self::Postgres(_) => Ok(T::column_result(self.value(column)?)?),
        }
    }

    pub fn value(&self, column: impl Column) -> Result<ValueRef<'_>, StoreError> {
        match self {
            Self::Sqlite(row) => Ok(row.get_ref(column)?),
            Self::Postgres(row) => match column.place(row) {
                Some(place) => values::column(row, place),
                None => Err(StoreError::Unreadable("a column is missing".to_owned())),
            },
        }
    }
}

impl Connection {
    #[cfg(test)]
    pub fn sqlite(&self) -> &rusqlite::Connection {
        match self {
            Self::Sqlite(connection) => connection,
            Self::Postgres(_) => panic!("a test of SQLite"),
        }
    }

    /// How many rows it changed.
    pub fn execute<'p>(&self, sql: &str, params: impl Into<Params<'p>>) -> Result<usize, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                bind(&mut statement, params.into())?;
                Ok(statement.raw_execute()?)
            }
            Self::Postgres(connection) => connection.execute(sql, params.into()),
        }
    }

    /// Inserts a row, and returns the number in `column` that the database gave it.
    pub fn insert<'p>(
        &self,
        sql: &str,
        params: impl Into<Params<'p>>,
        column: &str,
    ) -> Result<i64, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                self.execute(sql, params)?;
                Ok(connection.last_insert_rowid())
            }
            Self::Postgres(_) => self.one_value(&format!("{sql} RETURNING {column}"), params),
        }
    }

    /// The last number that a row of this table was given, also if that row is gone.
    pub fn last_number(&self, table: &str) -> Result<u64, StoreError> {
        let sql = match self {
            Self::Sqlite(_) => "SELECT seq FROM sqlite_sequence WHERE name = ?1",
            Self::Postgres(_) => "SELECT last FROM numbers WHERE name = ?1",
        };
        let last: Option<i64> = self.first(sql, params![table], |row| row.get(0))?;
        Ok(last.unwrap_or(0).cast_unsigned())
    }

    /// Overwrites the rows that it deletes.
    pub fn delete_for_good<'p>(&self, sql: &str, params: impl Into<Params<'p>>) -> Result<usize, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                connection.pragma_update(None, "secure_delete", true)?;
                let deleted = self.execute(sql, params);
                connection.pragma_update(None, "secure_delete", false)?;
                deleted
            }
            // Where the server keeps what it deleted, and for how long, is its operator's to say.
            Self::Postgres(_) => self.execute(sql, params),
        }
    }

    /// Whether nothing that was deleted is left in the database's log.
    pub fn empty_log(&self) -> bool {
        match self {
            Self::Sqlite(connection) => sqlite::empty_log(connection),
            Self::Postgres(_) => true,
        }
    }

    /// From here on, what a change would be undone with stays in memory. SQLite keeps 64 kB of it there by itself, and a
    /// new ask changes more pages than that: the rest was written to a file, page by page, for each of them.
    pub fn undo_in_memory(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(connection) => Ok(connection.pragma_update(None, "temp_store", "MEMORY")?),
            Self::Postgres(_) => Ok(()),
        }
    }

    /// A statement without parameters and without rows.
    pub fn run(&self, sql: &str) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => self.execute(sql, params![]).map(drop),
            Self::Postgres(connection) => connection.run(sql),
        }
    }

    /// Calls `each` with row after row until it has enough.
    pub fn each<'p, E: From<StoreError>>(
        &self,
        sql: &str,
        params: impl Into<Params<'p>>,
        mut each: impl FnMut(&Row) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let mut failed = None;
        self.visit(sql, params.into(), &mut |row| match each(row) {
            Ok(flow) => flow,
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Compiled once for all that is read.
    fn visit(
        &self,
        sql: &str,
        params: Params,
        each: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                bind(&mut statement, params)?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next()? {
                    if each(&Row::Sqlite(row)).is_break() {
                        break;
                    }
                }
            }
            Self::Postgres(connection) => {
                for row in connection.rows(sql, params)? {
                    if each(&Row::Postgres(&row)).is_break() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// What all of the rows hold, or an error.
    pub fn all<'p, T>(
        &self,
        sql: &str,
        params: impl Into<Params<'p>>,
        mut read: impl FnMut(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        self.each(sql, params, |row| {
            found.push(read(row)?);
            Ok::<_, StoreError>(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// What the first row holds, if there is one.
    pub fn first<'p, T>(
        &self,
        sql: &str,
        params: impl Into<Params<'p>>,
        mut read: impl FnMut(&Row) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut found = None;
        self.each(sql, params, |row| {
            found = Some(read(row)?);
            Ok::<_, StoreError>(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// The first column of the only row, as an aggregate has one.
    pub fn one_value<'p, T: FromSql>(
        &self,
        sql: &str,
        params: impl Into<Params<'p>>,
    ) -> Result<T, StoreError> {
        let found = self.first(sql, params, |row| row.get(0))?;
        found.ok_or_else(|| StoreError::Unreadable("no row where there must be one".to_owned()))
    }

    pub fn exists<'p>(&self, sql: &str, params: impl Into<Params<'p>>) -> Result<bool, StoreError> {
        Ok(self.first(sql, params, |_| Ok(()))?.is_some())
    }

    /// Names the index where SQLite, which has no statistics, would take another: one over all asks of an agent, say,
    /// instead of the small one over the open ones.
    pub fn indexed_by(&self, index: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("INDEXED BY {index}"),
            Self::Postgres(_) => String::new(),
        }
    }

    /// Compares with a pattern, without regard to case.
    pub fn like(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "LIKE",
            Self::Postgres(_) => "ILIKE",
        }
    }

    /// A field of a JSON object that is kept as text; NULL if the text is not JSON.
    pub fn json_field(&self, column: &str, field: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("iif(json_valid({column}), {column} ->> '$.{field}', NULL)"),
            Self::Postgres(_) => format!("json_field({column}, '{field}')"),
        }
    }

    /// Begins what is read of one moment. It ends when this is dropped.
    pub fn moment(&self) -> Result<Moment<'_>, StoreError> {
        match self {
            Self::Sqlite(_) => self.run("BEGIN")?,
            Self::Postgres(connection) => connection.begin_reading()?,
        }
        Ok(Moment(self))
    }

    /// Begins a change.
    pub fn begin(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => self.run("BEGIN IMMEDIATE"),
            Self::Postgres(connection) => connection.begin().map(drop),
        }
    }

    /// Begins a group of changes on a server. Returns its number, and the trail as the group before left it.
    pub fn begin_group(&self) -> Result<(u64, Chain), StoreError> {
        match self {
            Self::Sqlite(_) => Err(StoreError::Unreadable("groups have numbers only on a server".to_owned())),
            Self::Postgres(connection) => connection.begin(),
        }
    }

    /// The number of the group that is under way; 0 where they have none.
    pub fn group(&self) -> u64 {
        match self {
            Self::Sqlite(_) => 0,
            Self::Postgres(connection) => connection.group(),
        }
    }

    /// The last group that was committed, where they have numbers, and whether this line is in the trail. Refuses a schema
    /// that asks for newer hubs than this one.
    pub fn look_at_head(&self, newest: &Chain) -> Result<(Option<u64>, bool), StoreError> {
        let group = match self {
            Self::Sqlite(_) => return Ok((None, audit::has_line(self, newest)?)),
            Self::Postgres(_) => {
                "SELECT n, EXISTS (SELECT 1 FROM audit WHERE seq = ?1 AND hash = ?2), (SELECT oldest FROM schema_version)
                 FROM commits"
            }
        };
        let read = |row: &Row| Ok((row.get::<i64>(0)?, row.get::<bool>(1)?, row.get(2)?));
        let found = self.first(group, params![newest.lines, newest.head], read)?;
        let (group, has_line, oldest) = found.unwrap_or_default();
        postgres::check_oldest(oldest)?;
        Ok((Some(group.cast_unsigned()), has_line || newest.lines == 0))
    }

    /// Waits until another hub has committed, but no longer than this. Returns the number of the newest group that was heard of.
    pub fn wait_for_news(&self, within: Duration) -> Result<Option<u64>, StoreError> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(connection) => connection.wait_for_news(within),
        }
    }

    /// Connects anew if the connection is known to be broken.
    pub fn make_ready(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(connection) => connection.connect(),
        }
    }

    /// Tells other hubs which of the rows that stand the group changed.
    pub fn log_row_changes(&self, changed: &[Value]) -> Result<(), StoreError> {
        match self {
            Self::Postgres(connection) if !changed.is_empty() => {
                let sql = "INSERT INTO stood (n, i, rows_of, name, mac)
                     SELECT ?1, i, row ->> 0, row ->> 1, row ->> 2
                     FROM json_array_elements(?2::TEXT::JSON) WITH ORDINALITY AS changed (row, i)";
                let rows = serde_json::to_string(changed).map_err(unreadable)?;
                self.execute(sql, params![connection.group(), rows]).map(drop)
            }
            Self::Sqlite(_) | Self::Postgres(_) => Ok(()),
        }
    }

    /// Returns once the change that was begun will never be lost.
    pub fn commit(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => self.run("COMMIT"),
            Self::Postgres(connection) => connection.commit(),
        }
    }

    /// True if a group of this size and age should be committed now. SQLite waits for its disk once per group; a server is
    /// waited for at every statement.
    pub fn is_full_group(&self, changes: usize, begun: Instant) -> bool {
        match self {
            Self::Sqlite(_) => changes >= LARGEST_GROUP,
            Self::Postgres(_) => changes >= LARGEST_ON_A_SERVER || begun.elapsed() >= LONGEST_ON_A_SERVER,
        }
    }

    /// Gives up the change that was begun.
    pub fn roll_back(&self) {
        match self {
            Self::Sqlite(connection) if connection.is_autocommit() => {}
            Self::Sqlite(_) => {
                if let Err(error) = self.run("ROLLBACK") {
                    tracing::error!(%error, "a change could not be rolled back");
                }
            }
            Self::Postgres(connection) => connection.roll_back(),
        }
    }

    /// Whether the change that was begun can still be committed. SQLite gives it up by itself on some errors, a full disk
    /// among them.
    pub fn check_transaction(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(connection) if connection.is_autocommit() => Err(sqlite::why_given_up(connection)),
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(connection) => connection.check(),
        }
    }

    /// A change before the hub runs, on the schema that our migrations made and on no other.
    pub fn in_change<T>(
        &self,
        path: &Path,
        work: impl FnOnce() -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        match self {
            Self::Sqlite(connection) => {
                let begun = sqlite::begin_unchanged(connection, path)?;
                let done = work()?;
                begun.commit().map_err(StoreError::from)?;
                Ok(done)
            }
            Self::Postgres(connection) => {
                connection.begin()?;
                let done = work().inspect_err(|_| connection.roll_back())?;
                connection.commit()?;
                Ok(done)
            }
        }
    }

    /// Whether other hubs could use the same database.
    pub fn is_server(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Marks the rows that an earlier version did not mark, or not as now.
    pub fn mark_rows(&self, key: &ChainKey, marks: RowMarks) -> Result<(), StoreError> {
        match (self, marks) {
            (Self::Sqlite(connection), RowMarks::None) => sqlite::marking::mark_all(connection, key),
            (Self::Sqlite(connection), RowMarks::Macs) => sqlite::marking::mark_more(connection, key),
            (Self::Sqlite(_), RowMarks::Standing) => Ok(()),
            // Every hub that ever wrote to a server marked all that it wrote.
            (Self::Postgres(_), _) => Ok(()),
        }
    }

    /// Changes whenever somebody changes the schema.
    pub fn schema_number(&self) -> Result<Option<i64>, StoreError> {
        match self {
            Self::Sqlite(_) => self.first("PRAGMA schema_version", params![], |row| row.get(0)),
            Self::Postgres(_) => Ok(None),
        }
    }

    /// What somebody added to the schema, changed in it or took away.
    pub fn schema_differences(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Sqlite(connection) => sqlite::differences(connection),
            // Who may change the schema there may do everything else as well.
            Self::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// These columns, as far as the table has them; a database of an earlier version, opened only to look, may not have all.
    /// Those that are missing are read as NULL.
    pub fn present_columns(&self, table: &str, columns: &str) -> Result<String, StoreError> {
        let Self::Sqlite(connection) = self else { return Ok(columns.to_owned()) };
        let mut present = Vec::new();
        for column in columns.split(", ") {
            let is_there = connection.column_exists(None, table, column)?;
            present.push(if is_there { column } else { "NULL" });
        }
        Ok(present.join(", "))
    }

    pub fn has_table(&self, table: &str) -> Result<bool, StoreError> {
        match self {
            Self::Sqlite(connection) => Ok(connection.table_exists(None, table)?),
            Self::Postgres(_) => Ok(true),
        }
    }

    /// Whether a version that did not key its trail was the last to open this database.
    pub fn is_from_before_keys(&self) -> Result<bool, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                Ok(sqlite::schema_version(connection)? <= sqlite::LAST_UNKEYED_SCHEMA)
            }
            Self::Postgres(_) => Ok(false),
        }
    }

    /// What the database itself finds wrong with its files.
    pub fn damage(&self) -> Result<Option<String>, StoreError> {
        match self {
            Self::Sqlite(_) => {
                let found: String = self.one_value("PRAGMA integrity_check(1)", params![])?;
                Ok((found != "ok").then_some(found))
            }
            Self::Postgres(_) => Ok(None),
        }
    }
}

/// A transaction that only reads.
pub struct Moment<'a>(&'a Connection);

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        self.0.roll_back();
    }
}

fn bind(statement: &mut rusqlite::Statement, params: Params) -> Result<(), StoreError> {
    match params {
        Params::InOrder(values) => {
            for (i, value) in values.iter().enumerate() {
                statement.raw_bind_parameter(i + 1, value)?;
            }
        }
        Params::Named(values) => {
            for (name, value) in values {
                if let Some(i) = statement.parameter_index(name)? {
                    statement.raw_bind_parameter(i, value)?;
                }
            }
        }
    }
    Ok(())
}
