//! Calls to Telegram: one at a time in each chat, each with what it is for.

use super::api::{ApiError, Outgoing};
use super::desk::Desk;
use super::html::Page;
use super::lane::{Job, Lane, Rank};
use super::memory::SideKind;
use super::results::is_shut;
use crate::hub::Problem;
use std::time::Duration;
use tokio::time::Instant;

/// How often a file is tried.
const MOST_TRIES: u32 = 5;
const LONGEST_SETTLING: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Plainness {
    #[default]
    Marked,
    Plain,
    /// Only that there is something, and where to look.
    Bare,
}

/// One call that is to be made in a chat.
pub struct Call {
    pub doing: Doing,
    pub op: Op,
}

pub enum Op {
    Send(Outgoing),
    Edit(i64, Outgoing),
    File { name: String, text: String, reply_to: Option<i64> },
    Delete(i64),
}

/// What a call is for, so that its result finds its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    Words,
    Show {
        copy: String,
        shown: String,
    },
    /// Sends a message that belongs to one that shows an ask.
    Side {
        copy: String,
        what: SideKind,
    },
    /// Takes it away again.
    Unside {
        copy: String,
        message: i64,
    },
    ShowMenu {
        menu: String,
        shown: String,
    },
    RemindOfList {
        menu: String,
    },
    UnremindOfList {
        menu: String,
    },
    ShowCard {
        card: String,
        shown: String,
    },
    /// Says aloud that a run came to its end.
    Ring {
        card: String,
    },
    CardFile {
        card: String,
    },
}

impl Doing {
    /// The file that this sends, by what it belongs to.
    pub fn file(&self) -> Option<FileOf> {
        match self {
            Doing::Side { copy, what: SideKind::File { question } } => Some((copy.clone(), *question)),
            Doing::CardFile { card } => Some((card.clone(), 0)),
            Doing::Words
            | Doing::Show { .. }
            | Doing::Side { .. }
            | Doing::Unside { .. }
            | Doing::ShowMenu { .. }
            | Doing::RemindOfList { .. }
            | Doing::UnremindOfList { .. }
            | Doing::ShowCard { .. }
            | Doing::Ring { .. } => None,
        }
    }

    /// Whether both would make the same message.
    fn makes_the_same(&self, other: &Doing) -> bool {
        match (self, other) {
            (Doing::Words, _) => false,
            (Doing::Show { copy: one, .. }, Doing::Show { copy: other, .. })
            | (Doing::ShowMenu { menu: one, .. }, Doing::ShowMenu { menu: other, .. })
            | (Doing::ShowCard { card: one, .. }, Doing::ShowCard { card: other, .. }) => one == other,
            (one, other) => one == other,
        }
    }
}

/// What a file belongs to, and the question it is for.
pub type FileOf = (String, usize);

/// A call, and what came of it.
pub struct Finished {
    chat: i64,
    job: Job,
    rank: Rank,
    doing: Doing,
    began: Instant,
    result: Result<i64, ApiError>,
}

impl Desk {
    pub(super) async fn plan(&mut self, chat: i64, job: &Job) -> Result<Option<Call>, Problem> {
        self.be_sure().await?;
        match job {
            Job::Words { page, reply_to, plain } => {
                let plainness = if *plain { Plainness::Plain } else { Plainness::Marked };
                let outgoing = Outgoing { reply_to: *reply_to, silent: true, ..plainly(page, plainness) };
                Ok(Some(Call { doing: Doing::Words, op: Op::Send(outgoing) }))
            }
            Job::Ask(ask) => self.plan_ask(chat, ask).await,
            Job::Menu(menu) => self.plan_menu(menu).await,
            Job::Card(card) => self.plan_card(card).await,
        }
    }

    /// Whether this would make a message that is being made already. Its job is looked at again when that is done.
    pub(super) fn is_being_made(&self, call: &Call) -> bool {
        let makes = matches!(call.op, Op::Send(_) | Op::File { .. });
        makes && self.being_made.iter().any(|(_, doing)| doing.makes_the_same(&call.doing))
    }

    pub(super) fn call(&mut self, chat: i64, job: Job, rank: Rank, call: Call) {
        let began = Instant::now();
        if let Some(lane) = self.lanes.get_mut(&chat) {
            match call.doing.file() {
                Some(_) => lane.begin_upload(began),
                None => lane.begin(began),
            }
        }
        if matches!(call.op, Op::Send(_) | Op::File { .. }) {
            self.being_made.push((began, call.doing.clone()));
        }
        let bot = self.bot.clone();
        self.calls.spawn(async move {
            let result = match &call.op {
                Op::Send(outgoing) => bot.send(chat, outgoing).await,
                Op::Edit(message, outgoing) => bot.edit(chat, *message, outgoing).await.map(|()| *message),
                Op::File { name, text, reply_to } => bot.send_file(chat, name, text, *reply_to).await,
                Op::Delete(message) => bot.delete(chat, *message).await.map(|()| *message),
            };
            Finished { chat, job, rank, doing: call.doing, began, result }
        });
    }

    pub(super) async fn finish(&mut self, finished: Option<Finished>) {
        // Only a call that panicked tells nothing, and then its chat waits for the next start.
        let Some(Finished { chat, job, rank, doing, began, result }) = finished else { return };
        let now = Instant::now();
        self.being_made.retain(|made| *made != (began, doing.clone()));
        let Some(lane) = self.lanes.get_mut(&chat) else { return };
        if let Err(error) = &result {
            tracing::info!(chat, %error, "a call in a chat");
        }
        if let Some(file) = doing.file() {
            lane.uploaded(now);
            return self.file_finished(chat, job, &doing, file, result).await;
        }
        lane.end(began, now);
        let again = next_try(job, &result);
        let settled = match result {
            Ok(message) => {
                lane.wake();
                self.succeeded(doing.clone(), message).await
            }
            Err(ApiError::TooMany { retry_after }) => {
                lane.wait(retry_after, now);
                Ok(())
            }
            Err(ApiError::Refused { code, words, moved_to }) => {
                match is_shut(code, &words, moved_to) {
                    true => lane.shut(now),
                    false => lane.wake(),
                }
                self.refused(chat, &doing, code, &words, moved_to).await
            }
            Err(error) => {
                lane.failed(now);
                match error.is_unsure() {
                    true => self.unsure_of(&doing).await,
                    false => Ok(()),
                }
            }
        };
        if let Err(error) = settled {
            self.stumble(&error);
        }
        if let (Some(lane), Some(job)) = (self.lanes.get_mut(&chat), again) {
            lane.put_again(job, rank);
        }
    }

    /// A file is tried a few times, ever more rarely; everything else goes on meanwhile.
    async fn file_finished(
        &mut self,
        chat: i64,
        job: Job,
        doing: &Doing,
        file: FileOf,
        result: Result<i64, ApiError>,
    ) {
        let now = Instant::now();
        let settled = match result {
            Ok(message) => self.succeeded(doing.clone(), message).await,
            Err(ApiError::Refused { code, words, moved_to }) => {
                self.refused(chat, doing, code, &words, moved_to).await
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
                    if let Some(lane) = self.lanes.get_mut(&chat) {
                        lane.put_later(job, at);
                    }
                    return;
                }
                tracing::warn!(chat, %error, "a file could not be sent and is given up; aye show has it");
                self.gave_up(doing).await
            }
        };
        self.files.remove(&file);
        if let Err(error) = settled {
            self.stumble(&error);
        }
        self.put(chat, job);
    }

    /// When a file may be tried again, if not now.
    pub(super) fn file_waits(&self, chat: i64, file: &FileOf) -> Option<Instant> {
        let now = Instant::now();
        let uploading = self.lanes.get(&chat).is_some_and(Lane::is_uploading);
        let busy = uploading.then(|| now + self.settings.pace.seconds(1.0));
        self.files.get(file).map(|(_, at)| *at).filter(|at| now < *at).or(busy)
    }

    /// Waits a moment for what is being said in a chat: somebody may reply to it before we know its number.
    pub(super) async fn settle(&mut self, chat: i64) {
        let until = Instant::now() + LONGEST_SETTLING;
        while self.lanes.get(&chat).is_some_and(Lane::is_busy)
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
        (Job::Words { .. }, Ok(_)) => None,
        (Job::Words { .. }, Err(error)) if error.is_unsure() => None,
        (Job::Words { plain: true, .. }, Err(ApiError::Refused { .. })) => None,
        (Job::Words { page, reply_to, .. }, Err(ApiError::Refused { .. })) => {
            Some(Job::Words { page, reply_to, plain: true })
        }
        (job, _) => Some(job),
    }
}

/// A page as it goes out, with as much markup as Telegram would take.
pub fn plainly(page: &Page, plainness: Plainness) -> Outgoing {
    let (text, html) = match plainness {
        Plainness::Marked => (page.html(), true),
        Plainness::Plain | Plainness::Bare => (page.plain(), false),
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
