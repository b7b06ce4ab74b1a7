//! By which names agents called their asks. An answer that says neither which ask nor what was shown counts only if the name
//! can mean nothing else: the agent registered with this very process of the hub, which so has seen every name that it
//! ever used. The database is not asked, because somebody could have changed there what an ask was called. What other hubs
//! on the same server were told is not known here.

use aye_core::{AgentId, Ask, AskId, Kind};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Beyond this many names, agents are forgotten, and then answers to them have to say what was shown.
const MOST_NAMES: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsure {
    /// The name was used for more than one ask.
    UsedTwice,
    /// There were other questions that nobody answered.
    OtherQuestions,
    /// Not all that the name was used for is known.
    Unknown,
}

pub struct AskNames(Mutex<Known>);

#[derive(Default)]
struct Known {
    agents: HashMap<AgentId, Names>,
    /// Sessions, also of tmux, of agents that are not known from their beginning on; none if these are too many to be held.
    other_sessions: Option<HashSet<String>>,
    count: usize,
}

#[derive(Default)]
struct Names {
    sessions: HashSet<String>,
    /// What each name was used for, by its hash: one ask, or several.
    asks: HashMap<u64, Option<AskId>>,
    /// Questions that are open, or ended without an answer.
    unanswered: HashSet<AskId>,
}

impl AskNames {
    /// `sessions` of the agents that are there at the start; none if that is in doubt.
    pub fn new(sessions: Option<HashSet<String>>) -> Self {
        let other_sessions = sessions.filter(|sessions| sessions.len() <= MOST_NAMES);
        Self(Mutex::new(Known { other_sessions, ..Known::default() }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new agent: it has asked nothing yet.
    pub fn registered(&self, agent: &AgentId) {
        let mut known = self.known();
        known.agents.insert(agent.clone(), Names::default());
        known.count_one();
    }

    pub fn has_session(&self, agent: &AgentId, session: &str) {
        let mut known = self.known();
        match known.agents.get_mut(agent) {
            Some(names) => {
                names.sessions.insert(session.to_owned());
            }
            None => known.note_session(session.to_owned()),
        }
    }

    pub fn asked(&self, ask: &Ask) {
        let mut known = self.known();
        let Some(names) = known.agents.get_mut(&ask.agent) else { return };
        let once = |entry: &mut Option<AskId>| *entry = entry.take().filter(|known| *known == ask.id);
        names.asks.entry(hash(ask.tool_call())).and_modify(once).or_insert_with(|| Some(ask.id.clone()));
        if ask.body.kind() == Kind::Question {
            names.unanswered.insert(ask.id.clone());
        }
        known.count_one();
    }

    pub fn answered(&self, ask: &Ask) {
        if let Some(names) = self.known().agents.get_mut(&ask.agent) {
            names.unanswered.remove(&ask.id);
        }
    }

    /// Other hubs had to do with these agents: not all names that they used are known here any more, nor who has which session.
    pub fn others_wrote(&self, agents: &HashSet<AgentId>) {
        let mut known = self.known();
        known.other_sessions = None;
        known.agents.retain(|agent, _| !agents.contains(agent));
    }

    /// Whether an agent's id or session, and a tool call if one is named, can mean this ask alone.
    pub fn means(&self, ask: &Ask, agent: &str, tool_call: Option<&str>) -> Result<(), Unsure> {
        let known = self.known();
        let is_named =
            |(id, names): &(&AgentId, &Names)| id.as_str() == agent || names.sessions.contains(agent);
        let named: Vec<_> = known.agents.iter().filter(is_named).collect();
        let by_id = ask.agent.as_str() == agent;
        let may_be_other = known.other_sessions.as_ref().map_or(!by_id, |others| others.contains(agent));
        if may_be_other || !named.iter().any(|(id, _)| **id == ask.agent) {
            return Err(Unsure::Unknown);
        }
        match tool_call {
            Some(tool_call) => {
                let mut uses = named.iter().filter_map(|(_, names)| names.asks.get(&hash(tool_call)));
                match (uses.next(), uses.next()) {
                    (Some(Some(id)), None) if *id == ask.id => Ok(()),
                    (None, _) => Err(Unsure::Unknown),
                    _ => Err(Unsure::UsedTwice),
                }
            }
            None => {
                let mut others = named.iter().flat_map(|(_, names)| &names.unanswered);
                match others.any(|id| *id != ask.id) {
                    true => Err(Unsure::OtherQuestions),
                    false => Ok(()),
                }
            }
        }
    }
}

impl Known {
    fn note_session(&mut self, session: String) {
        if let Some(others) = &mut self.other_sessions {
            others.insert(session);
            if others.len() > MOST_NAMES {
                self.other_sessions = None;
            }
        }
    }

    fn count_one(&mut self) {
        self.count += 1;
        if self.count > MOST_NAMES {
            let agents = std::mem::take(&mut self.agents);
            let sessions = agents.into_values().flat_map(|names| names.sessions);
            sessions.for_each(|session| self.note_session(session));
            self.count = 0;
        }
    }
}

/// Two names that share this count as one that was used twice.
fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::{AskHead, Body, Key};
    use jiff::Timestamp;
    use serde_json::json;

    fn ask(agent: &str, key: &str, tool_call: Option<&str>) -> Ask {
        let question = json!({"questions": [{"question": "Go on?", "options": [{"label": "yes"}]}]});
        let body = Body::decode(Kind::Question, question).unwrap();
        let id = AskId::try_from(format!("{agent}-{key}")).unwrap();
        let (key, agent) = (Key::try_from(key).unwrap(), AgentId::try_from(agent).unwrap());
        let head = AskHead::new(id, key, agent, "", &body, Timestamp::UNIX_EPOCH);
        Ask::open(AskHead { tool_use_id: tool_call.map(str::to_owned), ..head }, body)
    }

    fn names(agents: &[&str], asks: &[&Ask]) -> AskNames {
        let names = AskNames::new(Some(HashSet::from(["earlier".to_owned()])));
        for agent in agents {
            names.registered(&AgentId::try_from(*agent).unwrap());
            names.has_session(&AgentId::try_from(*agent).unwrap(), "s");
        }
        asks.iter().for_each(|ask| names.asked(ask));
        names
    }

    #[test]
    fn a_name_means_the_only_ask_that_it_was_ever_used_for() {
        let (first, second) = (ask("a", "k", Some("t")), ask("a", "t", None));
        let once = names(&["a"], &[&first, &first]);
        for agent in ["a", "s"] {
            assert_eq!(once.means(&first, agent, Some("t")), Ok(()));
            assert_eq!(once.means(&first, agent, None), Ok(()));
            assert_eq!(once.means(&first, agent, Some("other")), Err(Unsure::Unknown));
        }
        let twice = names(&["a"], &[&first, &second]);
        for ask in [&first, &second] {
            assert_eq!(twice.means(ask, "a", Some("t")), Err(Unsure::UsedTwice));
            assert_eq!(twice.means(ask, "a", None), Err(Unsure::OtherQuestions));
        }
        twice.answered(&first);
        assert_eq!(twice.means(&second, "a", None), Ok(()));
        assert_eq!(twice.means(&second, "a", Some("t")), Err(Unsure::UsedTwice));
    }

    #[test]
    fn agents_of_one_session_share_their_names() {
        let (one, other) = (ask("a", "k", Some("t")), ask("b", "k", Some("t")));
        let both = names(&["a", "b"], &[&one, &other]);
        assert_eq!(both.means(&one, "s", Some("t")), Err(Unsure::UsedTwice));
        assert_eq!(both.means(&one, "s", None), Err(Unsure::OtherQuestions));
        assert_eq!(both.means(&one, "a", Some("t")), Ok(()));
    }

    #[test]
    fn of_agents_that_are_not_known_from_the_beginning_no_name_is_certain() {
        let old = ask("old", "k", Some("t"));
        let names = names(&["a"], &[&old]);
        assert_eq!(names.means(&old, "old", Some("t")), Err(Unsure::Unknown));
        assert_eq!(names.means(&old, "s", Some("t")), Err(Unsure::Unknown));
        let new = ask("a", "k", Some("t"));
        names.asked(&new);
        names.has_session(&new.agent, "earlier");
        assert_eq!(names.means(&new, "earlier", Some("t")), Err(Unsure::Unknown));
        assert_eq!(names.means(&new, "a", Some("t")), Ok(()));
        names.has_session(&old.agent, "a");
        assert_eq!(names.means(&new, "a", Some("t")), Err(Unsure::Unknown));
    }

    #[test]
    fn of_agents_that_other_hubs_had_to_do_with_no_name_is_certain_nor_any_session() {
        let (one, other) = (ask("a", "k", Some("t")), ask("b", "k", Some("u")));
        let names = names(&["a", "b"], &[&one, &other]);
        names.others_wrote(&HashSet::from([one.agent.clone()]));
        assert_eq!(names.means(&one, "a", Some("t")), Err(Unsure::Unknown));
        assert_eq!(names.means(&other, "b", Some("u")), Ok(()));
        assert_eq!(names.means(&other, "s", Some("u")), Err(Unsure::Unknown));
    }

    #[test]
    fn too_many_names_are_forgotten() {
        let names = names(&["a"], &[]);
        let first = ask("a", "first", None);
        names.asked(&first);
        assert_eq!(names.means(&first, "a", Some("first")), Ok(()));
        for n in 0..MOST_NAMES {
            names.asked(&Ask {
                head: AskHead { key: Key::try_from(n.to_string()).unwrap(), ..first.head.clone() },
                ..first.clone()
            });
        }
        assert_eq!(names.means(&first, "a", Some("first")), Err(Unsure::Unknown));
        assert!(names.known().agents.is_empty());
    }
}
