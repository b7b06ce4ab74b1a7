//! What people do: buttons they press, texts they send. What an update leads to is on disk before it counts as
//! done; one that comes again does nothing.

use super::api::ApiError;
use super::desk::Desk;
use super::ended::{in_short, too_late};
use super::form::{Action, Draft, NO_LONGER, Next, press};
use super::gate::{Person, admit};
use super::html::label;
use super::lane::Job;
use super::memory::{Card, Copy, Holder, SideKind};
use super::menu::Menu;
use super::render::{approves, open};
use super::wire::{Arrival, CallbackQuery, Update};
use crate::hub::{AnswerCall, Command, PlanApproval, Problem};
use aye_core::{AnswerKey, Ask, Surface};
use serde_json::Value;

/// The longest notice Telegram shows.
const NOTICE: usize = 190;
/// How often it is tried to tell somebody what became of a press.
const TRIES: usize = 3;

/// What whoever pressed is told.
pub struct Notice {
    words: String,
    /// It must be read, not only seen in passing.
    alert: bool,
}

impl Notice {
    pub fn passing(words: impl Into<String>) -> Self {
        Self { words: words.into(), alert: false }
    }

    pub fn alert(words: impl Into<String>) -> Self {
        Self { words: words.into(), alert: true }
    }
}

impl Desk {
    /// The number after the last update that is done.
    pub(super) async fn take_batch(&mut self, arrivals: Vec<Arrival>) -> Option<i64> {
        let mut done = None;
        for arrival in arrivals {
            let taken = async {
                self.be_sure().await?;
                match arrival.update {
                    Some(update) if !self.memory.is_handled(arrival.id) => self.take_update(update).await,
                    _ => Ok(()),
                }
            };
            if let Err(error) = taken.await {
                tracing::error!(%error, update = arrival.id, "an update could not be recorded");
                return done;
            }
            done = Some(arrival.id + 1);
        }
        done
    }

    async fn take_update(&mut self, update: Update) -> Result<(), Problem> {
        let id = update.update_id;
        if let Some(query) = update.callback_query {
            let notice = self.pressed(id, &query).await?;
            self.answer_press(&query, notice);
        } else if let Some(message) = update.message {
            self.message(id, message).await?;
        } else if let Some(edited) = update.edited_message {
            self.edited(&edited);
        }
        self.note_done(id).await
    }

    pub(super) async fn note_done(&mut self, update: i64) -> Result<(), Problem> {
        if self.memory.is_handled(update) {
            return Ok(());
        }
        let memos = self.memory.put_handled(update);
        self.save(memos).await
    }

    fn answer_press(&mut self, query: &CallbackQuery, notice: Notice) {
        let (bot, query, pace) = (self.bot.clone(), query.id.clone(), self.settings.pace);
        let words = label(&notice.words, NOTICE);
        self.asides.spawn(async move {
            for _ in 0..TRIES {
                let wait = match bot.answer_press(&query, &words, notice.alert).await {
                    Err(ApiError::TooMany { retry_after }) => retry_after as f64,
                    Err(error) if error.is_unsure() => 1.0,
                    // What was pressed is done; this only ends the waiting on a screen.
                    Err(error) => {
                        return tracing::debug!(%error, "somebody who pressed a button could not be told");
                    }
                    Ok(()) => return,
                };
                tokio::time::sleep(pace.seconds(wait)).await;
            }
        });
    }

    async fn pressed(&mut self, update: i64, query: &CallbackQuery) -> Result<Notice, Problem> {
        let Some(place) = &query.message else { return Ok(Notice::alert(NO_LONGER)) };
        let Some(person) = admit(&self.settings, Some(&query.from), None, &place.chat) else {
            tracing::warn!(
                user = query.from.id,
                chat = place.chat.id,
                "somebody who is not listed pressed a button; nothing happened"
            );
            return Ok(Notice::alert("You are not allowed to answer here."));
        };
        self.hear_from(person.chat);
        let holder = query.data.as_deref().and_then(|token| self.memory.holder(token));
        match (holder, query.data.as_deref()) {
            (Some(Holder::Copy(copy)), Some(token)) => {
                let Some(copy) = self.memory.copies.get(&copy).cloned() else {
                    return Ok(Notice::alert(NO_LONGER));
                };
                if let Some(notice) = elsewhere(copy.chat, copy.message, &person, place.message_id) {
                    return Ok(notice);
                }
                let Some(action) = copy.tokens.get(token).cloned() else {
                    return Ok(Notice::alert(NO_LONGER));
                };
                // A message whose sending nobody confirmed shows itself by being pressed.
                let copy = Copy { message: Some(place.message_id), ..copy };
                self.press_copy(update, copy, &action, &person).await
            }
            (Some(Holder::Card(card)), _) => {
                let Some(card) = self.memory.cards.get(&card).cloned() else {
                    return Ok(Notice::alert(NO_LONGER));
                };
                if let Some(notice) = elsewhere(card.chat, card.message, &person, place.message_id) {
                    return Ok(notice);
                }
                let card = Card { message: Some(place.message_id), ..card };
                self.press_card(update, card, &person).await
            }
            (Some(Holder::Menu(menu)), Some(token)) => {
                let Some(menu) = self.memory.menus.get(&menu).cloned() else {
                    return Ok(Notice::alert(NO_LONGER));
                };
                if let Some(notice) = elsewhere(menu.chat, menu.message, &person, place.message_id) {
                    return Ok(notice);
                }
                let menu = Menu { message: Some(place.message_id), lost: false, ..menu };
                self.press_menu(update, menu, token, &person).await
            }
            (None, _) | (_, None) => Ok(Notice::alert(NO_LONGER)),
        }
    }

    async fn press_copy(
        &mut self,
        update: i64,
        copy: Copy,
        action: &Action,
        person: &Person,
    ) -> Result<Notice, Problem> {
        let ask = self.hub.ask(&copy.ask).await?;
        self.put_now(copy.chat, Job::Ask(ask.id.clone()));
        let approval = match action {
            Action::PassPlan => Some(PlanApproval::Allow),
            Action::DropPlan => Some(PlanApproval::Deny),
            _ => None,
        };
        if let Some(approval) = approval {
            return self.decide_on_plan(copy, &ask, approval, person).await;
        }
        if !ask.state.is_open() {
            self.keep(copy).await?;
            return Ok(Notice::alert(too_late(&ask)));
        }
        // A message of an earlier version may offer what this one would not.
        if approves(action) {
            let shown = open(&ask, &copy.draft, &self.asker(&ask).await);
            if !shown.rows.iter().flatten().any(|(_, offered)| offered == action) {
                return Ok(Notice::alert("This cannot be allowed here. Open it on the page."));
            }
        }
        let next = press(&ask.body, copy.draft.clone(), action, person.as_who());
        let words = match action {
            Action::Words { .. } | Action::Notes { .. } | Action::DenyWhy if person.chat < 0 => {
                "Reply to the message that asks you for it."
            }
            Action::Words { .. } | Action::Notes { .. } | Action::DenyWhy => "Send it as your next message.",
            _ => "",
        };
        match next {
            Next::Stale(why) => Ok(Notice::alert(why)),
            Next::Draft(draft) => {
                self.go_on(update, copy, draft, person).await?;
                Ok(Notice::passing(words))
            }
            Next::Answer(answer) => {
                let told = self.answer(update, &copy, &ask, answer, person).await?;
                self.keep(copy).await?;
                Ok(match told {
                    Ok(words) => Notice::passing(words),
                    Err(words) => Notice::alert(words),
                })
            }
        }
    }

    /// The form, the update and whoever waits for the same person's text: all of it or none.
    pub(super) async fn go_on(
        &mut self,
        update: i64,
        copy: Copy,
        draft: Draft,
        person: &Person,
    ) -> Result<(), Problem> {
        let mut memos = vec![];
        if draft.typing.is_some() {
            for other in self.others_waiting(&copy.id, person) {
                self.put_now(other.chat, Job::Ask(other.ask.clone()));
                memos.push(self.memory.put_copy(other));
            }
        }
        self.put_now(copy.chat, Job::Ask(copy.ask.clone()));
        let mut copy = Copy { draft, ..copy };
        // A request to type that did not get through is made again the next time.
        copy.sides.retain(|side| side.message.is_some() || !matches!(side.what, SideKind::Prompt { .. }));
        memos.push(self.memory.put_copy(copy));
        memos.extend(self.memory.put_handled(update));
        self.save(memos).await
    }

    /// A person's next text can be for one message only: the last that asked for it.
    fn others_waiting(&self, copy: &str, person: &Person) -> Vec<Copy> {
        let waits = |other: &&Copy| {
            let typing = other.draft.typing.as_ref();
            other.id != copy
                && other.chat == person.chat
                && typing.is_some_and(|typing| typing.user == person.id)
        };
        let stop =
            |other: &Copy| Copy { draft: Draft { typing: None, ..other.draft.clone() }, ..other.clone() };
        self.memory.copies.values().filter(waits).map(stop).collect()
    }

    /// What the person is told: that it is recorded, or why it is not.
    pub(super) async fn answer(
        &mut self,
        update: i64,
        copy: &Copy,
        ask: &Ask,
        answer: Value,
        person: &Person,
    ) -> Result<Result<String, String>, Problem> {
        let call = AnswerCall {
            ask: ask.id.clone(),
            answer,
            digest: copy.digest.clone(),
            // The same update again is the same answer again.
            key: AnswerKey::try_from(format!("telegram-{update}")).ok(),
            by: person.by(),
            assertion: None,
        };
        match self.hub.answer(call).await {
            Ok(ask) => {
                let answer = ask.state.answer().map(in_short).unwrap_or_default();
                Ok(Ok(format!("Recorded: {answer}")))
            }
            Err(Problem::Refused { ask, .. }) => Ok(Err(too_late(&ask))),
            Err(problem @ (Problem::Store(_) | Problem::NoSuchAsk)) => Err(problem),
            Err(problem) => Ok(Err(problem.to_string())),
        }
    }

    async fn decide_on_plan(
        &mut self,
        mut copy: Copy,
        ask: &Ask,
        approval: PlanApproval,
        person: &Person,
    ) -> Result<Notice, Problem> {
        let decided = self.hub.approve_plan(
            ask.agent.clone(),
            approval,
            copy.digest.clone(),
            (person.name.clone(), person.who()),
            None,
        );
        match decided.await {
            Ok(_) => {
                let words = match approval {
                    PlanApproval::Allow => {
                        format!("Approved by {}: the same plan passes once when it comes again.", person.name)
                    }
                    PlanApproval::Deny => format!("Denied by {}.", person.name),
                };
                copy.done = Some(words.clone());
                self.keep(copy).await?;
                Ok(Notice::passing(words))
            }
            Err(problem @ Problem::Store(_)) => Err(problem),
            Err(problem) => Ok(Notice::alert(problem.to_string())),
        }
    }

    async fn press_card(&mut self, update: i64, card: Card, person: &Person) -> Result<Notice, Problem> {
        if card.done {
            return Ok(Notice::alert("This run has already ended."));
        }
        if let Some(who) = &card.cancelled {
            return Ok(Notice::alert(format!("{who} is already stopping it.")));
        }
        let (agent, id, chat) = (card.agent.clone(), card.id.clone(), card.chat);
        let mut memos = vec![self.memory.put_card(Card { cancelled: Some(person.name.to_string()), ..card })];
        memos.extend(self.memory.put_handled(update));
        let queued =
            self.hub.command_and_remember(agent, Command::Interrupt, person.who(), Surface::Telegram, memos);
        let queued = queued.await;
        if queued.is_err() {
            self.doubt();
        }
        match queued {
            Ok(()) => {
                self.put_now(chat, Job::Card(id));
                Ok(Notice::passing("Stopping…"))
            }
            Err(problem @ Problem::Store(_)) => Err(problem),
            Err(problem) => Ok(Notice::alert(problem.to_string())),
        }
    }

    /// A chat that speaks to us can be spoken to.
    pub(super) fn hear_from(&mut self, chat: i64) {
        if let Some(lane) = self.lanes.get_mut(&chat) {
            lane.wake();
        }
    }
}

/// Why a button does nothing here, if it stood elsewhere.
fn elsewhere(chat: i64, message: Option<i64>, person: &Person, pressed: i64) -> Option<Notice> {
    if chat != person.chat {
        return Some(Notice::alert("This button belongs to another chat."));
    }
    let other = message.is_some_and(|message| message != pressed);
    other.then(|| Notice::alert("This message is out of date. Use the newer one."))
}
