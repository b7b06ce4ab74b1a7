//! Looking at the database: `Reader` has a method for each thing that somebody wants to know. The methods stand with
//! the tables they are about.

use super::ask_names::AskNames;
use super::following::{Shared, Telling};
use super::live_rows::{self, LiveRows};
use super::row_mac::{self, Marked, pass_by};
use super::sql::{Connection, Moment, Row};
use super::verify::{self, Against, Verified, VerifyError};
use super::{StoreError, audit};
use crate::home::RowMarks;
use aye_core::trail::{Chain, ChainKey};
use rusqlite::ToSql;
use std::cell::Cell;
use std::sync::{Arc, MutexGuard};

/// Reads the database, inside a change or beside it.
pub struct Reader {
    pub(super) connection: Connection,
    /// None for somebody who only looks.
    known: Option<Known>,
}

/// What the hub knows of its database by itself: it refuses to read a schema that it did not create, or an earlier state
/// that somebody put back.
struct Known {
    /// SQLite's number of the schema that was found to be ours.
    schema: Cell<Option<i64>>,
    /// On a server, the group after which the moment is that is being read.
    moment: Cell<Option<u64>>,
    shared: Arc<Shared>,
}

/// A change that was begun.
pub struct BegunChange<'a> {
    /// The trail that it goes on from.
    pub chain: Chain,
    /// Its number, on a server.
    pub group: Option<u64>,
    pub telling: MutexGuard<'a, Telling>,
}

/// Who is further behind learns of the others' groups before it begins one of its own: others would have to wait meanwhile.
const FAR_BEHIND: u64 = 32;
/// How often a group is begun anew before it waits with everybody else.
const MOST_TRIES: u32 = 3;

impl Reader {
    pub(super) fn of_the_hub(connection: Connection, shared: Arc<Shared>) -> Result<Self, StoreError> {
        let known = Known { schema: Cell::new(None), moment: Cell::new(None), shared };
        let reader = Self { connection, known: Some(known) };
        reader.at_one_moment(|_| Ok::<_, StoreError>(()))?;
        Ok(reader)
    }

    pub(super) fn to_look(connection: Connection) -> Self {
        Self { connection, known: None }
    }

    /// Whether the hub itself reads, whose database has the newest schema.
    pub(super) fn is_the_hubs(&self) -> bool {
        self.known.is_some()
    }

    /// The key of the trail; none for somebody who only looks.
    pub(super) fn key(&self) -> Option<&ChainKey> {
        self.shared().map(|shared| &shared.key)
    }

    pub(super) fn shared(&self) -> Option<&Shared> {
        self.known.as_ref().map(|known| &*known.shared)
    }

    pub(super) fn live_rows(&self) -> Option<&LiveRows> {
        self.shared().map(|shared| &shared.live_rows)
    }

    pub(super) fn ask_names(&self) -> Option<&AskNames> {
        self.shared().map(|shared| &shared.names)
    }

    /// On a server, the group after which the moment is that is being read.
    pub(super) fn moment(&self) -> Option<u64> {
        self.known.as_ref().and_then(|known| known.moment.get())
    }

    /// What these rows hold. One that cannot be read, or is not ours, holds up no other.
    pub(super) fn rows<T>(
        &self,
        table: &'static str,
        sql: &str,
        params: &[&dyn ToSql],
        mut read: impl FnMut(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let found = self.connection.all(sql, params, |row| pass_by(table, read(row)))?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The same of rows that carry MACs, and are read with what is `selected` of them first.
    pub(super) fn own_rows<T>(
        &self,
        marked: &Marked,
        sql: &str,
        params: &[&dyn ToSql],
        mut read: impl FnMut(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.rows(marked.table, sql, params, |row| {
            self.check_ours(marked, row)?;
            read(row)
        })
    }

    /// Begins a change: the next group of all there are. What others changed before is known then.
    pub(super) fn begin_change<'a>(&self, shared: &'a Shared) -> Result<BegunChange<'a>, StoreError> {
        if self.connection.is_server() {
            return self.begin_group(shared);
        }
        self.connection.begin()?;
        let begun = self.check_schema().and_then(|()| {
            let chain = shared.head.is_newest(audit::chain_head(&self.connection)?)?;
            Ok(BegunChange { chain, group: None, telling: shared.following.lock() })
        });
        begun.inspect_err(|_| self.connection.roll_back())
    }

    fn begin_group<'a>(&self, shared: &'a Shared) -> Result<BegunChange<'a>, StoreError> {
        let mut tries = 0;
        let (group, found, telling) = loop {
            let (group, found) = self.connection.begin_group()?;
            let is_far_behind = group > shared.following.learned() + FAR_BEHIND;
            let telling = match tries < MOST_TRIES {
                true => shared.following.try_lock().filter(|_| !is_far_behind),
                false => Some(shared.following.lock()),
            };
            if let Some(telling) = telling {
                break (group, found, telling);
            }
            // Whoever has to wait or to read here does so without the row that all hubs wait for.
            self.connection.roll_back();
            self.at_one_moment(|_| Ok::<_, StoreError>(()))?;
            drop(shared.following.lock());
            tries += 1;
        };
        let begun = (|| {
            shared.following.learn(self, shared, &telling, group - 1)?;
            if shared.following.learned() != group - 1 {
                return Err(StoreError::RolledBack { line: shared.head.newest().lines });
            }
            shared.head.is_newest(found)
        })();
        let chain = begun.inspect_err(|_| self.connection.roll_back())?;
        shared.live_rows.begin(group);
        Ok(BegunChange { chain, group: Some(group), telling })
    }

    /// Everything `work` sees is of one moment.
    pub(super) fn at_one_moment<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let (_moment, group) = self.begin_moment()?;
        let Some(Known { moment, .. }) = &self.known else { return work(self) };
        moment.set(group);
        let result = work(self);
        // Inside a group, only the newest rows count.
        moment.set(None);
        result
    }

    /// A moment that is not of before what is known, and the newest group in it.
    fn begin_moment(&self) -> Result<(Moment<'_>, Option<u64>), StoreError> {
        let Some(Known { shared, moment, .. }) = &self.known else {
            return Ok((self.connection.moment()?, None));
        };
        moment.set(None);
        // Asked for before the moment: both may be of a later commit, never of an earlier one.
        let (learned, newest) = (shared.following.learned(), shared.head.newest());
        let begun = self.connection.moment()?;
        self.check_schema()?;
        let (group, has_line) = self.connection.look_at_head(&newest)?;
        if !has_line || group.is_some_and(|group| group < learned) {
            return Err(StoreError::RolledBack { line: newest.lines });
        }
        if let Some(group) = group
            && shared.following.is_behind(group)
        {
            shared.following.follow(self, shared, group)?;
        }
        Ok((begun, group))
    }

    /// With a trigger, a view or a column of their own, somebody could have the hub read or keep something else than
    /// it wrote. SQLite reads the schema again only when its number has changed, so that is when it is checked.
    fn check_schema(&self) -> Result<(), StoreError> {
        let Some(Known { schema: known, .. }) = &self.known else { return Ok(()) };
        let found = self.connection.schema_number()?;
        if found.is_none() || found != known.get() {
            // A number that was ours once is not ours for good: another schema may come back under it.
            known.set(None);
            let differences = self.connection.schema_differences()?;
            if !differences.is_empty() {
                return Err(StoreError::Schema(differences.join(", ")));
            }
            known.set(found);
        }
        Ok(())
    }

    /// Checks the trail, and the database against it. `progress` is told how many lines of how many are done.
    pub fn verify(&self, against: &Against, progress: impl FnMut(u64, u64)) -> Result<Verified, VerifyError> {
        self.at_one_moment(|reader| verify::verify(reader, against, progress))
    }

    /// Whether a version that did not key its trail was the last to open this database.
    pub fn is_from_before_keys(&self) -> Result<bool, StoreError> {
        self.connection.is_from_before_keys()
    }

    /// Whether the database itself finds its files in order.
    pub(super) fn check_file(&self) -> Result<(), VerifyError> {
        self.connection.damage()?.map_or(Ok(()), |damage| Err(VerifyError::Damaged(damage)))
    }

    /// A row that has no good MAC and must have one, by its table and its name.
    pub(super) fn first_foreign(
        &self,
        key: &ChainKey,
        marks: RowMarks,
    ) -> Result<Option<(&'static str, String)>, StoreError> {
        row_mac::first_foreign(&self.connection, key, marks)
    }

    /// Whether the rows that stand are those that the hub left when this was the end of the trail.
    pub(super) fn live_rows_are_as_left(&self, key: &ChainKey, end: &Chain) -> Result<bool, StoreError> {
        live_rows::is_as_left(&self.connection, &LiveRows::read(&self.connection, key)?, end)
    }

    /// Whether other hubs can use the same database.
    pub fn is_on_server(&self) -> bool {
        self.connection.is_server()
    }

    /// What somebody added to the schema, changed in it or took away.
    pub fn schema_differences(&self) -> Result<Vec<String>, StoreError> {
        self.connection.schema_differences()
    }
}
