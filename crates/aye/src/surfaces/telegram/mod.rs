//! Telegram: a bot that shows asks and takes answers, and from which work can be started. `desk.rs` is the one
//! task that owns its state; `render.rs` and what it uses, `ended.rs`, `card.rs`, `menu.rs` and `form.rs` do no I/O.

mod api;
mod calls;
mod card;
mod commands;
mod desk;
mod ended;
mod exact;
mod form;
mod gate;
mod held;
mod html;
mod kept;
mod lane;
mod markdown;
mod memory;
mod menu;
mod menus;
mod permission;
mod photos;
mod plan;
mod poll;
mod question;
mod reload;
mod render;
mod results;
mod runs;
mod settings;
mod show;
mod texts;
mod updates;
mod wire;

pub use reload::Telegram;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
