//! Agents: who asks.

use crate::ids::AgentId;
use crate::outline::Pause;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How we reach an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    Driven,
    Hooked,
    Watched,
    #[default]
    Script,
}

/// The state an adapter reports. `lost` follows from silence, and is not reported. An agent with an open ask waits
/// whatever is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportedState {
    #[default]
    Working,
    /// For a person, perhaps for something that is no ask.
    Waiting,
    Idle,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    Working,
    Waiting,
    Idle,
    Ended,
    Lost,
}

impl AgentState {
    pub fn of(report: ReportedState, lost: bool, open_asks: u32) -> Self {
        match (report, lost, open_asks) {
            (ReportedState::Ended, _, _) => AgentState::Ended,
            (ReportedState::Working | ReportedState::Waiting | ReportedState::Idle, true, _) => {
                AgentState::Lost
            }
            (ReportedState::Waiting, false, _)
            | (ReportedState::Working | ReportedState::Idle, false, 1..) => AgentState::Waiting,
            (ReportedState::Working, false, 0) => AgentState::Working,
            (ReportedState::Idle, false, 0) => AgentState::Idle,
        }
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            AgentState::Working => "working",
            AgentState::Waiting => "waiting",
            AgentState::Idle => "idle",
            AgentState::Ended => "ended",
            AgentState::Lost => "lost",
        })
    }
}

/// The share of what an agent does that its mode asks for. Its own rules, which allow single things, do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AsksFor {
    /// For everything, or it does without.
    Everything,
    /// It does some of it unasked.
    Some,
    /// It does all of it unasked.
    Nothing,
    #[default]
    Unknown,
}

impl AsksFor {
    /// True if more is done unasked than somebody who expects `other` would think.
    pub fn is_less_than(self, other: Self) -> bool {
        let rank = |asks| match asks {
            AsksFor::Everything => Some(2),
            AsksFor::Some => Some(1),
            AsksFor::Nothing => Some(0),
            AsksFor::Unknown => None,
        };
        rank(self).zip(rank(other)).is_some_and(|(found, expected)| found < expected)
    }
}

/// One running agent session, as everybody sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    pub id: AgentId,
    /// `claude`, `script`, …
    pub kind: String,
    pub reach: Reach,
    pub host: String,
    pub cwd: String,
    pub title: String,
    /// The agent's own name for its session.
    pub session: Option<String>,
    /// The tmux session that its terminal is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux: Option<String>,
    pub state: AgentState,
    /// Its mode, by how much it asks for, as far as the agent tells.
    #[serde(default)]
    pub asks: AsksFor,
    /// Cost of the session so far in US dollars, if the agent reports it.
    pub cost: Option<f64>,
    pub open_asks: u32,
    /// The plan that was last refused for an outline. A person may approve it until the pause ends.
    pub outline: Option<Pause>,
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_agent_is_lost_even_while_it_waits_but_an_ended_one_has_ended() {
        assert_eq!(AgentState::of(ReportedState::Working, false, 0), AgentState::Working);
        assert_eq!(AgentState::of(ReportedState::Idle, false, 0), AgentState::Idle);
        assert_eq!(AgentState::of(ReportedState::Waiting, false, 0), AgentState::Waiting);
        assert_eq!(AgentState::of(ReportedState::Waiting, true, 0), AgentState::Lost);
        assert_eq!(AgentState::of(ReportedState::Idle, false, 1), AgentState::Waiting);
        assert_eq!(AgentState::of(ReportedState::Working, true, 1), AgentState::Lost);
        assert_eq!(AgentState::of(ReportedState::Ended, true, 1), AgentState::Ended);
    }
}
