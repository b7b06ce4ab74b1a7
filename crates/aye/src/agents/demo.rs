//! A scripted agent for newcomers: it asks in every form there is, one after another, and says what it was told.

use super::script::{Extra, Script};
use crate::home::Home;
use crate::protocol::ConversationEvent;
use aye_core::{AskState, Body, Kind, Receipt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub async fn run(home: Home, stop: CancellationToken) {
    let asked = tokio::select! {
        asked = ask_everything(&home) => asked,
        () = stop.cancelled() => return,
    };
    if let Err(error) = asked {
        tracing::warn!(%error, "the demo ended early");
    }
}

async fn ask_everything(home: &Home) -> anyhow::Result<()> {
    let script = Script::begin_anew(home, "demo", "Demo: requests of each kind").await?;
    for (kind, body) in asks() {
        let body = Body::decode(kind, body)?;
        let ask = script.raise(&body, Extra::default()).await?;
        let resolution = script.resolution(&ask).await?;
        if resolution.state != AskState::Withdrawn {
            script.receipt(&ask.id, Receipt::Delivered, "handed to the demo agent").await?;
            script.receipt(&ask.id, Receipt::Confirmed, "the demo agent repeated it").await?;
        }
        script
            .report(&ConversationEvent::Text {
                id: String::new(),
                delta: None,
                from: None,
                text: Some(format!("I was told: {}", json!(resolution.outcome))),
                partial: false,
                left_out: 0,
            })
            .await?;
    }
    script.end().await;
    Ok(())
}

fn asks() -> Vec<(Kind, Value)> {
    vec![
        (
            Kind::Question,
            json!({"questions": [{
            "question": "Which database should the notes live in?", "header": "Storage", "free_text": true,
            "options": [
                {"label": "SQLite", "description": "One file, nothing to run"},
                {"label": "PostgreSQL", "description": "A server, for many writers"},
            ]}]}),
        ),
        (
            Kind::Question,
            json!({"questions": [{
            "question": "What should the first release have?", "header": "Features", "multi_select": true, "free_text": true,
            "options": [
                {"label": "Dark mode", "description": "Follows the system"},
                {"label": "Search", "description": "Over titles and text"},
                {"label": "Export, as Markdown", "description": "One file a note"},
            ]}]}),
        ),
        (
            Kind::Question,
            json!({"questions": [
                {"question": "How should the list look?", "header": "Layout",
                 "options": [
                    {"label": "Rows", "description": "Dense", "preview": "Groceries        today\nIdeas           monday"},
                    {"label": "Cards", "description": "Airy", "preview": "+-----------+ +-------+\n| Groceries | | Ideas |\n+-----------+ +-------+"},
                 ]},
                {"question": "And sorted by?", "header": "Layout",
                 "options": [{"label": "Date", "description": ""}, {"label": "Title", "description": ""}]},
            ]}),
        ),
        (
            Kind::Question,
            json!({"questions": [{"question": "What is the app called?", "header": "Name", "free_text": true}]}),
        ),
        (
            Kind::Permission,
            json!({
                "tool": "Edit",
                "input": {"file_path": "src/limits.rs", "old_string": "const MOST: usize = 10;", "new_string": "const MOST: usize = 100;"},
                "scopes": [{"scope": "once"}, {"scope": "session", "rule": "Edit files in src/ until this session ends"}],
            }),
        ),
        (
            Kind::Plan,
            json!({"plan": "# Ship the first release\n\n1. Freeze the schema.\n2. Write the export.\n3. Tag 0.1.0.\n"}),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_asks_in_every_form() {
        let bodies: Vec<_> =
            asks().into_iter().map(|(kind, body)| Body::decode(kind, body).unwrap()).collect();
        let kinds: Vec<_> = bodies.iter().map(Body::kind).collect();
        assert_eq!(
            kinds,
            [Kind::Question, Kind::Question, Kind::Question, Kind::Question, Kind::Permission, Kind::Plan]
        );
    }
}
