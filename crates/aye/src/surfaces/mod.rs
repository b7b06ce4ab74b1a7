//! Where people see asks and answer them.

pub mod terminal;
