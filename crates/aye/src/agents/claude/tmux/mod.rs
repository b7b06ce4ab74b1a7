//! Answers for a session of Claude Code in tmux: read the screen, press a key, read the screen again.

pub mod decide;
pub mod deliver;
mod diff;
pub mod plan;
pub mod prompt;
pub mod screen;
