//! Claude Code: its wire, what its messages mean, and how it is driven.

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
pub mod told;
mod translate;
pub mod wire;
