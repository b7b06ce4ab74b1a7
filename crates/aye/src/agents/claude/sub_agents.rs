//! An agent's sub-agents, by the tool calls that started them and that they made.

use super::wire::{Block, sub_agent_name};
use std::collections::HashMap;

#[derive(Debug, Default)]
pub struct SubAgents {
    /// Sub-agents by the tool call that started them.
    started: HashMap<String, String>,
    /// Sub-agents by the agent's own name for them: older versions ask before they show the call.
    known: HashMap<String, String>,
    /// Tool calls that a sub-agent made and that have not returned.
    calls: HashMap<String, String>,
}

/// What the tool that starts a sub-agent is called, in older and newer versions.
const STARTERS: [&str; 2] = ["Task", "Agent"];

impl SubAgents {
    pub fn started(&mut self, tool_use_id: String, agent_id: Option<String>, name: String) {
        self.known.extend(agent_id.map(|id| (id, name.clone())));
        self.started.insert(tool_use_id, name);
    }

    /// Takes note of the tool calls in a message of the agent, or of the sub-agent that `parent` started.
    pub fn says(&mut self, blocks: &[Block], parent: Option<&str>) {
        for block in blocks {
            let Block::ToolUse { id, name, input } = block else { continue };
            if STARTERS.contains(&name.as_str()) {
                let word = |field: &str| input[field].as_str().unwrap_or_default();
                let name = sub_agent_name(word("subagent_type"), word("description"));
                self.started.entry(id.clone()).or_insert(name);
            }
            if let Some(parent) = parent {
                self.calls.insert(id.clone(), self.name_of(parent));
            }
        }
    }

    fn name_of(&self, parent: &str) -> String {
        self.started.get(parent).cloned().unwrap_or_else(|| "a sub-agent".to_owned())
    }

    /// The sub-agent behind a tool call, by the call or else by the agent's own name for it.
    pub fn behind(&self, tool_use_id: Option<&str>, agent_id: Option<&str>) -> Option<String> {
        let called = tool_use_id.and_then(|id| self.calls.get(id)).cloned();
        called.or_else(|| {
            let id = agent_id?;
            Some(self.known.get(id).cloned().unwrap_or_else(|| format!("sub-agent {id}")))
        })
    }

    pub fn returned(&mut self, tool_use_id: &str) {
        self.calls.remove(tool_use_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn call(id: &str, name: &str, input: Value) -> Block {
        Block::ToolUse { id: id.into(), name: name.into(), input }
    }

    #[test]
    fn a_tool_call_is_known_by_the_sub_agent_that_made_it() {
        let mut sub_agents = SubAgents::default();
        let start = json!({"subagent_type": "Explore", "description": "find the tests"});
        sub_agents.says(&[call("t1", "Task", start)], None);
        sub_agents.says(&[call("t2", "Bash", json!({}))], Some("t1"));
        assert_eq!(sub_agents.behind(Some("t2"), Some("a1")).as_deref(), Some("Explore: find the tests"));
        assert_eq!(sub_agents.behind(Some("t1"), None), None, "the agent itself started it");
        sub_agents.returned("t2");
        assert_eq!(sub_agents.behind(Some("t2"), None), None);
    }

    #[test]
    fn one_that_asks_before_its_call_is_shown_is_known_by_its_introduction() {
        let mut sub_agents = SubAgents::default();
        sub_agents.started("t1".into(), Some("a1".into()), "Explore: find the tests".into());
        assert_eq!(sub_agents.behind(Some("t2"), Some("a1")).as_deref(), Some("Explore: find the tests"));
    }

    #[test]
    fn one_that_nobody_introduced_goes_by_its_own_name() {
        let sub_agents = SubAgents::default();
        assert_eq!(sub_agents.behind(Some("t9"), Some("a4e5")).as_deref(), Some("sub-agent a4e5"));
    }
}
