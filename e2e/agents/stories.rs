//! The stories that are told with every agent.

use super::{Agent, CLAUDE, CODEX, COPILOT, GEMINI, KIMI, OPENCODE, QWEN, Stage};
use crate::support::eventually;
use aye::agents::acp::refusal_ends_turn;
use aye_testkit::model::Model;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::{Child, Output};

type Story = fn(&'static Agent);

/// Every story, as the table in docs/agents.md names it.
pub const STORIES: [(&str, Story); 11] = [
    ("a question is answered", question),
    ("a plan is approved", plan),
    ("a command is allowed", allowed),
    ("a command is refused", refused),
    ("allowed for the session", for_the_session),
    ("two requests at once", two_at_once),
    ("the hub is killed while it waits", hub_killed),
    ("the agent is killed while it waits", agent_killed),
    ("the turn is interrupted", interrupted),
    ("a rule allows", rule_allows),
    ("a rule refuses", rule_refuses),
];

/// Tells a story, unless it cannot be told with this agent.
fn tell(agent: &'static Agent, name: &str) {
    let (_, story) = STORIES.into_iter().find(|(story, _)| *story == name).unwrap();
    match agent.cannot(name) {
        Some(why) => println!("{} cannot: {why}", agent.name),
        None => story(agent),
    }
}

macro_rules! stories {
    ($($module:ident: $agent:ident),*) => {$(
        mod $module {
            use super::*;

            stories!(@each $agent
                a_question_is_answered "a question is answered",
                a_plan_is_approved "a plan is approved",
                a_command_is_allowed "a command is allowed",
                a_command_is_refused "a command is refused",
                allowed_for_the_session "allowed for the session",
                two_requests_at_once "two requests at once",
                the_hub_is_killed_while_it_waits "the hub is killed while it waits",
                the_agent_is_killed_while_it_waits "the agent is killed while it waits",
                the_turn_is_interrupted "the turn is interrupted",
                a_rule_allows "a rule allows",
                a_rule_refuses "a rule refuses"
            );
        }
    )*};
    (@each $agent:ident $($test:ident $name:literal),*) => {$(
        #[test]
        #[ignore = "needs the real agent: scripts/test installs it"]
        fn $test() {
            tell(&$agent, $name);
        }
    )*};
}

stories!(
    claude_code: CLAUDE,
    codex: CODEX,
    opencode: OPENCODE,
    gemini: GEMINI,
    qwen: QWEN,
    kimi: KIMI,
    copilot: COPILOT
);

fn running(agent: &'static Agent, steps: &[&[&str]]) -> Stage {
    let mut calls = 0;
    let mut call = |command: &&str| {
        calls += 1;
        (agent.runs)(&format!("call_{calls}"), command)
    };
    let steps = steps.iter().map(|commands| commands.iter().map(&mut call).collect()).collect();
    Stage::new(agent, Model::scripted(steps))
}

fn ended(run: Child) -> Output {
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn once() -> Value {
    json!({"decision": "allow", "scope": "once"})
}

fn question(agent: &'static Agent) {
    let asks = agent.asks.expect("a tool that asks");
    let stage = Stage::new(agent, Model::scripted(vec![vec![asks("call_q")]]));
    let run = stage.run(&[]);
    let ask = stage.ask();
    assert_eq!(ask["body"]["questions"][0]["question"], "Which DB?");
    stage.answer(json!({"answers": [{"selected": ["SQLite"]}]}));
    stage.told("call_q", "SQLite");
    assert!(!stage.model.told("call_q").contains("PostgreSQL"));
    stage.confirmed(&ask);
    ended(run);
}

fn plan(agent: &'static Agent) {
    let (stage, run) = agent.plans.expect("a tool that plans")(agent);
    let ask = stage.answer(json!({"decision": "allow"}));
    assert_eq!(ask["kind"], "plan", "{ask}");
    assert!(ask["body"]["plan"].as_str().unwrap().contains("1. write tests"), "{ask}");
    stage.model.told("call_p");
    stage.confirmed(&ask);
    ended(run);
}

fn allowed(agent: &'static Agent) {
    let stage = running(agent, &[&["touch allowed && echo it ran"]]);
    let run = stage.run(&[]);
    let ask = stage.answer(once());
    let shown = (&ask["body"]["tool"], &ask["body"]["input"]["command"]);
    assert_eq!(shown, (&json!("Bash"), &json!("touch allowed && echo it ran")));
    stage.told("call_1", "it ran");
    assert!(stage.has("allowed"));
    stage.confirmed(&ask);
    ended(run);
    assert_eq!(stage.agent()["kind"], agent.kind);
}

fn refused(agent: &'static Agent) {
    let stage = running(agent, &[&["touch refused"]]);
    let run = stage.run(&[]);
    let ask = stage.answer(json!({"decision": "deny"}));
    stage.confirmed(&ask);
    run.wait_with_output().unwrap();
    assert!(!stage.has("refused"));
    if ask["can"]["deny_ends_turn"] != true {
        stage.model.told("call_1");
    }
}

fn for_the_session(agent: &'static Agent) {
    let stage = running(agent, &[&["make -n x"], &["make -n x"]]);
    let run = stage.run(&[]);
    let ask = stage.answer(json!({"decision": "allow", "scope": "session"}));
    stage.model.told("call_2");
    run.wait_with_output().unwrap();
    let by_people: Vec<_> =
        stage.asks("answered").into_iter().filter(|ask| ask["by"]["name"].is_string()).collect();
    assert_eq!(by_people.len(), 1, "{by_people:?}");
    stage.confirmed(&ask);
}

fn two_at_once(agent: &'static Agent) {
    let stage = running(agent, &[&["touch one", "touch two"]]);
    let run = stage.run(&[]);
    eventually("both requests", || (stage.open_asks().len() == 2).then_some(()));
    let asks = stage.open_asks();
    for ask in &asks {
        let allow = agent.refuses_together() || ask["display"]["text"] == "touch two";
        let answer = if allow { once() } else { json!({"decision": "deny"}) };
        assert_eq!(stage.hub.answer(ask, answer).status, 200);
    }
    // Not before both are answered: the agent may run them in order.
    for ask in &asks {
        stage.confirmed(ask);
    }
    if asks.iter().all(|ask| ask["can"]["deny_ends_turn"] != true) {
        stage.model.told("call_1");
        stage.model.told("call_2");
    }
    assert_eq!((stage.has("two"), stage.has("one")), (true, agent.refuses_together()));
    ended(run);
}

fn hub_killed(agent: &'static Agent) {
    let mut stage = running(agent, &[&["touch after && echo it ran"]]);
    let run = stage.run(&[]);
    let before = stage.ask();
    stage.hub.kill();
    stage.hub.restart();
    let ask = stage.answer(once());
    assert_eq!(ask["id"], before["id"]);
    stage.told("call_1", "it ran");
    stage.confirmed(&ask);
    ended(run);
}

fn agent_killed(agent: &'static Agent) {
    let stage = running(agent, &[&["touch never"]]);
    let run = stage.run(&[]);
    let ask = stage.ask();
    // The run starts a supervisor, which starts the agent.
    let below = |pid: u32| eventually("a process below it", || child_of(pid));
    let program = below(below(run.id()));
    kill_process(Pid::from_raw(program.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let output = run.wait_with_output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let ended = stage.once(&ask, "the ask to end", |ask| ask["state"] != "open");
    assert_eq!((&ended["state"], &ended["note"]), (&json!("withdrawn"), &json!("the agent is gone")));
    assert_eq!(stage.hub.answer(&ask, once()).status, 409);
    assert!(!stage.has("never"));
}

pub fn child_of(parent: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        after_name.split(' ').nth(1) == Some(&parent.to_string())
    })
}

fn interrupted(agent: &'static Agent) {
    let stage = running(agent, &[&["touch never"]]);
    let run = stage.run(&[]);
    let ask = stage.ask();
    stage.steer("interrupt", json!({}));
    let ended = stage.once(&ask, "the ask to end", |ask| ask["state"] != "open");
    assert_eq!(ended["state"], "withdrawn", "{ended}");
    run.wait_with_output().unwrap();
    assert!(!stage.has("never"));
    assert_eq!(stage.model.requests().len(), 1, "the model is not asked to go on");
}

fn rule(action: &str) -> String {
    format!("[[policy.rules]]\ntool = \"Bash\"\ncommand = \"touch *\"\naction = \"{action}\"\n")
}

fn rule_allows(agent: &'static Agent) {
    let stage = running(agent, &[&["touch by-rule"]]).with_policy(&rule("allow"));
    let run = stage.run(&[]);
    stage.model.told("call_1");
    ended(run);
    assert!(stage.has("by-rule"));
    decided_by_rule(&stage);
}

fn rule_refuses(agent: &'static Agent) {
    let stage = running(agent, &[&["touch by-rule"]]).with_policy(&rule("deny"));
    let run = stage.run(&[]);
    run.wait_with_output().unwrap();
    assert!(!stage.has("by-rule"));
    decided_by_rule(&stage);
    if !refusal_ends_turn(agent.kind) {
        stage.model.told("call_1");
    }
}

#[track_caller]
fn decided_by_rule(stage: &Stage) {
    let asks = stage.asks("answered");
    assert_eq!(asks.len(), 1, "{asks:?}");
    assert!(asks[0]["by"]["rule"].is_string(), "{asks:?}");
    stage.confirmed(&asks[0]);
}
