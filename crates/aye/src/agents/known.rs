//! The agents that people have, and how each can be reached. `aye doctor` and docs/agents.md list them from here.

/// A way to an agent's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `aye run` starts it and speaks its own protocol.
    Driven,
    /// The same over the Agent Client Protocol.
    Acp,
    /// Its hooks ask in the person's own terminal.
    Hooks,
    /// The command of its name (`aye codex`) starts it in the person's own terminal, and answers beside it.
    Joined,
    /// `aye watch` reads its screen in tmux and types the answers.
    Watched,
    /// It starts `aye mcp`, or calls the hub's `/mcp`, and asks with a tool.
    Mcp,
}

impl Way {
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Driven => "driven",
            Self::Acp => "driven over ACP",
            Self::Hooks => "hooks",
            Self::Joined => "joined in its terminal",
            Self::Watched => "watched",
            Self::Mcp => "MCP",
        }
    }
}

/// An agent that people may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Also the name of its program.
    pub kind: &'static str,
    /// As people call it.
    pub name: &'static str,
    /// The last version that the stories in `e2e/agents/` passed with; none where they are not told.
    pub tested: Option<&'static str>,
    pub ways: &'static [Way],
}

pub const LISTED: [Listed; 7] = [
    Listed {
        kind: "claude",
        name: "Claude Code",
        tested: Some("2.1.325"),
        ways: &[Way::Driven, Way::Hooks, Way::Watched, Way::Mcp],
    },
    Listed {
        kind: "codex",
        name: "Codex",
        tested: Some("0.166.0"),
        ways: &[Way::Driven, Way::Joined, Way::Mcp],
    },
    Listed {
        kind: "opencode",
        name: "OpenCode",
        tested: Some("1.18.33"),
        ways: &[Way::Driven, Way::Joined, Way::Mcp],
    },
    Listed { kind: "gemini", name: "Gemini CLI", tested: Some("0.61.0"), ways: &[Way::Acp, Way::Mcp] },
    Listed { kind: "qwen", name: "Qwen Code", tested: Some("0.24.4"), ways: &[Way::Acp, Way::Mcp] },
    Listed { kind: "kimi", name: "Kimi Code", tested: Some("2.1.0"), ways: &[Way::Acp, Way::Mcp] },
    Listed { kind: "copilot", name: "Copilot CLI", tested: Some("1.0.102"), ways: &[Way::Acp, Way::Mcp] },
];

impl Listed {
    pub fn of(kind: &str) -> Option<Self> {
        LISTED.into_iter().find(|listed| listed.kind == kind)
    }

    pub fn ways_in_words(&self) -> String {
        self.ways.iter().map(|way| way.in_words()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{KNOWN_AGENTS, ProtocolName};

    #[test]
    fn every_agent_that_can_be_started_is_listed_with_how_it_is_driven() {
        for known in KNOWN_AGENTS {
            let listed = Listed::of(known.kind).unwrap();
            let driven = if known.protocol == ProtocolName::Acp { Way::Acp } else { Way::Driven };
            assert!(listed.ways.contains(&driven), "{}", known.kind);
        }
        for listed in LISTED {
            let known = KNOWN_AGENTS.iter().any(|known| known.kind == listed.kind);
            let driven = listed.ways.iter().any(|way| matches!(way, Way::Driven | Way::Acp));
            assert_eq!(driven, known, "{}", listed.kind);
        }
    }
}
