//! Sessions that somebody runs in a terminal of their own, known by the files they leave.

pub mod processes;
pub mod sessions;
