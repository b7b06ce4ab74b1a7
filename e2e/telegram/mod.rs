//! The real hub with a stand-in for Telegram: what people see there, and what becomes of what they do.

mod attention;
mod claude;
mod doors;
mod faults;
mod groups;
mod load;
mod permissions;
mod pictures;
mod plans;
mod questions;
mod restarts;
mod runs;
mod settings;
mod texts;
mod topics;

use crate::support::{Hub, aye, eventually};
use aye_testkit::telegram::{Message, TOKEN, Telegram};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// Listed, and at home in a chat of the same number.
const ANN: i64 = 11;
/// Listed as well.
const BOB: i64 = 12;
/// Not listed.
const EVE: i64 = 66;
const GROUP: i64 = -100_500;
const BOTH: &str = "users = [11, 12]\nchats = [11, -100500]";
const ALONE: &str = "users = [11]\nchats = [11]";

const SECOND: Duration = crate::support::TELEGRAM_SECOND;

/// A hub with a bot, and an agent that asks.
struct Phone {
    bot: Telegram,
    hub: Hub,
    agent: String,
    _dir: tempfile::TempDir,
}

impl Phone {
    fn new() -> Self {
        Self::with(ALONE)
    }

    /// With these lines under `[telegram]`.
    fn with(telegram: &str) -> Self {
        Self::with_config(telegram, "")
    }

    fn with_config(telegram: &str, rest: &str) -> Self {
        let (dir, bot) = (tempfile::tempdir().unwrap(), Telegram::start(SECOND));
        let home = dir.path().join("home");
        prepare(&home, &bot, telegram, rest);
        Self::start(dir, bot)
    }

    fn start(dir: tempfile::TempDir, bot: Telegram) -> Self {
        let hub = Hub::start_in(dir.path().join("home"));
        let agent = hub.agent("bot");
        Self { bot, hub, agent, _dir: dir }
    }

    fn raise(&self, key: &str, kind: &str, body: Value) -> Value {
        self.hub.raise(&self.agent, "bot", key, kind, body)
    }

    fn ask(&self, key: &str, question: &str) -> Value {
        self.raise(key, "question", which(question))
    }

    /// An ask once it is no longer open.
    fn ended(&self, ask: &Value) -> Value {
        eventually("an ask to end", || Some(self.hub.ask(ask)).filter(|ask| ask["state"] != "open"))
    }

    fn receipt(&self, ask: &Value, receipt: &str) {
        let told = self.hub.post(
            &crate::support::path_of(ask, "/receipt"),
            &self.agent,
            json!({ "receipt": receipt, "evidence": "seen" }),
        );
        assert_eq!(told.status, 200, "{}", told.body);
    }

    fn restart(&mut self) {
        assert!(self.hub.stop().success());
        self.hub.restart();
    }

    /// The one message that shows this in Ann's chat.
    fn shown(&self, words: &str) -> Message {
        self.bot.message(ANN, words)
    }

    fn nothing_to_complain_of(&self) {
        assert_eq!(self.bot.complaints(), Vec::<String>::new());
    }
}

/// A home whose hub finds the bot.
fn prepare(home: &Path, bot: &Telegram, telegram: &str, rest: &str) {
    fs::create_dir_all(home).unwrap();
    let config = format!("{rest}\n[telegram]\napi_url = \"{}\"\n{telegram}\n", bot.url);
    fs::write(home.join("config.toml"), config).unwrap();
    let token = home.join("telegram.token");
    fs::write(&token, TOKEN).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
}

fn which(question: &str) -> Value {
    json!({"questions": [{"question": question, "header": "DB", "free_text": true, "options": [
        {"label": "PostgreSQL", "description": "a server"}, {"label": "SQLite", "description": "a file"}]}]})
}

fn selected(ended: &Value, question: usize) -> &Value {
    &ended["answer"]["answers"][question]["selected"]
}
