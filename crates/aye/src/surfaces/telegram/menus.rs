//! Lists and offers in chats: when there is one, what it shows now, and what its buttons do.

use super::api::{Key, Outgoing};
use super::calls::{Call, Doing, Op, Plainness, plainly};
use super::desk::Desk;
use super::form::NO_LONGER;
use super::gate::Person;
use super::html::{Page, label};
use super::lane::Job;
use super::memory::Copy;
use super::menu::{Choice, Kind, Menu, list, offer, quoted};
use super::runs::Task;
use super::show::{after, digest};
use super::updates::Notice;
use crate::hub::Problem;
use aye_core::{AgentId, Ask, AskId, Body, Text};

/// So many at once are announced as a list.
const MANY: usize = 5;
const MOST_OFFERED: usize = 3;

impl Desk {
    /// A list of everything that waits to be announced in a chat, this ask among it, if that is a lot.
    pub(super) async fn gather(&mut self, chat: i64, ask: &AskId) -> Result<Option<Menu>, Problem> {
        let Some(lane) = self.lanes.get(&chat) else { return Ok(None) };
        let mut waiting = vec![ask.clone()];
        waiting.extend(lane.announcements());
        if waiting.len() < MANY {
            return Ok(None);
        }
        let mut asks = Vec::new();
        for id in waiting {
            if !asks.contains(&id) && self.memory.copies_in(&id, chat).is_empty() {
                let found = self.hub.ask(&id).await.ok().filter(|ask| ask.state.is_open());
                asks.extend(found.filter(|ask| self.is_for(&ask.agent, chat)).map(|ask| ask.id));
            }
        }
        if asks.len() < MANY {
            return Ok(None);
        }
        let menu = Menu::new(chat, Kind::Waiting { asks, status: None }, self.hub.clock().now())?;
        let memo = self.memory.put_menu(menu.clone());
        self.save(vec![memo]).await?;
        Ok(Some(menu))
    }

    pub(super) async fn plan_menu(&mut self, id: &str) -> Result<Option<Call>, Problem> {
        let Some(mut menu) = self.memory.menus.get(id).cloned() else { return Ok(None) };
        if menu.lost {
            return Ok(None);
        }
        let rings = matches!(menu.what, Kind::Waiting { status: None, .. });
        let reply_to = match &menu.what {
            Kind::Offer { here, .. } => Some(*here),
            Kind::Waiting { .. } => None,
        };
        let (page, choices) = match (&menu.done, &menu.what) {
            (Some(words), _) => (Page::default().text(words), vec![]),
            (None, Kind::Offer { text, run, questions, .. }) => {
                offer(text.as_str(), run.as_deref(), questions)
            }
            (None, Kind::Waiting { asks, status }) => list(status.as_deref(), &self.named(asks).await?),
        };
        let mut rows = Vec::new();
        for row in choices {
            let key = |(label, choice): (String, Choice)| Ok(Key { label, data: menu.token(&choice)? });
            rows.push(row.into_iter().map(key).collect::<Result<Vec<_>, Problem>>()?);
        }
        let plainness = self.plainness.get(id).copied().unwrap_or_default();
        let outgoing = Outgoing { rows, reply_to, silent: !rings, ..plainly(&page, plainness) };
        let shown = digest(&outgoing);
        if menu.shown == shown {
            return self.remind_of_list(&menu).await;
        }
        let op = match menu.message {
            None => Op::Send(outgoing),
            Some(message) => Op::Edit(message, outgoing),
        };
        let doing = Doing::ShowMenu { menu: menu.id.clone(), shown };
        // Before anybody sees its buttons, it is known what they mean.
        let memo = self.memory.put_menu(menu);
        self.save(vec![memo]).await?;
        Ok(Some(Call { doing, op }))
    }

    async fn named(&self, asks: &[AskId]) -> Result<Vec<(Ask, String)>, Problem> {
        let mut named = Vec::new();
        for id in asks {
            match self.hub.ask(id).await {
                Ok(ask) => {
                    let name = self.asker(&ask).await.name;
                    named.push((ask, name));
                }
                Err(Problem::NoSuchAsk) => {}
                Err(problem) => return Err(problem),
            }
        }
        Ok(named)
    }

    /// Lists that name this ask show how it stands.
    pub(super) fn renew_lists(&mut self, ask: &AskId) {
        let naming = self.memory.menus.values().filter(|menu| {
            let names = matches!(&menu.what, Kind::Waiting { asks, .. } if asks.contains(ask));
            names && menu.message.is_some()
        });
        let naming: Vec<_> = naming.map(|menu| (menu.chat, menu.id.clone())).collect();
        for (chat, id) in naming {
            self.put_unasked(chat, Job::Menu(id));
        }
    }

    /// What waits, as somebody asked to see it.
    pub(super) async fn list_open(&mut self, chat: i64, status: String) -> Result<(), Problem> {
        let open = self.hub.whole_snapshot().await?.asks;
        let here = open.into_iter().filter(|ask| ask.state.is_open() && self.is_for(&ask.agent, chat));
        let asks: Vec<_> = here.map(|ask| ask.id).collect();
        if asks.is_empty() {
            self.say(chat, None, &status);
            return Ok(());
        }
        let menu = Menu::new(chat, Kind::Waiting { asks, status: Some(status) }, self.hub.clock().now())?;
        self.put(chat, Job::Menu(menu.id.clone()));
        let memo = self.memory.put_menu(menu);
        self.save(vec![memo]).await
    }

    pub(super) async fn press_menu(
        &mut self,
        update: i64,
        menu: Menu,
        token: &str,
        person: &Person,
    ) -> Result<Notice, Problem> {
        let Some(choice) = menu.tokens.get(token).cloned() else { return Ok(Notice::alert(NO_LONGER)) };
        if menu.done.is_some() {
            return Ok(Notice::alert("This was already decided."));
        }
        let (id, chat) = (menu.id.clone(), menu.chat);
        match (choice, menu.what.clone()) {
            (Choice::Show { ask }, _) => self.show_again(update, chat, &[ask]).await,
            (Choice::ShowAll, Kind::Waiting { asks, .. }) => self.show_again(update, chat, &asks).await,
            (choice, Kind::Offer { user, text, here, .. }) => {
                if user != person.id {
                    return Ok(Notice::alert("Only the person who wrote this can choose."));
                }
                let words = self.place(update, choice, &text, here, person).await?;
                let done = format!("{words}: {}", quoted(text.as_str()));
                let memo = self.memory.put_menu(Menu { done: Some(done), ..menu });
                self.save(vec![memo]).await?;
                self.put(chat, Job::Menu(id));
                Ok(Notice::passing(words))
            }
            (Choice::Answer { .. } | Choice::Prompt | Choice::Drop, Kind::Waiting { .. }) => {
                Ok(Notice::alert(NO_LONGER))
            }
        }
    }

    /// Puts a text where its writer says it belongs.
    async fn place(
        &mut self,
        update: i64,
        choice: Choice,
        text: &Text,
        here: i64,
        person: &Person,
    ) -> Result<&'static str, Problem> {
        match choice {
            Choice::Answer { copy } => {
                let Some(copy) = self.memory.copies.get(&copy).cloned() else { return Ok("Too late") };
                self.text_for(update, copy, text.as_str(), person, Some(here)).await?;
                Ok("Taken as the answer")
            }
            Choice::Prompt => {
                self.work(Task::new(update, person, text.as_str(), Some(here))).await?;
                Ok("Sent to the run")
            }
            Choice::Show { .. } | Choice::ShowAll | Choice::Drop => Ok("Ignored"),
        }
    }

    /// A fresh message for each of these asks, with what was filled in already.
    async fn show_again(&mut self, update: i64, chat: i64, asks: &[AskId]) -> Result<Notice, Problem> {
        let mut memos = self.memory.put_handled(update);
        let (mut shown, now) = (0, self.hub.clock().now());
        for id in asks {
            let ask = match self.hub.ask(id).await {
                Ok(ask) if ask.state.is_open() => ask,
                Ok(_) | Err(Problem::NoSuchAsk) => continue,
                Err(problem) => return Err(problem),
            };
            let mut copy = Copy::new(ask.id.clone(), ask.digest.clone(), chat, now)?;
            for earlier in self.memory.copies_in(id, chat) {
                copy.draft = earlier.draft.clone();
                memos.push(self.memory.put_copy(Copy { lost: true, ..earlier }));
            }
            memos.push(self.memory.put_copy(copy));
            shown += 1;
            match asks.len() {
                1 => self.put_now(chat, Job::Ask(ask.id)),
                _ => self.put(chat, Job::Ask(ask.id)),
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
        here: i64,
    ) -> Result<bool, Problem> {
        let run = self.run_of(person.chat).await;
        let questions = self.open_questions(person.chat, run.as_ref().map(|(agent, _)| agent)).await?;
        let Ok(words) = Text::try_from(text) else { return Ok(false) };
        let agent = run.as_ref().map(|(agent, _)| agent);
        if questions.is_empty() && !self.has_listed_question(person.chat, agent).await? {
            return Ok(false);
        }
        let run = run.map(|(_, name)| name);
        let what = Kind::Offer { user: person.id, text: words, here, run, questions };
        let menu = Menu::new(person.chat, what, self.hub.clock().now())?;
        self.put(person.chat, Job::Menu(menu.id.clone()));
        let mut memos = self.memory.put_handled(update);
        memos.push(self.memory.put_menu(menu));
        self.save(memos).await?;
        Ok(true)
    }

    /// Whether a question waits in a list, without a message of its own to reply to.
    async fn has_listed_question(&self, chat: i64, agent: Option<&AgentId>) -> Result<bool, Problem> {
        let lists = self.memory.menus.values().filter(|menu| menu.chat == chat);
        let asks: Vec<_> = lists.flat_map(Menu::announced).cloned().collect();
        for (ask, _) in self.named(&asks).await? {
            let is_question = matches!(ask.body, Body::Question(_)) && ask.state.is_open();
            if is_question && agent.is_none_or(|agent| *agent == ask.agent) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Somebody is reminded of a list once, while anything of it is open.
    async fn remind_of_list(&self, menu: &Menu) -> Result<Option<Call>, Problem> {
        let open = self.named(menu.announced()).await?;
        let open: Vec<_> = open.into_iter().filter(|(ask, _)| ask.state.is_open()).collect();
        if let (Some(reminder), true) = (menu.reminder, open.is_empty()) {
            let doing = Doing::UnremindOfList { menu: menu.id.clone() };
            return Ok(Some(Call { doing, op: Op::Delete(reminder) }));
        }
        let wait = self.settings.remind_after;
        let due = wait.zip(open.first()).map(|(wait, (ask, _))| after(ask.created_at, wait));
        if menu.reminded || due.is_none_or(|due| self.hub.clock().now() < due) {
            return Ok(None);
        }
        let words = match open.len() {
            1 => "⏰ Still waiting for you: 1 request".to_owned(),
            several => format!("⏰ Still waiting for you: {several} requests"),
        };
        let page = Page::default().text(&words);
        let outgoing = Outgoing { reply_to: menu.message, ..plainly(&page, Plainness::Marked) };
        Ok(Some(Call { doing: Doing::RemindOfList { menu: menu.id.clone() }, op: Op::Send(outgoing) }))
    }

    /// The newest messages of a chat that show a question which takes a text now, and what they ask.
    async fn open_questions(
        &self,
        chat: i64,
        agent: Option<&AgentId>,
    ) -> Result<Vec<(String, String)>, Problem> {
        let here = |copy: &&Copy| copy.chat == chat && !copy.lost && !copy.settled;
        let mut copies: Vec<_> = self.memory.copies.values().filter(here).collect();
        copies.sort_by_key(|copy| std::cmp::Reverse(copy.made_at));
        let mut found = Vec::new();
        for copy in copies {
            let ask = match self.hub.ask(&copy.ask).await {
                Ok(ask) => ask,
                Err(Problem::NoSuchAsk) => continue,
                Err(problem) => return Err(problem),
            };
            let Body::Question(asked) = &ask.body else { continue };
            let question = asked.questions.get(copy.draft.at).filter(|question| question.free_text);
            if let Some(question) = question
                && ask.state.is_open()
                && agent.is_none_or(|agent| *agent == ask.agent)
            {
                found.push((copy.id.clone(), label(&question.question, 100)));
            }
            if found.len() == MOST_OFFERED {
                break;
            }
        }
        Ok(found)
    }
}
