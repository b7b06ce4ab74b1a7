//! The permission mode of a session: set at its start, whatever the person's settings say, and followed as it changes.

use super::session::Awaited;
use super::{Acp, Meanings};
use crate::agents::driven::Meaning;
use crate::config::{KnownAgent, ProtocolName, asks_in};
use crate::protocol::Registration;
use aye_core::AsksFor;
use serde_json::{Value, json};

/// Copilot's setting by which it asks for nothing, in whatever mode.
const ALLOW_ALL: &str = "allow_all";

/// The session's mode, as the agent told it, and our requests to set it.
#[derive(Default)]
pub struct CurrentModes {
    current: Option<String>,
    /// The agent approves everything without asking, whatever its mode.
    allows_all: bool,
    /// The mode that the session was to be set to.
    wanted: Option<String>,
    /// The number of our requests to set it that have no reply yet.
    open: usize,
}

impl CurrentModes {
    pub fn are_being_set(&self) -> bool {
        self.open > 0
    }
}

/// The modes that an agent offers, by name and by id: some agents make addresses of the names.
pub struct OfferedModes<'a>(Vec<(&'a str, &'a str)>);

impl<'a> OfferedModes<'a> {
    pub fn read(offered: &'a Value) -> Self {
        let offered = offered["availableModes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ids = offered.iter().filter_map(|mode| mode["id"].as_str());
        Self(ids.map(|id| (name_of(id), id)).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> Vec<&'a str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    pub fn find(&self, wanted: &str) -> Option<&'a str> {
        self.0.iter().find(|(name, id)| [*name, *id].contains(&wanted)).map(|(_, id)| *id)
    }

    /// The mode in which it asks for everything.
    pub fn default(&self) -> Option<&'a str> {
        self.find("default").or_else(|| self.find("agent"))
    }
}

fn name_of(id: &str) -> &str {
    id.rsplit_once('#').map_or(id, |(_, name)| name)
}

impl Acp {
    /// Of an agent that is not known, nobody can tell what its modes ask for.
    pub(super) fn asks_in(&self, mode: &str) -> AsksFor {
        let name = match name_of(mode) {
            // Copilot's name for it.
            "agent" => "default",
            name => name,
        };
        let known = KnownAgent::of(&self.start.kind).filter(|known| known.protocol == ProtocolName::Acp);
        known.map_or(AsksFor::Unknown, |known| asks_in(known.modes, name))
    }

    fn asks_now(&self) -> AsksFor {
        match (self.modes.allows_all, &self.modes.current) {
            (true, _) => AsksFor::Nothing,
            (false, Some(mode)) => self.asks_in(mode),
            (false, None) => AsksFor::Unknown,
        }
    }

    /// The agent says which mode it is in.
    pub(super) fn in_mode(&mut self, mode: Option<&str>) -> Option<Meaning<Self>> {
        self.modes.current = Some(mode?.to_owned());
        Some(Meaning::Knows(Registration::mode(self.asks_now())))
    }

    /// The same, as newer agents say it.
    pub(super) fn configured(&mut self, options: &Value) -> Option<Meaning<Self>> {
        let value = |id: &str| {
            let option = options.as_array()?.iter().find(|option| option["id"] == id)?;
            option["currentValue"].as_str().map(str::to_owned)
        };
        if let Some(allows) = value(ALLOW_ALL) {
            self.modes.allows_all = allows == "on";
        }
        self.modes.current = value("mode").or(self.modes.current.take());
        self.modes.current.is_some().then(|| Meaning::Knows(Registration::mode(self.asks_now())))
    }

    /// Sets the mode even where the agent says that it is in it: not every agent that says so acts so.
    pub(super) fn set_modes(&mut self, session: &str, wanted: Option<String>) -> Vec<String> {
        let mut lines = Vec::new();
        if self.modes.allows_all && wanted.as_ref().is_some_and(|mode| self.asks_in(mode) != AsksFor::Nothing)
        {
            let params = json!({ "sessionId": session, "configId": ALLOW_ALL, "value": "off" });
            lines.push(self.rpc.request(Awaited::Mode, "session/set_config_option", params));
            self.modes.allows_all = false;
        }
        if let Some(mode) = &wanted {
            let params = json!({ "sessionId": session, "modeId": mode });
            lines.push(self.rpc.request(Awaited::Mode, "session/set_mode", params));
            // From here on the agent tells of it only if it is another.
            self.modes.current = Some(mode.clone());
        }
        self.modes.wanted = wanted;
        self.modes.open = lines.len();
        lines
    }

    /// The agent took a setting; once it has all of them, the first turn begins.
    pub(super) fn mode_set(&mut self) -> Meanings {
        self.modes.open = self.modes.open.saturating_sub(1);
        if self.modes.are_being_set() {
            return Vec::new();
        }
        let (asks, wanted) = (self.asks_now(), self.modes.wanted.take().unwrap_or_default());
        let known = Meaning::Knows(Registration::mode(asks));
        if asks.is_less_than(self.asks_in(&wanted)) {
            let words = format!(
                "The agent was set to the mode {}, but is in one that asks for less. The run ends.",
                name_of(&wanted)
            );
            return vec![known, Meaning::Fails(words)];
        }
        std::iter::once(known).chain(self.begin_turn()).collect()
    }
}
