//! One connection to PostgreSQL. It is made again when it broke, at the beginning of the next transaction.

use super::super::StoreError;
use super::super::sql::{Params, Row};
use super::values::{Param, translated};
use super::{Database, Purpose};
use postgres::types::ToSql;
use postgres::{Client, Statement};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Statements with conditions that somebody chose are many.
const MOST_STATEMENTS: usize = 200;
/// Between two attempts to find out whether a commit took place.
const PAUSE: Duration = Duration::from_millis(250);

pub struct Postgres {
    database: Arc<Database>,
    purpose: Purpose,
    session: RefCell<Option<Session>>,
    /// The number of the group that is under way.
    group: Cell<i64>,
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
        Self { database, purpose, session: RefCell::new(Some(session)), group: Cell::new(0) }
    }

    fn with<T: Send>(
        &self,
        work: impl FnOnce(&mut Client) -> Result<T, postgres::Error> + Send,
    ) -> Result<T, StoreError> {
        let mut session = self.session.borrow_mut();
        let Some(Session { client, .. }) = &mut *session else { return Err(lost()) };
        // The hub has threads for this; who only looks may be anywhere.
        if self.purpose == Purpose::Look && Handle::try_current().is_ok() {
            let done = std::thread::scope(|scope| scope.spawn(|| work(client)).join());
            return Ok(done.map_err(|_| StoreError::Panicked)??);
        }
        Ok(work(client)?)
    }

    fn prepared(&self, sql: &str, params: Params) -> Result<Statement, StoreError> {
        let known = |session: &Session| session.statements.get(sql).cloned();
        if let Some(statement) = self.session.borrow().as_ref().and_then(known) {
            return Ok(statement);
        }
        let text = translated(sql, params);
        let statement = self.with(|client| client.prepare(&text))?;
        if let Some(Session { statements, .. }) = &mut *self.session.borrow_mut() {
            if statements.len() >= MOST_STATEMENTS {
                statements.clear();
            }
            statements.insert(sql.to_owned(), statement.clone());
        }
        Ok(statement)
    }

    pub fn execute(&self, sql: &str, params: Params) -> Result<usize, StoreError> {
        let values = Param::all(params)?;
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let statement = self.prepared(sql, params)?;
        let changed = self.with(|client| client.execute(&statement, &values))?;
        usize::try_from(changed).map_err(|error| StoreError::Unreadable(error.to_string()))
    }

    /// All rows are fetched before the first is looked at, so that `each` may ask for others.
    pub fn each<E: From<StoreError>>(
        &self,
        sql: &str,
        params: Params,
        mut each: impl FnMut(&Row) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let values = Param::all(params)?;
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let statement = self.prepared(sql, params)?;
        let rows = self.with(|client| client.query(&statement, &values))?;
        for row in rows {
            if each(&Row::Postgres(&row))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Statements without parameters and without rows.
    pub fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.with(|client| client.batch_execute(sql))
    }

    /// Begins to read what is there at one moment.
    pub fn begin_reading(&self) -> Result<(), StoreError> {
        self.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    }

    /// Begins a group of changes.
    pub fn begin(&self) -> Result<(), StoreError> {
        self.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED")?;
        let sql = "UPDATE commits SET n = n + 1 WHERE one = 1 RETURNING n";
        let statement = self.prepared(sql, Params::InOrder(&[]))?;
        let n = self.with(|client| client.query_one(&statement, &[])?.try_get(0))?;
        self.group.set(n);
        Ok(())
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

    /// Commits the group. If the connection breaks over it, the group's number tells whether it took place.
    pub fn commit(&self) -> Result<(), StoreError> {
        let Err(why) = self.run("COMMIT") else { return Ok(()) };
        if !matches!(why, StoreError::Away(_)) {
            return Err(why);
        }
        tracing::warn!(%why, "the connection broke during a commit; looking whether it took place");
        loop {
            match self.last_group() {
                Ok(last) if last == self.group.get() => return Ok(()),
                Ok(_) => return Err(why),
                Err(error) if self.database.is_closing() => return Err(error),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Nobody else writes while this connection has the lock of the writer, and the one before has lost it: what is
    /// committed now is all that ever will be of the group.
    fn last_group(&self) -> Result<i64, StoreError> {
        self.connect()?;
        self.with(|client| client.query_one("SELECT n FROM commits", &[])?.try_get(0))
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

    fn connect(&self) -> Result<(), StoreError> {
        if self.check().is_err() {
            // Closed first: the lock of the writer must be free for the new one.
            drop(self.session.borrow_mut().take());
            let session = self.database.connect(self.purpose)?;
            *self.session.borrow_mut() = Some(session);
        }
        Ok(())
    }
}

fn lost() -> StoreError {
    StoreError::Away("the connection is lost".to_owned())
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
