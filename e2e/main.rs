//! The end-to-end tests: real programs, from outside. One program, because each links everything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::let_underscore_must_use)] // a test fails by panicking

mod agents;
mod asks;
mod claude;
mod commands;
mod database;
mod disk;
mod drive;
mod follow;
mod following;
mod gates;
mod hooks;
mod hubs;
mod joined;
mod kills;
mod mcp;
mod metrics;
mod passkeys;
mod patience;
mod pending;
mod policy;
mod processes;
mod runs;
mod second;
mod server;
mod smoke;
mod support;
mod telegram;
mod tls;
mod trail;
mod watch;
