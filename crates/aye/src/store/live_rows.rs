//! The rows in force: agents and their processes, tokens, passkeys, grants and approvals in advance. A row's own MAC shows
//! who wrote it, but not that a row was deleted or that an earlier state of it was restored. So the hub keeps the newest MAC of
//! each of these rows in memory and trusts no other. A tag over all of them is in the database, bound to the newest line of
//! the trail, so that the next start can tell whether they are as the hub left them.
//!
//! On a server other hubs write these rows too. Each group logs the rows it changed; other hubs apply that log, and the tag
//! shows whether it was complete.

use super::row_mac::{AGENTS, GRANTS, Marked, OUTLINES, PASSKEYS, TOKENS, in_words};
use super::sql::{Connection, Params, Row, params};
use super::{Reader, StoreError, Tx, one};
use aye_core::AgentId;
use aye_core::digest::{canonical, hex};
use aye_core::trail::{Chain, ChainKey};
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why these rows differ from what the hub wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Lines of the trail are missing.
    TrailWasCut,
    /// Rows were removed, or replaced by earlier ones.
    RowsWereChanged,
}

/// The mark of a row that exists but is not trusted.
const FOREIGN: &str = "";
const PROCESSES: &str = "processes";
/// The mark of a revoked token, whose row is kept so that the token is never issued again.
pub const REVOKED: &str = "revoked";

/// Earlier states that are remembered for those who read a moment that has just passed.
const MOST_EARLIER: usize = 10_000;

/// The newest MACs, by table and name.
pub struct LiveRows {
    key: ChainKey,
    rows: Mutex<Rows>,
    /// How many commits have changed them.
    version: AtomicU64,
}

#[derive(Default)]
struct Rows {
    tables: HashMap<&'static str, BTreeMap<String, String>>,
    /// All of them together, each under a tag that nobody else can compute or see: who could see them could look for
    /// other rows with the same sum.
    sum: [u8; 32],
    /// What to put back if the change under way is given up.
    undo: Vec<Replaced>,
    /// The number of the group that is under way, on a server.
    group: u64,
    /// States of rows that groups have replaced, each with the number of that group, in order.
    earlier: HashMap<RowName, Vec<(u64, Option<String>)>>,
    /// The same by age.
    by_age: VecDeque<RowName>,
    /// The version in which each agent was last changed, or its outline; of the others, that in which all was read.
    agents_changed: HashMap<String, u64>,
    all_read: u64,
}

/// By its table and its name in it.
type RowName = (&'static str, String);

/// What a row was before a change.
struct Replaced {
    table: &'static str,
    name: String,
    before: Option<String>,
    group: u64,
}

/// Each table: its MAC columns, the filter for rows in force, and the column that marks a row as revoked, which is read
/// after the MAC columns.
fn tables() -> [(&'static Marked, &'static str, &'static str); 5] {
    [
        (&AGENTS, "NULL", "TRUE"),
        (&TOKENS, "revoked_at", "TRUE"),
        (&PASSKEYS, "NULL", "removed_at IS NULL"),
        (&GRANTS, "NULL", "ended_at IS NULL"),
        (&OUTLINES, "NULL", "TRUE"),
    ]
}

impl LiveRows {
    /// As the rows are now, whoever left them so.
    pub fn read(connection: &Connection, key: &ChainKey) -> Result<Self, StoreError> {
        let live_rows = Self { key: key.clone(), rows: Mutex::default(), version: AtomicU64::new(0) };
        for (marked, revoked, which) in tables() {
            live_rows.rows().tables.insert(marked.table, BTreeMap::new());
            let sql = format!("SELECT {}, {revoked} FROM {} WHERE {which}", marked.selected(), marked.table);
            connection.all(&sql, params![], |row| {
                let revoked = !matches!(row.value(marked.len() + 1)?, ValueRef::Null);
                let mac = match marked.mac_if_ours(row, key)? {
                    Some(_) if revoked => Some(REVOKED.to_owned()),
                    Some(mac) => Some(mac),
                    None if marked.table == AGENTS.table => Some(FOREIGN.to_owned()),
                    None => None,
                };
                if mac.is_some() {
                    live_rows.set(marked.table, &in_words(row.value(1)?), mac);
                }
                Ok(())
            })?;
        }
        live_rows.rows().tables.insert(PROCESSES, BTreeMap::new());
        connection.all("SELECT pid, started, agent FROM processes", params![], |row| {
            let (pid, started, agent): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            live_rows.set(PROCESSES, &format!("{pid} {started} {agent}"), Some(FOREIGN.to_owned()));
            Ok(())
        })?;
        live_rows.keep();
        // All are of one version, which need not be said of each.
        live_rows.rows().agents_changed = HashMap::new();
        Ok(live_rows)
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is how the row was last written, or was at the moment after a group that has just passed. Rows of other
    /// tables are not known here.
    pub fn is_newest(&self, table: &'static str, name: &str, mac: &str, moment: Option<u64>) -> bool {
        let rows = self.rows();
        let Some(newest) = rows.tables.get(table) else { return true };
        newest.get(name).is_some_and(|newest| newest == mac)
            || moment.and_then(|moment| rows.before(table, name, moment)).is_some_and(|then| then == mac)
    }

    pub fn has(&self, table: &str, name: &str) -> bool {
        self.rows().tables.get(table).is_some_and(|rows| rows.contains_key(name))
    }

    pub fn is_revoked(&self, token: &str) -> bool {
        self.rows().tables.get("tokens").and_then(|rows| rows.get(token)).is_some_and(|mark| mark == REVOKED)
    }

    /// Whether this token counts.
    pub fn has_token(&self, token: &str) -> bool {
        self.rows().tables.get("tokens").and_then(|rows| rows.get(token)).is_some_and(|mark| mark != REVOKED)
    }

    fn set(&self, table: &'static str, name: &str, mac: Option<String>) {
        let mut rows = self.rows();
        let (name, group) = (name.to_owned(), rows.group);
        let before = rows.set(&self.key, table, &name, mac);
        rows.undo.push(Replaced { table, name, before, group });
    }

    /// What changes from here on belongs to this group.
    pub fn begin(&self, group: u64) {
        self.rows().group = group;
    }

    /// What the group that is under way changed, for other hubs: the table, the name, and the MAC if there is such a row.
    pub fn changed(&self) -> Vec<Value> {
        let rows = self.rows();
        let now = |it: &Replaced| rows.tables.get(it.table).and_then(|rows| rows.get(&it.name)).cloned();
        rows.undo.iter().map(|it| json!([it.table, it.name, now(it)])).collect()
    }

    /// Applies what other hubs changed in the groups after this one, as of this line. Returns the tokens that they ended.
    pub fn follow(
        &self,
        connection: &Connection,
        after: u64,
        chain: &Chain,
    ) -> Result<Vec<String>, StoreError> {
        let mut tokens = self.apply(connection, after)?;
        match is_as_left(connection, self, chain) {
            Ok(true) => self.keep(),
            failed => {
                self.give_up(0);
                failed?;
                tokens = self.tokens();
                self.read_anew(connection, chain)?;
            }
        }
        Ok(tokens.into_iter().filter(|token| !self.has_token(token)).collect())
    }

    /// Applies what was changed in the groups after this one. Returns the tokens that this was about.
    fn apply(&self, connection: &Connection, after: u64) -> Result<Vec<String>, StoreError> {
        let mut tokens = Vec::new();
        let sql = "SELECT n, rows_of, name, mac FROM stood WHERE n > ?1 ORDER BY n, i";
        connection.all(sql, params![after], |row| {
            if let Some(table) = known_table(&row.get::<String>(1)?) {
                let name: String = row.get(2)?;
                self.begin(row.get::<i64>(0)?.cast_unsigned());
                self.set(table, &name, row.get(3)?);
                tokens.extend(Some(name).filter(|_| table == "tokens"));
            }
            Ok(())
        })?;
        Ok(tokens)
    }

    /// These rows with the changes of the groups after this one; none if the tag at this line does not match them.
    pub fn catch_up(
        self,
        connection: &Connection,
        after: u64,
        chain: &Chain,
    ) -> Result<Option<Self>, StoreError> {
        self.apply(connection, after)?;
        self.keep();
        self.begin(0);
        Ok(is_as_left(connection, &self, chain)?.then_some(self))
    }

    /// Reads all rows: the log of changes is too short, or was altered.
    fn read_anew(&self, connection: &Connection, chain: &Chain) -> Result<(), StoreError> {
        let found = Self::read(connection, &self.key)?;
        if !is_as_left(connection, &found, chain)? {
            let what = "what it says of agents, grants, tokens or passkeys is not what the hubs left";
            return Err(StoreError::Schema(what.to_owned()));
        }
        tracing::info!("all rows in force were read again");
        self.replace(found);
        Ok(())
    }

    /// The tokens that count.
    fn tokens(&self) -> Vec<String> {
        let rows = self.rows();
        let tokens = rows.tables.get("tokens").into_iter().flatten();
        tokens.filter(|(_, mark)| *mark != REVOKED).map(|(token, _)| token.clone()).collect()
    }

    /// How many changes are under way.
    pub fn changes(&self) -> usize {
        self.rows().undo.len()
    }

    /// Gives up all changes after the first so many.
    pub fn give_up(&self, after: usize) {
        let mut rows = self.rows();
        while rows.undo.len() > after
            && let Some(Replaced { table, name, before, .. }) = rows.undo.pop()
        {
            rows.set(&self.key, table, &name, before);
        }
    }

    /// Takes these for what was written last.
    pub fn replace(&self, other: Self) {
        let mut rows = self.rows();
        *rows = other.rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        rows.agents_changed.clear();
        rows.all_read = self.next_version();
    }

    /// What was changed is on disk.
    pub fn keep(&self) {
        let mut rows = self.rows();
        if !rows.undo.is_empty() {
            let version = self.next_version();
            let Rows { undo, agents_changed, .. } = &mut *rows;
            let of_agents = undo.iter().filter(|it| [AGENTS.table, OUTLINES.table].contains(&it.table));
            agents_changed.extend(of_agents.map(|it| (it.name.clone(), version)));
            rows.remember_earlier();
        }
    }

    fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Release) + 1
    }

    /// Changes with every commit that writes this agent or its outline, even if only what it reports of itself.
    pub fn version_of_agent(&self, agent: &AgentId) -> u64 {
        let rows = self.rows();
        rows.agents_changed.get(agent.as_str()).copied().unwrap_or(rows.all_read)
    }

    /// Changes with every commit that changes one of these rows.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What the database says of these rows as of this line.
    pub fn tag(&self, chain: &Chain) -> String {
        let sum = hex(&self.rows().sum);
        self.key.tag("rows that stand", &format!("{} {} {sum}", chain.lines, chain.head))
    }

    /// The agents whose process this is or was.
    fn agents_of(&self, (pid, started): (u32, u64)) -> Vec<AgentId> {
        let prefix = format!("{pid} {started} ");
        let rows = self.rows();
        let named = rows.tables.get("processes").into_iter().flat_map(|rows| rows.range(prefix.clone()..));
        named
            .map_while(|(name, _)| name.strip_prefix(&prefix))
            .filter_map(|agent| AgentId::try_from(agent).ok())
            .collect()
    }
}

impl Rows {
    fn set(
        &mut self,
        key: &ChainKey,
        table: &'static str,
        name: &str,
        mac: Option<String>,
    ) -> Option<String> {
        let mut count = |mac: &String| {
            let row = canonical(&json!([table, name, mac]));
            let tag = key.tag_bytes("row that stands", &row);
            self.sum.iter_mut().zip(tag).for_each(|(sum, byte)| *sum ^= byte);
        };
        mac.iter().for_each(&mut count);
        let rows = self.tables.entry(table).or_default();
        let before = match mac {
            Some(mac) => rows.insert(name.to_owned(), mac),
            None => rows.remove(name),
        };
        before.iter().for_each(count);
        before
    }

    /// What a row was at the moment after this group, if it was changed since.
    fn before(&self, table: &'static str, name: &str, moment: u64) -> Option<&str> {
        let earlier = self.earlier.get(&(table, name.to_owned())).into_iter().flatten();
        let replaced = earlier.map(|(group, before)| (*group, before));
        let under_way = self.undo.iter().filter(|it| it.table == table && it.name == name);
        let mut all = replaced.chain(under_way.map(|it| (it.group, &it.before)));
        all.find(|(group, _)| *group > moment)?.1.as_deref()
    }

    fn remember_earlier(&mut self) {
        for Replaced { table, name, before, group } in std::mem::take(&mut self.undo) {
            // With SQLite there are no numbers, and nobody asks.
            if group == 0 {
                continue;
            }
            self.by_age.push_back((table, name.clone()));
            self.earlier.entry((table, name)).or_default().push((group, before));
            if self.by_age.len() > MOST_EARLIER
                && let Some(oldest) = self.by_age.pop_front()
                && let Some(states) = self.earlier.get_mut(&oldest)
            {
                states.remove(0);
                if states.is_empty() {
                    self.earlier.remove(&oldest);
                }
            }
        }
    }
}

fn known_table(name: &str) -> Option<&'static str> {
    tables().iter().map(|(marked, ..)| marked.table).chain([PROCESSES]).find(|table| *table == name)
}

/// Whether the tag in the database matches these rows. `chain` is the trail as it was when the tag was written.
pub fn is_as_left(connection: &Connection, live_rows: &LiveRows, chain: &Chain) -> Result<bool, StoreError> {
    let sql = "SELECT tag FROM standing";
    let said: Option<String> = connection.first(sql, params![], |row| row.get(0))?;
    Ok(said.is_some_and(|said| said == live_rows.tag(chain)))
}

/// Writes the tag over these rows, bound to this line of the trail.
pub fn write_tag(connection: &Connection, live_rows: &LiveRows, chain: &Chain) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO standing (one, tag) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET tag = excluded.tag";
    one(connection.execute(sql, params![live_rows.tag(chain)])?, "standing", "1")?;
    connection.log_row_changes(&live_rows.changed())
}

impl Tx<'_> {
    /// Writes a row that is in force, with this MAC.
    pub(super) fn put_live_row<'p>(
        &self,
        (table, name): (&'static str, &str),
        sql: &str,
        params: impl Into<Params<'p>>,
        mac: Option<String>,
    ) -> Result<(), StoreError> {
        one(self.connection.execute(sql, params)?, table, name)?;
        self.note_live(table, name, mac);
        Ok(())
    }

    /// Records this MAC as the row's newest. Without one, the row is not trusted.
    pub(super) fn note_live(&self, table: &'static str, name: &str, mac: Option<String>) {
        if let Some(live_rows) = self.live_rows() {
            live_rows.set(table, name, Some(mac.unwrap_or_else(|| FOREIGN.to_owned())));
        }
    }

    /// Records that the row is gone.
    pub(super) fn note_removed(&self, table: &'static str, name: &str) {
        if let Some(live_rows) = self.live_rows() {
            live_rows.set(table, name, None);
        }
    }
}

impl Reader {
    /// The agent of the first of these processes that has one, by process id and start time.
    pub fn agent_of_processes(&self, processes: &[(u32, u64)]) -> Result<Option<AgentId>, StoreError> {
        let Some(live_rows) = self.live_rows() else { return Ok(None) };
        let sql = "SELECT report <> 'ended', created_at FROM agents WHERE id = ?1";
        for process in processes {
            let mut found = None;
            for agent in live_rows.agents_of(*process) {
                // One whose row is gone is still an agent, and one that has not ended comes first.
                let read = |row: &Row| Ok((row.get::<bool>(0)?, row.get::<i64>(1)?));
                let rank = self.connection.first(sql, params![agent.as_str()], read)?.unwrap_or_default();
                found = found.max(Some((rank, agent)));
            }
            if let Some((_, agent)) = found {
                return Ok(Some(agent));
            }
        }
        Ok(None)
    }
}
