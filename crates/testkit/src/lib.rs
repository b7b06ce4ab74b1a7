//! Scripted stand-ins for what aye talks to: the model behind an agent, an agent, a chat service.
//! Used by tests and benchmarks only, so what cannot go on may panic.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod agent;
pub mod authenticator;
pub mod model;
pub mod patience;
pub mod postgres;
pub mod proxy;
pub mod scenario;
pub mod telegram;
