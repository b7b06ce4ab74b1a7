//! Asks in chats: which messages there must be, and what each of them must say.

use super::api::{Key, Outgoing};
use super::calls::{Call, Doing, Op, Plainness, plainly};
use super::desk::Desk;
use super::ended::{ended, refused_plan};
use super::form::{Typing, Wanted};
use super::html::{Page, cut, label};
use super::lane::Job;
use super::memory::{Copy, SideKind};
use super::render::{Asker, Button, Shown, open, without_approval};
use crate::hub::Problem;
use aye_core::digest::sha256_hex;
use aye_core::{AgentId, Ask, AskId, Body, By, Reach, Receipt, State};
use jiff::{SignedDuration, Timestamp};

const STARTING: std::time::Duration = std::time::Duration::from_millis(100);

/// How an ask stands, for those who look at its messages.
enum View {
    Open,
    /// Refused by itself while an outline is awaited; it may be let pass for so many seconds.
    MayPass(i64),
    Ended,
}

impl Desk {
    pub(super) async fn look_at(&mut self, id: &AskId) -> Result<(), Problem> {
        match self.hub.ask(id).await {
            Ok(ask) => self.look(&ask).await,
            Err(Problem::NoSuchAsk) => Ok(()),
            Err(problem) => Err(problem),
        }
    }

    /// Puts what must be done about an ask into the lanes of its chats, or off until its time.
    pub(super) async fn look(&mut self, ask: &Ask) -> Result<(), Problem> {
        let now = self.hub.clock().now();
        let shown = self.memory.by_ask.contains_key(&ask.id) || self.memory.is_listed_anywhere(&ask.id);
        if !ask.state.is_open() {
            self.renew_lists(&ask.id);
        }
        match self.view(ask, now).await? {
            View::Open if !shown && self.may_be_starting(ask).await? => {
                self.later.insert((after(now, STARTING), ask.id.clone()));
                return Ok(());
            }
            View::Open => {
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
                self.passes.insert(ask.agent.clone(), ask.id.clone());
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

    /// An agent that a chat has just started may ask before it is known to be that chat's.
    async fn may_be_starting(&self, ask: &Ask) -> Result<bool, Problem> {
        if self.starting.is_empty() || self.memory.homes.contains_key(&ask.agent) {
            return Ok(false);
        }
        let agent = self.hub.agent(ask.agent.as_str()).await?;
        Ok(agent.reach == Reach::Driven && self.starting.values().any(|since| agent.created_at >= *since))
    }

    /// An agent that was started from a chat asks there; all others ask everywhere.
    pub(super) fn is_for(&self, agent: &AgentId, chat: i64) -> bool {
        let home = self.memory.homes.get(agent).map(|home| home.chat);
        home.filter(|home| self.settings.chats.contains(home)).is_none_or(|home| home == chat)
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

    pub(super) async fn plan_ask(&mut self, chat: i64, id: &AskId) -> Result<Option<Call>, Problem> {
        let ask = match self.hub.ask(id).await {
            Ok(ask) => ask,
            Err(Problem::NoSuchAsk) => return Ok(None),
            Err(problem) => return Err(problem),
        };
        let now = self.hub.clock().now();
        let view = self.view(&ask, now).await?;
        let asker = self.asker(&ask).await;
        let mut copies = self.memory.copies_in(id, chat);
        let is_live = !matches!(view, View::Ended);
        if is_live && !copies.iter().any(|copy| !copy.lost) && self.is_for(&ask.agent, chat) {
            if copies.is_empty() && self.memory.is_listed(id, chat) {
                // Its list may have to be called to mind.
                self.renew_lists(id);
                return Ok(None);
            }
            if ask.state.is_open()
                && let Some(menu) = self.gather(chat, id).await?
            {
                self.put_unasked(chat, Job::Menu(menu.id));
                return Ok(None);
            }
            copies.push(Copy::new(ask.id.clone(), ask.digest.clone(), chat, now)?);
        }
        for copy in copies {
            let call = match &view {
                View::Open => self.plan_open(copy, &ask, open_shown(&ask, &asker), now, &asker).await?,
                View::MayPass(left) => {
                    let left = Some(*left).filter(|_| copy.done.is_none());
                    let shown = refused_plan(&ask, &asker, left, copy.done.as_deref());
                    self.plan_open(copy, &ask, |_| shown, now, &asker).await?
                }
                View::Ended => self.plan_ended(copy, &ask, &asker).await?,
            };
            if call.is_some() {
                return Ok(call);
            }
        }
        Ok(None)
    }

    async fn plan_open(
        &mut self,
        mut copy: Copy,
        ask: &Ask,
        shown: impl FnOnce(&Copy) -> Shown,
        now: Timestamp,
        asker: &Asker,
    ) -> Result<Option<Call>, Problem> {
        if copy.lost && copy.message.is_none() {
            return Ok(None);
        }
        let shown = shown(&copy);
        let plainness = self.plainness.get(&copy.id).copied().unwrap_or_default();
        // The parts of a form's first question go before it, those of a later one after it.
        let early = self.next_part(&copy, &shown, plainness).filter(|_| copy.message.is_none());
        if let Some(call) = early {
            self.keep(copy).await?;
            return Ok(Some(call));
        }
        let outgoing = self.outgoing(&mut copy, ask, &shown, plainness)?;
        let digest = digest(&outgoing);
        if copy.shown != digest {
            let doing = Doing::Show { copy: copy.id.clone(), shown: digest };
            let op = match copy.message {
                None => Op::Send(outgoing),
                Some(message) => Op::Edit(message, outgoing),
            };
            // Before anybody sees its buttons, it is known what they mean.
            self.keep(copy).await?;
            return Ok(Some(Call { doing, op }));
        }
        if let Some(call) = self.next_part(&copy, &shown, plainness) {
            return Ok(Some(call));
        }
        if let Some(call) = self.prompt_to_type(&copy, ask) {
            return Ok(Some(call));
        }
        let what = SideKind::File { question: shown.question };
        if let Some((name, text)) = shown.file.filter(|_| copy.sides_like(what).next().is_none()) {
            if let Some(at) = self.file_waits(copy.chat, &(copy.id.clone(), shown.question)) {
                if let Some(lane) = self.lanes.get_mut(&copy.chat) {
                    lane.put_later(Job::Ask(ask.id.clone()), at);
                }
                return Ok(None);
            }
            let op = Op::File { name, text, reply_to: copy.message };
            return Ok(Some(Call { doing: Doing::Side { copy: copy.id, what }, op }));
        }
        let remind = self.settings.remind_after.map(|wait| after(ask.created_at, wait));
        if ask.state.is_open() && !copy.reminded && !copy.lost && remind.is_some_and(|at| at <= now) {
            let page = Page::default().text("⏰ Still waiting for you: ").text(&asker.name);
            let outgoing = Outgoing { reply_to: copy.message, ..plainly(&page.fitting(), Plainness::Marked) };
            let doing = Doing::Side { copy: copy.id, what: SideKind::Reminder };
            return Ok(Some(Call { doing, op: Op::Send(outgoing) }));
        }
        Ok(None)
    }

    /// The next message that holds what the first has no room for.
    fn next_part(&self, copy: &Copy, shown: &Shown, plainness: Plainness) -> Option<Call> {
        let what = SideKind::Part { question: shown.question };
        let part = shown.parts.get(copy.sides_like(what).count())?;
        let doing = Doing::Side { copy: copy.id.clone(), what };
        let outgoing = Outgoing { silent: true, reply_to: copy.message, ..plainly(part, plainness) };
        Some(Call { doing, op: Op::Send(outgoing) })
    }

    /// In a group the bot may hear only replies to itself: whoever is to type is asked for one.
    fn prompt_to_type(&self, copy: &Copy, ask: &Ask) -> Option<Call> {
        let typing = copy.draft.typing.as_ref().filter(|_| copy.chat < 0);
        let wanted = typing.map(|typing| SideKind::Prompt { user: typing.user });
        let is_prompt = |what: SideKind| matches!(what, SideKind::Prompt { .. });
        if let Some(message) = copy.passing(|what| is_prompt(what) && Some(what) != wanted) {
            let doing = Doing::Unside { copy: copy.id.clone(), message };
            return Some(Call { doing, op: Op::Delete(message) });
        }
        let (typing, what) = (typing?, wanted?);
        if copy.sides_like(what).next().is_some() {
            return None;
        }
        let (page, placeholder) = to_type(ask, typing, copy.draft.at);
        let outgoing = Outgoing {
            reply_to: copy.message,
            silent: true,
            force_reply: Some(placeholder),
            ..plainly(&page, Plainness::Marked)
        };
        Some(Call { doing: Doing::Side { copy: copy.id.clone(), what }, op: Op::Send(outgoing) })
    }

    async fn plan_ended(
        &mut self,
        mut copy: Copy,
        ask: &Ask,
        asker: &Asker,
    ) -> Result<Option<Call>, Problem> {
        let Some(message) = copy.message else {
            // Nobody ever saw it.
            if !copy.lost {
                let memos = self.memory.drop_copy(&copy.id);
                self.save(memos).await?;
            }
            return Ok(None);
        };
        if copy.settled {
            return Ok(None);
        }
        let page = match was_refused_by_itself(ask) {
            true => refused_plan(ask, asker, None, copy.done.as_deref()).page,
            false => ended(ask, asker, &copy.draft),
        };
        let plainness = self.plainness.get(&copy.id).copied().unwrap_or_default();
        let outgoing = plainly(&page, plainness);
        let digest = digest(&outgoing);
        if copy.shown != digest {
            let doing = Doing::Show { copy: copy.id, shown: digest };
            return Ok(Some(Call { doing, op: Op::Edit(message, outgoing) }));
        }
        let is_passing = |what: SideKind| matches!(what, SideKind::Reminder | SideKind::Prompt { .. });
        if let Some(message) = copy.passing(is_passing) {
            return Ok(Some(Call {
                doing: Doing::Unside { copy: copy.id, message },
                op: Op::Delete(message),
            }));
        }
        if is_settled(ask) {
            copy.settled = true;
            self.plainness.remove(&copy.id);
            self.keep(copy).await?;
        }
        Ok(None)
    }

    fn outgoing(
        &self,
        copy: &mut Copy,
        ask: &Ask,
        shown: &Shown,
        plainness: Plainness,
    ) -> Result<Outgoing, Problem> {
        if plainness == Plainness::Bare {
            let words = format!(
                "A request is waiting that Telegram does not accept. See it with: aye show {}",
                ask.id
            );
            return Ok(plainly(&Page::default().text(&words), plainness));
        }
        // Without its markup nobody could tell what runs from what is said about it.
        let shown = match plainness {
            Plainness::Marked => shown.clone(),
            Plainness::Plain | Plainness::Bare => without_approval(shown.clone()),
        };
        let mut rows = Vec::new();
        for row in &shown.rows {
            let key = |(label, action): &Button| Ok(Key { label: label.clone(), data: copy.token(action)? });
            rows.push(row.iter().map(key).collect::<Result<Vec<_>, Problem>>()?);
        }
        let url = self.settings.public_url.as_ref().filter(|_| shown.wants_page);
        let url = url.map(|url| format!("{url}/#/asks/{}", ask.id));
        let mut page = shown.page.clone();
        if let Some(url) = url.as_ref().filter(|_| self.linkless) {
            let longer = page.clone().line().text("The page: ").code(url);
            page = if longer.fits() { longer } else { page };
        }
        let link = url.filter(|_| !self.linkless).map(|url| ("Open the page".to_owned(), url));
        Ok(Outgoing { rows, link, ..plainly(&page, plainness) })
    }

    pub(super) async fn keep(&mut self, copy: Copy) -> Result<(), Problem> {
        let memo = self.memory.put_copy(copy);
        self.save(vec![memo]).await
    }

    /// In the time of the machine that the hub runs on; with its day where that is not today.
    fn time_of_day(&self, at: Timestamp) -> String {
        let zone = jiff::tz::TimeZone::system();
        let (now, at) = (self.hub.clock().now().to_zoned(zone.clone()), at.to_zoned(zone));
        let format = if now.date() == at.date() { "%H:%M" } else { "%a %d %b, %H:%M" };
        at.strftime(format).to_string()
    }

    /// Who asks, as people know them.
    pub(super) async fn asker(&self, ask: &Ask) -> Asker {
        let agent = self.hub.agent(ask.agent.as_str()).await.ok();
        let home = self.memory.homes.get(&ask.agent).map(|home| home.name.clone());
        let title =
            agent.as_ref().map(|agent| agent.title.trim().to_owned()).filter(|title| !title.is_empty());
        let mut name = home.or(title).unwrap_or_else(|| ask.agent.to_string());
        if let Some(sub_agent) = &ask.sub_agent {
            name += &format!(" › {sub_agent}");
        }
        let is_claude = agent.is_some_and(|agent| agent.kind == "claude");
        let deadline = ask.deadline.map(|at| self.time_of_day(at));
        let has_link = self.settings.public_url.is_some();
        Asker { name: cut(&name, 100).0.to_owned(), deadline, is_claude, has_link }
    }
}

fn open_shown(ask: &Ask, asker: &Asker) -> impl FnOnce(&Copy) -> Shown {
    |copy| open(ask, &copy.draft, asker)
}

fn was_refused_by_itself(ask: &Ask) -> bool {
    let by_rule = matches!(ask.state.by(), Some(By::Rule { rule }) if rule.as_str() == "outline");
    by_rule && matches!(ask.body, Body::Plan(_))
}

/// Whether nothing more will be known of it.
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
    sha256_hex(format!("{outgoing:?}").as_bytes())
}

/// What somebody is asked to type, and the word that stands where they type.
fn to_type(ask: &Ask, typing: &Typing, at: usize) -> (Page, &'static str) {
    let (words, placeholder) = match typing.what {
        Wanted::Words => ("answer", "Your answer"),
        Wanted::Notes => ("note", "Your note"),
        Wanted::Reason => ("reason", "Why not?"),
    };
    let page = Page::default().text("✍️ ").mention(typing.user, &typing.name);
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
