use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask a program to end. Registered once, early, so that none is missed.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub fn listen() -> anyhow::Result<Self> {
        let on = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    pub async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "terminated",
            _ = self.hangup.recv() => "hung up",
        }
    }
}
