//! Claude Code's own account of a session: one JSON object a line, in a file that grows.

pub mod line;
pub mod pending;
pub mod plans;
pub mod returned;
pub mod scan;
pub mod shorten;
pub mod tail;
pub mod title;
