//! Claude Code: its wire, what its messages mean, and how it is reached.

mod activity;
mod courier;
mod crew;
pub mod drive;
#[cfg(test)]
mod drive_tests;
mod outcome;
pub mod process;
mod receipts;
pub mod run;
pub mod tmux;
pub mod told;
pub mod transcript;
mod translate;
pub mod watch;
pub mod wire;
