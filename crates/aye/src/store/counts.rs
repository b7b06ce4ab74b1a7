//! How many there are, without looking at each.

use super::asks::unword;
use super::row_mac::pass_by;
use super::{Reader, StoreError};
use aye_core::{AgentState, Report};

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
        let mut statement = self.connection.prepare_cached(
            "SELECT kind, state, receipt, asks FROM ask_counts ORDER BY kind, state, receipt",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(AskCount { kind: row.get(0)?, state: row.get(1)?, receipt: row.get(2)?, asks: row.get(3)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Every state once. Agents that have ended are most of them, and are what is left when the others are
    /// subtracted.
    pub fn agent_counts(&self) -> Result<Vec<(AgentState, u64)>, StoreError> {
        use AgentState::{Ended, Idle, Lost, Waiting, Working};
        let mut statement = self.connection.prepare_cached(
            "SELECT report, lost, EXISTS (SELECT 1 FROM asks WHERE state = 'open' AND agent = agents.id), count(*)
             FROM agents WHERE report <> 'ended' GROUP BY 1, 2, 3",
        )?;
        let rows = statement.query_map([], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, bool>(1)?,
                row.get::<_, u32>(2)?,
                row.get::<_, u64>(3)?,
            ))
        })?;
        let mut counts = vec![(Working, 0), (Waiting, 0), (Idle, 0), (Lost, 0)];
        for row in rows {
            let (report, lost, open_asks, agents) = row?;
            let Some(report) = pass_by("agents", unword::<Report>(&report))? else { continue };
            let state = AgentState::of(report, lost, open_asks);
            counts.iter_mut().filter(|(of, _)| *of == state).for_each(|(_, count)| *count += agents);
        }
        let all: u64 =
            self.connection.prepare_cached("SELECT count(*) FROM agents")?.query_row([], |row| row.get(0))?;
        let alive: u64 = counts.iter().map(|(_, agents)| agents).sum();
        counts.push((Ended, all.saturating_sub(alive)));
        Ok(counts)
    }
}
