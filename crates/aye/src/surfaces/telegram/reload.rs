//! The bot as `config.toml` wants it: started, stopped and restarted when `[telegram]` or its token changes.

use super::api::Bot;
use super::bot_loop::BotLoop;
use super::check::{Trouble, check};
use super::settings::Settings;
use super::{lease, poll};
use crate::config::{Config, WatchedFiles};
use crate::home::Home;
use crate::hub::Hub;
use futures_util::FutureExt;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The bot, before it runs.
pub struct Telegram {
    home: Home,
    settings: Option<Settings>,
}

impl Telegram {
    /// To be called before the home's files are made private: a token that others could read is refused.
    pub fn load(config: &Config, home: &Home) -> anyhow::Result<Self> {
        Ok(Self { home: home.clone(), settings: Settings::load(config, home)? })
    }

    /// Whose bot it is, in words, or what is wrong with it and what to do.
    pub async fn check(&self) -> Result<String, Trouble> {
        let Some(settings) = &self.settings else { return Ok("off: config.toml has no [telegram]".into()) };
        check(settings).await
    }

    pub async fn run(mut self, hub: Hub, stop: CancellationToken) {
        let mut files = self.files();
        loop {
            let (running, over) = (stop.child_token(), stop.clone());
            let mut bot = JoinSet::new();
            if let Some(settings) = self.settings.clone() {
                bot.spawn(lease::run(settings, hub.clone(), running.clone(), run_bot).boxed());
            }
            let changed = tokio::select! {
                () = over.cancelled() => None,
                settings = self.changed(&mut files) => Some(settings),
            };
            running.cancel();
            while bot.join_next().await.is_some() {}
            match changed {
                Some(settings) => {
                    self.settings = settings;
                    files = self.files();
                }
                None => return,
            }
        }
    }

    /// The new settings, once there are others that can be used.
    async fn changed(&self, files: &mut WatchedFiles) -> Option<Settings> {
        loop {
            files.changed().await;
            let settings = Config::load(&self.home.config()).map_err(anyhow::Error::from);
            match settings.and_then(|config| Settings::load(&config, &self.home)) {
                Ok(settings) if settings != self.settings => {
                    tracing::info!("[telegram] was read again and is in effect");
                    return settings;
                }
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "[telegram] cannot be used; the bot stays as it was"),
            }
        }
    }

    fn files(&self) -> WatchedFiles {
        let token = self.settings.as_ref().map(|settings| settings.token_file.clone());
        WatchedFiles::read([self.home.config()].into_iter().chain(token).collect())
    }
}

async fn run_bot(settings: Settings, hub: Hub, stop: CancellationToken) {
    let bot = match Bot::new(&settings) {
        Ok(bot) => Arc::new(bot),
        Err(error) => return tracing::error!(%error, "the bot cannot run"),
    };
    // One batch at a time: the next is asked for once this one is on disk.
    let (news, arriving) = mpsc::channel(1);
    let mut poller = JoinSet::new();
    poller.spawn(poll::run(bot.clone(), hub.clone(), settings.pace, news).boxed());
    BotLoop::new(hub, settings, bot).run(arriving, stop).await;
}
