//! Where people see asks and answer them.

pub mod form;
pub mod telegram;
pub mod terminal;
pub mod words;
