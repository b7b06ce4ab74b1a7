//! Asks in chats: which messages there must be, and what each of them must say.

use super::access::{Place, plain_name};
use super::api::Outgoing;
use super::bot_loop::BotLoop;
use super::calls::{BotCall, CallPurpose, Markup, Op, outgoing_of};
use super::deadline::time_left;
use super::ended::{ended, refused_plan};
use super::html::{RichText, cut, label};
use super::memory::{SentMessage, SideKind, StartedFrom};
use super::queue::{Job, Priority};
use super::render::{AskSource, MessageContent, open, without_approval};
use crate::hub::Problem;
use crate::surfaces::form::{TextKind, Typing};
use aye_core::agent::names;
use aye_core::digest::sha256_hex;
use aye_core::{AgentId, Ask, AskId, Body, By, Reach, Receipt, State};
use jiff::{SignedDuration, Timestamp};

const STARTING: std::time::Duration = std::time::Duration::from_millis(100);

/// What the messages of an ask show.
enum View {
    Open,
    /// Denied automatically because an outline was requested; it can be approved for this many seconds.
    MayPass(i64),
    Ended,
}

impl BotLoop {
    pub(super) async fn schedule_by_id(&mut self, id: &AskId) -> Result<(), Problem> {
        match self.find_ask(id).await? {
            Some(ask) => self.schedule(&ask).await,
            None => Ok(()),
        }
    }

    /// None where the hub does not know it any more.
    pub(super) async fn find_ask(&self, id: &AskId) -> Result<Option<Ask>, Problem> {
        match self.hub.ask(id).await {
            Ok(ask) => Ok(Some(ask)),
            Err(Problem::NoSuchAsk) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// Queues an ask in its chats, now or when its time comes.
    pub(super) async fn schedule(&mut self, ask: &Ask) -> Result<(), Problem> {
        let now = self.hub.clock().now();
        let shown = self.memory.is_shown(&ask.id);
        if !ask.state.is_open() {
            self.renew_lists(&ask.id);
        }
        match self.view(ask, now).await? {
            View::Open if !shown && self.may_be_starting(ask).await? => {
                self.later.insert((after(now, STARTING), ask.id.clone()));
                return Ok(());
            }
            View::Open => {
                self.tick_for(ask, now);
                let due = after(ask.created_at, self.settings.notify_after);
                if now < due && !shown {
                    self.later.insert((due, ask.id.clone()));
                    return Ok(());
                }
                if let Some(remind) = self.settings.remind_after.map(|wait| after(ask.created_at, wait))
                    && now < remind
                {
                    self.later.insert((remind, ask.id.clone()));
                }
            }
            View::MayPass(left) => {
                self.denied_plans.insert(ask.agent.clone(), ask.id.clone());
                self.later.insert((
                    after(now, std::time::Duration::from_secs(left.unsigned_abs())),
                    ask.id.clone(),
                ));
            }
            View::Ended if shown => {}
            View::Ended => return Ok(()),
        }
        for chat in self.settings.chats.clone() {
            self.put(chat, Job::Ask(ask.id.clone()));
        }
        Ok(())
    }

    /// Notes when the time that is left reads differently.
    fn tick_for(&mut self, ask: &Ask, now: Timestamp) {
        if let Some(deadline) = ask.deadline {
            let (_, next) = time_left(now.duration_until(deadline));
            self.ticks.insert(ask.id.clone(), now.saturating_add(next).unwrap_or(Timestamp::MAX));
        }
    }

    /// Brings the time that is left up to date. Nobody waits for that.
    pub(super) async fn renew_deadlines(&mut self, now: Timestamp) -> Result<(), Problem> {
        let due = self.ticks.iter().filter(|(_, at)| **at <= now);
        for id in due.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.ticks.remove(&id);
            let Some(ask) = self.find_ask(&id).await?.filter(|ask| ask.state.is_open()) else { continue };
            self.tick_for(&ask, now);
            for chat in self.settings.chats.clone() {
                if !self.memory.showing(&id, chat).is_empty() {
                    self.put_as(chat, Job::Ask(id.clone()), Priority::Progress);
                }
            }
        }
        Ok(())
    }

    /// A run may ask before the chat that started it is recorded.
    async fn may_be_starting(&self, ask: &Ask) -> Result<bool, Problem> {
        if self.starting.is_empty() || self.memory.started_from.contains_key(&ask.agent) {
            return Ok(false);
        }
        let agent = self.hub.agent(ask.agent.as_str()).await?;
        Ok(agent.reach == Reach::Driven && self.starting.values().any(|since| agent.created_at >= *since))
    }

    pub(super) fn is_for(&self, agent: &AgentId, chat: i64) -> bool {
        self.place_for(agent, chat).is_some()
    }

    /// True if its asks are shown in every chat.
    pub(super) fn asks_everywhere(&self, agent: &AgentId) -> bool {
        let started_from = self.memory.started_from.get(agent);
        started_from.is_none_or(|from| !self.settings.chats.contains(&from.chat))
    }

    /// The place in a chat where an agent asks, if it asks there. One that was started from a chat asks in that place; all others ask in
    /// every chat.
    pub(super) fn place_for(&self, agent: &AgentId, chat: i64) -> Option<Place> {
        let started_from = self.memory.started_from.get(agent).map(StartedFrom::place);
        match started_from.filter(|from| self.settings.chats.contains(&from.chat)) {
            Some(from) => Some(from).filter(|from| from.chat == chat),
            None => Some(Place { chat, topic: None }),
        }
    }

    async fn view(&self, ask: &Ask, now: Timestamp) -> Result<View, Problem> {
        if ask.state.is_open() {
            return Ok(View::Open);
        }
        if !was_refused_by_itself(ask) {
            return Ok(View::Ended);
        }
        let agent = self.hub.agent(ask.agent.as_str()).await?;
        let left =
            agent.outline.filter(|pause| pause.ask == ask.id).map(|pause| now.duration_until(pause.until));
        Ok(match left.filter(|left| left.is_positive()) {
            Some(left) => View::MayPass(left.as_secs() + 1),
            None => View::Ended,
        })
    }

    pub(super) async fn next_call_for_ask(
        &mut self,
        chat: i64,
        id: &AskId,
    ) -> Result<Option<BotCall>, Problem> {
        let Some(ask) = self.find_ask(id).await? else { return Ok(None) };
        let now = self.hub.clock().now();
        let view = self.view(&ask, now).await?;
        let asker = AskSource { in_group: chat < 0, ..self.asker(&ask).await };
        let mut messages = self.memory.showing(id, chat);
        let is_live = !matches!(view, View::Ended);
        if is_live && !messages.iter().any(|message| !message.lost) && self.is_for(&ask.agent, chat) {
            if messages.is_empty() && self.memory.is_listed(id, Some(chat)) {
                // It may be time to remind people of its list.
                self.renew_lists(id);
                return Ok(None);
            }
            let place = self.place_for(&ask.agent, chat).unwrap_or(Place { chat, topic: None });
            if ask.state.is_open() && messages.is_empty() && self.list(place, id).await? {
                return Ok(None);
            }
            let mut message = SentMessage::of_ask(place, ask.id.clone(), ask.digest.clone(), now)?;
            if let Some(earlier) = messages.last_mut() {
                message.continue_form(earlier);
                self.keep(earlier.clone()).await?;
            }
            messages.push(message);
        }
        for message in messages {
            let Some(content) = message.as_ask() else { continue };
            let call = match &view {
                View::Open => {
                    let shown = open(&ask, &content.draft, &asker);
                    self.next_call_for_open_ask(message, &ask, shown, now, &asker).await?
                }
                View::MayPass(left) => {
                    let decided = content.decided.as_deref();
                    let left = Some(*left).filter(|_| decided.is_none());
                    let shown = refused_plan(&ask, &asker, left, decided);
                    self.next_call_for_open_ask(message, &ask, shown, now, &asker).await?
                }
                View::Ended => self.next_call_for_ended_ask(message, &ask, &asker).await?,
            };
            if call.is_some() {
                return Ok(call);
            }
        }
        Ok(None)
    }

    async fn next_call_for_open_ask(
        &mut self,
        mut message: SentMessage,
        ask: &Ask,
        shown: MessageContent,
        now: Timestamp,
        asker: &AskSource,
    ) -> Result<Option<BotCall>, Problem> {
        if message.lost && message.message.is_none() {
            return Ok(None);
        }
        let markup = self.markup.get(&message.id).copied().unwrap_or_default();
        // The parts of a form's first question go before it, those of a later one after it.
        let early = next_part(&message, &shown, markup).filter(|_| message.message.is_none());
        if let Some(call) = early {
            self.keep(message).await?;
            return Ok(Some(call));
        }
        if message.message.is_none() {
            message.quiet = !self.rings(message.chat, &ask.agent);
        }
        let outgoing = self.outgoing(&mut message, ask, &shown, markup)?;
        let outgoing = Outgoing { silent: message.quiet, ..outgoing };
        if let Some(call) = self.show(&message, outgoing).await? {
            return Ok(Some(call));
        }
        if let Some(call) = next_part(&message, &shown, markup).or_else(|| prompt_to_type(&message, ask)) {
            return Ok(Some(call));
        }
        if let Some(file) =
            shown.file.filter(|_| !message.has_side(SideKind::File { question: shown.question }))
        {
            return Ok(self.send_file(&message, Job::Ask(ask.id.clone()), file, shown.question));
        }
        let remind = self.settings.remind_after.map(|wait| after(ask.created_at, wait));
        let is_late = remind.is_some_and(|at| at <= now) && self.rings(message.chat, &ask.agent);
        let rings = is_late || (message.quiet && self.rings_instead(message.chat, &ask.agent));
        if rings && ask.state.is_open() && !message.lost && !message.has_side(SideKind::Reminder) {
            let page = RichText::default().text("⏰ Still waiting for you: ").text(&asker.name);
            let outgoing =
                Outgoing { reply_to: message.message, ..outgoing_of(&page.fitting(), Markup::Html) };
            let purpose = CallPurpose::Side { id: message.id, what: SideKind::Reminder };
            return Ok(Some(BotCall { purpose, op: Op::Send(outgoing) }));
        }
        Ok(None)
    }

    async fn next_call_for_ended_ask(
        &mut self,
        mut message: SentMessage,
        ask: &Ask,
        asker: &AskSource,
    ) -> Result<Option<BotCall>, Problem> {
        let is_passing = |what: SideKind| matches!(what, SideKind::Reminder | SideKind::Prompt { .. });
        let passing = message.side_number(is_passing).map(|number| take_away(&message, number));
        if message.message.is_none() {
            // It is not there, so there is nothing to edit.
            if !message.lost && passing.is_none() {
                let memos = self.memory.remove(&message.id);
                self.save(memos).await?;
            }
            return Ok(passing);
        }
        let Some(content) = message.as_ask().filter(|_| !message.settled) else { return Ok(None) };
        let page = match was_refused_by_itself(ask) {
            true => refused_plan(ask, asker, None, content.decided.as_deref()).page,
            false => ended(ask, asker, &content.draft),
        };
        let markup = self.markup.get(&message.id).copied().unwrap_or_default();
        if let Some(call) = self.show(&message, outgoing_of(&page, markup)).await? {
            return Ok(Some(call));
        }
        if passing.is_some() {
            return Ok(passing);
        }
        if is_settled(ask) {
            message.settled = true;
            self.markup.remove(&message.id);
            self.keep(message).await?;
        }
        Ok(None)
    }

    fn outgoing(
        &self,
        message: &mut SentMessage,
        ask: &Ask,
        shown: &MessageContent,
        markup: Markup,
    ) -> Result<Outgoing, Problem> {
        if markup == Markup::Bare {
            let words = format!(
                "A request is waiting that Telegram does not accept. See it with: aye show {}",
                ask.id
            );
            return Ok(outgoing_of(&RichText::default().text(&words), markup));
        }
        // Without markup nobody could tell the command from the words around it.
        let shown = match markup {
            Markup::Html => shown.clone(),
            Markup::Plain | Markup::Bare => without_approval(shown.clone()),
        };
        let rows = message.keyboard(&shown.rows)?;
        let url = self.settings.public_url.as_ref().filter(|_| shown.wants_page);
        let url = url.map(|url| format!("{url}/#/asks/{}", ask.id));
        let mut page = shown.page.clone();
        if let Some(url) = url.as_ref().filter(|_| self.links_refused) {
            let longer = page.clone().line().text("The page: ").code(url);
            page = if longer.fits() { longer } else { page };
        }
        let link = url.filter(|_| !self.links_refused).map(|url| ("Open the page".to_owned(), url));
        Ok(Outgoing { rows, link, ..outgoing_of(&page, markup) })
    }

    /// The name and deadline that people see.
    pub(super) async fn asker(&self, ask: &Ask) -> AskSource {
        let mut name = match self.name_of(&ask.agent) {
            Some(given) => given,
            None => {
                // One that has ended is in no list.
                let mut agents = self.hub.agents(false).await.unwrap_or_default();
                if !agents.iter().any(|agent| agent.id == ask.agent) {
                    agents = self.hub.agent(ask.agent.as_str()).await.into_iter().collect();
                }
                names(&agents).remove(&ask.agent).unwrap_or_else(|| ask.agent.to_string())
            }
        };
        if let Some(sub_agent) = &ask.sub_agent {
            name += &format!(" › {sub_agent}");
        }
        let now = self.hub.clock().now();
        let deadline = ask.deadline.map(|at| time_left(now.duration_until(at)).0);
        let has_link = self.settings.public_url.is_some();
        AskSource { name: cut(&name, 100).0.to_owned(), deadline, has_link, in_group: false }
    }
}

/// The next message that holds what the first has no room for.
fn next_part(message: &SentMessage, shown: &MessageContent, markup: Markup) -> Option<BotCall> {
    let what = SideKind::Part { question: shown.question };
    let part = shown.parts.get(message.sides_like(what).count())?;
    let purpose = CallPurpose::Side { id: message.id.clone(), what };
    let outgoing = Outgoing { silent: true, reply_to: message.message, ..outgoing_of(part, markup) };
    Some(BotCall { purpose, op: Op::Send(outgoing) })
}

/// In a group the bot may see only replies to itself: whoever is to type is asked for one.
fn prompt_to_type(message: &SentMessage, ask: &Ask) -> Option<BotCall> {
    let draft = &message.as_ask()?.draft;
    let typing = draft.typing.as_ref().filter(|_| message.chat < 0);
    let wanted = typing.map(|typing| SideKind::Prompt { user: typing.user });
    let is_over = |what: SideKind| matches!(what, SideKind::Prompt { .. }) && Some(what) != wanted;
    if let Some(number) = message.side_number(is_over) {
        return Some(take_away(message, number));
    }
    let (typing, what) = (typing?, wanted.filter(|what| !message.has_side(*what))?);
    let (page, placeholder) = to_type(ask, typing, draft.at);
    let outgoing = Outgoing {
        reply_to: message.message,
        silent: true,
        force_reply: Some(placeholder),
        ..outgoing_of(&page, Markup::Html)
    };
    Some(BotCall { purpose: CallPurpose::Side { id: message.id.clone(), what }, op: Op::Send(outgoing) })
}

pub(super) fn take_away(message: &SentMessage, number: i64) -> BotCall {
    let purpose = CallPurpose::Unside { id: message.id.clone(), message: number };
    BotCall { purpose, op: Op::Delete(number) }
}

fn was_refused_by_itself(ask: &Ask) -> bool {
    let by_rule = matches!(ask.state.by(), Some(By::Rule { rule }) if rule.as_str() == "outline");
    by_rule && matches!(ask.body, Body::Plan(_))
}

/// Whether its receipt is final.
fn is_settled(ask: &Ask) -> bool {
    match (&ask.state, ask.state.receipt()) {
        (State::Open, _) => false,
        (State::Withdrawn { .. } | State::Expired { .. }, _) => true,
        (State::Answered { .. }, receipt) => {
            was_refused_by_itself(ask)
                || matches!(
                    receipt,
                    Some(Receipt::Confirmed | Receipt::Disputed | Receipt::Superseded | Receipt::Undelivered)
                )
        }
    }
}

pub(super) fn after(at: Timestamp, wait: std::time::Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    at.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

pub(super) fn digest(outgoing: &Outgoing) -> String {
    // An edit rings nobody.
    let outgoing = Outgoing { silent: false, ..outgoing.clone() };
    sha256_hex(format!("{outgoing:?}").as_bytes())
}

/// The request to type, and the placeholder of the input field.
fn to_type(ask: &Ask, typing: &Typing, at: usize) -> (RichText, &'static str) {
    let (words, placeholder) = match typing.what {
        TextKind::Words => ("answer", "Your answer"),
        TextKind::Notes => ("note", "Your note"),
        TextKind::Reason => ("reason", "Why not?"),
    };
    let page = RichText::default().text("✍️ ").mention(typing.user, plain_name(&typing.name));
    let page = page.text(&format!(", reply to this message with your {words}"));
    let question = match &ask.body {
        Body::Question(asked) => asked.questions.get(at).map(|question| label(&question.question, 200)),
        Body::Permission(_) | Body::Plan(_) => None,
    };
    match question {
        Some(question) => (page.text(": ").written(&question), placeholder),
        None => (page.text("."), placeholder),
    }
}
