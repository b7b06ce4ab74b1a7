use super::*;
use aye_testkit::model::{Model, text, tool};

/// The real Claude Code, started from a chat: its question is tapped, and the model hears the answer.
#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_question_of_the_real_agent_is_tapped_and_the_model_receives_the_answer() {
    let claude = crate::support::claude();
    let question = json!({"questions": [{"question": "Which DB?", "header": "DB", "multiSelect": false,
        "options": [{"label": "PostgreSQL", "description": "a server"}, {"label": "SQLite", "description": "a file"}]}]});
    let model = Model::scripted(vec![
        vec![text("I have a question."), tool("toolu_q", "AskUserQuestion", question)],
        vec![text("SQLite it is.")],
    ]);
    let work = tempfile::tempdir().unwrap();
    let place = work.path().to_str().unwrap();
    let env = [
        format!("ANTHROPIC_BASE_URL={}", model.url),
        "ANTHROPIC_API_KEY=sk-ant-fake".into(),
        format!("CLAUDE_CONFIG_DIR={place}/.claude"),
        format!("HOME={place}"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1".into(),
        "DISABLE_AUTOUPDATER=1".into(),
        "IS_SANDBOX=1".into(),
    ];
    let config = format!("[agents.claude]\ncommand = {claude:?}\nenv = {env:?}\n[projects]\nweb = {place:?}");
    let phone = Phone::with_config(ALONE, &config);
    phone.bot.say(ANN, ANN, "choose a database");
    let message = phone.shown("Which DB?");
    assert!(!message.silent && message.text.contains("a server"), "{}", message.text);
    assert_eq!(phone.bot.told(ANN, &message, "SQLite").text, "Recorded: SQLite");
    assert!(model.told("toolu_q").contains("\"Which DB?\"=\"SQLite\""), "{}", model.told("toolu_q"));
    phone.bot.changed(&message, "Confirmed by the agent");
    let over = phone.bot.message_where(ANN, "the end", |message| message.text.contains("web · done"));
    assert!(over.text.contains("SQLite it is.") && over.text.contains('$'), "{}", over.text);
    phone.bot.say(ANN, ANN, "/end");
    let agents =
        || phone.hub.get("/api/agents", &phone.hub.operator()).body["agents"].as_array().unwrap().len();
    eventually("the run to end", || (agents() == 0).then_some(()));
    phone.nothing_to_complain_of();
}
