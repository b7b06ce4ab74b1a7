//! What a waiting agent costs with each protocol, beside what it costs with Claude Code's.

use super::Programs;
use super::crowd::{Cost, Waiting, look};
use crate::report::{Goal, Report};
use anyhow::Context;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// At most a tenth more than with Claude Code.
const MOST: f64 = 1.1;

pub async fn measure(
    programs: &Programs,
    folder: &Path,
    agents: usize,
    during: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let claude = look(programs, folder, &Waiting::claude(programs), agents, during).await?;
    add("claude", &claude, agents, report);
    for waiting in others(programs)? {
        let cost = look(programs, folder, &waiting, agents, during).await?;
        add(waiting.kind, &cost, agents, report);
        let name = |what: &str| format!("{}: {what}, ratio to claude", waiting.kind);
        let memory = cost.adapter() / claude.adapter();
        report.add(name("memory of an adapter"), memory, "", Some(Goal::AtMost(MOST)));
        let (ours, theirs) = (processor(&cost, agents), processor(&claude, agents));
        report.add(name("processor of an adapter"), ours / theirs, "", Some(Goal::AtMost(MOST)));
    }
    Ok(())
}

/// Of one adapter, in milliseconds a minute. The system counts in hundredths of a second, so less than one of these for
/// the whole crowd is told as one.
fn processor(cost: &Cost, agents: usize) -> f64 {
    let spent = cost.adapters_processor.max(Duration::from_millis(10));
    spent.as_secs_f64() * 1e3 / agents as f64 / (cost.took.as_secs_f64() / 60.0)
}

fn add(kind: &str, cost: &Cost, agents: usize, report: &mut Report) {
    report.add(format!("{kind}: memory of an adapter, proportional"), cost.adapter(), "MB", None);
    report.add(format!("{kind}: processor of an adapter"), processor(cost, agents), "ms a minute", None);
}

fn others(programs: &Programs) -> anyhow::Result<[Waiting; 3]> {
    let folder = programs.agent.parent().context("the scripted agent is in no folder")?;
    let (rpc, server) = (folder.join("rpc-agent"), folder.join("serve-agent"));
    let waiting =
        |kind, variable, program, script| Waiting { kind, variable, program, file: "script.json", script };
    Ok([
        waiting("codex", "AYE_CODEX", rpc.clone(), codex()),
        waiting("opencode", "AYE_OPENCODE", server, opencode()),
        waiting("qwen", "AYE_QWEN", rpc, acp()),
    ])
}

fn codex() -> Value {
    let turn = json!({"turn": {"id": "u", "items": [], "status": "inProgress"}});
    let options =
        json!([{"label": "SQLite", "description": "."}, {"label": "PostgreSQL", "description": "."}]);
    let question = json!({"id": "db", "question": "Which database should the service use?", "header": "Database", "options": options});
    json!([
        {"await": "initialize", "line": {"id": "ID", "result": {}}},
        {"await": "thread/start", "line": {"id": "ID", "result": {"thread": {"id": "t"}}}},
        {"await": "turn/start", "line": {"id": "ID", "result": turn}},
        {"line": {"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "u"}}}},
        {"line": {"method": "item/tool/requestUserInput", "id": 1, "params": {"threadId": "t", "turnId": "u",
            "itemId": "call_1", "questions": [question]}}},
    ])
}

fn opencode() -> Value {
    let event = |kind: &str, about: Value| json!({"event": {"type": kind, "properties": about}});
    let options =
        json!([{"label": "SQLite", "description": "."}, {"label": "PostgreSQL", "description": "."}]);
    let question = json!({"question": "Which database should the service use?", "header": "Database", "options": options});
    json!([
        {"await": "/session/ses_1/prompt_async"},
        event("session.status", json!({"sessionID": "ses_1", "status": {"type": "busy"}})),
        event("question.asked", json!({"id": "que_1", "sessionID": "ses_1", "questions": [question]})),
    ])
}

fn acp() -> Value {
    let call = json!({"toolCallId": "call_1", "title": "make", "kind": "execute", "rawInput": {"command": "make"},
        "_meta": {"toolName": "run_shell_command"}});
    let options = json!([{"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"},
        {"optionId": "cancel", "name": "Reject", "kind": "reject_once"}]);
    json!([
        {"await": "initialize", "line": {"jsonrpc": "2.0", "id": "ID", "result": {"protocolVersion": 1, "agentCapabilities": {}}}},
        {"await": "session/new", "line": {"jsonrpc": "2.0", "id": "ID", "result": {"sessionId": "s"}}},
        {"await": "session/prompt"},
        {"line": {"jsonrpc": "2.0", "id": 1, "method": "session/request_permission",
            "params": {"sessionId": "s", "toolCall": call, "options": options}}},
    ])
}
