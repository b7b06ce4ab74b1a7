//! Its two ends: lines out, and lines in, each noted down.

use crate::lines;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, StdinLock, Write};
use std::path::Path;
use std::process::exit;

pub struct Channel {
    input: StdinLock<'static>,
    notes: Option<File>,
}

/// What it was told, apart from what is answered at once.
pub enum Heard {
    Prompt { message: Value },
    Answer { id: String, response: Value },
    ToolResult { id: String, content: Value },
    Interrupt,
}

impl Channel {
    pub fn open(notes: Option<&Path>) -> Self {
        let notes = notes.map(|file| File::options().create(true).append(true).open(file).unwrap());
        Self { input: std::io::stdin().lock(), notes }
    }

    pub fn note(&mut self, line: Value) {
        if let Some(notes) = &mut self.notes {
            notes.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
    }

    pub fn write(&self, line: &Value) {
        write(&format!("{line}\n"));
    }

    /// The next thing that matters; none once its input has ended.
    pub fn listen(&mut self) -> Option<Heard> {
        loop {
            let mut line = String::new();
            // A pseudo-terminal whose other side is gone gives an error rather than an end.
            if !matches!(self.input.read_line(&mut line), Ok(1..)) {
                return None;
            }
            let Ok(line) = serde_json::from_str::<Value>(&line) else {
                eprintln!("a line is no JSON: {line}");
                exit(1);
            };
            self.note(line.clone());
            if let Some(heard) = self.understand(line) {
                return Some(heard);
            }
        }
    }

    fn understand(&self, line: Value) -> Option<Heard> {
        match line["type"].as_str() {
            Some("control_request") => {
                self.write(&lines::reply(&line["request_id"], &line["request"]));
                (line["request"]["subtype"] == "interrupt").then_some(Heard::Interrupt)
            }
            Some("control_response") => {
                let response = &line["response"];
                let Some(id) = response["request_id"].as_str() else {
                    eprintln!("a reply of another shape: {line}");
                    exit(1);
                };
                Some(Heard::Answer { id: id.to_owned(), response: response.clone() })
            }
            Some("user") => {
                let first = &line["message"]["content"][0];
                Some(match first["tool_use_id"].as_str() {
                    Some(id) => Heard::ToolResult { id: id.to_owned(), content: first["content"].clone() },
                    None => Heard::Prompt { message: line["message"].clone() },
                })
            }
            _ => None,
        }
    }
}

/// Who no longer reads has ended the story, and there is nobody to complain to.
pub fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        exit(0);
    }
}
