//! What may be decided without asking a person.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod pattern;
