//! The agents that people have: how each is started and how it can be reached. Whoever lists agents lists these.

use super::ProtocolName;
use aye_core::AsksFor;

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

/// A permission mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    pub name: &'static str,
    pub asks: AsksFor,
    /// It does more unasked than a person may think, so the owner of the machine must agree first.
    pub needs_consent: bool,
}

impl Mode {
    const fn asking(name: &'static str) -> Self {
        Self { name, asks: AsksFor::Everything, needs_consent: false }
    }

    const fn asking_less(name: &'static str) -> Self {
        Self { name, asks: AsksFor::Some, needs_consent: false }
    }

    /// The agent itself, or another model, decides what to ask for.
    const fn judging(name: &'static str) -> Self {
        Self { name, asks: AsksFor::Some, needs_consent: true }
    }

    const fn silent(name: &'static str) -> Self {
        Self { name, asks: AsksFor::Nothing, needs_consent: true }
    }
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
const DEFAULT: Mode = Mode::asking("default");
const PLAN: Mode = Mode::asking("plan");
const AUTO: Mode = Mode::judging("auto");
const YOLO: Mode = Mode::silent("yolo");

const CLAUDE_CODE_MODES: &[Mode] = &[
    DEFAULT,
    PLAN,
    Mode::asking_less("acceptEdits"),
    Mode::asking("dontAsk"),
    AUTO,
    Mode::silent("bypassPermissions"),
];
const CODEX_MODES: &[Mode] =
    &[DEFAULT, Mode::asking_less("on-request"), Mode::silent("never"), Mode::silent("full-access")];
const OPENCODE_MODES: &[Mode] =
    &[DEFAULT, PLAN, Mode::asking_less("acceptEdits"), Mode::silent("full-access")];
const ACP_MODES: &[Mode] = &[DEFAULT];

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
        modes: &[DEFAULT, PLAN, Mode::asking_less("autoEdit"), YOLO],
        tested: "0.61.0",
        ways: &[Way::Acp, Way::Mcp],
    },
    KnownAgent {
        kind: "qwen",
        name: "Qwen Code",
        protocol: ProtocolName::Acp,
        variable: "AYE_QWEN",
        arguments: &["--acp", "--approval-mode", "default"],
        modes: &[DEFAULT, PLAN, Mode::asking_less("auto-edit"), AUTO, YOLO],
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
        modes: &[DEFAULT, PLAN, Mode::silent("autopilot")],
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

/// Of a mode that is not known nobody can tell.
pub fn asks_in(modes: &[Mode], name: &str) -> AsksFor {
    modes.iter().find(|mode| mode.name == name).map_or(AsksFor::Unknown, |mode| mode.asks)
}

impl ProtocolName {
    /// The permission modes of an agent of which nothing but its protocol is known. Those that speak ACP name theirs
    /// themselves.
    pub const fn modes(self) -> &'static [Mode] {
        match self {
            Self::ClaudeCode => CLAUDE_CODE_MODES,
            Self::Codex => CODEX_MODES,
            Self::OpenCode => OPENCODE_MODES,
            Self::Acp => ACP_MODES,
        }
    }

    /// Returns how much an agent asks for in a mode of this name.
    pub fn asks_in(self, mode: &str) -> AsksFor {
        asks_in(self.modes(), mode)
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
