//! Telegram: a bot that shows asks and takes answers, and from which work can be started. `bot_loop.rs` is the
//! one task that owns its state; `render.rs` and what it uses, `ended.rs`, `progress.rs`, `choices.rs` and `actions.rs` do
//! no I/O.

mod access;
mod actions;
mod api;
mod asks;
mod bot_loop;
mod calls;
mod check;
mod choices;
mod chooser;
mod commands;
mod deadline;
mod ended;
mod exact;
mod html;
mod lease;
mod lists;
mod markdown;
mod memory;
mod message;
mod moved;
mod permission;
mod photos;
mod plan;
mod poll;
mod progress;
mod question;
mod queue;
mod reload;
mod render;
mod rendered;
mod results;
mod ringing;
mod runs;
mod settings;
mod texts;
mod updates;
mod waiting_texts;
mod wire;

pub use reload::Telegram;

#[cfg(test)]
mod tests;
