//! Where asks come from: one folder an agent, or a way to reach one.

pub mod claude;
pub mod demo;
pub mod display;
pub mod lines;
pub mod script;
