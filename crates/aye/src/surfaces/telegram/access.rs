//! Who may use the bot: a listed person in a listed chat. Everybody else is ignored.

use super::settings::Settings;
use super::wire::{Chat, User};
use crate::surfaces::form::Who;
use aye_core::visible::one_line;
use aye_core::{By, Surface, Text};
use serde::{Deserialize, Serialize};

/// A chat, or one topic of a forum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    pub chat: i64,
    pub topic: Option<i64>,
}

impl Place {
    /// As a key of what is remembered for it.
    pub fn key(self) -> String {
        match self.topic {
            Some(topic) => format!("{}/{topic}", self.chat),
            None => self.chat.to_string(),
        }
    }

    pub fn of_key(key: &str) -> Option<Self> {
        match key.split_once('/') {
            Some((chat, topic)) => Some(Self { chat: chat.parse().ok()?, topic: Some(topic.parse().ok()?) }),
            None => Some(Self { chat: key.parse().ok()?, topic: None }),
        }
    }
}

/// A listed person, in a listed chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    pub id: i64,
    pub name: Text,
    pub chat: i64,
    #[serde(default)]
    pub topic: Option<i64>,
}

impl Person {
    pub fn place(&self) -> Place {
        Place { chat: self.chat, topic: self.topic }
    }

    pub fn by(&self) -> By {
        By::Person { name: self.name.clone(), surface: Surface::Telegram }
    }

    pub fn as_who(&self) -> Who<'_> {
        Who { user: self.id, name: self.name.as_str() }
    }

    /// As the trail names them.
    pub fn who(&self) -> String {
        self.by().to_string()
    }
}

pub fn admit(
    settings: &Settings,
    from: Option<&User>,
    sender_chat: Option<&Chat>,
    chat: &Chat,
) -> Option<Person> {
    let user = from.filter(|user| !user.is_bot && settings.users.contains(&user.id))?;
    let listed = settings.chats.contains(&chat.id) && chat.kind != "channel" && sender_chat.is_none();
    listed.then(|| Person { id: user.id, name: name(settings, user), chat: chat.id, topic: None })
}

/// A name as people read it. The record keeps the number that tells equal names apart.
pub fn plain_name(name: &str) -> &str {
    let number = name.strip_suffix(']').and_then(|rest| rest.rsplit_once(" ["));
    match number {
        Some((name, number)) if number.parse::<i64>().is_ok() => name,
        _ => name,
    }
}

/// Names can be chosen freely: where several people answer, the number tells them apart.
fn name(settings: &Settings, user: &User) -> Text {
    let name = match user.first_name.trim() {
        "" => format!("user {}", user.id),
        name => one_line(name).into_owned(),
    };
    match settings.users.len() {
        1 => Text::from_displayed(&name),
        _ => Text::from_displayed(&format!("{name} [{}]", user.id)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    fn user(id: i64, is_bot: bool) -> User {
        User { id, is_bot, first_name: "Ann".into() }
    }

    fn chat(id: i64, kind: &str) -> Chat {
        Chat { id, kind: kind.into() }
    }

    #[test]
    fn only_a_listed_person_in_a_listed_chat_is_let_in() {
        let settings = settings(&[1], &[1, -5]);
        let in_chat = |user: Option<&User>, sender: Option<&Chat>, chat: &Chat| {
            admit(&settings, user, sender, chat).map(|person| (person.id, person.chat))
        };
        assert_eq!(in_chat(Some(&user(1, false)), None, &chat(1, "private")), Some((1, 1)));
        assert_eq!(in_chat(Some(&user(1, false)), None, &chat(-5, "group")), Some((1, -5)));
        assert_eq!(in_chat(Some(&user(2, false)), None, &chat(-5, "group")), None);
        assert_eq!(in_chat(Some(&user(1, false)), None, &chat(-6, "group")), None);
        assert_eq!(in_chat(Some(&user(1, true)), None, &chat(-5, "group")), None);
        assert_eq!(in_chat(None, None, &chat(-5, "group")), None);
        assert_eq!(in_chat(Some(&user(1, false)), Some(&chat(-5, "group")), &chat(-5, "group")), None);
        assert_eq!(in_chat(Some(&user(1, false)), None, &chat(-5, "channel")), None);
    }

    #[test]
    fn where_several_may_answer_the_number_tells_them_apart() {
        let name =
            |users: &[i64]| admit(&settings(users, &[1]), Some(&user(1, false)), None, &chat(1, "private"));
        assert_eq!(name(&[1]).unwrap().who(), "Ann (telegram)");
        assert_eq!(name(&[1, 2]).unwrap().who(), "Ann [1] (telegram)");
        assert_eq!(plain_name(name(&[1, 2]).unwrap().name.as_str()), "Ann");
        assert_eq!((plain_name("Ann"), plain_name("Ann [x]")), ("Ann", "Ann [x]"));
    }
}
