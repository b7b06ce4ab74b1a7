use super::asks::{name, time, unreadable, unword, word};
use super::outlines;
use super::row_mac::{AGENTS, OUTLINES, in_words, pass_by};
use super::sql::{Connection, Row, params};
use super::{Reader, StoreError, Tx};
use crate::processes::process_place;
use aye_core::{Agent, AgentId, AgentState, AsksFor, Outline, Reach, ReportedState};
use jiff::Timestamp;
use serde_json::json;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// An agent as the hub knows it: what everybody sees, and what only the hub needs.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    pub profile: Profile,
    pub report: ReportedState,
    pub lost: bool,
    pub open_asks: u32,
    pub outline: Outline,
    pub created_at: Timestamp,
    /// True if the hub wrote this row. Once false it stays false, and no rule allows the agent anything.
    pub ours: bool,
}

/// What an adapter tells of its agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub id: AgentId,
    pub kind: String,
    pub reach: Reach,
    pub host: String,
    pub cwd: String,
    /// The first folder that was named.
    pub first_cwd: String,
    pub title: String,
    pub session: Option<String>,
    /// The tmux session that its terminal is in.
    pub tmux: Option<String>,
    /// The agent's process, with its start time: a process id alone is soon another process.
    pub process: Option<(u32, u64)>,
    pub cost: Option<f64>,
    /// Its mode, by how much it asks for.
    pub asks: AsksFor,
}

impl AgentRow {
    /// An agent nobody has told us anything about is a script.
    pub fn unannounced(id: AgentId, now: Timestamp) -> Self {
        let profile = Profile {
            id,
            kind: "script".into(),
            reach: Reach::Script,
            host: String::new(),
            cwd: String::new(),
            first_cwd: String::new(),
            title: String::new(),
            session: None,
            tmux: None,
            process: None,
            cost: None,
            asks: AsksFor::Unknown,
        };
        Self {
            profile,
            report: ReportedState::Working,
            lost: false,
            open_asks: 0,
            outline: Outline::default(),
            created_at: now,
            ours: true,
        }
    }

    pub fn agent(&self) -> Agent {
        let profile = self.profile.clone();
        Agent {
            id: profile.id,
            kind: profile.kind,
            reach: profile.reach,
            host: profile.host,
            cwd: profile.cwd,
            title: profile.title,
            session: profile.session,
            tmux: profile.tmux,
            pid: profile.process.filter(|_| self.report != ReportedState::Ended).map(|(pid, _)| pid),
            state: AgentState::of(self.report, self.lost, self.open_asks),
            asks: profile.asks,
            cost: profile.cost,
            open_asks: self.open_asks,
            outline: self.outline.pause().cloned(),
            created_at: self.created_at,
        }
    }
}

/// The place of what counts of an agent's outline, after what counts of the agent.
const OUTLINE: usize = AGENTS.len() + 1;

impl Tx<'_> {
    /// Inserts a new agent. An id whose row was deleted behind the hub's back is refused: as a new agent it could choose
    /// another kind and folder.
    pub fn register_agent(&mut self, row: &AgentRow) -> Result<(), StoreError> {
        let id = &row.profile.id;
        if self.live_rows().is_some_and(|live_rows| live_rows.has("agents", id.as_str())) {
            return Err(StoreError::Foreign { table: "agents", id: id.to_string() });
        }
        self.ask_names().into_iter().for_each(|names| names.registered(id));
        self.put_agent(row)?;
        let Profile { kind, reach, host, cwd, .. } = &row.profile;
        let detail = json!({ "kind": kind, "reach": reach, "host": host, "cwd": cwd });
        self.audit(row.created_at, "agent.registered", id.as_str(), Some(id), None, detail)
    }

    pub fn put_agent(&self, row: &AgentRow) -> Result<(), StoreError> {
        let profile = &row.profile;
        let (id, kind, host, title) = (profile.id.as_str(), &profile.kind, &profile.host, &profile.title);
        let (reach, report, asks) = (word(&profile.reach)?, word(&row.report)?, word(&profile.asks)?);
        let (pid, started) =
            (profile.process.map(|(pid, _)| pid), profile.process.map(|(_, started)| started));
        let created = row.created_at.as_millisecond();
        let Profile { cwd, first_cwd, session, tmux, cost, .. } = profile;
        let marked =
            params![id, kind, reach, host, cwd, first_cwd, title, session, tmux, pid, started, created];
        let mac = row.ours.then(|| self.mac(&AGENTS, marked)).transpose()?;
        let sql = "INSERT INTO agents (id, kind, reach, host, cwd, first_cwd, title, session, tmux, pid, pid_started, created_at,
                 report, lost, cost, asks_for, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
             ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, reach = excluded.reach, host = excluded.host,
                 cwd = excluded.cwd, first_cwd = excluded.first_cwd, title = excluded.title, session = excluded.session,
                 tmux = excluded.tmux, pid = excluded.pid, pid_started = excluded.pid_started, report = excluded.report,
                 lost = excluded.lost, cost = excluded.cost, asks_for = excluded.asks_for, mac = excluded.mac";
        let values = params![
            id, kind, reach, host, cwd, first_cwd, title, session, tmux, pid, started, created, report,
            row.lost, cost, asks, mac
        ];
        self.put_live_row(("agents", id), sql, values, mac.clone())?;
        if let Some(names) = self.ask_names() {
            let sessions = profile.session.iter().chain(&profile.tmux);
            sessions.for_each(|session| names.has_session(&profile.id, session));
        }
        profile.process.map_or(Ok(()), |process| self.put_process(&profile.id, process))
    }

    /// From here on, what runs inside this process runs inside the agent.
    pub fn put_process(&self, agent: &AgentId, (pid, started): (u32, u64)) -> Result<(), StoreError> {
        if self.connection.is_server() {
            let sql = "INSERT INTO processes (pid, started, agent, place) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
            self.connection.execute(sql, params![pid, started, agent.as_str(), process_place()])?;
        } else {
            let sql =
                "INSERT INTO processes (pid, started, agent) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
            self.connection.execute(sql, params![pid, started, agent.as_str()])?;
        }
        self.note_live("processes", &format!("{pid} {started} {agent}"), None);
        Ok(())
    }

    /// What the database says of the agents that are there counts for nothing any more. Those that the trail knows and
    /// the database does not are there again, with nothing that would be believed.
    pub fn doubt_agents(&self) -> Result<(), StoreError> {
        let sql = "UPDATE agents SET mac = NULL RETURNING id";
        let there = self.connection.all(sql, params![], |row| Ok(in_words(row.value(0)?)))?;
        there.iter().for_each(|id| self.note_live("agents", id, None));
        let there: HashSet<_> = there.into_iter().collect();
        let mut missing = Vec::new();
        let known = self.newest_own_line(|line| {
            let agent = line.agent.clone().filter(|_| line.kind == "agent.registered");
            missing.extend(agent.filter(|agent| !there.contains(agent)).map(|agent| (agent, line.at)));
            None::<()>
        });
        pass_by("audit", known)?;
        for (agent, at) in missing {
            let agent = AgentId::try_from(agent).map_err(unreadable)?;
            let report = ReportedState::Ended;
            self.put_agent(&AgentRow { ours: false, report, ..AgentRow::unannounced(agent, at) })?;
        }
        Ok(())
    }
}

impl Reader {
    /// Whether an agent was reported to have ended; none if there is none by that id.
    pub fn has_ended(&self, id: &AgentId) -> Result<Option<bool>, StoreError> {
        let sql = "SELECT report FROM agents WHERE id = ?1";
        self.connection.first(sql, params![id.as_str()], |row| Ok(row.get::<String>(0)? == "ended"))
    }

    /// Whether another machine than this one saw that process.
    pub fn is_process_elsewhere(&self, id: &AgentId, (pid, started): (u32, u64)) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM processes WHERE pid = ?1 AND started = ?2 AND agent = ?3 AND place <> ?4";
        let values = params![pid, started, id.as_str(), process_place()];
        Ok(self.connection.is_server() && self.connection.exists(sql, values)?)
    }

    /// The agents that have not ended and whose processes another machine than this one saw.
    pub fn agents_elsewhere(&self) -> Result<HashSet<AgentId>, StoreError> {
        if !self.connection.is_server() {
            return Ok(HashSet::new());
        }
        let sql = "SELECT agents.id FROM agents JOIN processes
                 ON processes.pid = agents.pid AND processes.started = agents.pid_started AND processes.agent = agents.id
             WHERE agents.report <> 'ended' AND processes.place <> ?1";
        let found = self.rows("agents", sql, params![process_place()], |row| name(row, 0))?;
        Ok(found.into_iter().collect())
    }

    fn select_agents(&self) -> String {
        format!(
            "SELECT {}, outline_mac, outline_agent, outline,
                 (SELECT count(*) FROM asks {} WHERE asks.state = 'open' AND asks.agent = agents.id),
                 report, lost, cost, asks_for
             FROM agents
             LEFT JOIN (SELECT agent AS outline_agent, body AS outline, mac AS outline_mac FROM outlines) AS waiting
                 ON outline_agent = id",
            AGENTS.selected(),
            self.connection.indexed_by("asks_open")
        )
    }

    pub(super) fn select_agent(&self) -> String {
        format!("{} WHERE agents.id = ?1", self.select_agents())
    }

    pub fn agent(&self, id: &AgentId) -> Result<Option<AgentRow>, StoreError> {
        self.find_one_agent(&self.select_agent(), id.as_str())
    }

    /// By our id, by the agent's own session id, or by the tmux session that no other agent runs in.
    pub fn find_agent(&self, id: &str) -> Result<Option<AgentRow>, StoreError> {
        let sql = format!(
            "{} WHERE agents.id = ?1 OR agents.session = ?1 ORDER BY agents.id = ?1 DESC LIMIT 1",
            self.select_agents()
        );
        if let Some(found) = self.find_one_agent(&sql, id)? {
            return Ok(Some(found));
        }
        let sql = format!("{} WHERE tmux = ?1 AND report <> 'ended' LIMIT 2", self.select_agents());
        let mut in_tmux = self.rows("agents", &sql, params![id], |row| self.read_agent(row))?;
        Ok(in_tmux.pop().filter(|_| in_tmux.is_empty()))
    }

    /// An index that somebody changed may lead to another.
    fn find_one_agent(&self, sql: &str, name: &str) -> Result<Option<AgentRow>, StoreError> {
        let found = self.connection.first(sql, params![name], |row| self.read_agent(row))?;
        let is_it = |agent: &Profile| agent.id.as_str() == name || agent.session.as_deref() == Some(name);
        match found {
            Some(row) if !is_it(&row.profile) => {
                Err(StoreError::Foreign { table: "agents", id: name.to_owned() })
            }
            found => Ok(found),
        }
    }

    /// Calls `each` with the id of every agent.
    pub fn agent_ids(&self, mut each: impl FnMut(String)) -> Result<(), StoreError> {
        self.connection.each("SELECT id FROM agents", params![], |row| {
            each(in_words(row.value(0)?));
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Agents that have not ended, oldest first; with `all`, the others too.
    pub fn agents(&self, all: bool) -> Result<Vec<AgentRow>, StoreError> {
        let condition = if all { "" } else { "WHERE report <> 'ended'" };
        // Should there ever be more, the newest are the ones that matter.
        let sql =
            format!("{} {condition} ORDER BY created_at DESC, id DESC LIMIT 10000", self.select_agents());
        let mut agents = self.rows("agents", &sql, params![], |row| self.read_agent(row))?;
        agents.reverse();
        Ok(agents)
    }

    fn read_agent(&self, row: &Row) -> Result<AgentRow, StoreError> {
        let outline = match self.is_ours(&OUTLINES, row, OUTLINE)? {
            true => outlines::read(&row.get::<String>(OUTLINE + 2)?)?,
            false => Outline::default(),
        };
        let (pid, started): (Option<u32>, Option<i64>) = (row.get(10)?, row.get(11)?);
        let asks: Option<String> = row.get(OUTLINE + 7)?;
        Ok(AgentRow {
            profile: Profile {
                id: name(row, 1)?,
                kind: row.get(2)?,
                reach: unword(&row.get::<String>(3)?)?,
                host: row.get(4)?,
                cwd: row.get(5)?,
                first_cwd: row.get(6)?,
                title: row.get(7)?,
                session: row.get(8)?,
                tmux: row.get(9)?,
                process: pid.zip(started.map(i64::cast_unsigned)),
                cost: row.get(OUTLINE + 6)?,
                asks: asks.and_then(|asks| unword(&asks).ok()).unwrap_or_default(),
            },
            report: unword(&row.get::<String>(OUTLINE + 4)?)?,
            lost: row.get(OUTLINE + 5)?,
            open_asks: row.get(OUTLINE + 3)?,
            outline,
            created_at: time(row.get(12)?)?,
            ours: self.is_ours(&AGENTS, row, 0)?,
        })
    }
}

/// The sessions of all agents there are, their own and those of tmux.
pub(super) fn sessions(connection: &Connection) -> Result<HashSet<String>, StoreError> {
    let sql = "SELECT DISTINCT session FROM agents WHERE session IS NOT NULL";
    let sessions = connection.all(sql, params![], |row| Ok(in_words(row.value(0)?)))?;
    Ok(sessions.into_iter().collect())
}
