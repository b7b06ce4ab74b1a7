//! The scripted agent's program, and what it was told.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The built program. The first call in a process has it built: a test of another crate depends on this
/// library only, for which cargo builds no program. Cargo itself sees to it that processes do not collide.
pub fn scripted_agent() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("scripted-agent"))
}

/// The agent that is a server.
pub fn http_agent() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("http-agent"))
}

/// The agent that speaks JSON-RPC, well or badly.
pub fn rpc_agent() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("rpc-agent"))
}

/// The server as OpenCode's, good or bad.
pub fn serve_agent() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("serve-agent"))
}

fn build(program: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--message-format=json", "--bin", program]);
    command.arg("--manifest-path").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).unwrap();
    let mut messages = messages.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let built = messages.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    built.expect("cargo names the program that it built")
}

/// The lines that a scripted agent was told so far; a line that is still being written is left out.
pub fn heard(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Its answers among them, by request id: the inner part of each `control_response`.
pub fn answers(file: &Path) -> Vec<(String, Value)> {
    let lines = heard(file).into_iter().filter(|line| line["type"] == "control_response");
    lines
        .map(|line| {
            let response = &line["response"];
            (response["request_id"].as_str().unwrap().to_owned(), response.clone())
        })
        .collect()
}
