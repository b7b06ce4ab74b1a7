//! Calls to Telegram: how each is made, and what happens with its result.

use super::access::Place;
use super::api::{ApiError, Outgoing};
use super::asks::digest;
use super::bot_loop::BotLoop;
use super::html::RichText;
use super::memory::{Content, SentMessage, SideKind};
use super::queue::{ChatQueue, Job, Priority, Words};
use super::results::{Refusal, pause_after};
use crate::hub::Problem;
use futures_util::FutureExt;
use std::time::Duration;
use tokio::time::Instant;

/// Attempts to send a file, or another message that belongs to one.
pub const MOST_TRIES: u32 = 5;
const LONGEST_WAIT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Markup {
    #[default]
    Html,
    Plain,
    /// Only a hint where to read it.
    Bare,
}

/// One call that is to be made in a chat.
pub struct BotCall {
    pub purpose: CallPurpose,
    pub op: Op,
}

pub enum Op {
    Send(Outgoing),
    Edit(i64, Outgoing),
    File { name: String, text: String, reply_to: Option<i64> },
    Delete(i64),
}

/// What a call is for, so that its result can be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPurpose {
    Words,
    Show {
        id: String,
        shown: String,
    },
    /// Sends a message that belongs to another.
    Side {
        id: String,
        what: SideKind,
    },
    /// Deletes such a message.
    Unside {
        id: String,
        message: i64,
    },
}

impl CallPurpose {
    /// Identifies the file that this sends.
    pub fn file(&self) -> Option<FileOf> {
        match self {
            CallPurpose::Side { id, what: SideKind::File { question } } => Some((id.clone(), *question)),
            CallPurpose::Words
            | CallPurpose::Show { .. }
            | CallPurpose::Side { .. }
            | CallPurpose::Unside { .. } => None,
        }
    }

    /// Whether both would create the same message.
    fn makes_the_same(&self, other: &CallPurpose) -> bool {
        match (self, other) {
            (CallPurpose::Words, _) => false,
            (CallPurpose::Show { id: one, .. }, CallPurpose::Show { id: other, .. }) => one == other,
            (one, other) => one == other,
        }
    }
}

/// The message that a file belongs to, and the question it is for.
pub type FileOf = (String, usize);

/// A call and its result.
pub struct Finished {
    chat: i64,
    job: Job,
    priority: Priority,
    purpose: CallPurpose,
    began: Instant,
    result: Result<i64, ApiError>,
}

impl BotLoop {
    pub(super) async fn next_call(&mut self, chat: i64, job: &Job) -> Result<Option<BotCall>, Problem> {
        self.reload_if_stale().await?;
        match job {
            Job::Words(words) => {
                let markup = if words.plain { Markup::Plain } else { Markup::Html };
                let outgoing = Outgoing {
                    reply_to: words.reply_to,
                    silent: !words.loud,
                    ..outgoing_of(&words.page, markup)
                };
                Ok(Some(BotCall { purpose: CallPurpose::Words, op: Op::Send(outgoing) }))
            }
            Job::Ask(ask) => self.next_call_for_ask(chat, ask).await,
            Job::Message(id) => self.next_call_for_message(id).await,
        }
    }

    async fn next_call_for_message(&mut self, id: &str) -> Result<Option<BotCall>, Problem> {
        let Some(message) = self.memory.messages.get(id).filter(|message| message.is_current()).cloned()
        else {
            return Ok(None);
        };
        match message.shows.clone() {
            Content::Ask(shown) => self.next_call_for_ask(message.chat, &shown.ask).await,
            Content::Run(shown) => self.next_call_for_run(message, &shown).await,
            Content::List(shown) => self.next_call_for_list(message, &shown).await,
            Content::Offer(shown) => self.next_call_for_offer(message, &shown).await,
            Content::Choice(shown) => self.next_call_for_choice(message, &shown).await,
        }
    }

    /// Sends or edits a message, unless it shows this already.
    pub(super) async fn show(
        &mut self,
        message: &SentMessage,
        outgoing: Outgoing,
    ) -> Result<Option<BotCall>, Problem> {
        let shown = digest(&outgoing);
        if message.shown == shown {
            return Ok(None);
        }
        let purpose = CallPurpose::Show { id: message.id.clone(), shown };
        let op = match message.message {
            None => Op::Send(outgoing),
            Some(number) => Op::Edit(number, outgoing),
        };
        // Stored before anybody can press the buttons.
        self.keep(message.clone()).await?;
        Ok(Some(BotCall { purpose, op }))
    }

    /// Sends the file that belongs to a message, unless it is there or must wait.
    pub(super) fn send_file(
        &mut self,
        message: &SentMessage,
        job: Job,
        (name, text): (String, String),
        question: usize,
    ) -> Option<BotCall> {
        let what = SideKind::File { question };
        if message.has_side(what) {
            return None;
        }
        if let Some(at) = self.file_waits(message.chat, &(message.id.clone(), question)) {
            if let Some(queue) = self.queues.get_mut(&message.chat) {
                queue.put_later(job, at);
            }
            return None;
        }
        let op = Op::File { name, text, reply_to: message.message };
        Some(BotCall { purpose: CallPurpose::Side { id: message.id.clone(), what }, op })
    }

    /// Whether a call under way creates the same message. The job is put again when that call ends.
    pub(super) fn is_being_made(&self, call: &BotCall) -> bool {
        let makes = matches!(call.op, Op::Send(_) | Op::File { .. });
        makes && self.being_made.iter().any(|(_, purpose)| purpose.makes_the_same(&call.purpose))
    }

    pub(super) fn call(&mut self, chat: i64, job: Job, priority: Priority, call: BotCall) {
        let began = Instant::now();
        if let Some(queue) = self.queues.get_mut(&chat) {
            match call.purpose.file() {
                Some(_) => queue.begin_upload(began),
                None => queue.begin(began, priority),
            }
        }
        if matches!(call.op, Op::Send(_) | Op::File { .. }) {
            self.being_made.push((began, call.purpose.clone()));
        }
        let place = Place { chat, topic: self.topic_of(&call.purpose, &job) };
        let bot = self.bot.clone();
        self.calls.spawn(
            async move {
                let result = match &call.op {
                    Op::Send(outgoing) => bot.send(place, outgoing).await,
                    Op::Edit(message, outgoing) => {
                        bot.edit(chat, *message, outgoing).await.map(|()| *message)
                    }
                    Op::File { name, text, reply_to } => bot.send_file(place, name, text, *reply_to).await,
                    Op::Delete(message) => bot.delete(chat, *message).await.map(|()| *message),
                };
                Finished { chat, job, priority, purpose: call.purpose, began, result }
            }
            .boxed(),
        );
    }

    /// The topic that a call is made in.
    fn topic_of(&self, purpose: &CallPurpose, job: &Job) -> Option<i64> {
        match (purpose, job) {
            (_, Job::Words(words)) => words.topic,
            (CallPurpose::Show { id, .. } | CallPurpose::Side { id, .. }, _) => {
                self.memory.messages.get(id).and_then(|message| message.topic)
            }
            (CallPurpose::Words | CallPurpose::Unside { .. }, _) => None,
        }
    }

    pub(super) async fn finish(&mut self, finished: Option<Finished>) {
        // None only if the call panicked.
        let Some(Finished { chat, job, priority, purpose, began, result }) = finished else { return };
        let now = Instant::now();
        self.being_made.retain(|made| *made != (began, purpose.clone()));
        if let Err(ApiError::Refused { moved_to: Some(new), .. }) = &result
            && let Err(error) = self.group_moved(chat, *new).await
        {
            self.report_failure(&error);
        }
        let here = self.memory.current_chat(chat);
        if here != chat {
            return self.make_elsewhere(here, job, priority, &purpose, began);
        }
        let Some(queue) = self.queues.get_mut(&chat) else { return };
        if let Err(error) = &result {
            tracing::info!(chat, %error, "a call in a chat");
        }
        if let Some(file) = purpose.file() {
            queue.uploaded(now);
            return self.file_finished(chat, job, &purpose, file, result).await;
        }
        queue.end(began, now);
        let again = next_try(job, &result);
        let mut later = None;
        let settled = match result {
            Ok(message) => {
                queue.reopen();
                self.succeeded(purpose.clone(), message).await
            }
            Err(ApiError::TooMany { retry_after }) => {
                queue.wait(retry_after, now);
                Ok(())
            }
            Err(ApiError::Refused { code, words, moved_to }) => {
                let refusal = Refusal::read(code, &words, moved_to);
                match refusal {
                    Refusal::Moved(_) | Refusal::Shut => queue.block(now),
                    Refusal::Topic | Refusal::Link | Refusal::Gone | Refusal::Malformed | Refusal::Other => {
                        queue.reopen()
                    }
                }
                self.refused(chat, &purpose, refusal, &words).await.map(|at| later = at)
            }
            Err(error) => {
                queue.failed(now);
                match error.is_unsure() {
                    true => self.unsure_of(&purpose).await,
                    false => Ok(()),
                }
            }
        };
        if let Err(error) = settled {
            self.report_failure(&error);
        }
        if let (Some(queue), Some(job)) = (self.queues.get_mut(&chat), again) {
            if let Job::Words(Words { refusals: tries @ 1.., .. }) = &job {
                later = later.or(Some(now + self.settings.pace.seconds(pause_after(*tries - 1))));
            }
            match later {
                Some(at) => queue.put_later(job, at),
                None => queue.put_again(job, priority),
            }
        }
    }

    /// The group moved while this call was under way: whatever became of it, it is made where the group is now.
    fn make_elsewhere(
        &mut self,
        here: i64,
        job: Job,
        priority: Priority,
        purpose: &CallPurpose,
        began: Instant,
    ) {
        let Some(queue) = self.queues.get_mut(&here) else { return };
        match purpose.file() {
            Some(_) => queue.uploaded(Instant::now()),
            None => queue.end(began, Instant::now()),
        }
        queue.put_again(job, priority);
        queue.forget_replies();
    }

    /// Retries a file a few times with growing pauses; everything else goes on meanwhile.
    async fn file_finished(
        &mut self,
        chat: i64,
        job: Job,
        purpose: &CallPurpose,
        file: FileOf,
        result: Result<i64, ApiError>,
    ) {
        let now = Instant::now();
        let settled = match result {
            Ok(message) => self.succeeded(purpose.clone(), message).await,
            // A group may take texts and no files, so a file that is refused holds up nothing else.
            Err(ApiError::Refused { code, words, moved_to })
                if Refusal::read(code, &words, moved_to) == Refusal::Malformed =>
            {
                tracing::warn!(chat, words, "Telegram refused a file; aye show has it");
                self.gave_up(purpose).await
            }
            Err(error) => {
                let tries = self.files.get(&file).map_or(0, |(tries, _)| *tries) + 1;
                let asked = match error {
                    ApiError::TooMany { retry_after } => retry_after as f64,
                    _ => 0.0,
                };
                let pause = f64::from(1_u32 << tries.min(8)).max(asked);
                let at = now + self.settings.pace.seconds(pause);
                if tries < MOST_TRIES {
                    self.files.insert(file, (tries, at));
                    if let Some(queue) = self.queues.get_mut(&chat) {
                        queue.put_later(job, at);
                    }
                    return;
                }
                tracing::warn!(chat, %error, "a file could not be sent and is given up; aye show has it");
                self.gave_up(purpose).await
            }
        };
        self.files.remove(&file);
        if let Err(error) = settled {
            self.report_failure(&error);
        }
        self.put(chat, job);
    }

    /// When a file may be tried again, if not now.
    pub(super) fn file_waits(&self, chat: i64, file: &FileOf) -> Option<Instant> {
        let now = Instant::now();
        let uploading = self.queues.get(&chat).is_some_and(ChatQueue::is_uploading);
        let busy = uploading.then(|| now + self.settings.pace.seconds(1.0));
        self.files.get(file).map(|(_, at)| *at).filter(|at| now < *at).or(busy)
    }

    /// Waits briefly for calls under way: somebody may reply to a message before its number is known.
    pub(super) async fn wait_for_calls(&mut self, chat: i64) {
        let until = Instant::now() + LONGEST_WAIT;
        while self.queues.get(&chat).is_some_and(ChatQueue::is_busy)
            && let Ok(Some(finished)) = tokio::time::timeout_at(until, self.calls.join_next()).await
        {
            self.finish(finished.ok()).await;
        }
    }
}

/// What is shown is looked at again: there may be more to do. Words are said again only where it is certain
/// that they were not heard.
fn next_try(job: Job, result: &Result<i64, ApiError>) -> Option<Job> {
    match (job, result) {
        (Job::Words(_), Ok(_)) => None,
        (Job::Words(_), Err(error)) if error.is_unsure() => None,
        (Job::Words(said), Err(ApiError::Refused { code, words, moved_to })) => {
            let said = match Refusal::read(*code, words, *moved_to) {
                Refusal::Moved(_) | Refusal::Shut => Some(said),
                Refusal::Topic if said.topic.is_some() => Some(Words { topic: None, ..said }),
                Refusal::Malformed if said.plain => None,
                Refusal::Malformed => Some(Words { plain: true, ..said }),
                Refusal::Topic | Refusal::Link | Refusal::Gone | Refusal::Other
                    if said.refusals < MOST_TRIES =>
                {
                    Some(Words { refusals: said.refusals + 1, ..said })
                }
                Refusal::Topic | Refusal::Link | Refusal::Gone | Refusal::Other => None,
            };
            said.map(Job::Words)
        }
        (job, _) => Some(job),
    }
}

/// A page as a message, with as much markup as Telegram accepts.
pub fn outgoing_of(page: &RichText, markup: Markup) -> Outgoing {
    let (text, html) = match markup {
        Markup::Html => (page.html(), true),
        Markup::Plain | Markup::Bare => (page.plain(), false),
    };
    Outgoing {
        text: text.to_owned(),
        html,
        rows: vec![],
        link: None,
        silent: false,
        reply_to: None,
        force_reply: None,
    }
}
