//! Choosing the project and the agent of runs, with buttons. A text that cannot start without that choice waits for it.

use super::access::Person;
use super::actions::Action;
use super::api::Outgoing;
use super::bot_loop::BotLoop;
use super::calls::{BotCall, outgoing_of};
use super::choices::{choice, quoted};
use super::html::{RichText, label};
use super::memory::{ChatNote, Content, SentMessage};
use super::message::{Choice, ChoiceContent, WaitingTask};
use super::queue::Job;
use super::runs::Task;
use super::updates::Notice;
use super::waiting_texts::IncomingText;
use crate::hub::{Memo, Problem, Projects};
use crate::surfaces::form::NO_LONGER;
use aye_core::Text;

pub const NO_PROJECT: &str =
    "There is no project to work in yet. Name one under [projects] in config.toml: web = \"~/src/web\"";
const MOST_OFFERED: usize = 40;

/// One thing that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    pub name: String,
    pub detail: String,
    pub current: bool,
}

impl Choice {
    fn offers(self, startable: Projects, note: &ChatNote) -> Vec<Offered> {
        let offered = |name: String, detail: String, current: bool| Offered { name, detail, current };
        match self {
            Self::Project => {
                let is_current = |name: &String| note.project.as_ref() == Some(name);
                let projects = startable.projects.into_iter();
                projects
                    .map(|project| {
                        let current = is_current(&project.name);
                        offered(project.name, label(&project.path, 100), current)
                    })
                    .take(MOST_OFFERED)
                    .collect()
            }
            Self::Agent => {
                let first = startable.agents.first().map(|agent| agent.kind.clone());
                let current = note.kind.clone().or(first);
                let agents = startable.agents.into_iter();
                agents
                    .map(|agent| {
                        let is_current = current.as_ref() == Some(&agent.kind);
                        offered(agent.kind, String::new(), is_current)
                    })
                    .take(MOST_OFFERED)
                    .collect()
            }
        }
    }

    /// Another folder or agent is another run.
    fn chosen(self, name: &str, is_current: bool, note: ChatNote) -> ChatNote {
        let agent = note.agent.filter(|_| is_current);
        let chosen = Some(name.to_owned());
        match self {
            Self::Project => ChatNote { agent, project: chosen, ..note },
            Self::Agent => ChatNote { agent, kind: chosen, ..note },
        }
    }

    fn done(self, name: &str) -> String {
        match self {
            Self::Project => format!("Runs from this chat now work in {name}."),
            Self::Agent => format!("New runs from this chat are now with {name}."),
        }
    }

    fn unknown(self, name: &str) -> String {
        let name = label(name, 60);
        match self {
            Self::Project => format!("There is no project {name}. Choose one:"),
            Self::Agent => format!("No agent {name} is installed here. Choose one:"),
        }
    }

    fn question(self) -> &'static str {
        match self {
            Self::Project => "Choose the project that runs from this chat work in:",
            Self::Agent => "Choose the agent for new runs from this chat:",
        }
    }
}

impl BotLoop {
    /// `/project` and `/agent`: takes the name, or asks for one with buttons.
    pub(super) async fn choose(
        &mut self,
        what: Choice,
        said: &IncomingText,
        name: &str,
    ) -> Result<(), Problem> {
        let (person, message_id) = (&said.person, Some(said.message_id));
        let offers = match self.offers(what, person) {
            Ok(offers) => offers,
            Err(words) => {
                self.say(person.place(), message_id, &words);
                return Ok(());
            }
        };
        if let Some(offer) = offers.iter().find(|offer| offer.name == name) {
            // A text that waits for this very choice starts now.
            if let Some(message) = self.waiting_choice(what, person).cloned() {
                return self.chose(said.update, message, &offer.clone(), person).await.map(drop);
            }
            let note = what.chosen(name, offer.current, self.note_of(person.place()));
            let memo = self.memory.put_chat(person.place(), note);
            self.save(vec![memo]).await?;
            self.say(person.place(), message_id, &what.done(name));
            return Ok(());
        }
        if offers.is_empty() && what == Choice::Project {
            let page = RichText::default().text("No projects in config.toml yet. Add one:\n");
            self.say_page(person.place(), message_id, page.pre("[projects]\nweb = \"~/src/web\""));
            return Ok(());
        }
        let lead = if name.is_empty() { what.question().to_owned() } else { what.unknown(name) };
        let shows = ChoiceContent { what, lead, reply_to: message_id, waiting: None, decided: None };
        self.post_choice(person, shows, vec![]).await
    }

    /// Asks with buttons for what a task needs before it can start, and starts it then.
    pub(super) async fn choose_for(&mut self, what: Choice, task: Task, lead: &str) -> Result<(), Problem> {
        let Task { update, person, text, image, message_id, mut memos, .. } = task;
        memos.extend(self.memory.put_handled(update));
        let Ok(text) = Text::try_from(text) else { return self.save(memos).await };
        // Only texts wait.
        let (waiting, again) = match image {
            None => (Some(WaitingTask { user: person.id, text }), ""),
            Some(_) => (None, " Choose one, then send the photo again."),
        };
        let lead = format!("{lead}{again}");
        let shows = ChoiceContent { what, lead, reply_to: message_id, waiting, decided: None };
        self.post_choice(&person, shows, memos).await
    }

    pub(super) async fn post_choice(
        &mut self,
        person: &Person,
        shows: ChoiceContent,
        mut memos: Vec<Memo>,
    ) -> Result<(), Problem> {
        let message = SentMessage::new(person.place(), Content::Choice(shows), self.hub.clock().now())?;
        self.put_reaction(person.chat, Job::Message(message.id.clone()));
        memos.push(self.memory.put(message));
        self.save(memos).await
    }

    pub(super) async fn next_call_for_choice(
        &mut self,
        mut message: SentMessage,
        shown: &ChoiceContent,
    ) -> Result<Option<BotCall>, Problem> {
        let (page, rows) = match &shown.decided {
            Some(words) => (RichText::default().text(words), vec![]),
            None => {
                let note = self.note_of(message.place());
                let offers = self.hub.projects().map(|startable| shown.what.offers(startable, &note));
                choice(shown, &offers.unwrap_or_default())
            }
        };
        let markup = self.markup.get(&message.id).copied().unwrap_or_default();
        let rows = message.keyboard(&rows)?;
        let outgoing =
            Outgoing { rows, reply_to: shown.reply_to, silent: true, ..outgoing_of(&page.fitting(), markup) };
        self.show(&message, outgoing).await
    }

    pub(super) async fn press_choice(
        &mut self,
        update: i64,
        mut message: SentMessage,
        action: Action,
        person: &Person,
    ) -> Result<Notice, Problem> {
        let Content::Choice(shown) = &mut message.shows else { return Ok(Notice::alert(NO_LONGER)) };
        if shown.decided.is_some() {
            return Ok(Notice::alert("This was already decided."));
        }
        if shown.waiting.as_ref().is_some_and(|waiting| waiting.user != person.id) {
            return Ok(Notice::alert("Only the person who wrote this can choose."));
        }
        let Action::Choose { name } = action else {
            shown.decided = Some(match &shown.waiting {
                Some(waiting) => format!("Not started: {}", quoted(waiting.text.as_str())),
                None => "Nothing was changed.".to_owned(),
            });
            self.put_reaction(message.chat, Job::Message(message.id.clone()));
            self.keep(message).await?;
            return Ok(Notice::passing("Nothing was started"));
        };
        let offers = self.offers(shown.what, person).unwrap_or_default();
        let Some(offer) = offers.into_iter().find(|offer| offer.name == name) else {
            return Ok(Notice::alert(format!("{name} is no longer in config.toml.")));
        };
        self.chose(update, message, &offer, person).await
    }

    /// Notes what was chosen, and starts the text that waited for it, in one transaction.
    async fn chose(
        &mut self,
        update: i64,
        mut message: SentMessage,
        offer: &Offered,
        person: &Person,
    ) -> Result<Notice, Problem> {
        let Content::Choice(shown) = &mut message.shows else { return Ok(Notice::alert(NO_LONGER)) };
        let (what, waiting, reply_to) = (shown.what, shown.waiting.clone(), shown.reply_to);
        let words = match &waiting {
            Some(waiting) => format!("Starting with {}: {}", offer.name, quoted(waiting.text.as_str())),
            None => what.done(&offer.name),
        };
        shown.decided = Some(words.clone());
        let is_current = offer.current && waiting.is_none();
        let note = what.chosen(&offer.name, is_current, self.note_of(person.place()));
        let mut memos = vec![self.memory.put_chat(person.place(), note)];
        self.put_reaction(message.chat, Job::Message(message.id.clone()));
        memos.push(self.memory.put(message));
        match waiting {
            Some(waiting) => {
                let task = Task::new(update, person, waiting.text.as_str(), reply_to);
                self.work(Task { memos, ..task }).await?;
            }
            None => {
                memos.extend(self.memory.put_handled(update));
                self.save(memos).await?;
            }
        }
        Ok(Notice::passing(words))
    }

    fn offers(&self, what: Choice, person: &Person) -> Result<Vec<Offered>, String> {
        let startable = self.hub.projects().map_err(|problem| problem.to_string())?;
        Ok(what.offers(startable, &self.note_of(person.place())))
    }

    /// The newest message that waits for this choice with a text of this person.
    fn waiting_choice(&self, what: Choice, person: &Person) -> Option<&SentMessage> {
        let here = self.memory.messages.values().filter(|message| message.place() == person.place());
        let waiting = here.filter(|message| match &message.shows {
            Content::Choice(shown) => {
                let is_theirs = shown.waiting.as_ref().is_some_and(|waiting| waiting.user == person.id);
                shown.what == what && shown.decided.is_none() && is_theirs
            }
            Content::Ask(_) | Content::Run(_) | Content::List(_) | Content::Offer(_) => false,
        });
        waiting.max_by_key(|message| message.made_at)
    }
}
