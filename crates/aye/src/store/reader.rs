//! Looking at the database: `Reader` has a method for each thing that somebody wants to know. The methods stand with
//! the tables they are about.

use super::verify::{self, Against, Verified, VerifyError};
use super::{LAST_UNKEYED_SCHEMA, StoreError, schema, schema_version};
use rusqlite::Connection;
use std::cell::Cell;

/// Reads the database, inside a change or beside it.
pub struct Reader {
    pub(super) connection: Connection,
    /// SQLite's number of the schema that was found to be ours; none for somebody who only looks.
    schema: Option<Cell<i64>>,
}

impl Reader {
    /// For the hub, which acts upon what it reads: never upon a schema that somebody else made.
    pub(super) fn of_the_hub(connection: Connection) -> Result<Self, StoreError> {
        // SQLite's numbers begin at 0.
        let reader = Self { connection, schema: Some(Cell::new(-1)) };
        reader.at_one_moment(|_| Ok::<_, StoreError>(()))?;
        Ok(reader)
    }

    pub(super) fn to_look(connection: Connection) -> Self {
        Self { connection, schema: None }
    }

    /// With a trigger, a view or a column of their own, somebody could have the hub read or keep something else than
    /// it wrote. SQLite reads the schema anew only when its number has changed, so that is when it is checked.
    pub(super) fn check_schema(&self) -> Result<(), StoreError> {
        let Some(known) = &self.schema else { return Ok(()) };
        let mut statement = self.connection.prepare_cached("PRAGMA schema_version")?;
        let found = statement.query_row([], |row| row.get(0))?;
        if found != known.get() {
            let differences = schema::differences(&self.connection)?;
            if !differences.is_empty() {
                return Err(StoreError::Schema(differences.join(", ")));
            }
            known.set(found);
        }
        Ok(())
    }

    /// Everything `work` sees is of one moment.
    pub(super) fn at_one_moment<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let _transaction = self.connection.unchecked_transaction().map_err(StoreError::from)?;
        self.check_schema()?;
        work(self)
    }

    /// Checks the trail, and the database against it. `progress` is told how many lines of how many are done.
    pub fn verify(&self, against: &Against, progress: impl FnMut(u64, u64)) -> Result<Verified, VerifyError> {
        self.at_one_moment(|reader| verify::verify(reader, against, progress))
    }

    /// Whether a version that did not key its trail was the last to open this database.
    pub fn is_from_before_keys(&self) -> Result<bool, StoreError> {
        Ok(schema_version(&self.connection)? <= LAST_UNKEYED_SCHEMA)
    }

    /// What somebody added to the schema, changed in it or took away.
    pub fn schema_differences(&self) -> Result<Vec<String>, StoreError> {
        schema::differences(&self.connection)
    }
}
