//! The hub's own row in the database, written every few seconds by a thread and a connection of its own. That is also how a
//! hub with nothing to do notices that the database is away, and that it is back.

use super::super::StoreError;
use super::super::fingerprints::{Fingerprints, of_config};
use super::client::{ANSWERS_WITHIN, Client};
use super::{Database, Purpose};
use crate::home::Home;
use crate::processes::host;
use crate::random::random_hex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio_postgres::types::ToSql;

/// Between two signs of life, and between two attempts while the database is away.
const BEAT: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(500);
/// A database that has not answered for so long is away, although nothing has failed yet.
const SILENT: Duration = Duration::from_secs(8);

/// Leaves the database when it is closed.
pub struct Presence {
    known: Arc<Known>,
    /// Has the thread look at once.
    wake: SyncSender<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Why a hub neither reads nor writes a database that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseRefused {
    /// It is not as this hub left it.
    IsBehind,
    /// A newer hub changed its schema in such a way that this one must not use it any more.
    NeedsNewerHub,
}

struct Known {
    state: Mutex<State>,
    is_leaving: AtomicBool,
}

struct State {
    /// When the database last answered.
    answered: Instant,
    away: Option<String>,
    /// Why this hub refuses it, if it does.
    refused: Option<DatabaseRefused>,
    /// How often it was lost since the start.
    losses: u64,
    /// The last group that any hub had committed then.
    committed: u64,
}

impl Known {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_away(&self, why: &str) {
        let mut state = self.state();
        if state.away.is_none() {
            state.losses += 1;
            tracing::error!(why, "the database cannot be reached; it is tried again");
        }
        state.away = Some(why.to_owned());
    }

    fn answered(&self, committed: u64) {
        let mut state = self.state();
        state.committed = committed;
        state.answered = Instant::now();
        if state.away.take().is_some() {
            tracing::warn!("the database is there again");
        }
    }
}

impl Presence {
    pub fn start(database: &Arc<Database>, home: &Home) -> std::io::Result<Self> {
        let state = State { answered: Instant::now(), away: None, refused: None, losses: 0, committed: 0 };
        let known = Arc::new(Known { state: Mutex::new(state), is_leaving: AtomicBool::new(false) });
        let (wake, woken) = sync_channel(1);
        let id = random_hex::<8>().map_err(std::io::Error::other)?;
        let own = OwnRow { id, database: database.clone(), home: home.clone(), of: Fingerprints::of(home) };
        let thread = std::thread::Builder::new().name("aye-presence".into()).spawn({
            let known = known.clone();
            move || own.keep(&known, &woken)
        })?;
        Ok(Self { known, wake, thread: Mutex::new(Some(thread)) })
    }

    /// Why the database cannot be used right now, if so.
    pub fn away(&self) -> Option<String> {
        let state = self.known.state();
        match (&state.away, state.answered.elapsed()) {
            (Some(why), _) => Some(why.clone()),
            (None, silent) if silent > SILENT => Some("it does not answer".to_owned()),
            (None, _) => None,
        }
    }

    /// Why this hub refuses the database as it is, if it does.
    pub fn refused(&self) -> Option<DatabaseRefused> {
        self.known.state().refused
    }

    /// How often the database was lost since the start.
    pub fn losses(&self) -> u64 {
        self.known.state().losses
    }

    /// The last group that any hub had committed when the database last answered.
    pub fn committed(&self) -> u64 {
        self.known.state().committed
    }

    /// Somebody read the database, or could not.
    pub fn was_read(&self, error: Option<&StoreError>) {
        match error {
            None => self.known.state().refused = None,
            Some(StoreError::RolledBack { .. }) => {
                self.known.state().refused = Some(DatabaseRefused::IsBehind);
            }
            Some(StoreError::Outdated { .. }) => {
                self.known.state().refused = Some(DatabaseRefused::NeedsNewerHub);
            }
            Some(StoreError::Away(why)) => {
                self.known.is_away(why);
                // If the queue is full, the thread is about to look anyway.
                let _is_queued = self.wake.try_send(());
            }
            Some(_) => {}
        }
    }

    /// Takes the row back, if the database is there.
    pub fn leave(&self) {
        self.known.is_leaving.store(true, Ordering::Release);
        let _is_queued = self.wake.try_send(());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that keeps this hub's row did not end as it should");
        }
    }
}

struct OwnRow {
    id: String,
    database: Arc<Database>,
    home: Home,
    of: Fingerprints,
}

impl OwnRow {
    fn keep(self, known: &Known, woken: &Receiver<()>) {
        let mut client = None;
        loop {
            let nap = match self.write(&mut client) {
                Ok(committed) => {
                    known.answered(committed);
                    BEAT
                }
                Err(error) => {
                    client = None;
                    known.is_away(&match error {
                        StoreError::Away(why) => why,
                        other => other.to_string(),
                    });
                    RETRY
                }
            };
            if known.is_leaving.load(Ordering::Acquire) {
                break;
            }
            let woken = woken.recv_timeout(nap);
            if woken == Err(RecvTimeoutError::Disconnected) || known.is_leaving.load(Ordering::Acquire) {
                break;
            }
        }
        if let Some(mut client) = client {
            let sql = "DELETE FROM known_hubs WHERE id = $1";
            let left =
                client.run(ANSWERS_WITHIN, async |client| Ok(client.execute(sql, &[&self.id]).await?));
            if let Err::<_, StoreError>(error) = left {
                tracing::debug!(%error, "the row of this hub stays behind");
            }
        }
    }

    fn write(&self, client: &mut Option<Client>) -> Result<u64, StoreError> {
        if client.is_none() {
            let mut new = self.database.connect(Purpose::Look)?.client;
            // Nothing is lost with such a row, so nobody waits for the disk.
            let prepare = "SET synchronous_commit = off; SET statement_timeout = '5s';
                           DELETE FROM known_hubs WHERE seen_at < clock_timestamp() - INTERVAL '1 day'";
            new.run::<_, StoreError>(ANSWERS_WITHIN, async |client| {
                Ok(client.batch_execute(prepare).await?)
            })?;
            *client = Some(new);
        }
        let Some(client) = client else { return Err(StoreError::Closed) };
        let sql =
            "INSERT INTO known_hubs (id, host, pid, version, seen_at, chain_key, agent_key, operator_token, config, telegram_token)
                   VALUES ($1, $2, $3, $4, clock_timestamp(), $5, $6, $7, $8, $9)
                   ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, config = excluded.config
                   RETURNING (SELECT n FROM commits)";
        let (pid, version) = (i64::from(std::process::id()), env!("CARGO_PKG_VERSION"));
        let Fingerprints { chain_key, agent_key, operator_token, telegram_token, .. } = &self.of;
        // The file is read again as soon as somebody saves it.
        let key = self.home.chain_key().ok().flatten();
        let config = key.and_then(|file| of_config(&file.key, &self.home));
        let here = host();
        client.run(ANSWERS_WITHIN, async |client| {
            let here = here.as_str();
            let values: &[&(dyn ToSql + Sync)] = &[
                &self.id,
                &here,
                &pid,
                &version,
                chain_key,
                agent_key,
                operator_token,
                &config,
                telegram_token,
            ];
            let row = client.query_one(sql, values).await?;
            Ok(row.try_get::<_, i64>(0)?.cast_unsigned())
        })
    }
}
