//! Gemini CLI tells of a call that was refused in its own transcript alone: a file for each time that a session was opened,
//! with what the model was told of each call.

use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// So much of the end of a transcript is read.
const TAIL: u64 = 8 * 1024 * 1024;

/// What the model was told of the calls of this session, by call.
pub fn of_gemini(session: &str) -> HashMap<String, String> {
    let home = std::env::var_os("GEMINI_CLI_HOME").or_else(|| std::env::var_os("HOME"));
    home.map(|home| responses(&Path::new(&home).join(".gemini/tmp"), session)).unwrap_or_default()
}

fn responses(folder: &Path, session: &str) -> HashMap<String, String> {
    let text: String = files(folder, session).iter().filter_map(|file| tail(file)).collect();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let parts = lines.flat_map(|line| line["content"].as_array().cloned().unwrap_or_default());
    let told = parts.filter_map(|part| {
        let response = &part["functionResponse"];
        let words = response["response"]["error"].as_str().or(response["response"]["output"].as_str());
        Some((response["id"].as_str()?.to_owned(), words.unwrap_or_default().to_owned()))
    });
    told.collect()
}

/// The files named after this session; their names have only the beginning of its id.
fn files(folder: &Path, session: &str) -> Vec<PathBuf> {
    let inside =
        |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let ending = format!("-{}.jsonl", session.get(..8).unwrap_or(session));
    let files = inside(folder).flat_map(|project| inside(&project.join("chats")).collect::<Vec<_>>());
    files
        .filter(|file| file.file_name().is_some_and(|name| name.to_string_lossy().ends_with(&ending)))
        .collect()
}

fn tail(file: &Path) -> Option<String> {
    let mut file = File::open(file).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut text = Vec::new();
    file.take(TAIL).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_was_told_is_found_by_session_and_call() {
        let folder = tempfile::tempdir().unwrap();
        let chats = folder.path().join("project/chats");
        std::fs::create_dir_all(&chats).unwrap();
        let line = |id: &str, kind: &str, words: &str| {
            let response = serde_json::json!({"functionResponse": {"id": id, "response": {kind: words}}});
            serde_json::json!({"type": "user", "content": [response]}).to_string() + "\n"
        };
        let text = "{\"sessionId\":\"aaaaaaaa-1\"}\n".to_owned()
            + &line("c1", "error", "Tool \"x\" was canceled by the user.")
            + &line("c2", "output", "done")
            + "{\"half";
        std::fs::write(chats.join("session-2026-aaaaaaaa.jsonl"), text).unwrap();
        std::fs::write(chats.join("session-2026-bbbbbbbb.jsonl"), line("c1", "output", "it ran")).unwrap();
        let found = responses(folder.path(), "aaaaaaaa-1");
        assert_eq!(found.len(), 2);
        assert_eq!((found["c1"].contains("canceled by the user"), found["c2"].as_str()), (true, "done"));
        assert!(responses(folder.path(), "cccccccc-1").is_empty());
    }
}
