//! Telegram: a bot that shows asks and takes answers, and from which work can be started.

mod api;
mod card;
mod ended;
mod form;
mod gate;
mod html;
mod render;
mod settings;
mod wire;

pub use settings::Settings;

#[cfg(test)]
mod tests;
