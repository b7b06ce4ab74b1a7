//! What can be said to the bot with a slash.

use super::access::Person;
use super::bot_loop::BotLoop;
use super::html::{RichText, label};
use super::memory::ChatNote;
use super::queue::Job;
use super::runs::Task;
use super::waiting_texts::IncomingText;
use crate::hub::{AskFilter, Command, Problem, Project, Projects};
use crate::surfaces::words;
use aye_core::agent::names;
use aye_core::{Agent, AgentId, Surface};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slash {
    New,
    Project,
    Agent,
    Agents,
    Stop,
    Status,
    Help,
    Cancel,
}

const HELP: &str = "\
Requests from your agents arrive here. Answer them with the buttons. To start a run, write what you want done, or send \
a photo. Further messages go to the same run.

/new [task] – start a new run
/project [name] – choose the folder for runs
/agent [name] – choose the agent for runs
/agents – list your agents
/status – see what is waiting, and answer it
/stop – end this chat's run
/cancel – stop waiting for text from you
/help – show this list

Reply to a run's message to write to that run. Reply to a question to answer it in your own words.";

const MOST_AGENTS: usize = 20;

/// What people find in their menus.
pub const MENU: [(&str, &str); 8] = [
    ("new", "start a new run"),
    ("project", "choose the folder for runs"),
    ("agent", "choose the agent for runs"),
    ("agents", "list your agents"),
    ("status", "see what is waiting, and answer it"),
    ("stop", "end this chat's run"),
    ("cancel", "stop waiting for text from you"),
    ("help", "show all commands"),
];

/// What a text with a slash is.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// Ours, and the text after it.
    Ours(Slash, &'a str),
    /// Nobody knows it here.
    Unknown(&'a str),
    /// It is for another bot.
    Others,
    /// No command at all.
    Text,
}

/// A command is a slash and one word, perhaps with the name of a bot.
pub fn parse<'a>(text: &'a str, me: &str) -> Parsed<'a> {
    let text = text.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let Some(word) = first.strip_prefix('/') else { return Parsed::Text };
    let (word, bot) = word.split_once('@').map_or((word, None), |(word, bot)| (word, Some(bot)));
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_word {
        return Parsed::Text;
    }
    if bot.is_some_and(|bot| !me.is_empty() && !bot.eq_ignore_ascii_case(me)) {
        return Parsed::Others;
    }
    let slash = match word {
        "new" => Slash::New,
        "project" => Slash::Project,
        "agent" => Slash::Agent,
        "agents" => Slash::Agents,
        "stop" => Slash::Stop,
        "status" => Slash::Status,
        "help" | "start" => Slash::Help,
        "cancel" => Slash::Cancel,
        _ => return Parsed::Unknown(first),
    };
    Parsed::Ours(slash, rest.trim())
}

/// What can be chosen for the runs of a chat.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Project,
    Agent,
}

impl Choice {
    /// What there is, with a few words on each, and what counts now.
    fn offers(self, startable: Projects, note: &ChatNote) -> (Vec<(String, String)>, Option<String>) {
        match self {
            Self::Project => {
                let projects = startable.projects.into_iter();
                let named = |project: Project| (project.name, format!("  {}", label(&project.path, 100)));
                (projects.map(named).collect(), note.project.clone())
            }
            Self::Agent => {
                let kinds: Vec<_> =
                    startable.agents.into_iter().map(|agent| (agent.kind, String::new())).collect();
                let current = note.kind.clone().or_else(|| kinds.first().map(|(kind, _)| kind.clone()));
                (kinds, current)
            }
        }
    }

    fn chosen(self, name: &str, note: ChatNote) -> (ChatNote, String) {
        let chosen = Some(name.to_owned());
        match self {
            Self::Project => {
                (ChatNote { project: chosen, ..note }, format!("Runs from this chat now work in {name}."))
            }
            Self::Agent => {
                (ChatNote { kind: chosen, ..note }, format!("New runs from this chat are now with {name}."))
            }
        }
    }

    /// `unknown` is the name that nothing has, if there was one.
    fn heading(self, unknown: &str, is_empty: bool) -> RichText {
        let mut page = RichText::default();
        if !unknown.is_empty() {
            let unknown = label(unknown, 60);
            page = page.text(&match self {
                Self::Project => format!("There is no project {unknown}. "),
                Self::Agent => format!("No agent {unknown} is installed here. "),
            });
        }
        match self {
            Self::Project if is_empty => {
                page.text("No projects in config.toml yet. Add one:\n").pre("[projects]\nweb = \"~/src/web\"")
            }
            Self::Project => page.text("Choose one with /project NAME:"),
            Self::Agent => page.text("Choose one with /agent NAME:"),
        }
    }
}

impl BotLoop {
    pub(super) async fn command(
        &mut self,
        said: &IncomingText,
        slash: Slash,
        rest: &str,
    ) -> Result<(), Problem> {
        let (person, message_id) = (&said.person, Some(said.message_id));
        match slash {
            Slash::Help => self.say(person.chat, message_id, HELP),
            Slash::New => return self.new_run(said.update, person, rest, message_id).await,
            Slash::Project => return self.choose(Choice::Project, person, rest, message_id).await,
            Slash::Agent => return self.choose(Choice::Agent, person, rest, message_id).await,
            Slash::Agents => {
                let page = self.agents_page().await?;
                self.say_page(person.chat, message_id, page);
            }
            Slash::Status => {
                let status = self.status_of(person.chat).await?;
                return self.list_open(person.chat, status).await;
            }
            Slash::Stop => return self.stop(said).await,
            Slash::Cancel => return self.stop_typing(person, message_id).await,
        }
        Ok(())
    }

    async fn new_run(
        &mut self,
        update: i64,
        person: &Person,
        rest: &str,
        message_id: Option<i64>,
    ) -> Result<(), Problem> {
        let note = self.note_of(person.chat);
        let memo = self.memory.put_chat(person.chat, ChatNote { agent: None, ..note });
        self.save(vec![memo]).await?;
        if rest.is_empty() {
            self.say(person.chat, message_id, "Your next message starts a new run.");
            return Ok(());
        }
        self.work(Task::new(update, person, rest, message_id)).await
    }

    /// Notes which project or agent the runs of a chat are of, or lists what there is.
    async fn choose(
        &mut self,
        what: Choice,
        person: &Person,
        name: &str,
        message_id: Option<i64>,
    ) -> Result<(), Problem> {
        let startable = match self.hub.projects() {
            Ok(startable) => startable,
            Err(problem) => {
                self.say(person.chat, message_id, &problem.to_string());
                return Ok(());
            }
        };
        let note = self.note_of(person.chat);
        let (offers, current) = what.offers(startable, &note);
        if offers.iter().any(|(offer, _)| offer == name) {
            // Another folder or agent is another run.
            let agent = note.agent.clone().filter(|_| current.as_deref() == Some(name));
            let (note, words) = what.chosen(name, ChatNote { agent, ..note });
            let memo = self.memory.put_chat(person.chat, note);
            self.save(vec![memo]).await?;
            self.say(person.chat, message_id, &words);
            return Ok(());
        }
        let mut page = what.heading(name, offers.is_empty());
        for (offer, more) in &offers {
            let mark = if current.as_ref() == Some(offer) { " ← current" } else { "" };
            page = page.line().bold(offer).text(&format!("{more}{mark}"));
        }
        self.say_page(person.chat, message_id, page);
        Ok(())
    }

    async fn agents_page(&self) -> Result<RichText, Problem> {
        let agents = self.hub.agents(false).await?;
        if agents.is_empty() {
            return Ok(RichText::default().text("No agents are running."));
        }
        let names = names(&agents);
        let mut page = RichText::default().bold("Running agents");
        for agent in agents.iter().rev().take(MOST_AGENTS) {
            let name = self.name_of(&agent.id).unwrap_or_else(|| names[&agent.id].clone());
            page = agent_line(page.line(), agent, &name);
        }
        match agents.len() > MOST_AGENTS {
            true => Ok(page.line().dim(&format!("and {} more", agents.len() - MOST_AGENTS))),
            false => Ok(page),
        }
    }

    /// What a chat works on, in lines.
    async fn status_of(&self, chat: i64) -> Result<String, Problem> {
        let filter = AskFilter { state: Some("open".into()), limit: 1000, ..AskFilter::default() };
        let open =
            self.hub.asks(filter).await?.asks.into_iter().filter(|ask| self.is_for(&ask.agent, chat)).count();
        let mut lines = Vec::new();
        if open == 0 {
            lines.push("Nothing to answer right now.".to_owned());
        }
        let note = self.note_of(chat);
        lines.push(match &note.project {
            Some(project) => format!("Project: {project}"),
            None => "No project chosen yet: /project".to_owned(),
        });
        lines.extend(note.kind.as_ref().map(|kind| format!("Agent: {kind}")));
        let agent = match &note.agent {
            Some(agent) => self.hub.agent(agent.as_str()).await.ok(),
            None => None,
        };
        lines.push(match agent {
            Some(agent) => {
                let name = self.name_of(&agent.id).unwrap_or_else(|| agent.id.to_string());
                format!("Run: {name} · {}", words::agent_state(agent.state))
            }
            None => "No run yet: write what you want done.".to_owned(),
        });
        Ok(lines.join("\n"))
    }

    async fn stop(&mut self, said: &IncomingText) -> Result<(), Problem> {
        let (person, message_id) = (&said.person, Some(said.message_id));
        let replied = said.replied.and_then(|to| self.memory.numbered(person.chat, to)?.as_run());
        let agent = replied.map(|shown| shown.agent.clone()).or_else(|| self.note_of(person.chat).agent);
        let Some(agent) = agent else {
            self.say(person.chat, message_id, "This chat has no run to stop.");
            return Ok(());
        };
        let memos = self.memory.put_handled(said.update);
        let (hub, who) = (self.hub.clone(), person.who());
        let queued = hub.command_and_remember(agent, Command::Stop, who, Surface::Telegram, memos).await;
        if queued.is_err() {
            self.mark_stale();
        }
        match queued {
            Ok(()) => self.say(person.chat, message_id, "Stopping…"),
            Err(problem @ Problem::Store(_)) => return Err(problem),
            Err(problem) => self.say(person.chat, message_id, &problem.to_string()),
        }
        Ok(())
    }

    async fn stop_typing(&mut self, person: &Person, message_id: Option<i64>) -> Result<(), Problem> {
        let Some(mut message) = self.memory.waiting_for(person.chat, person.id).cloned() else {
            self.say(person.chat, message_id, "Nothing to cancel.");
            return Ok(());
        };
        if let Some(shown) = message.as_ask_mut() {
            shown.draft.typing = None;
            self.put_reaction(person.chat, Job::Ask(shown.ask.clone()));
        }
        self.keep(message).await
    }

    pub(super) fn name_of(&self, agent: &AgentId) -> Option<String> {
        self.memory.started_from.get(agent).map(|from| from.name.clone())
    }
}

fn agent_line(page: RichText, agent: &Agent, name: &str) -> RichText {
    let page = page.bold_written(&label(name, 60)).text(&format!(
        " · {} · {}",
        agent.kind,
        words::agent_state(agent.state)
    ));
    let page = match agent.cost {
        Some(cost) => page.text(&format!(" · ${cost:.4}")),
        None => page,
    };
    page.line().dim_written(&label(&agent.cwd, 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_commands_are_ours() {
        let read = |text| super::parse(text, "my_bot");
        assert_eq!(read("/new  fix it\nplease"), Parsed::Ours(Slash::New, "fix it\nplease"));
        assert_eq!(read("/project@My_bot web"), Parsed::Ours(Slash::Project, "web"));
        assert_eq!(read(" /stop "), Parsed::Ours(Slash::Stop, ""));
        assert_eq!(read("/start"), Parsed::Ours(Slash::Help, ""));
        assert_eq!(read("/status@another_bot"), Parsed::Others);
        assert_eq!(read("/compact now"), Parsed::Unknown("/compact"));
        for text in ["/etc/hosts is wrong", "new", "/", "// a comment", "", "1/2"] {
            assert_eq!(read(text), Parsed::Text, "{text}");
        }
    }

    #[test]
    fn the_menu_names_every_command() {
        for (name, words) in MENU {
            assert!(matches!(super::parse(&format!("/{name}"), ""), Parsed::Ours(..)) && !words.is_empty());
            assert!(HELP.contains(&format!("/{name}")), "{name}");
        }
    }
}
