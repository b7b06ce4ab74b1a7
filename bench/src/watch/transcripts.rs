//! Transcripts like real ones: what is said, tools and their results, questions that were answered, and the
//! lines that repeat whole messages.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub fn says(words: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": words}, "isSidechain": false, "sessionId": "s"})
}

pub fn calls(id: &str, tool: &str, input: Value) -> Value {
    let content = json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]);
    json!({"isSidechain": false, "message": {"type": "message", "role": "assistant", "content": content},
        "type": "assistant", "cwd": "/src/web", "sessionId": "s"})
}

pub fn asks(id: &str) -> Value {
    let options = json!([{"label": "PostgreSQL", "description": "a server"}, {"label": "SQLite", "description": "a file"}]);
    let question = json!({"question": "Which DB?", "header": "DB", "options": options, "multiSelect": false});
    calls(id, "AskUserQuestion", json!({ "questions": [question] }))
}

fn returns(id: &str, words: &str) -> Value {
    let content = json!([{"type": "tool_result", "tool_use_id": id, "content": words}]);
    json!({"type": "user", "message": {"role": "user", "content": content}, "isSidechain": false,
        "toolUseResult": {"stdout": words}, "cwd": "/src/web", "sessionId": "s"})
}

/// One long turn of about so many bytes, with a pending question at its end. Nothing can be told from the end
/// alone, so that all of it must be searched.
pub fn write_long(path: &Path, size: usize) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut written = 0;
    let mut line = |value: &Value| -> io::Result<usize> {
        let text = value.to_string();
        writeln!(file, "{text}")?;
        Ok(text.len() + 1)
    };
    written += line(&says("do it"))?;
    let output = "fn main() { println!(\"hello\"); } // a line as a tool prints it, with a \"user\" in it\n";
    let mut i = 0;
    while written < size {
        i += 1;
        let id = format!("toolu_{i:012}");
        written += line(&calls(&id, "Bash", json!({"command": format!("sed -n {i}p src/main.rs")})))?;
        let result = returns(&id, &output.repeat(i % 97 + 1));
        written += line(&result)?;
        if i % 50 == 0 {
            written += line(&json!({"type": "api-request-blob", "message": result["message"]}))?;
        }
        if i % 500 == 0 {
            let id = format!("toolu_q{i:011}");
            written += line(&asks(&id))?;
            written += line(&returns(&id, "Your questions have been answered"))?;
        }
    }
    line(&asks("toolu_pending"))?;
    file.flush()
}
