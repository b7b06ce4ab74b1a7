//! Moving: everything that an SQLite home holds, into an empty PostgreSQL database. Rows are copied as they are, since
//! their MACs and the hashes of the trail are over the same bytes in both. `aye.db` is only read.

mod source;
mod tables;

pub use tables::{TABLES, Table};

use super::postgres::Database;
use super::postgres::copying::{Origin, Target};
use super::verify::{self, Against, Verified, VerifyError};
use super::{OpenError, Reader, StoreError};
use crate::home::{Home, RowMarks};
use aye_core::trail::Chain;
use source::Source;
use std::path::{Path, PathBuf};
use tables::{COUNTS, NUMBERS};

/// How far a copy is.
pub struct Step {
    pub doing: Doing,
    pub what: &'static str,
    pub done: u64,
    pub all: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Checking,
    Copying,
    Comparing,
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("there is no {0}: nothing to copy")]
    NoSource(PathBuf),
    #[error("{0} was last used by an older aye: start this version on it once (aye up), then copy it")]
    OldSource(PathBuf),
    #[error(
        "there is no {0}: put it back, or start the hub once (aye up), which makes a new one and says so in the trail"
    )]
    NoKey(PathBuf),
    #[error("{path} is not copied, because it is not as the hub left it: {why}")]
    BrokenSource { path: PathBuf, why: Box<VerifyError> },
    #[error("{table} {row}: PostgreSQL cannot keep text with a NUL character, or text that is not UTF-8")]
    Text { table: &'static str, row: String },
    #[error("the copy differs in {table}, row {row}: begin again with an empty database")]
    Differs { table: &'static str, row: u64 },
    #[error("the copy is not whole: {0}")]
    BrokenCopy(Box<VerifyError>),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for CopyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// What was copied, and where it is now.
pub struct Copied {
    pub place: String,
    /// What `aye verify` found, the same on both sides.
    pub verified: Verified,
}

/// Copies the home's `aye.db`, or goes on where a copy of the same state was cut off. Whoever calls this holds the lock of
/// the home, so that no hub changes it meanwhile.
pub fn copy(
    home: &Home,
    to: &str,
    password_file: Option<&Path>,
    mut progress: impl FnMut(Step),
) -> Result<Copied, CopyError> {
    let database = Database::at(to, password_file)?;
    let path = home.database();
    let against =
        Against::in_home(home).map_err(|why| OpenError::Key { path: home.chain_key_file(), why })?;
    let reader = Source::open(&path)?;
    let key = match &against.key {
        Some(key) if key.marks == RowMarks::Standing => key.key.id(),
        Some(_) => return Err(CopyError::OldSource(path)),
        None => return Err(CopyError::NoKey(home.chain_key_file())),
    };
    // What was checked is what is copied, whoever writes to the file meanwhile.
    reader.at_one_moment(|reader| {
        let check = |reader: &Reader, what, progress: &mut dyn FnMut(Step)| {
            let doing = Doing::Checking;
            verify::verify(reader, &against, |done, all| progress(Step { doing, what, done, all }))
        };
        let verified = check(reader, "aye.db", &mut progress)
            .map_err(|why| CopyError::BrokenSource { path: path.clone(), why: why.into() })?;
        let source = Source::of(reader)?;
        let end = Chain { lines: verified.lines, head: verified.head.clone() };
        let mut target = Target::begin(&database, &Origin { key, end })?;
        for table in &TABLES {
            copy_table(&source, &mut target, table, &mut progress)?;
        }
        for (name, sql) in NUMBERS {
            target.go_on_from(name, source.number(sql)?)?;
        }
        for table in TABLES.iter().chain([&COUNTS]) {
            compare(&source, &mut target, table, &mut progress)?;
        }
        let copy = Reader::to_look(target.connection()?);
        let copied = copy
            .at_one_moment(|copy| check(copy, "the copy", &mut progress))
            .map_err(|why| CopyError::BrokenCopy(why.into()))?;
        if copied != verified {
            let differs = StoreError::Unreadable("it verifies to something else than aye.db".to_owned());
            return Err(CopyError::BrokenCopy(Box::new(differs.into())));
        }
        target.finish()?;
        Ok(Copied { place: database.place(), verified })
    })
}

fn copy_table(
    source: &Source,
    target: &mut Target,
    table: &'static Table,
    progress: &mut impl FnMut(Step),
) -> Result<(), CopyError> {
    let (all, mut done) = (source.count(table)?, target.copied(table)?);
    let columns = source.columns(table)?;
    source.batches(table, done, |rows| {
        let count = rows.len() as u64;
        target.add(table, &columns, &rows, || {
            progress(Step { doing: Doing::Copying, what: table.name, done, all });
        })?;
        done += count;
        Ok(())
    })?;
    progress(Step { doing: Doing::Copying, what: table.name, done, all });
    Ok(())
}

fn compare(
    source: &Source,
    target: &mut Target,
    table: &'static Table,
    progress: &mut impl FnMut(Step),
) -> Result<(), CopyError> {
    let (all, mut row) = (source.count(table)?, 0);
    let differs = |row| CopyError::Differs { table: table.name, row };
    let columns = source.columns(table)?;
    let mut statement = source.select(table, 0)?;
    let mut rows = statement.query([])?;
    target.each(table, &columns, |found| {
        row += 1;
        let expected = rows.next()?.ok_or_else(|| differs(row))?;
        for i in 0..columns.len() {
            if expected.get_ref(i)? != super::postgres::values::column(found, i)? {
                return Err(differs(row));
            }
        }
        progress(Step { doing: Doing::Comparing, what: table.name, done: row, all });
        Ok(())
    })?;
    rows.next()?.map_or(Ok(()), |_| Err(differs(row + 1)))
}
