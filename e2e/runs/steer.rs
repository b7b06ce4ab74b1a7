//! Agents listed and steered by commands.

use super::{Scene, which};
use crate::support::{code, complained, json_of, printed};
use aye_testkit::scenario::{text, tool};
use serde_json::json;

#[test]
fn agents_are_listed_with_what_they_wait_for_and_steered_by_id_title_or_folder() {
    let question = tool("toolu_q", "AskUserQuestion", which());
    let scene = Scene::new(
        "",
        json!([[text("First.")], {"do": "turn"}, [question], {"do": "turn"}, {"do": "silence"}]),
    );
    assert!(printed(&scene.hub.aye(&["agents"])).contains("No agents are running."));
    let id =
        printed(&scene.aye().args(["run", "--detach", "Fix the parser"]).output().unwrap()).trim().to_owned();
    scene.until(&id, "idle");
    let sent = scene.hub.aye(&["send", &id[..9], "go on"]);
    assert_eq!((code(&sent), complained(&sent)), (Some(0), String::new()));
    assert_eq!(printed(&sent), format!("{id} Fix the parser: Sent\n"));
    let ask = scene.ask();
    let list = printed(&scene.hub.aye(&["agents"]));
    let folder = scene.work.path().canonicalize().unwrap();
    for words in [
        id.as_str(),
        "waiting",
        "Fix the parser",
        "claude, run by aye",
        folder.to_str().unwrap(),
        "Which DB?",
    ] {
        assert!(list.contains(words), "{words} in {list}");
    }
    let listed = &json_of(&scene.hub.aye(&["agents", "--json"]))["agents"][0];
    assert_eq!((&listed["id"], &listed["state"]), (&json!(id), &json!("waiting")));
    assert_eq!(
        (&listed["waits_for"]["ask"], &listed["waits_for"]["what"]),
        (&ask["id"], &json!("Which DB?"))
    );
    assert_eq!(scene.hub.answer(&ask, json!({"answers": [{"selected": ["SQLite"]}]})).status, 200);
    scene.until(&id, "idle");
    assert_eq!(code(&scene.hub.aye(&["send", "fix the parser", "once more"])), Some(0));
    scene.until(&id, "working");
    assert_eq!(code(&scene.hub.aye(&["interrupt", folder.to_str().unwrap()])), Some(0));
    scene.until(&id, "idle");
    assert_eq!(scene.prompts(), ["Fix the parser", "go on", "once more"]);
    assert_eq!(code(&scene.hub.aye(&["stop", folder.file_name().unwrap().to_str().unwrap()])), Some(0));
    scene.until(&id, "ended");
    assert!(printed(&scene.hub.aye(&["agents"])).contains("No agents are running."));
    assert!(printed(&scene.hub.aye(&["agents", "--all"])).contains(&format!("{id}  ended")));
    let late = scene.hub.aye(&["send", &id, "too late"]);
    assert_eq!((code(&late), complained(&late).as_str()), (Some(1), "aye: this agent has ended\n"));
}

#[test]
fn an_agent_that_nobody_or_several_are_called_is_refused_with_6_and_the_candidates() {
    let hub = crate::support::Hub::start();
    for id in ["bot-1", "bot-2"] {
        hub.register(
            &hub.agent(id),
            id,
            json!({"title": "Same title", "cwd": "/src/web", "reach": "driven"}),
        );
    }
    for command in [&["send", "bot", "x"][..], &["interrupt", "Same title"], &["stop", "web"]] {
        let refused = hub.aye(command);
        assert_eq!(code(&refused), Some(6), "{command:?}");
        let why = complained(&refused);
        assert!(why.contains("bot-1") && why.contains("bot-2"), "{command:?}: {why}");
    }
    let nobody = hub.aye(&["stop", "nonsense"]);
    assert_eq!(code(&nobody), Some(6));
    assert!(complained(&nobody).contains("there is no agent \"nonsense\"; `aye agents`"), "{nobody:?}");
}

#[test]
fn without_operator_rights_agents_are_shown_and_not_steered() {
    let hub = crate::support::Hub::start();
    hub.register(&hub.agent("bot"), "bot", json!({"title": "Title", "reach": "driven"}));
    let as_viewer = |command: &[&str]| {
        crate::support::aye(&hub.home).env("AYE_TOKEN", hub.token("viewer")).args(command).output().unwrap()
    };
    assert!(printed(&as_viewer(&["agents"])).contains("bot"));
    for command in [&["send", "bot", "x"][..], &["interrupt", "bot"], &["stop", "bot"]] {
        let refused = as_viewer(command);
        assert_eq!(code(&refused), Some(1));
        assert!(complained(&refused).contains("this needs the role operator"), "{refused:?}");
    }
}
