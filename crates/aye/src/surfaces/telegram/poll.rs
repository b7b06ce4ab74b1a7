//! Asks Telegram for what people did. An update is confirmed only after what it led to is on disk.

use super::api::{ApiError, Bot};
use super::settings::Pace;
use super::wire::{BotUser, ReceivedUpdate, batch};
use crate::hub::Hub;
use aye_core::Role;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Short, so that the bot recovers within seconds of Telegram.
const LONGEST_PAUSE: f64 = 5.0;
const CONFLICT_PAUSE: f64 = 5.0;
const UNKNOWN_PAUSE: f64 = 60.0;

/// Updates that came together, and who must be told which of them are done.
pub struct Batch {
    pub updates: Vec<ReceivedUpdate>,
    /// The number after the last one that is done; none where nothing is.
    pub done: oneshot::Sender<Option<i64>>,
}

/// What comes from Telegram.
pub enum FromTelegram {
    /// The first successful call, at the start and after each outage.
    Reached(BotUser),
    Batch(Batch),
}

/// Runs until it is dropped or nobody takes its batches.
pub async fn run(bot: Arc<Bot>, hub: Hub, pace: Pace, news: mpsc::Sender<FromTelegram>) {
    // Only until it is confirmed: numbers may start again below it after a quiet week.
    let mut offset = None;
    let mut trouble = PollFailures::default();
    // Somebody can answer on Telegram as long as it talks to us.
    let mut attending = None;
    loop {
        // The first call returns at once: only then is it known that Telegram talks to us.
        let result = match reach(&bot, offset, attending.is_some()).await {
            Ok(result) => result,
            Err(error) => {
                attending = None;
                tokio::time::sleep(trouble.pause(&error, pace)).await;
                continue;
            }
        };
        trouble.is_over();
        let (me, result) = result;
        if let Some(me) = me
            && news.send(FromTelegram::Reached(me)).await.is_err()
        {
            return;
        }
        attending.get_or_insert_with(|| hub.attend(Role::Operator));
        offset = None;
        let updates = batch(result);
        if updates.is_empty() {
            continue;
        }
        let asked = updates.len();
        let (done, reply) = oneshot::channel();
        if news.send(FromTelegram::Batch(Batch { updates, done })).await.is_err() {
            return;
        }
        match reply.await {
            Ok(next) => offset = next,
            Err(_) => return,
        }
        if offset.is_none() {
            tracing::error!(
                updates = asked,
                "what people did on Telegram could not be recorded; it is tried again"
            );
            tokio::time::sleep(pace.seconds(1.0)).await;
        }
    }
}

/// The updates; after silence also who the bot is, which its token alone does not tell.
async fn reach(bot: &Bot, offset: Option<i64>, reached: bool) -> Result<(Option<BotUser>, Value), ApiError> {
    let me = match reached {
        true => None,
        false => match bot.get_me().await {
            Ok(me) => Some(me),
            Err(error @ (ApiError::Unreachable(_) | ApiError::NoReply(_))) => return Err(error),
            // A server that does not say who the bot is may serve it all the same; a wrong token shows below.
            Err(_) => Some(bot.identity_from_token()),
        },
    };
    Ok((me, bot.get_updates(offset, reached).await?))
}

/// What is wrong, so that it is logged once and not at every try.
#[derive(Default)]
struct PollFailures {
    said: Option<String>,
    tries: u32,
}

impl PollFailures {
    fn pause(&mut self, error: &ApiError, pace: Pace) -> Duration {
        let words = error.to_string();
        if self.said.as_ref() != Some(&words) {
            match error {
                ApiError::Webhook => {
                    tracing::error!(
                        "{words}. Remove it with deleteWebhook, or give this hub a bot of its own"
                    );
                }
                ApiError::Conflict(_) => {
                    tracing::error!(
                        "{words}. What it takes never gets here: stop it, or give this hub a bot of its own. If you \
                         know of none, let @BotFather revoke the token"
                    );
                }
                ApiError::Unknown => {
                    tracing::error!("{words}. Get it from @BotFather and write it to token_file");
                }
                _ => tracing::warn!("{words}; what people answer there waits at Telegram"),
            }
            self.said = Some(words);
        }
        let seconds = match error {
            ApiError::TooMany { retry_after } => *retry_after as f64,
            ApiError::Conflict(_) | ApiError::Webhook => CONFLICT_PAUSE,
            ApiError::Unknown => UNKNOWN_PAUSE,
            _ => f64::from(1_u32 << self.tries.min(5)).min(LONGEST_PAUSE),
        };
        self.tries = self.tries.saturating_add(1);
        pace.seconds(seconds)
    }

    fn is_over(&mut self) {
        if self.said.take().is_some() {
            tracing::info!("Telegram talks to us again");
        }
        self.tries = 0;
    }
}
