//! A client that uses the id of a call again while that call is open could get the answer to one as the answer to the
//! other, and lose one of them. MCP forbids it, so the second call is refused and nothing is asked.

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::HashSet;

/// A transport that takes each id once. An id is free again when its call has been answered; that of a call that was
/// cancelled is not, because nobody can tell when its end is over.
pub struct DistinctIds<T> {
    transport: T,
    open: HashSet<RequestId>,
}

impl<T> DistinctIds<T> {
    pub fn new(transport: T) -> Self {
        Self { transport, open: HashSet::new() }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for DistinctIds<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        match &message {
            JsonRpcMessage::Response(response) => self.open.remove(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().is_some_and(|id| self.open.remove(id)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => false,
        };
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.transport.receive().await?;
            let JsonRpcMessage::Request(request) = &message else { return Some(message) };
            if self.open.insert(request.id.clone()) {
                return Some(message);
            }
            // With its id, this would pass for the reply to the first call.
            let why = format!("the id {} is in use by another call; nothing was asked", request.id);
            let refused = TxJsonRpcMessage::<RoleServer>::error(ErrorData::invalid_request(why, None), None);
            self.transport.send(refused).await.ok()?;
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.transport.close()
    }
}
