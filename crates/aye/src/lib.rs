//! `aye`: your coding agents ask; you answer, from wherever you are. The folders are listed in the
//! order in which an ask travels; see `docs/architecture.md`.

pub mod agents;
pub mod client;
pub mod mcp;
pub mod protocol;

pub mod api;
pub mod hub;
pub mod store;
pub mod surfaces;

pub mod claude_settings;
pub mod cli;
pub mod config;
pub mod es256;
pub mod home;
pub mod local_stream;
pub mod own_folder;
pub mod processes;
pub mod random;
pub mod shutdown;
pub mod tcp_peer;
pub mod telemetry;
pub mod tls;
pub mod transport;
pub mod url;
pub mod webauthn;
