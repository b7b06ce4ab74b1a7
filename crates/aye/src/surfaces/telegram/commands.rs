//! What can be said to the bot with a slash.

use super::access::{Person, Place};
use super::bot_loop::BotLoop;
use super::html::{RichText, label};
use super::memory::ChatNote;
use super::message::Choice;
use super::progress::with_mode;
use super::queue::Job;
use super::runs::Task;
use super::waiting_texts::IncomingText;
use crate::hub::{AskFilter, Command, Problem};
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
    End,
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
/stop – stop what this chat's run is doing
/end – end this chat's run; your next message resumes it
/cancel – send no text after all
/help – show this list

Reply to a run's message to write to that run. Reply to a question to answer it in your own words.";

const MOST_AGENTS: usize = 20;

/// What people find in their menus.
pub const MENU: [(&str, &str); 9] = [
    ("new", "start a new run"),
    ("project", "choose the folder for runs"),
    ("agent", "choose the agent for runs"),
    ("agents", "list your agents"),
    ("status", "see what is waiting, and answer it"),
    ("stop", "stop what this chat's run is doing"),
    ("end", "end this chat's run"),
    ("cancel", "send no text after all"),
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
        "end" => Slash::End,
        "status" => Slash::Status,
        "help" | "start" => Slash::Help,
        "cancel" => Slash::Cancel,
        _ => return Parsed::Unknown(first),
    };
    Parsed::Ours(slash, rest.trim())
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
            Slash::Help => self.say(person.place(), message_id, HELP),
            Slash::New => return self.new_run(said, rest).await,
            Slash::Project => return self.choose(Choice::Project, said, rest).await,
            Slash::Agent => return self.choose(Choice::Agent, said, rest).await,
            Slash::Agents => {
                let page = self.agents_page().await?;
                self.say_page(person.place(), message_id, page);
            }
            Slash::Status => {
                let status = self.status_of(person.place()).await?;
                return self.list_open(person.place(), status).await;
            }
            Slash::Stop => return self.stop(said).await,
            Slash::End => return self.end_run(said).await,
            Slash::Cancel => return self.stop_typing(person, message_id).await,
        }
        Ok(())
    }

    async fn new_run(&mut self, said: &IncomingText, rest: &str) -> Result<(), Problem> {
        let (person, message_id) = (&said.person, Some(said.message_id));
        let note = self.note_of(person.place());
        let memo = self.memory.put_chat(person.place(), ChatNote { agent: None, ..note });
        self.save(vec![memo]).await?;
        if rest.is_empty() {
            self.say(person.place(), message_id, "Your next message starts a new run.");
            return Ok(());
        }
        self.work(Task::of(said, rest.to_owned())).await
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
    async fn status_of(&self, place: Place) -> Result<String, Problem> {
        let filter = AskFilter { state: Some("open".into()), limit: 1000, ..AskFilter::default() };
        let open = self
            .hub
            .asks(filter)
            .await?
            .asks
            .into_iter()
            .filter(|ask| self.is_for(&ask.agent, place.chat))
            .count();
        let mut lines = Vec::new();
        if open == 0 {
            lines.push("Nothing to answer right now.".to_owned());
        }
        let note = self.note_of(place);
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

    /// The run that somebody replies to, or the chat's.
    fn meant_run(&self, said: &IncomingText) -> Option<AgentId> {
        let replied = said.replied.and_then(|to| self.memory.numbered(said.person.chat, to)?.as_run());
        replied.map(|shown| shown.agent.clone()).or_else(|| self.note_of(said.person.place()).agent)
    }

    /// The same as the button.
    async fn stop(&mut self, said: &IncomingText) -> Result<(), Problem> {
        let (place, message_id) = (said.person.place(), Some(said.message_id));
        let Some(agent) = self.meant_run(said) else {
            self.say(place, message_id, "This chat has no run to stop.");
            return Ok(());
        };
        let going =
            self.unfinished(&agent).and_then(|message| Some((message.clone(), message.as_run()?.clone())));
        let Some((message, shown)) = going else {
            self.say(place, message_id, "The run is not doing anything right now. To end it: /end");
            return Ok(());
        };
        let notice = self.stop_run(said.update, message, shown, &said.person).await?;
        self.say(place, message_id, &notice.words);
        Ok(())
    }

    async fn end_run(&mut self, said: &IncomingText) -> Result<(), Problem> {
        let (person, message_id) = (&said.person, Some(said.message_id));
        let Some(agent) = self.meant_run(said) else {
            self.say(person.place(), message_id, "This chat has no run to end.");
            return Ok(());
        };
        let memos = self.memory.put_handled(said.update);
        let (hub, who) = (self.hub.clone(), person.who());
        let queued = hub.command_and_remember(agent, Command::Stop, who, Surface::Telegram, memos).await;
        if queued.is_err() {
            self.mark_stale();
        }
        match queued {
            Ok(()) => self.say(person.place(), message_id, "Ending the run…"),
            Err(problem @ Problem::Store(_)) => return Err(problem),
            Err(problem) => self.say(person.place(), message_id, &problem.to_string()),
        }
        Ok(())
    }

    async fn stop_typing(&mut self, person: &Person, message_id: Option<i64>) -> Result<(), Problem> {
        let Some(mut message) = self.memory.waiting_for(person).cloned() else {
            self.say(person.place(), message_id, "No text is expected from you.");
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
    let page = with_mode(page, agent);
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
