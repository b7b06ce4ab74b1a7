//! What people do: buttons they press, texts they send. What an update leads to is on disk before it counts as
//! done; one that comes again does nothing.

use super::access::{Person, admit, plain_name};
use super::actions::{Action, press};
use super::api::ApiError;
use super::bot_loop::BotLoop;
use super::ended::{in_short, too_late};
use super::html::label;
use super::memory::{Content, SentMessage, SideKind};
use super::message::{AskContent, RunContent};
use super::queue::Job;
use super::render::{approves, open};
use super::wire::{CallbackQuery, Chat, ReceivedUpdate, Update};
use crate::hub::{AnswerCall, Command, Problem};
use crate::protocol::PlanApproval;
use crate::surfaces::form::{Draft, FormStep, NO_LONGER};
use aye_core::{AnswerKey, Ask, Digest, Surface};
use futures_util::FutureExt;
use serde_json::Value;

/// The longest notice Telegram shows.
const NOTICE: usize = 190;
/// Attempts to answer a press.
const TRIES: usize = 3;

const OUT_OF_DATE: &str = "This message is out of date. Use the newer one.";

/// The reply to a press.
pub struct Notice {
    pub words: String,
    /// Shown in a dialog that must be dismissed.
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

impl BotLoop {
    /// The number after the last update that is done.
    pub(super) async fn take_batch(&mut self, updates: Vec<ReceivedUpdate>) -> Option<i64> {
        let mut done = None;
        for received in updates {
            let taken = async {
                self.reload_if_stale().await?;
                match received.update {
                    Some(update) if !self.memory.is_handled(received.id) => self.take_update(update).await,
                    _ => Ok(()),
                }
            };
            if let Err(error) = taken.await {
                tracing::error!(%error, update = received.id, "an update could not be recorded");
                return done;
            }
            done = Some(received.id + 1);
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
        self.side_calls.spawn(
            async move {
                for _ in 0..TRIES {
                    let wait = match bot.answer_press(&query, &words, notice.alert).await {
                        Err(ApiError::TooMany { retry_after }) => retry_after as f64,
                        Err(error) if error.is_unsure() => 1.0,
                        // The press is recorded; only the spinner on the button stays.
                        Err(error) => {
                            return tracing::debug!(%error, "somebody who pressed a button could not be told");
                        }
                        Ok(()) => return,
                    };
                    tokio::time::sleep(pace.seconds(wait)).await;
                }
            }
            .boxed(),
        );
    }

    async fn pressed(&mut self, update: i64, query: &CallbackQuery) -> Result<Notice, Problem> {
        let Some(place) = &query.message else { return Ok(Notice::alert(NO_LONGER)) };
        let here = Chat { id: self.memory.current_chat(place.chat.id), ..place.chat.clone() };
        let Some(person) = admit(&self.settings, Some(&query.from), None, &here) else {
            tracing::warn!(
                user = query.from.id,
                chat = place.chat.id,
                "somebody who is not listed pressed a button; nothing happened"
            );
            return Ok(Notice::alert("You are not allowed to answer here."));
        };
        self.reopen_chat(person.chat);
        if here.id != place.chat.id {
            return Ok(Notice::alert(OUT_OF_DATE));
        }
        let token = query.data.as_deref().unwrap_or_default();
        let Some(message) = self.memory.with_token(token).cloned() else {
            return Ok(Notice::alert(NO_LONGER));
        };
        if let Some(notice) = elsewhere(&message, &person, place.message_id) {
            return Ok(notice);
        }
        let Some(action) = message.tokens.get(token).cloned() else { return Ok(Notice::alert(NO_LONGER)) };
        let person = Person { topic: message.topic, ..person };
        // A press proves that an unconfirmed message arrived.
        let message = SentMessage { message: Some(place.message_id), ..message };
        match message.shows.clone() {
            Content::Ask(shown) => self.press_ask(update, message, shown, &action, &person).await,
            Content::Run(shown) => self.stop_run(update, message, shown, &person).await,
            Content::List(_) => self.press_list(update, message, action).await,
            Content::Offer(_) => self.press_offer(update, message, action, &person).await,
            Content::Choice(_) => self.press_choice(update, message, action, &person).await,
        }
    }

    async fn press_ask(
        &mut self,
        update: i64,
        message: SentMessage,
        shown: AskContent,
        action: &Action,
        person: &Person,
    ) -> Result<Notice, Problem> {
        let Some(ask) = self.find_ask(&shown.ask).await? else { return Ok(Notice::alert(NO_LONGER)) };
        self.put_reaction(message.chat, Job::Ask(ask.id.clone()));
        let approval = match action {
            Action::PassPlan => Some(PlanApproval::Allow),
            Action::DropPlan => Some(PlanApproval::Deny),
            _ => None,
        };
        if let Some(approval) = approval {
            return self.decide_on_plan(message, shown, &ask, approval, person).await;
        }
        if !ask.state.is_open() {
            self.keep(message).await?;
            return Ok(Notice::alert(too_late(&ask, &person.by())));
        }
        // A message of an earlier version may offer what this one would not.
        if approves(action) {
            let offered = open(&ask, &shown.draft, &self.asker(&ask).await);
            if !offered.rows.iter().flatten().any(|(_, offered)| offered == action) {
                return Ok(Notice::alert("This cannot be allowed here. Open it on the page."));
            }
        }
        let words = match action {
            Action::Words { .. } | Action::Notes { .. } | Action::DenyWhy if person.chat < 0 => {
                "Reply to the message below."
            }
            Action::Words { .. } | Action::Notes { .. } | Action::DenyWhy => "Send it as your next message.",
            _ => "",
        };
        match press(&ask.body, shown.draft, action, person.as_who()) {
            FormStep::Stale(why) => Ok(Notice::alert(why)),
            FormStep::Draft(draft) => {
                self.go_on(update, message, draft, person).await?;
                Ok(Notice::passing(words))
            }
            FormStep::Answer(answer) => {
                let told = self.answer(update, shown.digest, &ask, answer, person).await?;
                self.keep(message).await?;
                Ok(match told {
                    Ok(words) => Notice::passing(words),
                    Err(words) => Notice::alert(words),
                })
            }
        }
    }

    /// Stores the form and the update, and ends other requests for this person's text, in one transaction.
    pub(super) async fn go_on(
        &mut self,
        update: i64,
        mut message: SentMessage,
        draft: Draft,
        person: &Person,
    ) -> Result<(), Problem> {
        let mut memos = vec![];
        if draft.typing.is_some() {
            for other in self.others_waiting(&message.id, person) {
                memos.push(self.memory.put(other));
            }
        }
        if let Some(shown) = message.as_ask_mut() {
            shown.draft = draft;
            self.put_reaction(person.chat, Job::Ask(shown.ask.clone()));
        }
        // A request to type that did not get through is made again the next time.
        message.sides.retain(|side| side.message.is_some() || !matches!(side.what, SideKind::Prompt { .. }));
        memos.push(self.memory.put(message));
        memos.extend(self.memory.put_handled(update));
        self.save(memos).await
    }

    /// A person's next text can be for one message only: the last that asked for it.
    fn others_waiting(&mut self, id: &str, person: &Person) -> Vec<SentMessage> {
        let others = self.memory.all_waiting_for(person).filter(|other| other.id != id);
        let mut others: Vec<_> = others.cloned().collect();
        for shown in others.iter_mut().filter_map(SentMessage::as_ask_mut) {
            shown.draft.typing = None;
            self.put_reaction(person.chat, Job::Ask(shown.ask.clone()));
        }
        others
    }

    /// What the person is told: that it is recorded, or why it is not.
    pub(super) async fn answer(
        &mut self,
        update: i64,
        digest: Digest,
        ask: &Ask,
        answer: Value,
        person: &Person,
    ) -> Result<Result<String, String>, Problem> {
        let call = AnswerCall {
            ask: ask.id.clone(),
            answer,
            digest,
            // The same update again is the same answer again.
            key: AnswerKey::try_from(format!("telegram-{update}")).ok(),
            by: person.by(),
            token: None,
            assertion: None,
        };
        match self.hub.answer(call).await {
            Ok(ask) => Ok(Ok(format!("Recorded: {}", in_short(&ask)))),
            Err(Problem::Refused { ask, .. }) => Ok(Err(too_late(&ask, &person.by()))),
            Err(problem @ Problem::Store(_)) => Err(problem),
            Err(problem) => Ok(Err(problem.to_string())),
        }
    }

    async fn decide_on_plan(
        &mut self,
        mut message: SentMessage,
        shown: AskContent,
        ask: &Ask,
        approval: PlanApproval,
        person: &Person,
    ) -> Result<Notice, Problem> {
        let decided = self.hub.approve_plan(
            ask.agent.clone(),
            approval,
            shown.digest.clone(),
            (person.name.clone(), person.who(), None),
            None,
        );
        match decided.await {
            Ok(_) => {
                let name = plain_name(person.name.as_str());
                let words = match approval {
                    PlanApproval::Allow => {
                        format!("Approved by {name}: the same plan passes once when it comes again.")
                    }
                    PlanApproval::Deny => format!("Denied by {name}."),
                };
                message.shows = Content::Ask(AskContent { decided: Some(words.clone()), ..shown });
                self.keep(message).await?;
                Ok(Notice::passing(words))
            }
            Err(problem @ Problem::Store(_)) => Err(problem),
            Err(problem) => Ok(Notice::alert(problem.to_string())),
        }
    }

    /// Stops what a run is doing, for the button and for `/stop`.
    pub(super) async fn stop_run(
        &mut self,
        update: i64,
        mut message: SentMessage,
        shown: RunContent,
        person: &Person,
    ) -> Result<Notice, Problem> {
        if message.settled {
            return Ok(Notice::alert("It has already finished."));
        }
        if let Some(who) = &shown.stopped_by {
            return Ok(Notice::alert(format!("{who} is already stopping it.")));
        }
        let (agent, id, chat) = (shown.agent.clone(), message.id.clone(), message.chat);
        message.shows = Content::Run(RunContent {
            stopped_by: Some(plain_name(person.name.as_str()).to_owned()),
            ..shown
        });
        let mut memos = vec![self.memory.put(message)];
        memos.extend(self.memory.put_handled(update));
        let queued =
            self.hub.command_and_remember(agent, Command::Interrupt, person.who(), Surface::Telegram, memos);
        let queued = queued.await;
        if queued.is_err() {
            self.mark_stale();
        }
        match queued {
            Ok(()) => {
                self.put_reaction(chat, Job::Message(id));
                Ok(Notice::passing("Stopping…"))
            }
            Err(problem @ Problem::Store(_)) => Err(problem),
            Err(problem) => Ok(Notice::alert(problem.to_string())),
        }
    }

    /// Somebody wrote from this chat, so the bot may write there.
    pub(super) fn reopen_chat(&mut self, chat: i64) {
        if let Some(queue) = self.queues.get_mut(&chat) {
            queue.hurry();
        }
    }
}

/// Why a press is ignored, if the button belongs elsewhere.
fn elsewhere(message: &SentMessage, person: &Person, pressed: i64) -> Option<Notice> {
    if message.chat != person.chat {
        return Some(Notice::alert("This button belongs to another chat."));
    }
    let other = message.message.is_some_and(|message| message != pressed);
    other.then(|| Notice::alert(OUT_OF_DATE))
}
