//! Claude Code: its wire, what its messages mean, and how it is driven.

mod activity;
mod courier;
mod crew;
pub mod drive;
pub mod hook;
mod outcome;
pub mod process;
mod receipts;
pub mod run;
pub mod settings;
pub mod told;
pub mod transcript;
mod translate;
pub mod wire;
