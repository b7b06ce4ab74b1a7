//! Sessions that somebody runs in a terminal of their own, known by the files they leave: found, followed,
//! and answered through tmux.

mod ask;
mod changes;
mod desk;
mod follow;
mod given;
mod names;
mod past;
mod roll;
pub mod sessions;
mod watched;

pub use desk::{Told, Watch, run};
