//! What people see, as snapshots; the `|` lines are buttons.

mod asks;
mod ended;
mod kept;
mod properties;
mod runs;

use super::actions::Action;
use super::render::{AskSource, Button, MessageContent};
use super::settings::{Pace, Settings, Token};
use crate::surfaces::form::Who;
use crate::url::HubUrl;
use aye_core::lifecycle::Delivery;
use aye_core::{Answer, Ask, AskHead, Body, By, Kind, Receipt, State, Surface, Text};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

pub fn settings(users: &[i64], chats: &[i64]) -> Settings {
    Settings {
        token: Token::try_from("1:fake".to_owned()).unwrap(),
        token_file: "telegram.token".into(),
        users: users.into(),
        chats: chats.into(),
        notify_after: Duration::ZERO,
        remind_after: None,
        notify_end: true,
        notify_failure: true,
        api_url: HubUrl::https("api.example"),
        public_url: None,
        pace: Pace { second: Duration::from_secs(1) },
    }
}

pub fn ask(kind: Kind, body: Value) -> Ask {
    ask_with(Body::decode(kind, body).unwrap())
}

pub fn ask_with(body: Body) -> Ask {
    let (id, key, agent) = ("k3f9".try_into(), "k".try_into(), "claude-1".try_into());
    let (id, key, agent) = (id.unwrap(), key.unwrap(), agent.unwrap());
    let head = AskHead::new(id, key, agent, "/src/web", &body, Timestamp::UNIX_EPOCH);
    Ask::open(head, body)
}

const ANN: Who = Who { user: 1, name: "Ann" };

pub fn asker() -> AskSource {
    AskSource { name: "claude".into(), deadline: None, has_link: false, in_group: false }
}

fn picture(shown: &MessageContent) -> String {
    let row = |row: &Vec<Button>| {
        let labels: Vec<_> = row.iter().map(|(label, _)| label.as_str()).collect();
        format!("\n| {}", labels.join(" | "))
    };
    let buttons = shown.rows.iter().map(row).collect::<String>();
    let file = shown.file.as_ref().map(|(name, _)| format!("\nfile {name}")).unwrap_or_default();
    format!("{}{buttons}{file}", shown.page.html())
}

pub fn actions(shown: &MessageContent) -> Vec<Action> {
    shown.rows.iter().flatten().map(|(_, action)| action.clone()).collect()
}

fn settled(mut ask: Ask, answer: Value, receipt: Receipt) -> Ask {
    ask.state = State::Answered {
        answer: Answer::read(&ask.body, answer).unwrap(),
        by: By::Person { name: Text::try_from("Ann").unwrap(), surface: Surface::Telegram },
        key: None,
        at: Timestamp::UNIX_EPOCH,
        delivery: Delivery { receipt, evidence: None },
    };
    ask
}

fn questions() -> Ask {
    let questions = json!({"questions": [
        {"question": "Which database <now>?", "header": "DB", "free_text": true, "options": [
            {"label": "PostgreSQL", "description": "a server & more"},
            {"label": "SQLite", "description": "a file", "preview": "db = \"a.db\""}]},
        {"question": "Which features?", "header": "Features", "multi_select": true, "free_text": true, "options": [
            {"label": "Dark mode"}, {"label": "i18n"}]}]});
    ask(Kind::Question, questions)
}
