//! Claude Code: its wire, what its messages mean, and how it is reached.

pub mod driven;
pub mod hook;
mod mode;
mod outcome;
mod receipts;
pub mod settings;
mod sub_agents;
pub mod tmux;
pub mod transcript;
mod translate;
pub mod watch;
pub mod wire;
