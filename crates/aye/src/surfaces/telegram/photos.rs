//! Pictures: a prompt for the chat's run, if its agent takes them. Noted first, fetched beside everything else.

use super::desk::Desk;
use super::gate::Person;
use super::memory::forget;
use super::wire::{Message, PhotoSize};
use crate::hub::{Image, Memo, Problem};
use aye_core::{AgentId, Surface};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub const PHOTO: &str = "photo";
/// Of the sizes that Telegram offers, the largest below this is taken.
const LARGEST: u64 = 1024 * 1024;
const NO_TEXT: &str = "Text only, please: I cannot read voices or files.";

/// A picture on its way to a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Photo {
    update: i64,
    person: Person,
    agent: AgentId,
    here: i64,
    file: String,
    caption: String,
}

/// A picture that was fetched, or why it was not.
pub struct Fetched {
    photo: Photo,
    image: Result<Image, String>,
}

impl Desk {
    /// Somebody sent something that is no text.
    pub(super) async fn media(
        &mut self,
        update: i64,
        message: &Message,
        person: &Person,
    ) -> Result<(), Problem> {
        let (chat, here) = (person.chat, message.message_id);
        let replied = message.reply_to_message.as_ref().map(|replied| replied.message_id);
        let answers = replied.is_some_and(|to| self.memory.copy_of_message(chat, to).is_some());
        if answers || self.memory.waiting_for(chat, person.id).is_some() {
            self.say(chat, Some(here), "An answer is text: pictures, voices and files cannot be one.");
            return Ok(());
        }
        if message.photo.is_empty() {
            self.say(chat, Some(here), NO_TEXT);
            return Ok(());
        }
        let card =
            replied.and_then(|to| self.memory.card_of_message(chat, to)).map(|card| card.agent.clone());
        let agent = match card {
            Some(agent) => Some(agent),
            None => self.run_of(chat).await.map(|(agent, _)| agent),
        };
        let Some(agent) = agent else {
            self.say(
                chat,
                Some(here),
                "There is no run to show this to. Start one with words, then send the picture.",
            );
            return Ok(());
        };
        if self.hub.agent(agent.as_str()).await?.kind != "claude" {
            self.say(chat, Some(here), "This agent takes no pictures.");
            return Ok(());
        }
        let Some(file) = best(&message.photo) else {
            self.say(chat, Some(here), "This picture is too large: 1 MB at most, please.");
            return Ok(());
        };
        let caption = message.caption.clone().filter(|words| !words.trim().is_empty());
        let caption = caption.unwrap_or_else(|| "Look at this picture.".to_owned());
        let photo = Photo { update, person: person.clone(), agent, here, file, caption };
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
        self.photos.spawn(async move {
            let fetched = bot.fetch(&photo.file, LARGEST as usize).await;
            let image = fetched.map_err(|error| error.to_string()).and_then(|bytes| {
                let media_type = media_type(&bytes).ok_or("it is no picture that agents take")?.to_owned();
                Ok(Image { media_type, data: BASE64.encode(&bytes) })
            });
            Fetched { photo, image }
        });
    }

    pub(super) async fn photo_fetched(&mut self, fetched: Option<Fetched>) {
        let Some(Fetched { photo, image }) = fetched else { return };
        let memos = vec![forget(PHOTO, photo.update.to_string())];
        let (chat, here) = (photo.person.chat, Some(photo.here));
        let done = match image {
            Ok(image) => {
                self.prompt_with(&photo.person, photo.agent, (&photo.caption, Some(image)), here, memos).await
            }
            Err(why) => {
                self.say(chat, here, &format!("The picture could not be fetched: {why}."));
                self.save(memos).await
            }
        };
        if let Err(error) = done {
            self.stumble(&error);
        }
    }
}

fn best(sizes: &[PhotoSize]) -> Option<String> {
    let fitting = sizes.iter().filter(|size| size.file_size <= LARGEST);
    fitting.max_by_key(|size| size.file_size).map(|size| size.file_id.clone())
}

/// By its first bytes: what a server says of a file is not believed.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
