//! Who may act, and who did.

use crate::ids::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What a credential may do. An agent's credential can never answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Agent,
    Viewer,
    Operator,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Agent => "agent",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
        }
    }

    /// An operator may do whatever a viewer may. Only an agent's credential acts for an agent.
    pub fn may_act_as(self, needed: Role) -> bool {
        match (self, needed) {
            (Role::Agent, Role::Agent)
            | (Role::Viewer | Role::Operator, Role::Viewer)
            | (Role::Operator, Role::Operator) => true,
            (Role::Agent, Role::Viewer | Role::Operator)
            | (Role::Viewer, Role::Agent | Role::Operator)
            | (Role::Operator, Role::Agent) => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Role::Agent, Role::Viewer, Role::Operator]
            .into_iter()
            .find(|role| role.as_str() == name)
            .ok_or("must be agent, viewer or operator")
    }
}

/// Where a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    Terminal,
    Web,
    Telegram,
    Desktop,
    Api,
}

impl Surface {
    pub fn as_str(self) -> &'static str {
        match self {
            Surface::Terminal => "terminal",
            Surface::Web => "web",
            Surface::Telegram => "telegram",
            Surface::Desktop => "desktop",
            Surface::Api => "api",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Surface::Terminal, Surface::Web, Surface::Telegram, Surface::Desktop, Surface::Api]
            .into_iter()
            .find(|surface| surface.as_str() == name)
    }
}

/// Who decided: a person on a surface, or a rule that a person wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum By {
    Rule { rule: Text },
    Person { name: Text, surface: Surface },
}

impl By {
    pub fn surface(&self) -> Option<Surface> {
        match self {
            By::Rule { .. } => None,
            By::Person { surface, .. } => Some(*surface),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            By::Person { name, surface } => write!(f, "{name} ({})", surface.as_str()),
            By::Rule { rule } => write!(f, "rule {rule}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_operator_answers_and_only_an_agent_raises() {
        let may =
            |role: Role| [Role::Agent, Role::Viewer, Role::Operator].map(|needed| role.may_act_as(needed));
        assert_eq!(may(Role::Agent), [true, false, false]);
        assert_eq!(may(Role::Viewer), [false, true, false]);
        assert_eq!(may(Role::Operator), [false, true, true]);
    }
}
