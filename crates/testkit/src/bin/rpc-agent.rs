//! An agent that speaks JSON-RPC as the file `script.json` in its folder says, well or badly: a list of steps, each
//! `{"await": METHOD}` for a request of the client, `{"say": TEXT}` for bytes as they are, with `ID` in place of the id
//! of the request that was awaited last, `{"line": JSON}` for a message, or `{"end": CODE}`. What it hears goes to
//! `heard.jsonl`. After the last step it waits until its input ends.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, Write};

fn main() {
    let script: Vec<Value> = serde_json::from_slice(&std::fs::read("script.json").unwrap()).unwrap();
    let mut heard = File::create("heard.jsonl").unwrap();
    let mut lines = std::io::stdin().lock().lines();
    let mut hear = || {
        let line = lines.next()?.unwrap();
        writeln!(heard, "{line}").unwrap();
        Some(serde_json::from_str::<Value>(&line).unwrap())
    };
    let mut id = Value::Null;
    for step in script {
        if let Some(method) = step["await"].as_str() {
            id = loop {
                match hear() {
                    None => return,
                    Some(message) if message["method"] == method => break message["id"].clone(),
                    Some(message) if method == "reply" && message["method"].is_null() => break json!(null),
                    Some(_) => {}
                }
            };
        }
        let line = match &step["line"] {
            Value::Null => None,
            line => Some(format!("{line}\n")),
        };
        let said = step["say"].as_str().map(str::to_owned).or(line);
        if let Some(said) = said {
            let mut out = std::io::stdout().lock();
            out.write_all(said.replace("\"ID\"", &id.to_string()).as_bytes()).unwrap();
            out.flush().unwrap();
        }
        if let Some(code) = step["end"].as_i64() {
            std::process::exit(i32::try_from(code).unwrap());
        }
    }
    while hear().is_some() {}
}
