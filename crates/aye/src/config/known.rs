//! The agents that people have: how each is started and how it can be reached. Whoever lists agents lists these.

use super::ProtocolName;

/// A kind of agent that needs no entry in config.toml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownAgent {
    /// Also the name of its program.
    pub kind: &'static str,
    /// As people call it.
    pub name: &'static str,
    pub protocol: ProtocolName,
    /// The environment variable that names another program.
    pub variable: &'static str,
    /// What makes it speak its protocol, where the protocol alone does not say it.
    pub arguments: &'static [&'static str],
    /// Its permission modes.
    pub modes: &'static [Mode],
    /// The last version that the stories in `e2e/agents/` passed with.
    pub tested: &'static str,
    pub ways: &'static [Way],
}

/// A permission mode, and how much an agent asks for in it.
pub type Mode = (&'static str, AsksFor);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsksFor {
    /// For everything, or it does without.
    Everything,
    /// It does some of it unasked.
    Less,
    /// For less than the person may think, so the owner of the machine must agree first.
    Bypass,
}

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

/// What every agent does unless a mode is named.
const DEFAULT: Mode = ("default", AsksFor::Everything);
const PLAN: Mode = ("plan", AsksFor::Everything);
const AUTO: Mode = ("auto", AsksFor::Bypass);
const YOLO: Mode = ("yolo", AsksFor::Bypass);

pub const KNOWN_AGENTS: [KnownAgent; 7] = [
    KnownAgent {
        kind: "claude",
        name: "Claude Code",
        protocol: ProtocolName::ClaudeCode,
        variable: "AYE_CLAUDE",
        arguments: &[],
        modes: ProtocolName::ClaudeCode.modes(),
        tested: "2.1.327",
        ways: &[Way::Driven, Way::Hooks, Way::Watched, Way::Mcp],
    },
    KnownAgent {
        kind: "codex",
        name: "Codex",
        protocol: ProtocolName::Codex,
        variable: "AYE_CODEX",
        arguments: &[],
        modes: ProtocolName::Codex.modes(),
        tested: "0.169.0",
        ways: &[Way::Driven, Way::Joined, Way::Mcp],
    },
    KnownAgent {
        kind: "opencode",
        name: "OpenCode",
        protocol: ProtocolName::OpenCode,
        variable: "AYE_OPENCODE",
        arguments: &[],
        modes: ProtocolName::OpenCode.modes(),
        tested: "1.18.33",
        ways: &[Way::Driven, Way::Joined, Way::Mcp],
    },
    KnownAgent {
        kind: "gemini",
        name: "Gemini CLI",
        protocol: ProtocolName::Acp,
        variable: "AYE_GEMINI",
        arguments: &["--acp"],
        modes: &[DEFAULT, PLAN, ("autoEdit", AsksFor::Less), YOLO],
        tested: "0.61.0",
        ways: &[Way::Acp, Way::Mcp],
    },
    KnownAgent {
        kind: "qwen",
        name: "Qwen Code",
        protocol: ProtocolName::Acp,
        variable: "AYE_QWEN",
        arguments: &["--acp", "--approval-mode", "default"],
        modes: &[DEFAULT, PLAN, ("auto-edit", AsksFor::Less), AUTO, YOLO],
        tested: "0.24.4",
        ways: &[Way::Acp, Way::Mcp],
    },
    KnownAgent {
        kind: "kimi",
        name: "Kimi Code",
        protocol: ProtocolName::Acp,
        variable: "AYE_KIMI",
        arguments: &["acp"],
        modes: &[DEFAULT, PLAN, AUTO, YOLO],
        tested: "2.1.0",
        ways: &[Way::Acp, Way::Mcp],
    },
    KnownAgent {
        kind: "copilot",
        name: "Copilot CLI",
        protocol: ProtocolName::Acp,
        variable: "AYE_COPILOT",
        arguments: &["--acp"],
        modes: &[DEFAULT, PLAN, ("autopilot", AsksFor::Bypass)],
        tested: "1.0.102",
        ways: &[Way::Acp, Way::Mcp],
    },
];

impl KnownAgent {
    pub fn of(kind: &str) -> Option<Self> {
        KNOWN_AGENTS.into_iter().find(|known| known.kind == kind)
    }

    pub fn ways_in_words(&self) -> Vec<&'static str> {
        self.ways.iter().map(|way| way.in_words()).collect()
    }
}

impl ProtocolName {
    /// The permission modes of an agent of which nothing but its protocol is known. Those that speak ACP name theirs
    /// themselves.
    pub const fn modes(self) -> &'static [Mode] {
        match self {
            Self::ClaudeCode => &[
                DEFAULT,
                PLAN,
                ("acceptEdits", AsksFor::Less),
                ("dontAsk", AsksFor::Everything),
                AUTO,
                ("bypassPermissions", AsksFor::Bypass),
            ],
            Self::Codex => &[
                DEFAULT,
                ("on-request", AsksFor::Less),
                ("never", AsksFor::Bypass),
                ("full-access", AsksFor::Bypass),
            ],
            Self::OpenCode => {
                &[DEFAULT, PLAN, ("acceptEdits", AsksFor::Less), ("full-access", AsksFor::Bypass)]
            }
            Self::Acp => &[DEFAULT],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_that_can_be_started_is_listed_with_how_it_is_driven() {
        for known in KNOWN_AGENTS {
            let driven = if known.protocol == ProtocolName::Acp { Way::Acp } else { Way::Driven };
            assert!(known.ways.contains(&driven), "{}", known.kind);
            assert_eq!(known.modes.first(), Some(&DEFAULT), "{}", known.kind);
        }
    }
}
