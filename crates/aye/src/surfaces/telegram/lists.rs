//! Lists and offers in chats: when there is one, what it shows now, and what its buttons do.

use super::access::{Person, Place};
use super::actions::Action;
use super::api::Outgoing;
use super::asks::{after, take_away};
use super::bot_loop::BotLoop;
use super::calls::{BotCall, CallPurpose, Markup, Op, outgoing_of};
use super::choices::{MOST_LISTED, list, offer, old, quoted};
use super::html::{RichText, label};
use super::memory::{Content, SentMessage, SideKind};
use super::message::{ListContent, OfferContent};
use super::queue::Job;
use super::render::{Button, can_here};
use super::runs::Task;
use super::updates::Notice;
use crate::hub::{Memo, Problem};
use crate::surfaces::form::NO_LONGER;
use aye_core::{AgentId, Ask, AskId, Body, Question, Text};
use std::time::Duration;

/// From this many waiting asks on, they are announced as a list.
const MANY: usize = 5;
/// How long a list takes in what comes after it; people were notified of the list then.
const STAYS_FRESH: Duration = Duration::from_secs(15);
const MOST_OFFERED: usize = 3;

impl BotLoop {
    /// Puts an ask into a list instead of a message of its own: into a new one where a lot waits to be announced, or
    /// into one that has just been posted, for which people were notified a moment ago.
    pub(super) async fn list(&mut self, place: Place, ask: &AskId) -> Result<bool, Problem> {
        let list = match self.fresh_list(place).await? {
            Some(mut list) => {
                if let Content::List(shown) = &mut list.shows {
                    shown.asks.push(ask.clone());
                }
                list
            }
            None => match self.gather(place, ask).await? {
                Some(asks) => SentMessage::of_list(place, asks, None, self.hub.clock().now())?,
                None => return Ok(false),
            },
        };
        self.put_announcement(place.chat, Job::Message(list.id.clone()));
        self.keep(list).await?;
        Ok(true)
    }

    async fn fresh_list(&self, place: Place) -> Result<Option<SentMessage>, Problem> {
        let now = self.hub.clock().now();
        let lists = self.memory.messages.values().filter(|list| {
            let has_room = list.as_list().is_some_and(|shown| {
                shown.status.is_none() && !shown.opened && shown.asks.len() < MOST_LISTED
            });
            has_room && list.place() == place && list.is_current() && now < after(list.made_at, STAYS_FRESH)
        });
        let Some(list) = lists.max_by_key(|list| list.made_at).cloned() else { return Ok(None) };
        let named = self.named(list.announced()).await?;
        Ok(Some(list).filter(|_| named.iter().any(|(ask, _)| ask.state.is_open())))
    }

    /// Everything that waits to be announced in a chat, this ask among it, if that is a lot.
    async fn gather(&mut self, place: Place, ask: &AskId) -> Result<Option<Vec<AskId>>, Problem> {
        let chat = place.chat;
        let Some(queue) = self.queues.get(&chat) else { return Ok(None) };
        let mut waiting = vec![ask.clone()];
        waiting.extend(queue.announcements());
        if waiting.len() < MANY {
            return Ok(None);
        }
        let mut asks = Vec::new();
        for id in waiting {
            let is_new = !asks.contains(&id) && self.memory.showing(&id, chat).is_empty();
            if is_new && !self.memory.is_listed(&id, Some(chat)) {
                let found = self.find_ask(&id).await?.filter(|ask| ask.state.is_open());
                asks.extend(
                    found
                        .filter(|ask| self.place_for(&ask.agent, chat) == Some(place))
                        .map(|ask| ask.head.id),
                );
            }
        }
        Ok(Some(asks).filter(|asks| asks.len() >= MANY))
    }

    pub(super) async fn next_call_for_list(
        &mut self,
        mut message: SentMessage,
        shown: &ListContent,
    ) -> Result<Option<BotCall>, Problem> {
        let asks = self.named(&shown.asks).await?;
        let (page, rows) = list(shown.status.as_deref(), &asks);
        let outgoing = self.with_buttons(&mut message, &page, &rows)?;
        if message.message.is_none() {
            message.quiet =
                shown.status.is_none() && !asks.iter().any(|(ask, _)| self.rings(message.chat, &ask.agent));
        }
        let outgoing = Outgoing { silent: shown.status.is_some() || message.quiet, ..outgoing };
        match self.show(&message, outgoing).await? {
            Some(call) => Ok(Some(call)),
            None if shown.status.is_none() => Ok(self.remind_of_list(&message, &asks)),
            None => Ok(None),
        }
    }

    pub(super) async fn next_call_for_offer(
        &mut self,
        mut message: SentMessage,
        shown: &OfferContent,
    ) -> Result<Option<BotCall>, Problem> {
        let (page, rows) = match &shown.decided {
            Some(words) => (RichText::default().text(words), vec![]),
            None if let Some(age) = &shown.age => old(shown.text.as_str(), shown.run.as_deref(), age),
            None => offer(shown.text.as_str(), shown.run.as_deref(), &shown.questions),
        };
        let outgoing = self.with_buttons(&mut message, &page, &rows)?;
        let outgoing = Outgoing {
            reply_to: Some(shown.message_id).filter(|id| *id > 0),
            silent: shown.age.is_none(),
            ..outgoing
        };
        self.show(&message, outgoing).await
    }

    fn with_buttons(
        &self,
        message: &mut SentMessage,
        page: &RichText,
        rows: &[Vec<Button>],
    ) -> Result<Outgoing, Problem> {
        let markup = self.markup.get(&message.id).copied().unwrap_or_default();
        let rows = message.keyboard(rows)?;
        Ok(Outgoing { rows, ..outgoing_of(page, markup) })
    }

    async fn named(&self, asks: &[AskId]) -> Result<Vec<(Ask, String)>, Problem> {
        let mut named = Vec::new();
        for id in asks {
            if let Some(ask) = self.find_ask(id).await? {
                let name = self.asker(&ask).await.name;
                named.push((ask, name));
            }
        }
        Ok(named)
    }

    /// Lists that name this ask show its state.
    pub(super) fn renew_lists(&mut self, ask: &AskId) {
        let naming = self.memory.messages.values().filter(|list| {
            list.message.is_some() && list.as_list().is_some_and(|shown| shown.asks.contains(ask))
        });
        let naming: Vec<_> = naming.map(|list| (list.chat, list.id.clone())).collect();
        for (chat, id) in naming {
            self.put_announcement(chat, Job::Message(id));
        }
    }

    /// Posts a list of open asks because somebody asked for it.
    pub(super) async fn list_open(&mut self, place: Place, status: String) -> Result<(), Problem> {
        let open = self.hub.whole_snapshot().await?.asks;
        let of_chat =
            open.into_iter().filter(|ask| ask.state.is_open() && self.is_for(&ask.agent, place.chat));
        let asks: Vec<_> = of_chat.map(|ask| ask.head.id).collect();
        if asks.is_empty() {
            self.say(place, None, &status);
            return Ok(());
        }
        let list = SentMessage::of_list(place, asks, Some(status), self.hub.clock().now())?;
        self.put_reaction(place.chat, Job::Message(list.id.clone()));
        self.keep(list).await
    }

    pub(super) async fn press_list(
        &mut self,
        update: i64,
        mut message: SentMessage,
        action: Action,
    ) -> Result<Notice, Problem> {
        let Content::List(shown) = &mut message.shows else { return Ok(Notice::alert(NO_LONGER)) };
        let asks = match action {
            Action::Show { ask } => vec![ask],
            Action::ShowAll => {
                shown.opened = true;
                shown.asks.clone()
            }
            _ => return Ok(Notice::alert(NO_LONGER)),
        };
        let place = message.place();
        self.keep(message).await?;
        self.show_again(update, place, &asks).await
    }

    pub(super) async fn press_offer(
        &mut self,
        update: i64,
        mut message: SentMessage,
        action: Action,
        person: &Person,
    ) -> Result<Notice, Problem> {
        let Content::Offer(shown) = &mut message.shows else { return Ok(Notice::alert(NO_LONGER)) };
        if shown.decided.is_some() {
            return Ok(Notice::alert("This was already decided."));
        }
        if shown.user != person.id {
            return Ok(Notice::alert("Only the person who wrote this can choose."));
        }
        let words = self.place(update, action, shown, person).await?;
        shown.decided = Some(format!("{words}: {}", quoted(shown.text.as_str())));
        self.put_reaction(message.chat, Job::Message(message.id.clone()));
        self.keep(message).await?;
        Ok(Notice::passing(words))
    }

    /// Uses a text as its author decided.
    async fn place(
        &mut self,
        update: i64,
        action: Action,
        shown: &OfferContent,
        person: &Person,
    ) -> Result<&'static str, Problem> {
        let (text, message_id) = (&shown.text, shown.message_id);
        match action {
            Action::Answer { message } => {
                let Some(message) = self.memory.messages.get(&message).cloned() else {
                    return Ok("Too late");
                };
                self.text_for(update, message, text.as_str(), person, Some(message_id)).await?;
                Ok("Taken as the answer")
            }
            Action::Prompt => {
                let task = Task::new(update, person, text.as_str(), Some(message_id));
                match shown.agent.clone() {
                    Some(agent) => self.prompt(agent, task).await?,
                    None => self.work(task).await?,
                }
                Ok(if shown.run.is_some() { "Sent to the run" } else { "Started" })
            }
            _ => Ok("Ignored"),
        }
    }

    /// A fresh message for each of these asks, with what was filled in already.
    async fn show_again(&mut self, update: i64, place: Place, asks: &[AskId]) -> Result<Notice, Problem> {
        let chat = place.chat;
        let mut memos = self.memory.put_handled(update);
        let (mut shown, now) = (0, self.hub.clock().now());
        for id in asks {
            let Some(ask) = self.find_ask(id).await?.filter(|ask| ask.state.is_open()) else { continue };
            let mut message = SentMessage::of_ask(place, ask.id.clone(), ask.digest.clone(), now)?;
            for mut earlier in self.memory.showing(id, chat) {
                message.continue_form(&mut earlier);
                memos.push(self.memory.put(SentMessage { lost: true, ..earlier }));
            }
            memos.push(self.memory.put(message));
            shown += 1;
            match asks.len() {
                1 => self.put_reaction(chat, Job::Ask(ask.head.id)),
                _ => self.put(chat, Job::Ask(ask.head.id)),
            }
        }
        self.save(memos).await?;
        Ok(match shown {
            0 => Notice::alert("None of this is open any more."),
            _ => Notice::passing("Shown below."),
        })
    }

    /// Asks whoever wrote a text whether it answers an open question of the chat's run; where the chat has no run, of
    /// anybody who asks there. False where there is none.
    pub(super) async fn offer_as_answer(
        &mut self,
        update: i64,
        person: &Person,
        text: &str,
        message_id: i64,
    ) -> Result<bool, Problem> {
        let run = self.run_of(person.place()).await;
        let questions = self.open_questions(person.place(), run.as_ref().map(|(agent, _)| agent)).await?;
        let Ok(words) = Text::try_from(text) else { return Ok(false) };
        let agent = run.as_ref().map(|(agent, _)| agent);
        if questions.is_empty() && !self.has_listed_question(person.chat, agent).await? {
            return Ok(false);
        }
        let run = run.map(|(_, name)| name);
        let (age, agent) = (None, None);
        let shown = OfferContent {
            user: person.id,
            text: words,
            message_id,
            run,
            age,
            agent,
            questions,
            decided: None,
        };
        self.post_offer(update, person, shown, vec![]).await?;
        Ok(true)
    }

    /// Asks whoever wrote a text long ago whether it is still meant, for this run or for the chat's.
    pub(super) async fn offer_old(
        &mut self,
        task: Task,
        agent: Option<AgentId>,
        age: String,
    ) -> Result<(), Problem> {
        let Ok(text) = Text::try_from(task.text) else { return self.save(task.memos).await };
        let run = match &agent {
            Some(agent) => Some(self.name_of(agent).unwrap_or_else(|| "that run".to_owned())),
            None => self.run_of(task.person.place()).await.map(|(_, name)| name),
        };
        let shown = OfferContent {
            user: task.person.id,
            text,
            message_id: task.message_id.unwrap_or_default(),
            run,
            age: Some(age),
            agent,
            questions: vec![],
            decided: None,
        };
        self.post_offer(task.update, &task.person, shown, task.memos).await
    }

    async fn post_offer(
        &mut self,
        update: i64,
        person: &Person,
        shown: OfferContent,
        mut memos: Vec<Memo>,
    ) -> Result<(), Problem> {
        let offer = SentMessage::of_offer(person.place(), shown, self.hub.clock().now())?;
        self.put_reaction(person.chat, Job::Message(offer.id.clone()));
        memos.extend(self.memory.put_handled(update));
        memos.push(self.memory.put(offer));
        self.save(memos).await
    }

    /// Whether a question waits in a list, without a message of its own to reply to.
    async fn has_listed_question(&self, chat: i64, agent: Option<&AgentId>) -> Result<bool, Problem> {
        let lists = self.memory.messages.values().filter(|list| list.chat == chat);
        let asks: Vec<_> = lists.flat_map(SentMessage::announced).cloned().collect();
        for (ask, _) in self.named(&asks).await? {
            let takes_words = match &ask.body {
                Body::Question(asked) => (0..asked.questions.len()).any(|at| words_for(&ask, at).is_some()),
                Body::Permission(_) | Body::Plan(_) => false,
            };
            if takes_words && agent.is_none_or(|agent| *agent == ask.agent) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// People are reminded of a list once, while anything of it is open.
    fn remind_of_list(&self, message: &SentMessage, asks: &[(Ask, String)]) -> Option<BotCall> {
        let mut open = asks.iter().map(|(ask, _)| ask).filter(|ask| ask.state.is_open());
        let Some(first) = open.next() else {
            let reminder = message.side_number(|what| what == SideKind::Reminder);
            return reminder.map(|number| take_away(message, number));
        };
        let due = self.settings.remind_after.map(|wait| after(first.created_at, wait));
        let is_due = due.is_some_and(|due| due <= self.hub.clock().now());
        let rings = match is_due {
            true => self.rings(message.chat, &first.agent),
            false => message.quiet && self.rings_instead(message.chat, &first.agent),
        };
        if !rings || message.has_side(SideKind::Reminder) {
            return None;
        }
        let words = match open.count() + 1 {
            1 => "⏰ Still waiting for you: 1 request".to_owned(),
            several => format!("⏰ Still waiting for you: {several} requests"),
        };
        let page = RichText::default().text(&words);
        let outgoing = Outgoing { reply_to: message.message, ..outgoing_of(&page, Markup::Html) };
        let purpose = CallPurpose::Side { id: message.id.clone(), what: SideKind::Reminder };
        Some(BotCall { purpose, op: Op::Send(outgoing) })
    }

    /// The newest messages of a chat that show a question which takes a text now, and what they ask.
    async fn open_questions(
        &self,
        place: Place,
        agent: Option<&AgentId>,
    ) -> Result<Vec<(String, String)>, Problem> {
        let shown_in_chat =
            self.memory.messages.values().filter(|message| message.place() == place && message.is_current());
        let mut shown_in_chat: Vec<_> =
            shown_in_chat.filter_map(|message| Some((message, message.as_ask()?))).collect();
        shown_in_chat.sort_by_key(|(message, _)| std::cmp::Reverse(message.made_at));
        let mut found = Vec::new();
        for (message, shown) in shown_in_chat {
            let Some(ask) = self.find_ask(&shown.ask).await? else { continue };
            if let Some(question) = words_for(&ask, shown.draft.at)
                && agent.is_none_or(|agent| *agent == ask.agent)
            {
                found.push((message.id.clone(), label(&question.question, 100)));
            }
            if found.len() == MOST_OFFERED {
                break;
            }
        }
        Ok(found)
    }
}

/// A question of an open ask that can be answered here in one's own words.
fn words_for(ask: &Ask, at: usize) -> Option<&Question> {
    let Body::Question(asked) = &ask.body else { return None };
    let can = can_here(ask);
    let here = ask.state.is_open() && can.answer && can.for_question(at).text;
    asked.questions.get(at).filter(|asked| asked.free_text && here)
}
