//! How many there are, without looking at each.

use super::asks::unword;
use super::row_mac::pass_by;
use super::sql::params;
use super::{Reader, StoreError};
use aye_core::{AgentState, ReportedState};

/// How many asks share a kind, a state and a receipt (`none` where nothing goes to the agent).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskCount {
    pub kind: String,
    pub state: String,
    pub receipt: String,
    pub asks: u64,
}

impl Reader {
    pub fn ask_counts(&self) -> Result<Vec<AskCount>, StoreError> {
        let sql = "SELECT kind, state, receipt, asks FROM ask_counts ORDER BY kind, state, receipt";
        self.connection.all(sql, params![], |row| {
            Ok(AskCount { kind: row.get(0)?, state: row.get(1)?, receipt: row.get(2)?, asks: row.get(3)? })
        })
    }

    /// Every state once. Agents that have ended are most of them, and are what is left when the others are
    /// subtracted.
    pub fn agent_counts(&self) -> Result<Vec<(AgentState, u64)>, StoreError> {
        use AgentState::{Ended, Idle, Lost, Waiting, Working};
        let sql = "SELECT report, lost, EXISTS (SELECT 1 FROM asks WHERE state = 'open' AND agent = agents.id), count(*)
             FROM agents WHERE report <> 'ended' GROUP BY 1, 2, 3";
        let mut counts = vec![(Working, 0), (Waiting, 0), (Idle, 0), (Lost, 0)];
        self.connection.all(sql, params![], |row| {
            let (lost, open_asks, agents): (bool, u32, u64) = (row.get(1)?, row.get(2)?, row.get(3)?);
            let report = unword::<ReportedState>(&row.get::<String>(0)?);
            let Some(report) = pass_by("agents", report)? else { return Ok(()) };
            let state = AgentState::of(report, lost, open_asks);
            counts.iter_mut().filter(|(of, _)| *of == state).for_each(|(_, count)| *count += agents);
            Ok(())
        })?;
        let all: u64 = self.connection.one_value("SELECT count(*) FROM agents", params![])?;
        let alive: u64 = counts.iter().map(|(_, agents)| agents).sum();
        counts.push((Ended, all.saturating_sub(alive)));
        Ok(counts)
    }
}
