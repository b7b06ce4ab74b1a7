//! Where asks come from: one folder an agent, or a way to reach one.

pub mod demo;
pub mod script;
