//! tmux, for whatever agent runs in it: the pane of a process, what it shows, and keys for it.

pub mod keys;
pub mod pane;
