//! What can be said to the bot with a slash.

use super::desk::Desk;
use super::gate::Person;
use super::html::{Page, label};
use super::memory::ChatNote;
use super::wire::Message;
use crate::hub::{AskFilter, Command, Problem};
use aye_core::{Agent, AgentId, Surface};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slash {
    New,
    Project,
    Agents,
    Stop,
    Status,
    Help,
    Cancel,
}

const HELP: &str = "\
Your agents ask here, and you answer with the buttons. To start work, write what is to be done; further messages go \
to the same run.

/new [what] – a new run
/project [name] – the folder that runs work in
/agents – who is at work
/stop – end this chat's run
/status – what waits, and what goes on
/cancel – take back that you wanted to type something
/help – this

A reply to a run's message goes to that run. A reply to a question answers it in your words.";

const MOST_AGENTS: usize = 20;

/// A known command and what stands after it. Anything else with a slash may be meant for the agent.
pub fn read(text: &str) -> Option<(Slash, &str)> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let word = word.strip_prefix('/')?;
    let word = word.split_once('@').map_or(word, |(word, _)| word);
    let slash = match word {
        "new" => Slash::New,
        "project" => Slash::Project,
        "agents" => Slash::Agents,
        "stop" => Slash::Stop,
        "status" => Slash::Status,
        "help" | "start" => Slash::Help,
        "cancel" => Slash::Cancel,
        _ => return None,
    };
    Some((slash, rest.trim()))
}

impl Desk {
    pub(super) async fn command(
        &mut self,
        update: i64,
        person: &Person,
        message: &Message,
        slash: Slash,
        rest: &str,
    ) -> Result<(), Problem> {
        let here = Some(message.message_id);
        match slash {
            Slash::Help => self.say(person.chat, here, HELP),
            Slash::New => return self.new_run(update, person, rest, here).await,
            Slash::Project => return self.project(person, rest, here).await,
            Slash::Agents => {
                let page = self.agents_page().await?;
                self.say_page(person.chat, here, page);
            }
            Slash::Status => {
                let page = self.status_page(person.chat).await?;
                self.say_page(person.chat, here, page);
            }
            Slash::Stop => return self.stop(update, person, message).await,
            Slash::Cancel => return self.stop_typing(person, here).await,
        }
        Ok(())
    }

    async fn new_run(
        &mut self,
        update: i64,
        person: &Person,
        rest: &str,
        here: Option<i64>,
    ) -> Result<(), Problem> {
        let note = self.memory.chats.get(&person.chat).cloned().unwrap_or_default();
        let memo = self.memory.put_chat(person.chat, ChatNote { agent: None, ..note });
        self.save(vec![memo]).await?;
        if rest.is_empty() {
            self.say(person.chat, here, "Your next message starts a new run.");
            return Ok(());
        }
        self.work(update, person, rest, here).await
    }

    async fn project(&mut self, person: &Person, name: &str, here: Option<i64>) -> Result<(), Problem> {
        let projects = match self.hub.projects() {
            Ok(projects) => projects.projects,
            Err(problem) => {
                self.say(person.chat, here, &problem.to_string());
                return Ok(());
            }
        };
        let note = self.memory.chats.get(&person.chat).cloned().unwrap_or_default();
        if projects.iter().any(|project| project.name == name) {
            // Another folder is another run.
            let agent = note.agent.filter(|_| note.project.as_deref() == Some(name));
            let memo = self.memory.put_chat(person.chat, ChatNote { project: Some(name.to_owned()), agent });
            self.save(vec![memo]).await?;
            self.say(person.chat, here, &format!("Runs of this chat now work in {name}."));
            return Ok(());
        }
        let mut page = Page::default();
        if !name.is_empty() {
            page = page.text(&format!("There is no project {name}. "));
        }
        page = match projects.is_empty() {
            true => page.text("config.toml names no projects yet:\n").pre("[projects]\nweb = \"~/src/web\""),
            false => page.text("Choose one with /project NAME:"),
        };
        for project in &projects {
            let here = if note.project.as_ref() == Some(&project.name) { " ← now" } else { "" };
            page = page.line().bold(&project.name).text(&format!("  {}{here}", label(&project.path, 100)));
        }
        self.say_page(person.chat, here, page);
        Ok(())
    }

    async fn agents_page(&self) -> Result<Page, Problem> {
        let agents = self.hub.agents(false).await?;
        if agents.is_empty() {
            return Ok(Page::default().text("Nobody is at work."));
        }
        let mut page = Page::default().bold("At work");
        for agent in agents.iter().rev().take(MOST_AGENTS) {
            page = agent_line(page.line(), agent, self.name_of(&agent.id));
        }
        match agents.len() > MOST_AGENTS {
            true => Ok(page.line().dim(&format!("and {} more", agents.len() - MOST_AGENTS))),
            false => Ok(page),
        }
    }

    async fn status_page(&self, chat: i64) -> Result<Page, Problem> {
        let filter = AskFilter { state: Some("open".into()), limit: 1000, ..AskFilter::default() };
        let open = self.hub.asks(filter).await?.len();
        let waits = match open {
            0 => "Nothing waits for you.".to_owned(),
            1 => "One ask waits for you.".to_owned(),
            n => format!("{n} asks wait for you."),
        };
        let note = self.memory.chats.get(&chat).cloned().unwrap_or_default();
        let page = Page::default().text(&waits).line();
        let page = match &note.project {
            Some(project) => page.text("Project: ").bold(project).line(),
            None => page.text("No project is chosen: /project").line(),
        };
        let agent = match &note.agent {
            Some(agent) => self.hub.agent(agent.as_str()).await.ok(),
            None => None,
        };
        Ok(match agent {
            Some(agent) => agent_line(page.text("Run: "), &agent, self.name_of(&agent.id)),
            None => page.text("No run yet: write what is to be done."),
        })
    }

    async fn stop(&mut self, update: i64, person: &Person, message: &Message) -> Result<(), Problem> {
        let here = Some(message.message_id);
        let replied = message.reply_to_message.as_ref().map(|replied| replied.message_id);
        let card = replied.and_then(|to| self.memory.card_of_message(person.chat, to));
        let note = self.memory.chats.get(&person.chat);
        let agent = card.map(|card| card.agent.clone()).or_else(|| note.and_then(|note| note.agent.clone()));
        let Some(agent) = agent else {
            self.say(person.chat, here, "This chat has no run to stop.");
            return Ok(());
        };
        let memos = self.memory.put_handled(update);
        let (hub, who) = (self.hub.clone(), person.who());
        let queued = hub.command_and_remember(agent, Command::Stop, who, Surface::Telegram, memos).await;
        if queued.is_err() {
            self.doubt();
        }
        match queued {
            Ok(()) => self.say(person.chat, here, "It is told to end."),
            Err(problem @ Problem::Store(_)) => return Err(problem),
            Err(problem) => self.say(person.chat, here, &problem.to_string()),
        }
        Ok(())
    }

    async fn stop_typing(&mut self, person: &Person, here: Option<i64>) -> Result<(), Problem> {
        let Some(mut copy) = self.memory.waiting_for(person.chat, person.id).cloned() else {
            self.say(person.chat, here, "Nothing waits for a text of yours.");
            return Ok(());
        };
        copy.draft.typing = None;
        self.put(person.chat, super::lane::Job::Ask(copy.ask.clone()));
        self.keep(copy).await
    }

    pub(super) fn name_of(&self, agent: &AgentId) -> Option<String> {
        self.memory.homes.get(agent).map(|home| home.name.clone())
    }
}

fn agent_line(page: Page, agent: &Agent, name: Option<String>) -> Page {
    let title = Some(agent.title.clone()).filter(|title| !title.trim().is_empty());
    let name = name.or(title).unwrap_or_else(|| agent.id.to_string());
    let page = page.bold(&label(&name, 60)).text(&format!(" · {} · {}", agent.kind, agent.state));
    let page = match agent.cost {
        Some(cost) => page.text(&format!(" · ${cost:.4}")),
        None => page,
    };
    page.line().dim(&label(&agent.cwd, 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_commands_are_ours() {
        assert_eq!(read("/new  fix it\nplease"), Some((Slash::New, "fix it\nplease")));
        assert_eq!(read("/project@my_bot web"), Some((Slash::Project, "web")));
        assert_eq!(read(" /stop "), Some((Slash::Stop, "")));
        assert_eq!(read("/start"), Some((Slash::Help, "")));
        for text in ["/compact", "/etc/hosts is wrong", "new", "/newer", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
