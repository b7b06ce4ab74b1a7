//! Agents: who asks.

use crate::ids::AgentId;
use crate::outline::Pause;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
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
    /// Its process, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
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

impl Agent {
    /// The title, or else the folder.
    fn called(&self) -> &str {
        let folder = || self.cwd.rsplit('/').find(|part| !part.is_empty());
        Some(self.title.trim()).filter(|title| !title.is_empty()).or_else(folder).unwrap_or(self.id.as_str())
    }
}

/// The names that people read for these agents. Those that are called alike are told apart by their folder, their tmux
/// session or their process, whichever comes first that no other of them has.
pub fn names(agents: &[Agent]) -> HashMap<&AgentId, String> {
    let mut namesakes: HashMap<&str, Vec<&Agent>> = HashMap::new();
    for agent in agents {
        namesakes.entry(agent.called()).or_default().push(agent);
    }
    let details: [fn(&Agent) -> Option<String>; 3] = [
        |agent| Some(agent.cwd.rsplit('/').find(|part| !part.is_empty())?.to_owned()),
        |agent| Some(format!("tmux {}", agent.tmux.as_ref()?)),
        |agent| Some(format!("process {}", agent.pid?)),
    ];
    let name = |agent: &Agent, alike: &[&Agent]| {
        if alike.len() == 1 {
            return agent.called().to_owned();
        }
        let others = || alike.iter().filter(|other| other.id != agent.id);
        let tells_apart = |detail: &String, of: &fn(&Agent) -> Option<String>| {
            !others().any(|other| of(other).as_ref() == Some(detail))
        };
        let mut told = details.iter().filter_map(|of| of(agent).filter(|detail| tells_apart(detail, of)));
        format!("{} ({})", agent.called(), told.next().unwrap_or_else(|| agent.id.to_string()))
    };
    namesakes.values().flat_map(|alike| alike.iter().map(|agent| (&agent.id, name(agent, alike)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The page does the same, and tests it with the same file.
    #[test]
    fn agents_that_are_called_alike_are_told_apart() {
        let cases: Vec<Value> = serde_json::from_str(include_str!("agent/names.json")).unwrap();
        assert_eq!(cases.len(), 4);
        for case in cases {
            let listed = case.as_array().unwrap();
            let agent = |listed: &Value| {
                let mut agent = json!({"kind": "claude", "reach": "watched", "host": "", "session": null, "state": "idle",
                    "cost": null, "open_asks": 0, "outline": null, "created_at": "2026-01-01T00:00:00Z"});
                agent.as_object_mut().unwrap().extend(listed["agent"].as_object().unwrap().clone());
                serde_json::from_value::<Agent>(agent).unwrap()
            };
            let agents: Vec<_> = listed.iter().map(agent).collect();
            let names = names(&agents);
            for (agent, listed) in agents.iter().zip(listed) {
                assert_eq!(json!(names[&agent.id]), listed["name"]);
            }
        }
    }

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
