//! The protocols that agents are driven by, and what is known of such agents before one is started.

use schemars::JsonSchema;
use serde::Deserialize;

/// What an agent speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolName {
    #[default]
    ClaudeCode,
    Codex,
    /// The server of OpenCode.
    #[serde(rename = "opencode")]
    OpenCode,
    /// The Agent Client Protocol.
    Acp,
}

/// A kind of agent that needs no entry in config.toml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownAgent {
    /// Also the name of its program.
    pub kind: &'static str,
    pub protocol: ProtocolName,
    /// The environment variable that names another program.
    pub variable: &'static str,
    /// What makes it speak its protocol, where the protocol alone does not say it.
    pub arguments: &'static [&'static str],
}

pub const KNOWN_AGENTS: [KnownAgent; 7] = [
    KnownAgent { kind: "claude", protocol: ProtocolName::ClaudeCode, variable: "AYE_CLAUDE", arguments: &[] },
    KnownAgent { kind: "codex", protocol: ProtocolName::Codex, variable: "AYE_CODEX", arguments: &[] },
    KnownAgent {
        kind: "copilot",
        protocol: ProtocolName::Acp,
        variable: "AYE_COPILOT",
        arguments: &["--acp"],
    },
    KnownAgent { kind: "gemini", protocol: ProtocolName::Acp, variable: "AYE_GEMINI", arguments: &["--acp"] },
    KnownAgent { kind: "kimi", protocol: ProtocolName::Acp, variable: "AYE_KIMI", arguments: &["acp"] },
    KnownAgent {
        kind: "opencode",
        protocol: ProtocolName::OpenCode,
        variable: "AYE_OPENCODE",
        arguments: &[],
    },
    KnownAgent {
        kind: "qwen",
        protocol: ProtocolName::Acp,
        variable: "AYE_QWEN",
        arguments: &["--acp", "--approval-mode", "default"],
    },
];

impl KnownAgent {
    pub fn of(kind: &str) -> Option<Self> {
        KNOWN_AGENTS.into_iter().find(|known| known.kind == kind)
    }
}

/// How much an agent asks for in one of its permission modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsksFor {
    /// For everything, or it does without.
    Everything,
    /// It does some of it unasked.
    Less,
    /// For less than the person may think, so the owner of the machine must agree first.
    Bypass,
}

const CLAUDE_CODE: [(&str, AsksFor); 6] = [
    ("default", AsksFor::Everything),
    ("plan", AsksFor::Everything),
    ("acceptEdits", AsksFor::Less),
    ("dontAsk", AsksFor::Everything),
    ("auto", AsksFor::Bypass),
    ("bypassPermissions", AsksFor::Bypass),
];

const CODEX: [(&str, AsksFor); 4] = [
    ("default", AsksFor::Everything),
    ("on-request", AsksFor::Less),
    ("never", AsksFor::Bypass),
    ("full-access", AsksFor::Bypass),
];

const OPENCODE: [(&str, AsksFor); 4] = [
    ("default", AsksFor::Everything),
    ("plan", AsksFor::Everything),
    ("acceptEdits", AsksFor::Less),
    ("full-access", AsksFor::Bypass),
];

/// Agents name their modes themselves; those of Gemini CLI, Qwen Code, Kimi and Copilot.
const ACP: [(&str, AsksFor); 7] = [
    ("default", AsksFor::Everything),
    ("plan", AsksFor::Everything),
    ("autoEdit", AsksFor::Less),
    ("auto-edit", AsksFor::Less),
    ("auto", AsksFor::Bypass),
    ("autopilot", AsksFor::Bypass),
    ("yolo", AsksFor::Bypass),
];

impl ProtocolName {
    /// The permission modes that a run may be started in from another surface.
    pub const fn modes(self) -> &'static [(&'static str, AsksFor)] {
        match self {
            Self::ClaudeCode => &CLAUDE_CODE,
            Self::Codex => &CODEX,
            Self::OpenCode => &OPENCODE,
            Self::Acp => &ACP,
        }
    }
}
