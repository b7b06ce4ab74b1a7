//! Sessions that somebody runs in a terminal of their own, known by the files they leave: found, followed,
//! and answered through tmux.

pub mod ask;
mod changes;
pub mod follow;
mod given;
mod known;
mod names;
mod past;
pub mod sessions;
mod waits;
pub mod watched;
mod watcher;

pub use watcher::{WatchConfig, WatchEvent, run};
