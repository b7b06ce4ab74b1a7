//! An agent that speaks Claude Code's control protocol and does what a scenario says, well or badly. It is
//! as strict as the real one: a line that is no JSON, or a reply of another shape, ends it.
//!
//! The scenario is the file after `--scenario`, or named by AYE_SCENARIO, or `scenario.json` in the folder it
//! works in. All other arguments are ignored.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acts;
mod channel;
mod lines;

use acts::{Agent, Flow};
use aye_testkit::scenario::AgentScenario;
use channel::Channel;
use std::collections::VecDeque;
use std::path::PathBuf;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let scenario = read_scenario(&arguments);
    let mut channel = Channel::open(scenario.heard.as_deref());
    channel.note(lines::started(&arguments));
    let mut agent = Agent::new(channel, &scenario);
    let mut steps: VecDeque<_> = scenario.steps.into();
    let echoes = arguments.iter().any(|argument| argument == "--replay-user-messages");
    let mut begun = false;
    while let Some(prompt) = agent.prompt() {
        if !std::mem::replace(&mut begun, true) {
            agent.channel.write(&lines::init(&scenario.session));
        }
        if echoes {
            agent.channel.write(&lines::echo(&scenario.session, &prompt));
        }
        if let Flow::Closed = agent.turn(&mut steps) {
            return;
        }
    }
}

fn read_scenario(arguments: &[String]) -> AgentScenario {
    let named = arguments.iter().position(|argument| argument == "--scenario");
    let named = named.and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    let named = named.or_else(|| std::env::var_os("AYE_SCENARIO").map(PathBuf::from));
    let file = named.unwrap_or_else(|| "scenario.json".into());
    let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
