//! The hub is killed again and again while agents make calls that a rule allows: every call that ran is in the
//! trail, once. And what they say meanwhile is kept.

use crate::support::{Hub, aye, ended, eventually};
use aye_testkit::agent::{answers, scripted_agent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};

const AGENTS: usize = 2;
const CALLS: usize = 100;
const KILLS: usize = 12;
/// Lines that an agent hears before its first call is answered; a hub that dies earlier starts no run.
const STARTED: usize = 3;

/// A run that does not outlive a test that fails.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(home: &Path, work: &Path, steps: Value) -> Run {
    let scenario = json!({"heard": "heard.jsonl", "steps": steps});
    std::fs::write(work.join("scenario.json"), scenario.to_string()).unwrap();
    let mut command = aye(home);
    command.args(["run", "do it"]).current_dir(work).env("AYE_CLAUDE", scripted_agent());
    Run(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// The tool calls that the agent was let make, by its own account.
fn ran(work: &Path, n: usize) -> Vec<String> {
    let replies = answers(&work.join("heard.jsonl"));
    assert_eq!(replies.len(), 2 * CALLS, "every call was answered");
    let allowed = replies.into_iter().filter(|(_, reply)| reply["response"]["behavior"] == "allow");
    allowed
        .map(|(request, _)| match request.split_once('-').unwrap() {
            ("flood", call) => format!("many{n}-{call}"),
            // These the scripted agent counts from one.
            (_, request) => format!("one{n}-{}", request.parse::<usize>().unwrap() - 1),
        })
        .collect()
}

fn lines_of(file: &Path) -> usize {
    std::fs::read(file).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count())
}

#[test]
fn every_call_that_ran_is_in_the_trail_once_however_often_the_hub_is_killed() {
    let mut hub = Hub::start();
    std::fs::write(hub.home.join("config.toml"), "[policy]\nauto_approve = [\"Bash\"]\n").unwrap();
    assert!(hub.stop().success());
    hub.restart();
    let works: Vec<_> = (0..AGENTS).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut runs: Vec<_> = works
        .iter()
        .enumerate()
        .map(|(n, work)| {
            let block = |step: &str| super::bash(&format!("{step}{n}"), "make all");
            // One after another, and many at once.
            let steps = json!([
                {"do": "measure", "requests": CALLS, "block": block("one"), "times": "times"},
                {"do": "flood", "requests": CALLS, "block": block("many")},
            ]);
            start(&hub.home, work.path(), steps)
        })
        .collect();
    for n in 0..KILLS {
        // Spread over all that the agents do: whenever they have been told so much.
        let enough = n * AGENTS * 2 * CALLS / KILLS + 1;
        eventually("the agents to get on", || {
            let told = works.iter().map(|work| lines_of(&work.path().join("heard.jsonl")));
            let (least, all) = told.fold((usize::MAX, 0), |(least, all), told| (least.min(told), all + told));
            (least > STARTED && all >= enough).then_some(())
        });
        hub.kill();
        hub.restart();
    }
    for run in &mut runs {
        assert!(ended(&mut run.0).success());
    }
    let told = asks_by_tool_call(&hub);
    let mut late = 0;
    for (n, work) in works.iter().enumerate() {
        for call in ran(work.path(), n) {
            let recorded = told.get(&call).map(Vec::as_slice).unwrap_or_default();
            assert_eq!(recorded.len(), 1, "{call} ran and is recorded {} times", recorded.len());
            let rule = recorded[0]["by"]["rule"].as_str().unwrap();
            late += usize::from(rule.ends_with(", recorded late"));
        }
    }
    eprintln!("{late} of {} calls were recorded late", told.len());
    assert_eq!(told.len(), AGENTS * 2 * CALLS, "nothing else is recorded");
    let verified = hub.aye(&["verify"]);
    assert!(verified.status.success(), "{verified:?}");
}

fn asks_by_tool_call(hub: &Hub) -> BTreeMap<String, Vec<Value>> {
    let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut path = "/api/asks?state=all&limit=1000".to_owned();
    loop {
        let list = hub.get(&path, &hub.operator()).body;
        let asks = list["asks"].as_array().unwrap();
        let Some(last) = asks.last() else { return told };
        path = format!("/api/asks?state=all&limit=1000&before={}", last["id"].as_str().unwrap());
        for ask in asks {
            told.entry(ask["tool_use_id"].as_str().unwrap().to_owned()).or_default().push(ask.clone());
        }
    }
}

#[test]
fn a_long_text_is_kept_whole_although_the_hub_is_killed_while_it_is_spoken() {
    let (mut hub, work) = (Hub::start(), tempfile::tempdir().unwrap());
    // Longer than a complete text is told: only what streamed has all of it.
    let text = "word ".repeat(6_000);
    let mut run =
        start(&hub.home, work.path(), json!([{"do": "stream", "text": text, "deltas": 2, "until": "go"}]));
    let agent = eventually("the agent to be registered", || {
        let list = hub.get("/api/agents", &hub.operator()).body;
        list["agents"][0]["id"].as_str().map(str::to_owned)
    });
    let said = |hub: &Hub| {
        let events = hub.get(&format!("/api/agents/{agent}/events"), &hub.operator()).body;
        let all = events["events"].as_array().unwrap().iter().map(|told| told["event"].clone());
        all.filter(|event| event["type"] == "text").collect::<Vec<_>>()
    };
    eventually("the first half", || {
        said(&hub)
            .iter()
            .any(|event| event["partial"] == true && event["text"] == text[..15_000])
            .then_some(())
    });
    hub.kill();
    hub.restart();
    std::fs::write(work.path().join("go"), "").unwrap();
    let told = eventually("the whole text", || {
        Some(said(&hub)).filter(|told| told.iter().any(|event| event["partial"] != true))
    });
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["text"], told[0].get("left_out")), (&json!(text), None));
    assert!(ended(&mut run.0).success());
}
