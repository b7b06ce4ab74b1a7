//! Claude Code: its wire, what its messages mean, and how it is driven.

pub mod outcome;
pub mod receipts;
pub mod translate;
pub mod wire;
