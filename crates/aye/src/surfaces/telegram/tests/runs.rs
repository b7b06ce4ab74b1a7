use super::super::progress::{Progress, progress_page};
use aye_core::{Agent, AgentId, AgentState, Reach};
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
        cost: None,
        open_asks: 0,
        outline: None,
        created_at: Timestamp::UNIX_EPOCH,
    };
    let mut progress = Progress::default();
    progress.add(1, &json!({"type": "prompt", "text": "do it"}));
    for n in 0..7 {
        progress.add(
            n + 2,
            &json!({"type": "tool", "id": "x", "name": "Bash", "input": {"command": format!("make <{n}>")}}),
        );
    }
    progress.add(10, &json!({"type": "text", "id": "t1", "text": "I am ", "partial": true}));
    progress.add(11, &json!({"type": "text", "id": "t1", "text": "I am half", "partial": true}));
    progress.add(12, &json!({"type": "news", "of": "tomorrow"}));
    insta::assert_snapshot!(progress_page(&agent, "web", &progress, None).0.html(), @"
    ⏳ <b>web</b> · working
    <i>… 2 earlier steps</i>
    · Bash make &lt;2&gt;
    · Bash make &lt;3&gt;
    · Bash make &lt;4&gt;
    · Bash make &lt;5&gt;
    · Bash make &lt;6&gt;

    I am half
    ");
    progress.add(13, &json!({"type": "text", "id": "t1", "text": "I am done."}));
    progress.add(14, &json!({"type": "turn", "error": false, "cost": 0.0123, "turns": 3, "duration_ms": 5100, "text": "I am <done>."}));
    progress.add(15, &json!({"type": "text", "id": "t2", "text": "another turn"}));
    insta::assert_snapshot!(progress_page(&agent, "web", &progress, None).0.html(), @"
    ✅ <b>web</b> · done

    I am &lt;done&gt;.

    <i>$0.0123 · 3 turns · 7 steps · 5.1 s</i>
    ");
    let mut long = Progress::default();
    long.add(1, &json!({"type": "turn", "error": true, "text": "word ".repeat(2000)}));
    let (page, file) = progress_page(&agent, "web", &long, None);
    assert!(page.fits() && page.plain().contains("failed"));
    assert_eq!(file.unwrap(), "word ".repeat(2000).trim());
}
