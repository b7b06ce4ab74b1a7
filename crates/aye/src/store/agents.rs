use super::asks::{name, newer, time, unreadable, unword, word};
use super::outlines;
use super::row_mac::{AGENTS, OUTLINES, in_words, of_params, pass_by};
use super::{Reader, StoreError, Tx};
use aye_core::{Agent, AgentId, AgentState, Outline, Reach, Report};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};
use serde_json::json;
use std::collections::HashSet;

/// An agent as the hub knows it: what everybody sees, and what only the hub needs.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    pub profile: Profile,
    pub report: Report,
    pub lost: bool,
    pub open_asks: u32,
    pub outline: Outline,
    pub created_at: Timestamp,
    /// Whether the hub itself wrote what counts of it. Once it did not, it never does again: policy allows it nothing.
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
        };
        Self {
            profile,
            report: Report::Working,
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
            state: AgentState::of(self.report, self.lost, self.open_asks),
            cost: profile.cost,
            open_asks: self.open_asks,
            outline: self.outline.pause().cloned(),
            created_at: self.created_at,
        }
    }
}

/// The index is named because SQLite would take `asks_by_agent` and look through all the agent ever asked.
fn select() -> String {
    format!(
        "SELECT row_is_ours(mac, {AGENTS}) AS ours,
    (SELECT count(*) FROM asks INDEXED BY asks_open WHERE asks.state = 'open' AND asks.agent = agents.id)
        AS open_asks,
    (SELECT body FROM outlines WHERE outlines.agent = agents.id AND row_is_ours(mac, {OUTLINES})) AS outline,
    agents.* FROM agents"
    )
}

impl Tx<'_> {
    /// Takes up an agent that was never there before. One that was and is not any more was removed by somebody else: as a
    /// new one it could say anew what it is.
    pub fn register_agent(&mut self, row: &AgentRow) -> Result<(), StoreError> {
        let id = &row.profile.id;
        if self.standing().is_some_and(|standing| standing.has("agents", id.as_str())) {
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
        let mac = of_params(AGENTS);
        let sql = format!(
            "INSERT INTO agents (id, kind, reach, host, cwd, first_cwd, title, session, tmux, pid, pid_started, report, lost, cost, created_at, mac)
             VALUES (:id, :kind, :reach, :host, :cwd, :first_cwd, :title, :session, :tmux, :pid, :pid_started, :report, :lost, :cost, :created_at,
                 iif(:ours, {mac}, NULL))
             ON CONFLICT (id) DO UPDATE SET kind = :kind, reach = :reach, host = :host, cwd = :cwd, first_cwd = :first_cwd, title = :title,
                 session = :session, tmux = :tmux, pid = :pid, pid_started = :pid_started, report = :report, lost = :lost, cost = :cost, mac = excluded.mac
             RETURNING mac"
        );
        let params = named_params! {
            ":id": profile.id.as_str(),
            ":kind": profile.kind,
            ":reach": word(&profile.reach)?,
            ":host": profile.host,
            ":cwd": profile.cwd,
            ":first_cwd": profile.first_cwd,
            ":title": profile.title,
            ":session": profile.session,
            ":tmux": profile.tmux,
            ":pid": profile.process.map(|(pid, _)| pid),
            ":pid_started": profile.process.map(|(_, started)| started),
            ":report": word(&row.report)?,
            ":lost": row.lost,
            ":cost": profile.cost,
            ":created_at": row.created_at.as_millisecond(),
            ":ours": row.ours,
        };
        self.put_standing(("agents", profile.id.as_str()), &sql, params)?;
        if let Some(names) = self.ask_names() {
            let sessions = profile.session.iter().chain(&profile.tmux);
            sessions.for_each(|session| names.has_session(&profile.id, session));
        }
        profile.process.map_or(Ok(()), |process| self.put_process(&profile.id, process))
    }

    /// From here on, what runs inside this process runs inside the agent.
    pub fn put_process(&self, agent: &AgentId, (pid, started): (u32, u64)) -> Result<(), StoreError> {
        let sql = "INSERT OR IGNORE INTO processes (pid, started, agent) VALUES (?1, ?2, ?3)";
        self.connection.prepare_cached(sql)?.execute((pid, started, agent.as_str()))?;
        self.stands("processes", &format!("{pid} {started} {agent}"), None);
        Ok(())
    }

    /// What the database says of the agents that are there counts for nothing any more. Those that the trail knows and
    /// the database does not are there again, with nothing that would be believed.
    pub fn doubt_agents(&self) -> Result<(), StoreError> {
        let mut there = HashSet::new();
        let mut statement = self.connection.prepare("UPDATE agents SET mac = NULL RETURNING id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id = in_words(row.get_ref(0)?);
            self.stands("agents", &id, None);
            there.insert(id);
        }
        let mut missing = Vec::new();
        let known = self.newest_own_line(|line| {
            let agent = line.agent.clone().filter(|_| line.kind == "agent.registered");
            missing.extend(agent.filter(|agent| !there.contains(agent)).map(|agent| (agent, line.at)));
            None::<()>
        });
        pass_by("audit", known)?;
        for (agent, at) in missing {
            let agent = AgentId::try_from(agent).map_err(unreadable)?;
            let report = Report::Ended;
            self.put_agent(&AgentRow { ours: false, report, ..AgentRow::unannounced(agent, at) })?;
        }
        Ok(())
    }
}

impl Reader {
    pub fn agent(&self, id: &AgentId) -> Result<Option<AgentRow>, StoreError> {
        self.find_one_agent(&format!("{} WHERE agents.id = ?1", select()), id.as_str())
    }

    /// By our id, by the agent's own session id, or by the tmux session that no other agent runs in.
    pub fn find_agent(&self, id: &str) -> Result<Option<AgentRow>, StoreError> {
        let sql = format!(
            "{} WHERE agents.id = ?1 OR agents.session = ?1 ORDER BY agents.id = ?1 DESC LIMIT 1",
            select()
        );
        if let Some(found) = self.find_one_agent(&sql, id)? {
            return Ok(Some(found));
        }
        let sql = format!("{} WHERE tmux = ?1 AND report <> 'ended' LIMIT 2", select());
        let mut in_tmux = self.rows("agents", &sql, [id], read_row)?;
        Ok(in_tmux.pop().filter(|_| in_tmux.is_empty()))
    }

    /// An index that somebody changed may lead to another.
    fn find_one_agent(&self, sql: &str, name: &str) -> Result<Option<AgentRow>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_row([name], |row| Ok(read_row(row))).optional()?.transpose()?;
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
        let mut statement = self.connection.prepare("SELECT id FROM agents")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(in_words(row.get_ref(0)?));
        }
        Ok(())
    }

    /// Agents that have not ended, oldest first; with `all`, the others too.
    pub fn agents(&self, all: bool) -> Result<Vec<AgentRow>, StoreError> {
        let condition = if all { "" } else { "WHERE report <> 'ended'" };
        // Should there ever be more, the newest are the ones that matter.
        let sql = format!("{} {condition} ORDER BY created_at DESC, id DESC LIMIT 10000", select());
        let mut agents = self.rows("agents", &sql, [], read_row)?;
        agents.reverse();
        Ok(agents)
    }
}

/// The sessions of all agents there are, their own and those of tmux.
pub(super) fn sessions(connection: &Connection) -> Result<HashSet<String>, StoreError> {
    let mut statement =
        connection.prepare("SELECT DISTINCT session FROM agents WHERE session IS NOT NULL")?;
    let sessions = statement.query_map([], |row| Ok(in_words(row.get_ref(0)?)))?;
    Ok(sessions.collect::<Result<_, _>>()?)
}

fn read_row(row: &Row) -> Result<AgentRow, StoreError> {
    let pid: Option<u32> = row.get("pid")?;
    let started: Option<i64> = row.get("pid_started")?;
    let outline: Option<String> = row.get("outline")?;
    Ok(AgentRow {
        profile: Profile {
            id: name(row, "id")?,
            kind: row.get("kind")?,
            reach: unword(&row.get::<_, String>("reach")?)?,
            host: row.get("host")?,
            cwd: row.get("cwd")?,
            first_cwd: row.get("first_cwd")?,
            title: row.get("title")?,
            session: row.get("session")?,
            tmux: newer(row, "tmux")?,
            process: pid.zip(started.map(i64::cast_unsigned)),
            cost: row.get("cost")?,
        },
        report: unword(&row.get::<_, String>("report")?).map_err(unreadable)?,
        lost: row.get("lost")?,
        open_asks: row.get("open_asks")?,
        outline: outline.as_deref().map_or_else(|| Ok(Outline::default()), outlines::read)?,
        created_at: time(row.get("created_at")?)?,
        ours: row.get("ours")?,
    })
}
