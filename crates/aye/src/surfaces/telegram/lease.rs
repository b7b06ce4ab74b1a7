//! Of several hubs on one database, one talks to Telegram: it has a lease, and renews it as long as it can. One that cannot
//! has stopped before another begins.

use super::settings::Settings;
use crate::hub::{Hub, TELEGRAM_LEASE};
use jiff::SignedDuration;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

const LASTS: SignedDuration = SignedDuration::from_secs(6);
const BETWEEN_RENEWALS: Duration = Duration::from_secs(2);
/// After this long without a renewal the bot is stopped, which takes it up to three seconds.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(2_900);
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// Runs the bot whenever it is this hub's turn.
pub async fn run<F: Future<Output = ()>>(
    settings: Settings,
    hub: Hub,
    stop: CancellationToken,
    bot: impl Fn(Settings, Hub, CancellationToken) -> F,
) {
    if !hub.is_one_of_several() {
        return bot(settings, hub, stop).await;
    }
    while let Some(taken) = wait_for_turn(&hub, &stop).await {
        let running = stop.child_token();
        let keep = async {
            tokio::select! {
                () = keep_turn(&hub, taken) => tracing::warn!("another hub may talk to Telegram now"),
                () = running.cancelled() => {}
            }
            running.cancel();
        };
        let run = async {
            bot(settings.clone(), hub.clone(), running.clone()).await;
            running.cancel();
        };
        tokio::join!(keep, run);
        if stop.is_cancelled() {
            if let Err(error) = hub.give_lease_back(TELEGRAM_LEASE).await {
                tracing::debug!(%error, "another hub takes over when the lease has run out");
            }
            return;
        }
    }
}

/// When the lease was taken; none if the hub stops.
async fn wait_for_turn(hub: &Hub, stop: &CancellationToken) -> Option<Instant> {
    loop {
        let before = Instant::now();
        let taken = async {
            match hub.take_lease(TELEGRAM_LEASE, LASTS).await {
                // The hub before may be in the middle of a change, which must be seen.
                Ok(true) => hub.await_earlier_changes().await.is_ok(),
                Ok(false) => false,
                Err(error) => {
                    tracing::debug!(%error, "the lease for Telegram could not be asked for");
                    false
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => return None,
            is_taken = taken => if is_taken && before.elapsed() < GIVEN_UP_AFTER {
                tracing::info!("this hub talks to Telegram");
                return Some(before);
            },
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = sleep(BETWEEN_TRIES) => {}
        }
    }
}

/// Returns when the lease may soon be another's.
async fn keep_turn(hub: &Hub, mut renewed: Instant) {
    loop {
        sleep(BETWEEN_RENEWALS.saturating_sub(renewed.elapsed()).max(Duration::from_millis(200))).await;
        let before = Instant::now();
        let left = GIVEN_UP_AFTER.saturating_sub(renewed.elapsed());
        match timeout(left, hub.take_lease(TELEGRAM_LEASE, LASTS)).await {
            Ok(Ok(true)) => renewed = before,
            Ok(Ok(false)) | Err(_) => return,
            Ok(Err(error)) => tracing::debug!(%error, "the lease for Telegram could not be renewed"),
        }
    }
}
