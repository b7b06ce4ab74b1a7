//! One connection to PostgreSQL. It is made again when it broke, at the beginning of the next transaction.

use super::super::StoreError;
use super::super::sql::Params;
use super::client::{ANSWERS_WITHIN, Client, READS_WITHIN, WORKS_WITHIN, lost};
use super::values::{Param, translated};
use super::{CHANNEL, Database, Purpose, check_oldest};
use crate::random::random_hex;
use aye_core::trail::Chain;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow, Statement};

/// Statements with conditions that somebody chose are many.
const MOST_STATEMENTS: usize = 200;
/// Between two attempts to find out whether a commit took place.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a group waits for locks other than the one on the head row: all hubs wait for it meanwhile.
const GROUP_LOCK_TIMEOUT: &str = "1500ms";

pub struct Postgres {
    database: Arc<Database>,
    purpose: Purpose,
    session: RefCell<Option<Session>>,
    /// The number of the group that is under way.
    group: Cell<u64>,
    /// The random mark of that group, by which it is found again.
    mark: RefCell<String>,
}

pub struct Session {
    pub client: Client,
    statements: HashMap<String, Statement>,
}

impl Session {
    pub fn new(client: Client) -> Self {
        Self { client, statements: HashMap::new() }
    }
}

impl Postgres {
    pub fn new(database: Arc<Database>, purpose: Purpose, session: Session) -> Self {
        let (session, group, mark) = (RefCell::new(Some(session)), Cell::new(0), RefCell::default());
        Self { database, purpose, session, group, mark }
    }

    pub fn group(&self) -> u64 {
        self.group.get()
    }

    /// How long a single call may take.
    fn deadline(&self) -> Duration {
        match self.purpose {
            Purpose::Write | Purpose::Listen | Purpose::Beside => ANSWERS_WITHIN,
            Purpose::Read => READS_WITHIN,
            Purpose::Look => WORKS_WITHIN,
        }
    }

    fn with<T: Send>(
        &self,
        work: impl AsyncFnOnce(&mut tokio_postgres::Client) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let (within, mut session) = (self.deadline(), self.session.borrow_mut());
        let Some(Session { client, .. }) = &mut *session else { return Err(lost()) };
        // The hub has threads for this; who only looks may be anywhere.
        if self.purpose == Purpose::Look && Handle::try_current().is_ok() {
            let done = std::thread::scope(|scope| scope.spawn(|| client.run(within, work)).join());
            return done.map_err(|_| StoreError::Panicked)?;
        }
        client.run(within, work)
    }

    fn prepared(&self, sql: &str, params: Params) -> Result<Statement, StoreError> {
        let known = |session: &Session| session.statements.get(sql).cloned();
        if let Some(statement) = self.session.borrow().as_ref().and_then(known) {
            return Ok(statement);
        }
        let text = translated(sql, params);
        let statement = self.with(async |client| Ok(client.prepare(&text).await?))?;
        if let Some(Session { statements, .. }) = &mut *self.session.borrow_mut() {
            if statements.len() >= MOST_STATEMENTS {
                statements.clear();
            }
            statements.insert(sql.to_owned(), statement.clone());
        }
        Ok(statement)
    }

    /// Statements that were prepared for a table as it was before a migration are refused by the server, so they are
    /// prepared anew after a failure that may be one of that kind.
    fn forget_statements(&self, error: &StoreError) {
        if let (StoreError::Away(_), Some(session)) = (error, &mut *self.session.borrow_mut()) {
            session.statements.clear();
        }
    }

    pub fn execute(&self, sql: &str, params: Params) -> Result<usize, StoreError> {
        let values = Param::all(params)?;
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let statement = self.prepared(sql, params)?;
        let changed = self.with(async |client| Ok(client.execute(&statement, &values).await?));
        let changed = changed.inspect_err(|error| self.forget_statements(error))?;
        usize::try_from(changed).map_err(|error| StoreError::Unreadable(error.to_string()))
    }

    /// All rows are fetched before the first is looked at, so that whoever looks may ask for others.
    pub fn rows(&self, sql: &str, params: Params) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let values = Param::all(params)?;
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let statement = self.prepared(sql, params)?;
        let rows = self.with(async |client| Ok(client.query(&statement, &values).await?));
        rows.inspect_err(|error| self.forget_statements(error))
    }

    /// Statements without parameters and without rows.
    pub fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.with(async |client| Ok(client.batch_execute(sql).await?))
    }

    /// Begins to read what is there at one moment.
    pub fn begin_reading(&self) -> Result<(), StoreError> {
        self.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    }

    /// Begins a group of changes, after the last one of whatever hub has ended. Returns its number, and the trail as it is.
    pub fn begin(&self) -> Result<(u64, Chain), StoreError> {
        let mark = random_hex::<16>().map_err(|error| StoreError::Postgres(error.to_string()))?;
        // In one message, because every hub waits for the one that has the lock.
        let sql = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED;
             WITH next AS (UPDATE commits SET n = n + 1 WHERE one = 1 RETURNING n)
             INSERT INTO groups (n, mark) SELECT n, '{mark}' FROM next RETURNING n;
             SET LOCAL lock_timeout = '{GROUP_LOCK_TIMEOUT}';
             SELECT oldest FROM schema_version;
             SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
        );
        let begin = || self.with(async |client| Ok(client.simple_query(&sql).await?));
        self.connect()?;
        let begun = match begin() {
            // A client learns only when it is used that its connection has ended; then there is nothing to lose yet.
            Err(StoreError::Away(_)) if self.run("ROLLBACK").is_err() => {
                self.connect()?;
                begin()
            }
            begun => begun,
        };
        let begun = begun.and_then(|messages| read_begun(&messages));
        let (group, chain) = begun.inspect_err(|_| self.roll_back())?;
        self.group.set(group);
        self.mark.replace(mark);
        Ok((group, chain))
    }

    /// A client learns only when it is used that its connection has ended; then there is nothing to lose yet.
    fn begin_with(&self, sql: &str) -> Result<(), StoreError> {
        self.connect()?;
        match self.run(sql) {
            Err(StoreError::Away(_)) => {
                self.connect()?;
                self.run(sql)
            }
            begun => begun,
        }
    }

    /// Commits the group, and wakes the other hubs. Whatever goes wrong, the caller is told what became of the group: if the
    /// connection did not survive it, by the group's mark.
    pub fn commit(&self) -> Result<(), StoreError> {
        let commit = format!("NOTIFY {CHANNEL}, '{}'; COMMIT", self.group.get());
        let Err(why) = self.run(&commit) else { return Ok(()) };
        // Only a session that goes on has heard what the server made of the commit. One that the server ended, for whatever
        // reason, may have been ended after the commit was written.
        if self.run("ROLLBACK").is_ok() {
            return Err(why);
        }
        tracing::warn!(%why, "the connection broke during a commit; looking whether it took place");
        loop {
            match self.has_committed() {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(is_away(why)),
                Err(error) if self.database.is_closing() => {
                    return Err(StoreError::Undecided(error.to_string()));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Who has the lock knows that the group is over, whatever became of the connection that it was begun by.
    fn has_committed(&self) -> Result<bool, StoreError> {
        self.connect()?;
        let (group, mark) = (self.group.get().cast_signed(), self.mark.borrow().clone());
        let found = self.with(async |client| {
            let tx = client.transaction().await?;
            tx.query_one("SELECT n FROM commits FOR UPDATE", &[]).await?;
            let sql = "SELECT 1 FROM groups WHERE n = $1 AND mark = $2";
            let found = tx.query_opt(sql, &[&group, &mark]).await?;
            // Waits for the standby, where there is one, beyond what the group itself may have waited for.
            tx.commit().await?;
            Ok(found)
        })?;
        Ok(found.is_some())
    }

    /// Waits until another hub has committed, but no longer than this. Returns the number of the newest group that was heard of.
    pub fn wait_for_news(&self, within: Duration) -> Result<Option<u64>, StoreError> {
        self.connect()?;
        match &mut *self.session.borrow_mut() {
            Some(session) => session.client.wait_for_news(within),
            None => Err(lost()),
        }
    }

    pub fn roll_back(&self) {
        // A connection that is lost has rolled back already.
        if let Err(error) = self.run("ROLLBACK") {
            tracing::debug!(%error, "a transaction could not be rolled back");
        }
    }

    /// Whether what was begun can still be committed.
    pub fn check(&self) -> Result<(), StoreError> {
        match &*self.session.borrow() {
            Some(session) if !session.client.is_closed() => Ok(()),
            _ => Err(lost()),
        }
    }

    /// Connects anew if the connection is known to be broken.
    pub fn connect(&self) -> Result<(), StoreError> {
        if self.check().is_err() {
            drop(self.session.borrow_mut().take());
            let session = self.database.connect(self.purpose)?;
            *self.session.borrow_mut() = Some(session);
        }
        Ok(())
    }
}

/// The number of a group, and the newest line of the trail, unless the schema asks for newer hubs than this one.
fn read_begun(messages: &[SimpleQueryMessage]) -> Result<(u64, Chain), StoreError> {
    let mut rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let number = |row: Option<&SimpleQueryRow>| row.and_then(|row| row.get(0)).and_then(|n| n.parse().ok());
    let (group, oldest) = (number(rows.next()), number(rows.next()));
    let group = group.ok_or_else(|| StoreError::Unreadable("the groups are not counted".to_owned()))?;
    check_oldest(oldest.map(u64::cast_signed))?;
    let chain =
        rows.next().and_then(|row| Some(Chain { lines: number(Some(row))?, head: row.get(1)?.to_owned() }));
    Ok((group, chain.unwrap_or_default()))
}

/// The connection is gone, whatever the server said last, and so it is tried again.
fn is_away(why: StoreError) -> StoreError {
    match why {
        why @ StoreError::Away(_) => why,
        why => StoreError::Away(why.to_string()),
    }
}

impl Drop for Postgres {
    /// A client waits for its connection to end, which nobody may do in an asynchronous context.
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && Handle::try_current().is_ok()
        {
            drop(std::thread::spawn(move || drop(session)));
        }
    }
}
