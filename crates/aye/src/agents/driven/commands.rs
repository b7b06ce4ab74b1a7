//! Commands for a run that come through the hub, and whether the hub is there.

use super::driver::Event;
use crate::client::{AgentClient, Try};
use crate::home::Home;
use crate::protocol::{Command, Registration};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

const FAULT_PAUSE: Duration = Duration::from_secs(1);

/// Prompts, interrupts and stops that come through the hub. Where none can come any more, a run that waits for
/// them is stopped.
pub async fn take_commands<I>(home: Home, client: AgentClient, events: mpsc::Sender<Event<I>>) {
    let mut after = 0;
    loop {
        let commands = match client.commands(after).await {
            Ok(commands) => commands,
            Err(error) if error.is_passing() && home.path().exists() => {
                drop(events.send(Event::HubAway).await);
                // A call that returns at once; the other one waits for commands.
                let nothing_new = Registration::default();
                while client.register(&nothing_new, Try::Once).await.is_err_and(|error| error.is_passing())
                    && home.path().exists()
                {
                    sleep(FAULT_PAUSE).await;
                }
                drop(events.send(Event::HubBack).await);
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "no commands can come any more");
                drop(events.send(Event::CommandsEnded).await);
                return;
            }
        };
        for (n, command) in commands {
            after = n;
            let event = match command {
                Some(Command::Prompt { text, image }) => Event::Prompt { text: text.into(), image },
                Some(Command::Interrupt) => Event::Interrupt,
                Some(Command::Stop) => Event::Stop,
                None => continue,
            };
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}
