//! Messages on their way to an agent.

use super::Writer;
use crate::agents::reports::HubReport;
use aye_core::{AskId, Receipt};
use std::io;
use tokio::sync::mpsc;

/// A message for the agent, and the ask whose outcome it carries.
pub struct Outgoing<M> {
    pub message: M,
    /// And whether a person waits to see it delivered.
    pub delivers: Option<(AskId, bool)>,
}

/// One message at a time; what carries an outcome is reported as delivered only after that. `not_awaited` says what became
/// of an outcome that the agent no longer waited for.
pub async fn write_agent<M: Send>(
    mut writer: impl Writer<M>,
    mut messages: mpsc::Receiver<Outgoing<M>>,
    reports: mpsc::Sender<HubReport>,
    not_awaited: impl Fn(io::Error) -> (Receipt, String) + Send,
) {
    while let Some(Outgoing { message, delivers }) = messages.recv().await {
        let (receipt, evidence) = match writer.write(message).await {
            Ok(()) => (Receipt::Delivered, "written to the agent".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => not_awaited(error),
            Err(error) => (Receipt::Undelivered, format!("the agent was gone: {error}")),
        };
        if let Some((ask, awaited)) = delivers {
            drop(reports.send(HubReport::Receipt { ask, receipt, evidence, awaited }).await);
        }
    }
}
