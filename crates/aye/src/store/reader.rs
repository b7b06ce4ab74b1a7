//! Looking at the database: `Reader` has a method for each thing that somebody wants to know. The methods stand with
//! the tables they are about.

use super::verify::{self, Against, Verified, VerifyError};
use super::{LAST_UNKEYED_SCHEMA, StoreError, schema, schema_version};
use rusqlite::Connection;

/// Reads the database, inside a change or beside it.
pub struct Reader {
    pub(super) connection: Connection,
}

impl Reader {
    /// Everything `work` sees is of one moment.
    pub(super) fn at_one_moment<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let _transaction = self.connection.unchecked_transaction().map_err(StoreError::from)?;
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
