//! Photos: prompts for the chat's run, or for a new one. Stored first, then downloaded in the background.

use super::access::Person;
use super::bot_loop::BotLoop;
use super::memory::{SentMessage, forget};
use super::message::{Choice, ChoiceContent};
use super::runs::Task;
use super::wire::{Message, PhotoSize};
use crate::config::DEFAULT_KIND;
use crate::hub::{Image, Memo, Problem};
use aye_core::{AgentId, Surface};
use futures_util::FutureExt;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub const PHOTO: &str = "photo";
/// As many as an album has.
const MOST_AT_ONCE: usize = 10;
const NO_TEXT: &str = "Please send text or a photo: voice messages and files cannot be read here.";
const NO_PICTURE: &str = "it is not a JPEG, PNG, GIF or WebP picture";

/// A picture on its way to a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Photo {
    update: i64,
    person: Person,
    /// None: the chat's run, or a new one.
    agent: Option<AgentId>,
    #[serde(rename = "here")]
    message_id: i64,
    file: String,
    caption: String,
}

/// A picture that was fetched, or why it was not.
pub struct Fetched {
    photo: Photo,
    image: Result<Image, String>,
}

impl BotLoop {
    /// A message without text.
    pub(super) async fn media(
        &mut self,
        update: i64,
        message: &Message,
        person: &Person,
    ) -> Result<(), Problem> {
        let (place, message_id) = (person.place(), message.message_id);
        let replied = message.reply_to_message.as_ref().map(|replied| replied.message_id);
        let replied = replied.and_then(|to| self.memory.numbered(place.chat, to)).cloned();
        if replied.as_ref().is_some_and(|message| message.as_ask().is_some())
            || self.memory.waiting_for(person).is_some()
        {
            self.say(
                place,
                Some(message_id),
                "An answer must be text: photos, voice messages and files cannot be one.",
            );
            return Ok(());
        }
        if message.photo.is_empty() {
            self.say(place, Some(message_id), NO_TEXT);
            return Ok(());
        }
        if let Some(age) = self.age_if_old(message.written_at()) {
            let words = format!("This photo was sent {age} ago. Send it again if you still mean it.");
            self.say_loud(place, Some(message_id), &words);
            return Ok(());
        }
        if replied.is_none() && self.keep_from_runs(place, message_id).await? {
            return Ok(());
        }
        let agent = match replied.as_ref().and_then(SentMessage::as_run) {
            Some(shown) => Some(shown.agent.clone()),
            None => self.run_of(place).await.map(|(agent, _)| agent),
        };
        if let Some(agent) = &agent
            && self.hub.agent(agent.as_str()).await?.kind != DEFAULT_KIND
        {
            self.say(place, Some(message_id), "This agent does not take photos.");
            return Ok(());
        }
        match self.chosen_project(&self.note_of(place)) {
            _ if agent.is_some() => {}
            Ok(Some(_)) => {}
            Ok(None) => {
                let lead = "In which project? Choose one, then send the photo again.".to_owned();
                let (what, reply_to) = (Choice::Project, Some(message_id));
                let shows = ChoiceContent { what, lead, reply_to, waiting: None, decided: None };
                return self.post_choice(person, shows, vec![]).await;
            }
            Err(words) => {
                self.say_loud(place, Some(message_id), &words);
                return Ok(());
            }
        }
        if self.photos.len() + self.waiting_photos.len() >= MOST_AT_ONCE {
            self.say(place, Some(message_id), "Too many photos at once. Send this one again in a moment.");
            return Ok(());
        }
        let Some(file) = best(&message.photo) else {
            self.say(place, Some(message_id), "This photo is too large: 1 MB at most.");
            return Ok(());
        };
        let caption = message.caption.clone().filter(|words| !words.trim().is_empty());
        let caption = caption.unwrap_or_else(|| "Look at this photo.".to_owned());
        let photo = Photo { update, person: person.clone(), agent, message_id, file, caption };
        let mut memos = self.memory.put_handled(update);
        memos.push(Memo { kind: PHOTO, key: update.to_string(), body: Some(json!(photo)) });
        self.save(memos).await?;
        self.fetch_photo(photo);
        Ok(())
    }

    /// What was being fetched when the last hub ended.
    pub(super) async fn fetch_lost_photos(&mut self) -> Result<(), Problem> {
        for (key, body) in self.hub.recall(Surface::Telegram, PHOTO).await? {
            match serde_json::from_value(body) {
                Ok(photo) => self.fetch_photo(photo),
                Err(_) => self.save(vec![forget(PHOTO, key)]).await?,
            }
        }
        Ok(())
    }

    fn fetch_photo(&mut self, photo: Photo) {
        let bot = self.bot.clone();
        self.photos.spawn(
            async move {
                let fetched = bot.fetch(&photo.file, Image::LARGEST).await.map_err(|error| error.to_string());
                let read = |bytes: Bytes| Image::read(&bytes).ok_or_else(|| NO_PICTURE.to_owned());
                Fetched { photo, image: fetched.and_then(read) }
            }
            .boxed(),
        );
    }

    pub(super) async fn photo_fetched(&mut self, fetched: Option<Fetched>) {
        let Some(Fetched { mut photo, image }) = fetched else { return };
        photo.person.chat = self.memory.current_chat(photo.person.chat);
        let place = photo.person.place();
        // Of an album only the first starts a run; the others follow.
        if photo.agent.is_none() && self.starting.contains_key(&place) && image.is_ok() {
            return self.waiting_photos.push(Fetched { photo, image });
        }
        let memos = vec![forget(PHOTO, photo.update.to_string())];
        let Photo { update, person, agent, message_id, caption, .. } = photo;
        let done = match image {
            Ok(image) => {
                let (image, message_id) = (Some(image), Some(message_id));
                let task = Task { update, person, text: caption, image, message_id, written_at: None, memos };
                match agent {
                    Some(agent) => self.prompt(agent, task).await,
                    None => self.work(task).await,
                }
            }
            Err(why) => {
                self.say_loud(place, Some(message_id), &format!("The photo could not be fetched: {why}."));
                self.save(memos).await
            }
        };
        if let Err(error) = done {
            self.report_failure(&error);
        }
    }
}

/// Of the sizes that Telegram offers, the largest that may be sent on.
fn best(sizes: &[PhotoSize]) -> Option<String> {
    let fitting = sizes.iter().filter(|size| size.file_size <= Image::LARGEST as u64);
    fitting.max_by_key(|size| size.file_size).map(|size| size.file_id.clone())
}
