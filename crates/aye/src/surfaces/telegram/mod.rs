//! Telegram: a bot that shows asks and takes answers, and from which work can be started. `desk.rs` is the one
//! task that owns its state; `render.rs`, `ended.rs`, `card.rs` and `form.rs` do no I/O.

mod api;
mod calls;
mod card;
mod commands;
mod desk;
mod ended;
mod exact;
mod form;
mod gate;
mod html;
mod lane;
mod memory;
mod poll;
mod render;
mod results;
mod runs;
mod settings;
mod show;
mod texts;
mod updates;
mod wire;

use crate::config::Config;
use crate::home::Home;
use crate::hub::Hub;
use api::Bot;
use desk::Desk;
use settings::Settings;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The bot, before it runs.
pub struct Telegram {
    settings: Settings,
    bot: Bot,
}

impl Telegram {
    /// None where it is off. To be called before the home's files are made private.
    pub fn load(config: &Config, home: &Home) -> anyhow::Result<Option<Self>> {
        let Some(settings) = Settings::load(config, home)? else { return Ok(None) };
        Ok(Some(Self { bot: Bot::new(&settings)?, settings }))
    }

    pub async fn run(self, hub: Hub, stop: CancellationToken) {
        let bot = Arc::new(self.bot);
        // One batch at a time: the next is asked for once this one is on disk.
        let (batches, arriving) = mpsc::channel(1);
        let mut poller = JoinSet::new();
        poller.spawn(poll::run(bot.clone(), hub.clone(), self.settings.pace, batches));
        Desk::new(hub, self.settings, bot).run(arriving, stop).await;
    }
}

#[cfg(test)]
mod tests;
