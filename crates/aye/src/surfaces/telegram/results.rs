//! Results of calls: recorded on success, retried or changed on failure.

use super::bot_loop::BotLoop;
use super::calls::{CallPurpose, MOST_TRIES, Markup};
use super::memory::{Content, SentMessage, Side, SideKind};
use super::queue::LONGEST_BLOCKED;
use crate::hub::Problem;
use tokio::time::Instant;

/// What Telegram says of a message that is no longer there, or cannot be changed any more.
const GONE: [&str; 4] = [
    "message to edit not found",
    "message can't be edited",
    "message_id_invalid",
    "message to delete not found",
];
/// What it says of a button's address that it does not accept, such as one without a dot in its host.
const NO_LINK: [&str; 3] = ["button url", "button_url_invalid", "wrong http url"];
/// What it says of a chat that does not accept messages from the bot, for now or for good.
const SHUT: [&str; 13] = [
    "chat not found",
    "blocked",
    "kicked",
    "not enough rights",
    "have no rights",
    "not a member",
    "chat_restricted",
    "chat_write_forbidden",
    "chat_admin_required",
    "user_restricted",
    "peer_id_invalid",
    "channel_private",
    "deactivated",
];
/// Refusals by a topic that takes no messages any more.
const NO_TOPIC: [&str; 4] = ["topic_closed", "topic_deleted", "topic_id_invalid", "message thread not found"];
/// What it says of a text or of buttons that it cannot use: too long, empty, or marked up wrongly.
const MALFORMED: [&str; 12] = [
    "can't parse",
    "is too long",
    "too_long",
    "text is empty",
    "message_empty",
    "must be non-empty",
    "must be encoded in utf-8",
    "unsupported parse",
    "entities_too",
    "entity_",
    "button_",
    "reply_markup_",
];

/// What a refusal is about, which decides what is done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The group has this number now.
    Moved(i64),
    /// The chat does not accept messages from the bot: all of it waits.
    Shut,
    /// The topic is closed or deleted; the chat itself may take messages.
    Topic,
    /// A button's address is not accepted as a link.
    Link,
    /// The message is not there any more, or cannot be changed.
    Gone,
    /// This text, its markup or its buttons will never be accepted.
    Malformed,
    /// Anything else may pass: this message waits and is tried again as it is.
    Other,
}

impl Refusal {
    pub fn read(code: u16, words: &str, moved_to: Option<i64>) -> Self {
        let words = words.to_ascii_lowercase();
        let says = |known: &[&str]| known.iter().any(|known| words.contains(known));
        match moved_to {
            Some(new) => Self::Moved(new),
            None if says(&NO_TOPIC) => Self::Topic,
            None if code == 403 || says(&SHUT) => Self::Shut,
            None if says(&NO_LINK) => Self::Link,
            None if says(&GONE) => Self::Gone,
            None if says(&MALFORMED) => Self::Malformed,
            None => Self::Other,
        }
    }
}

/// The pause before the next try of something refused, in Telegram's seconds.
pub fn pause_after(earlier_refusals: u32) -> f64 {
    f64::from(1_u32 << earlier_refusals.min(10)).min(LONGEST_BLOCKED)
}

impl BotLoop {
    pub(super) async fn succeeded(&mut self, purpose: CallPurpose, number: i64) -> Result<(), Problem> {
        match purpose {
            CallPurpose::Words => Ok(()),
            CallPurpose::Show { id, shown } => {
                self.refusals.remove(&id);
                self.run_edited(&id);
                self.change(&id, |message| {
                    message.message = Some(number);
                    message.shown = shown;
                })
                .await
            }
            CallPurpose::Side { id, what } => self.add_side(&id, what, Some(number)).await,
            CallPurpose::Unside { id, message } => self.drop_side(&id, message).await,
        }
    }

    /// It will not be tried again.
    pub(super) async fn gave_up(&mut self, purpose: &CallPurpose) -> Result<(), Problem> {
        match purpose {
            CallPurpose::Side { id, what } => self.add_side(id, *what, None).await,
            CallPurpose::Words | CallPurpose::Show { .. } | CallPurpose::Unside { .. } => Ok(()),
        }
    }

    /// It may have been done, or not. Only what makes a new message is in doubt: an edit is made again.
    pub(super) async fn unsure_of(&mut self, purpose: &CallPurpose) -> Result<(), Problem> {
        match purpose {
            CallPurpose::Show { id, .. } => match self.memory.messages.get(id).cloned() {
                Some(message) if message.message.is_none() => self.may_be_sent(message).await,
                // Should the edit be made late, over one that overtook it, the message is edited once more.
                _ => self.change(id, |message| message.shown.clear()).await,
            },
            CallPurpose::Side { what: SideKind::Reminder | SideKind::Prompt { .. }, .. } => {
                // A second one of these would ring twice, or ask twice.
                self.gave_up(purpose).await
            }
            CallPurpose::Words | CallPurpose::Side { .. } | CallPurpose::Unside { .. } => Ok(()),
        }
    }

    /// Nobody knows whether a message is there.
    async fn may_be_sent(&mut self, message: SentMessage) -> Result<(), Problem> {
        match &message.shows {
            Content::Ask(_) => {
                tracing::warn!(
                    "no reply came to a message that shows an ask; it is sent again, and either may be answered"
                );
                self.keep(SentMessage { lost: true, ..message }).await
            }
            Content::Run(_) => {
                let memos = self.replace_run(message);
                self.save(memos).await
            }
            // Its asks are announced again; should it be there after all, its buttons do nothing.
            Content::List(_) => self.remove_list(&message.id).await,
            // It holds a person's text, and is sent again rather than lost.
            Content::Offer(_) | Content::Choice(_) => Ok(()),
        }
    }

    /// Deals with a refusal, and returns when the same may be tried again if not at once.
    pub(super) async fn refused(
        &mut self,
        chat: i64,
        purpose: &CallPurpose,
        refusal: Refusal,
        words: &str,
    ) -> Result<Option<Instant>, Problem> {
        let refusal = match refusal {
            Refusal::Topic if !self.may_leave_topic(purpose).await? => Refusal::Other,
            refusal => refusal,
        };
        match (refusal, purpose) {
            // A move that Telegram should never tell of: of a person, or to one.
            (Refusal::Moved(new), _) => tracing::error!(chat, new, "a chat moved that is no group"),
            (Refusal::Shut, _) => {
                tracing::warn!(
                    chat,
                    words,
                    "the bot may not speak in this chat: write to it there, or take the chat out of config.toml"
                );
                // Other chats may have been kept silent because this one was to ring.
                let is_quiet =
                    |message: &SentMessage| message.quiet && message.is_current() && message.chat != chat;
                if self.memory.messages.values().any(is_quiet) {
                    self.resync_soon();
                }
            }
            (Refusal::Link, _) if !self.links_refused => {
                tracing::warn!(
                    words,
                    "Telegram does not accept public_url as a link; it is shown as text from now on"
                );
                self.links_refused = true;
            }
            (_, CallPurpose::Words) => {}
            (_, CallPurpose::Unside { id, message }) => self.drop_side(id, *message).await?,
            (Refusal::Topic, CallPurpose::Show { id, .. } | CallPurpose::Side { id, .. }) => {
                tracing::warn!(
                    chat,
                    words,
                    "a topic takes no messages; what belongs there is shown outside of it"
                );
                self.change(id, SentMessage::leave_topic).await?;
            }
            (Refusal::Gone, CallPurpose::Show { id, .. }) => self.is_gone(id).await?,
            (
                Refusal::Malformed | Refusal::Link,
                CallPurpose::Show { id, .. }
                | CallPurpose::Side { id, what: SideKind::Part { .. } | SideKind::Result },
            ) => self.use_less_markup(chat, id, words),
            (Refusal::Malformed | Refusal::Link, CallPurpose::Side { .. }) => self.gave_up(purpose).await?,
            (
                Refusal::Other | Refusal::Gone,
                CallPurpose::Show { id, .. }
                | CallPurpose::Side { id, what: SideKind::Part { .. } | SideKind::Result },
            ) => {
                tracing::warn!(chat, words, "Telegram refused a message; it is tried again later");
                return Ok(Some(self.put_off(id)));
            }
            (Refusal::Other | Refusal::Gone, CallPurpose::Side { id, .. }) => {
                let at = self.put_off(id);
                if self.refusals.get(id).is_some_and(|tries| *tries < MOST_TRIES) {
                    return Ok(Some(at));
                }
                self.refusals.remove(id);
                self.gave_up(purpose).await?;
            }
        }
        Ok(None)
    }

    /// True if people still need what cannot be shown in its topic. The end of a request can wait until it is open again.
    async fn may_leave_topic(&self, purpose: &CallPurpose) -> Result<bool, Problem> {
        let (CallPurpose::Show { id, .. } | CallPurpose::Side { id, .. }) = purpose else { return Ok(true) };
        let Some(message) = self.memory.messages.get(id).filter(|message| message.topic.is_some()) else {
            return Ok(false);
        };
        match message.as_ask() {
            Some(shown) => Ok(self.find_ask(&shown.ask).await?.is_some_and(|ask| ask.state.is_open())),
            None => Ok(true),
        }
    }

    /// When a refused message is tried again: later each time.
    fn put_off(&mut self, id: &str) -> Instant {
        let tries = self.refusals.entry(id.to_owned()).or_default();
        let pause = pause_after(*tries);
        *tries += 1;
        Instant::now() + self.settings.pace.seconds(pause)
    }

    /// Somebody deleted a message, or it is too old to be edited.
    async fn is_gone(&mut self, id: &str) -> Result<(), Problem> {
        match self.memory.messages.get(id).map(|message| &message.shows) {
            Some(Content::List(_)) => self.remove_list(id).await,
            Some(Content::Offer(_) | Content::Choice(_)) => {
                let memos = self.memory.remove(id);
                self.save(memos).await
            }
            // It is sent again, with what was filled in and done so far.
            Some(Content::Ask(_) | Content::Run(_)) | None => self.change(id, SentMessage::send_again).await,
        }
    }

    /// A list that is not there announces nothing: its asks are announced again.
    async fn remove_list(&mut self, id: &str) -> Result<(), Problem> {
        let memos = self.memory.remove(id);
        self.save(memos).await?;
        self.resync_soon();
        Ok(())
    }

    fn use_less_markup(&mut self, chat: i64, name: &str, words: &str) {
        let now = self.markup.get(name).copied().unwrap_or_default();
        tracing::warn!(chat, words, "Telegram refused a message; sending it again with less markup");
        let next = match now {
            Markup::Html => Markup::Plain,
            Markup::Plain => Markup::Bare,
            Markup::Bare => {
                self.hold(chat);
                Markup::Bare
            }
        };
        self.markup.insert(name.to_owned(), next);
    }

    /// Pauses a chat as after a failure.
    fn hold(&mut self, chat: i64) {
        if let Some(queue) = self.queues.get_mut(&chat) {
            queue.failed(Instant::now());
        }
    }

    /// A side message that is there, or without a number one that will not be tried again.
    async fn add_side(&mut self, id: &str, what: SideKind, number: Option<i64>) -> Result<(), Problem> {
        self.change(id, |message| message.sides.push(Side { message: number, what })).await
    }

    async fn drop_side(&mut self, id: &str, number: i64) -> Result<(), Problem> {
        self.change(id, |message| message.sides.retain(|side| side.message != Some(number))).await
    }
}
