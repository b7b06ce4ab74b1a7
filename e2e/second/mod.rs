//! A second protocol, driven by the same loop: started, asked, answered, proven and ended like any other agent.

mod protocol;

use super::support::{Hub, eventually};
use aye::agents::driven::{Run, RunEvent, start};
use aye::config::Stdin;
use aye::home::Home;
use aye::shutdown::Signals;
use aye_core::AgentId;
use aye_testkit::agent::http_agent;
use protocol::Served;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitStatus;
use tokio::sync::mpsc;

/// Runs the agent to its end, which asks to run these commands, and returns what the account of the run says.
async fn drive(home: &Path, work: &Path, commands: &str) -> (ExitStatus, Vec<RunEvent>) {
    std::fs::write(work.join("commands"), commands).unwrap();
    let run = Run {
        protocol: Served,
        id: AgentId::try_from("served-1").unwrap(),
        ourselves: env!("CARGO_BIN_EXE_aye").into(),
        kind: "served".into(),
        program: http_agent().into(),
        variable: None,
        arguments: Vec::new(),
        cwd: work.to_owned(),
        prompt: "go".into(),
        image: None,
        stdin: Stdin::Pipe,
        stays: false,
    };
    let (account, mut told) = mpsc::channel(256);
    let running = start(&Home::at(home), run, account).await.unwrap();
    let ended = running.to_its_end(&mut Signals::listen().unwrap()).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = told.recv().await {
        events.push(event);
    }
    (ended, events)
}

/// The open ask, answered once it is there.
fn answer(hub: &Hub, answer: Value) -> Value {
    let ask = eventually("an ask", || {
        let list = hub.get("/api/asks?state=open", &hub.operator()).body;
        list["asks"].get(0).cloned()
    });
    let recorded = hub.answer(&ask, answer);
    assert_eq!(recorded.status, 200, "{}", recorded.body);
    ask
}

#[test]
fn an_agent_that_is_a_server_is_driven_by_the_same_loop() {
    let mut hub = Hub::start();
    let rule =
        "[[policy.rules]]\ntool = \"Bash\"\ncommand = \"rm *\"\naction = \"deny\"\nmessage = \"never\"\n";
    std::fs::write(hub.home.join("config.toml"), rule).unwrap();
    hub.stop();
    hub.restart();
    let work = tempfile::tempdir().unwrap();
    let (home, folder) = (hub.home.clone(), work.path().canonicalize().unwrap());
    let run = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(drive(&home, &folder, "rm -rf x\ntouch wrong"))
    });
    // A rule over commands decides, whatever this agent calls its tool, and nobody is asked.
    let edited = json!({"decision": "allow", "scope": "once", "input": {"command": "touch right"}});
    let permission = answer(&hub, edited);
    assert_eq!(
        (&permission["body"]["tool"], &permission["display"]["kind"]),
        (&json!("Bash"), &json!("command"))
    );
    let question = answer(&hub, json!({"answers": [{"selected": ["b"]}]}));
    let (ended, events) = run.join().unwrap();
    assert!(ended.success(), "{ended}");
    assert!(work.path().join("right").exists() && !work.path().join("wrong").exists());
    for ask in [permission, question] {
        assert_eq!(hub.ask(&ask)["receipt"], "confirmed");
    }
    let decided = |event: &RunEvent| matches!(event, RunEvent::Decided { tool, .. } if tool == "Bash");
    let said = |event: &RunEvent| matches!(event, RunEvent::Said { text, .. } if text == "You chose \"b\".");
    assert!(events.iter().any(decided) && events.iter().any(said), "{events:?}");
    assert!(matches!(events.last(), Some(RunEvent::Ended { code: Some(0) })), "{events:?}");
    let agent = hub.get("/api/agents/served-1", &hub.operator()).body;
    assert_eq!((&agent["state"], &agent["kind"]), (&json!("ended"), &json!("served")));
}
