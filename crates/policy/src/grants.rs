//! Grants: what a person allowed while answering, for a session or for a project. A grant is exact, so it never allows
//! anything that the person did not see: the same folder, the same tool, the same command or input. It counts only if no
//! rule decides (see [`crate::Decision::is_open_to_grants`]).

use crate::call::{ToolCall, unusual_field};
use crate::pattern::plain_path;
use crate::shell::{Opaque, Script};
use aye_core::digest::{canonical, sha256_hex};
use aye_core::ids::AgentId;
use aye_core::proof::Proof;
use aye_core::visible::one_line;
use aye_core::who::By;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Only for this agent; if `None`, for every agent in the folder.
    pub agent: Option<AgentId>,
    /// The folder the agent works in, exactly.
    pub folder: String,
    pub tool: String,
    pub exactly: Exactly,
    pub expires_at: Option<Timestamp>,
    pub by: By,
    pub at: Timestamp,
    /// The proof it was given with. Where a stricter one is required, the grant does not count.
    #[serde(default, skip_serializing_if = "Proof::is_none")]
    pub proof: Proof,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exactly {
    /// A command of a shell tool in canonical form, so that blanks and quotes do not matter.
    Command(String),
    /// The digest of any other tool's whole input.
    Input(String),
}

/// Why a call can be allowed once, but not for longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotGrantable {
    #[error("{0} always goes to a person")]
    PersonOnly(String),
    #[error("the input names a place that belongs to aye")]
    NamesHome,
    #[error("what this command does is not settled by its words: {0}")]
    Opaque(Opaque),
    #[error("the input has the field {0:?}, which may change what the command can do")]
    UnusualField(String),
    #[error("the agent's folder is not a plain absolute path")]
    Folder,
}

impl Exactly {
    pub fn of(call: &ToolCall) -> Result<Self, NotGrantable> {
        if call.names_home() {
            return Err(NotGrantable::NamesHome);
        }
        Self::of_script(call, call.script().as_ref())
    }

    /// The same for a command that is already parsed and does not name aye's own files.
    pub(crate) fn of_script(call: &ToolCall, script: Option<&Script>) -> Result<Self, NotGrantable> {
        if call.is_person_only() {
            return Err(NotGrantable::PersonOnly(call.tool.to_owned()));
        }
        if !call.runs_command() {
            let input = canonical(&Value::Object(call.input.clone()));
            return Ok(Exactly::Input(format!("sha256:{}", sha256_hex(input.as_bytes()))));
        }
        if let Some(field) = unusual_field(call.input, |_| false) {
            return Err(NotGrantable::UnusualField(field.to_owned()));
        }
        let plain = script.map_or(Err(Opaque::Unparsable), |script| script.plain.clone());
        plain.map(Exactly::Command).map_err(NotGrantable::Opaque)
    }

    /// A description for people.
    pub fn words(&self, tool: &str) -> String {
        match self {
            Exactly::Command(command) => format!("run exactly `{}`", one_line(command)),
            Exactly::Input(_) => format!("use {} with exactly the input that was shown", one_line(tool)),
        }
    }
}

impl Grant {
    /// The grant for a call that a person allows for longer than once.
    pub fn of(
        call: &ToolCall,
        agent: Option<AgentId>,
        expires_at: Option<Timestamp>,
        by: By,
        at: Timestamp,
    ) -> Result<Self, NotGrantable> {
        let (folder, tool) = (call.cwd.to_owned(), call.tool.to_owned());
        Ok(Self {
            agent,
            folder,
            tool,
            exactly: Self::exactly(call)?,
            expires_at,
            by,
            at,
            proof: Proof::None,
        })
    }

    /// A description of the grant for this call, if one is possible.
    pub fn exactly(call: &ToolCall) -> Result<Exactly, NotGrantable> {
        if plain_path(call.cwd).is_none() {
            return Err(NotGrantable::Folder);
        }
        Exactly::of(call)
    }

    /// Whether it allows the result of [`Exactly::of`] for a call by this agent, in this folder, with this tool. The call is
    /// parsed beforehand, because parsing a long command takes time.
    pub fn covers(
        &self,
        folder: &str,
        tool: &str,
        exactly: &Exactly,
        agent: &AgentId,
        now: Timestamp,
    ) -> bool {
        self.expires_at.is_none_or(|end| now < end)
            && self.agent.as_ref().is_none_or(|only| only == agent)
            && self.folder == folder
            && self.tool == tool
            && self.exactly == *exactly
    }

    /// A description for people: `run exactly "cargo test" in /src/web until …`.
    pub fn words(&self) -> String {
        let what = self.exactly.words(&self.tool);
        let whom = if self.agent.is_some() { ", this agent only," } else { "" };
        let end =
            self.expires_at.map_or_else(|| "until it is revoked".to_owned(), |end| format!("until {end}"));
        format!("{what} in {}{whom} {end}", one_line(&self.folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_places::OwnPlaces;
    use aye_core::ids::Text;
    use aye_core::who::Surface;
    use serde_json::json;

    fn with_call<T>(cwd: &str, tool: &str, input: Value, use_it: impl FnOnce(&ToolCall) -> T) -> T {
        let places = OwnPlaces::new(&["/home/ada/.aye"], Some("/home/ada"));
        let (folder, input) = (crate::Folder::Claimed, input.as_object().unwrap());
        use_it(&ToolCall { agent_kind: "claude", cwd, folder, tool, input, places: &places })
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn agent(id: &str) -> AgentId {
        AgentId::try_from(id).unwrap()
    }

    fn grant(tool: &str, input: Value) -> Result<Grant, NotGrantable> {
        let by = By::Person { name: Text::try_from("Ada").unwrap(), surface: Surface::Web };
        with_call("/src/web", tool, input, |call| Grant::of(call, None, Some(second(100)), by, second(1)))
    }

    fn bash(command: &str) -> Value {
        json!({"command": command, "description": "…"})
    }

    fn covered(grant: &Grant, call: &ToolCall, who: &str, now: i64) -> bool {
        let exactly = Exactly::of(call);
        exactly.is_ok_and(|exactly| grant.covers(call.cwd, call.tool, &exactly, &agent(who), second(now)))
    }

    fn covers(grant: &Grant, cwd: &str, tool: &str, input: Value) -> bool {
        with_call(cwd, tool, input, |call| covered(grant, call, "a", 50))
    }

    #[test]
    fn a_command_is_covered_however_it_is_spaced_and_quoted_and_no_other_is() {
        let grant = grant("Bash", bash("cargo test && git status")).unwrap();
        for same in
            ["cargo test && git status", " cargo  'test' &&\n git status\n", "cargo test && git status;"]
        {
            assert!(covers(&grant, "/src/web", "Bash", bash(same)), "{same:?}");
        }
        for other in [
            "cargo test",
            "cargo test; git status",
            "cargo test || git status",
            "git status && cargo test",
            "cargo test && git status && git log",
            "cargo test && git status > f",
            "cargo test && git 'status '",
            "(cargo test && git status)",
            "",
        ] {
            assert!(!covers(&grant, "/src/web", "Bash", bash(other)), "{other:?}");
        }
    }

    #[test]
    fn another_folder_tool_or_field_is_not_covered() {
        let grant = grant("Bash", bash("cargo test")).unwrap();
        assert!(covers(&grant, "/src/web", "Bash", bash("cargo test")));
        assert!(!covers(&grant, "/src/web/sub", "Bash", bash("cargo test")));
        assert!(!covers(&grant, "/src/web/", "Bash", bash("cargo test")));
        assert!(!covers(&grant, "/src/web", "Shell", bash("cargo test")));
        let unsandboxed = json!({"command": "cargo test", "dangerouslyDisableSandbox": true});
        assert!(!covers(&grant, "/src/web", "Bash", unsandboxed));
    }

    #[test]
    fn a_grant_ends_on_the_second_and_binds_to_its_agent() {
        let mut grant = grant("Bash", bash("cargo test")).unwrap();
        let covers = |grant: &Grant, who: &str, now| {
            with_call("/src/web", "Bash", bash("cargo test"), |call| covered(grant, call, who, now))
        };
        assert!(covers(&grant, "a", 99) && !covers(&grant, "a", 100));
        grant.agent = Some(agent("a"));
        assert!(covers(&grant, "a", 99) && !covers(&grant, "b", 99));
        grant.expires_at = None;
        assert!(covers(&grant, "a", 1_000_000));
    }

    #[test]
    fn another_tool_is_granted_by_its_whole_input_in_any_order_of_fields() {
        let grant = grant("Edit", json!({"file_path": "/src/web/a", "new": "x"})).unwrap();
        assert!(covers(&grant, "/src/web", "Edit", json!({"new": "x", "file_path": "/src/web/a"})));
        assert!(!covers(&grant, "/src/web", "Edit", json!({"new": "y", "file_path": "/src/web/a"})));
        assert!(!covers(&grant, "/src/web", "Write", json!({"new": "x", "file_path": "/src/web/a"})));
        assert!(!covers(
            &grant,
            "/src/web",
            "Edit",
            json!({"new": "x", "file_path": "/src/web/a", "all": true})
        ));
    }

    #[test]
    fn what_is_not_settled_by_its_words_cannot_be_granted() {
        use NotGrantable::*;
        let refused = |tool, input| grant(tool, input).unwrap_err();
        assert_eq!(refused("Bash", bash("cargo test > f")), Opaque(crate::shell::Opaque::Redirection));
        assert_eq!(refused("Bash", bash("cargo test $x")), Opaque(crate::shell::Opaque::Expansion));
        assert_eq!(refused("Bash", json!({})), Opaque(crate::shell::Opaque::Unparsable));
        assert_eq!(refused("Bash", bash("cat /home/ada/.aye/x")), NamesHome);
        assert_eq!(refused("ExitPlanMode", json!({})), PersonOnly("ExitPlanMode".into()));
        let unsandboxed = json!({"command": "ls", "sandbox": "off"});
        assert_eq!(refused("Bash", unsandboxed), UnusualField("sandbox".into()));
    }

    #[test]
    fn a_grant_says_what_it_allows_and_survives_being_stored() {
        let mut command = grant("Bash", bash("cargo   test")).unwrap();
        assert_eq!(command.words(), "run exactly `cargo test` in /src/web until 1970-01-01T00:01:40Z");
        command.agent = Some(agent("a"));
        command.expires_at = None;
        assert_eq!(
            command.words(),
            "run exactly `cargo test` in /src/web, this agent only, until it is revoked"
        );
        let edit = grant("Edit", json!({"a": 1})).unwrap();
        assert_eq!(
            edit.words(),
            "use Edit with exactly the input that was shown in /src/web until 1970-01-01T00:01:40Z"
        );
        for grant in [command, edit] {
            let stored = serde_json::to_value(&grant).unwrap();
            assert_eq!(serde_json::from_value::<Grant>(stored).unwrap(), grant);
        }
    }
}
