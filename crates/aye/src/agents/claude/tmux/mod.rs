//! Answers for a session in tmux: read the screen, press a key, read the screen again.

pub mod decide;
pub mod deliver;
mod diff;
pub mod keys;
pub mod pane;
pub mod plan;
pub mod prompt;
pub mod screen;
