//! Where asks come from: one folder an agent, or a way to reach one.

pub mod acp;
pub mod before;
pub mod claude;
pub mod codex;
pub mod demo;
pub mod driven;
pub mod joined;
pub mod lines;
pub mod mcp;
pub mod opencode;
pub mod reports;
pub mod script;
pub mod supervise;
pub mod tmux;

use tokio::time::{Instant, sleep_until};

/// Longer titles are cut.
const LONGEST_TITLE: usize = 200;

/// Sent where an agent's refusal needs words and the person gave none. The model reads them as the person's own words,
/// so they must not be a sentence that somebody could have said.
const NO_REASON: &str = "(no reason given)";

/// A name that nothing else has.
pub fn random_name() -> Result<String, getrandom::Error> {
    crate::random::random_hex::<6>()
}

/// What an agent is called: the first line of its prompt that says something.
pub fn title(prompt: &str) -> String {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(LONGEST_TITLE).collect()
}

/// Set for agents that `aye run` drives: whoever reads their pipes asks for them already.
pub const DRIVEN: &str = "AYE_DRIVEN";

/// For ever without a time.
async fn sleep_until_opt(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}
