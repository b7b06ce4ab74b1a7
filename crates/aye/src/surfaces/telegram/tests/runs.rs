use super::super::progress::{Progress, closed_page, progress_page, result};
use aye_core::{Agent, AgentId, AgentState, AsksFor, Reach};
use jiff::Timestamp;
use serde_json::json;

#[test]
fn a_run_shows_its_last_steps_and_in_the_end_its_words_and_cost() {
    let agent = Agent {
        id: AgentId::try_from("a1").unwrap(),
        kind: "claude".into(),
        reach: Reach::Driven,
        host: String::new(),
        cwd: "/src/web".into(),
        title: String::new(),
        tmux: None,
        pid: None,
        session: None,
        state: AgentState::Working,
        asks: AsksFor::Everything,
        cost: None,
        open_asks: 0,
        outline: None,
        created_at: Timestamp::UNIX_EPOCH,
    };
    let silent = Agent { asks: AsksFor::Nothing, ..agent.clone() };
    let page = progress_page(&silent, "web", &Progress::default(), None);
    assert_eq!(page.html(), "⏳ <b>web</b> · working · ⚠️ asks for nothing");
    let mut progress = Progress::default();
    progress.add(1, &json!({"type": "prompt", "text": "do it"}));
    for n in 0..6 {
        progress.add(
            n + 2,
            &json!({"type": "tool", "id": "x", "name": "Bash", "input": {"command": format!("make <{n}>")}}),
        );
    }
    progress.add(10, &json!({"type": "text", "id": "t1", "text": "I am ", "partial": true}));
    progress.add(11, &json!({"type": "text", "id": "t1", "text": "I am half", "partial": true}));
    progress.add(12, &json!({"type": "news", "of": "tomorrow"}));
    insta::assert_snapshot!(progress_page(&agent, "web", &progress, None).html(), @"
    ⏳ <b>web</b> · working
    <i>… 1 earlier step</i>
    · Bash make &lt;1&gt;
    · Bash make &lt;2&gt;
    · Bash make &lt;3&gt;
    · Bash make &lt;4&gt;
    · Bash make &lt;5&gt;

    I am half
    ");
    progress.add(13, &json!({"type": "text", "id": "t1", "text": "I am done."}));
    progress.add(14, &json!({"type": "turn", "error": false, "cost": 0.0123, "turns": 3, "duration_ms": 5100, "text": "I am <done>."}));
    progress.add(15, &json!({"type": "text", "id": "t2", "text": "another turn"}));
    insta::assert_snapshot!(result(&agent, "web", &progress, None).unwrap().page.html(), @"
    ✅ <b>web</b> · done

    I am &lt;done&gt;.

    <i>$0.0123 · 3 turns · 6 steps · 5.1 s</i>
    ");
    assert!(
        closed_page("web", &progress).plain().starts_with("☑️ web · the result is below\n… 1 earlier step\n")
    );
    let stopped = Progress::default();
    assert!(result(&agent, "web", &stopped, None).is_none(), "it goes on");
    let mut long = Progress::default();
    long.add(1, &json!({"type": "turn", "error": true, "text": "word ".repeat(2000)}));
    let end = result(&agent, "web", &long, None).unwrap();
    assert!(end.page.fits() && end.page.plain().contains("failed"));
    assert_eq!(end.file.unwrap(), "word ".repeat(2000).trim());
}
