//! Checks the bot: its token, who takes its updates, and whether it can speak in every chat of config.toml. For
//! `aye doctor`.

use super::api::{ApiError, Bot};
use super::settings::Settings;
use super::wire::BotUser;

/// A problem, and its remedy.
pub type Trouble = (String, String);

/// Returns the bot's name and its users in words.
pub async fn check(settings: &Settings) -> Result<String, Trouble> {
    let bot = Bot::new(settings).map_err(|error| (error.to_string(), "fix api_url".to_owned()))?;
    let me = bot.get_me().await.map_err(|error| {
        let advice = match error {
            ApiError::Unknown => "get the token from @BotFather and write it to token_file",
            _ => "check the connection to api_url; what people answer waits there",
        };
        (error.to_string(), advice.to_owned())
    })?;
    if bot.webhook().await.is_ok_and(|url| url.is_some()) {
        let advice = "remove it with deleteWebhook, or give this hub a bot of its own".to_owned();
        return Err((format!("a webhook takes the updates of @{}", me.username), advice));
    }
    let mut troubles = Vec::new();
    for chat in &settings.chats {
        troubles.extend(look_at(&bot, &me, *chat).await.err());
    }
    if !troubles.is_empty() {
        let (found, advice): (Vec<_>, Vec<_>) = troubles.into_iter().unzip();
        return Err((found.join("; "), advice.join("; ")));
    }
    let several = |n: usize, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
    let (users, chats) = (settings.users.len(), settings.chats.len());
    Ok(format!(
        "@{} ({}), for {} in {}",
        me.username,
        me.first_name,
        several(users, "person").replace("persons", "people"),
        several(chats, "chat")
    ))
}

/// `getChat` also finds chats in which the bot may not speak, so it types for a moment.
async fn look_at(bot: &Bot, me: &BotUser, chat: i64) -> Result<(), Trouble> {
    let found = match bot.get_chat(chat).await {
        Ok(found) => found,
        Err(error) => return Err(trouble(chat, &error, me)),
    };
    if found.kind == "channel" {
        return Err((
            format!("{chat} is a channel, where nobody can answer"),
            format!("take {chat} out of chats, and list a group or a person instead"),
        ));
    }
    bot.type_for_a_moment(chat).await.map_err(|error| trouble(chat, &error, me))
}

fn trouble(chat: i64, error: &ApiError, me: &BotUser) -> Trouble {
    let name = format!("@{}", me.username);
    let ApiError::Refused { words, moved_to, .. } = error else {
        return (format!("chat {chat} could not be looked at: {error}"), "run aye doctor again".to_owned());
    };
    let says = |known: &[&str]| known.iter().any(|known| words.to_ascii_lowercase().contains(known));
    match moved_to {
        Some(new) => (
            format!("the group {chat} became a supergroup and has the id {new} now"),
            format!("replace {chat} with {new} in chats"),
        ),
        None if says(&["blocked"]) => {
            (format!("{chat} has blocked {name}"), format!("unblock {name} on Telegram"))
        }
        None if chat > 0 && says(&["chat not found"]) => (
            format!("{name} cannot write to {chat}, who never wrote to it"),
            format!("open {name} on Telegram and press Start, or take {chat} out of chats"),
        ),
        None if says(&["chat not found", "kicked", "not a member"]) => (
            format!("{name} is not in the group {chat}"),
            format!("add {name} to the group, or take {chat} out of chats"),
        ),
        None => (
            format!("{name} cannot speak in {chat}: {words}"),
            format!("let {name} send messages there, or take {chat} out of chats"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_chat_is_said_with_what_to_do() {
        let me = BotUser { id: 1, username: "my_bot".into(), first_name: "Aye".into() };
        let said = |chat: i64, code: u16, words: &str, moved_to: Option<i64>| {
            let (found, advice) =
                trouble(chat, &ApiError::Refused { code, words: words.into(), moved_to }, &me);
            format!("{found} -> {advice}")
        };
        insta::assert_snapshot!([
            said(11, 400, "Bad Request: chat not found", None),
            said(11, 403, "Forbidden: bot was blocked by the user", None),
            said(-5, 400, "Bad Request: chat not found", None),
            said(-5, 403, "Forbidden: bot was kicked from the group chat", None),
            said(-5, 400, "Bad Request: group chat was upgraded to a supergroup chat", Some(-1007)),
            said(-5, 400, "Bad Request: CHAT_WRITE_FORBIDDEN", None),
        ].join("\n"), @"
        @my_bot cannot write to 11, who never wrote to it -> open @my_bot on Telegram and press Start, or take 11 out of chats
        11 has blocked @my_bot -> unblock @my_bot on Telegram
        @my_bot is not in the group -5 -> add @my_bot to the group, or take -5 out of chats
        @my_bot is not in the group -5 -> add @my_bot to the group, or take -5 out of chats
        the group -5 became a supergroup and has the id -1007 now -> replace -5 with -1007 in chats
        @my_bot cannot speak in -5: Bad Request: CHAT_WRITE_FORBIDDEN -> let @my_bot send messages there, or take -5 out of chats
        ");
    }
}
