//! Claude Code: its wire, what its messages mean, and how it is driven.

pub mod drive;
mod outcome;
mod receipts;
pub mod run;
pub mod tmux;
pub mod transcript;
mod translate;
pub mod watch;
pub mod wire;
