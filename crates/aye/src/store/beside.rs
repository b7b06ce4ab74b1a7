//! Writes outside the groups, on a separate connection: they are not in the trail, and no group waits for them.

use super::sql::{Connection, params};
use super::{Store, StoreError, caught};
use std::sync::PoisonError;
use std::time::Duration;

/// Groups whose marks and changes of rows are kept: who is further behind reads all rows.
const GROUPS_KEPT: u64 = 100_000;
/// After each change that forgets, others get their turn.
const BETWEEN_PRUNING: Duration = Duration::from_millis(10);
const MS_A_DAY: i64 = 24 * 60 * 60 * 1000;

impl Store {
    /// Runs `work`, whose statements are committed one by one. If the connection breaks it is run again, so it must be such that
    /// this does no harm. There must be a server.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        work: impl Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let beside = self.server.as_ref().map(|server| server.beside.clone()).ok_or(StoreError::Closed)?;
        let run: Box<dyn FnOnce() -> Result<T, StoreError> + Send> = Box::new(move || {
            let connection = beside.lock().unwrap_or_else(PoisonError::into_inner);
            caught(|| {
                connection.make_ready()?;
                match work(&connection) {
                    Err(StoreError::Away(_)) => {
                        connection.make_ready()?;
                        work(&connection)
                    }
                    done => done,
                }
            })
        });
        tokio::task::spawn_blocking(run).await.map_err(|_| StoreError::Closed)?
    }

    /// Forgets all but the newest changes: who is further behind begins with a snapshot.
    pub async fn prune(&self, keep: u64) -> Result<(), StoreError> {
        if !self.is_on_server() {
            while self.write(move |tx| tx.prune_outbox(keep)).await? {
                tokio::time::sleep(BETWEEN_PRUNING).await;
            }
            return Ok(());
        }
        let prune = move |connection: &Connection| {
            let sql = "DELETE FROM outbox WHERE seq <= (SELECT last FROM numbers WHERE name = 'outbox') - ?1";
            connection.execute(sql, params![keep])?;
            for table in ["groups", "stood"] {
                let sql = format!("DELETE FROM {table} WHERE n <= (SELECT n FROM commits) - ?1");
                connection.execute(&sql, params![GROUPS_KEPT])?;
            }
            connection.execute("DELETE FROM life WHERE heard < now_ms() - ?1", params![MS_A_DAY])?;
            connection.execute("DELETE FROM hubs WHERE seen < now_ms() - ?1", params![MS_A_DAY]).map(drop)
        };
        self.beside(prune).await
    }
}
