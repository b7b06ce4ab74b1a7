use super::Done;
use crate::agents::mcp::McpClient;
use crate::home::Home;
use crate::mcp::{DistinctIds, Server};
use crate::shutdown::Signals;
use clap::Args;
use jiff::SignedDuration;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// As much as one ask may have.
const LONGEST_MESSAGE: usize = 4 * 1024 * 1024;
/// How long withdrawing open asks may take at the end; with the hub away, they are left to it.
const LONGEST_GOODBYE: Duration = Duration::from_secs(2);

/// Let any agent that speaks MCP ask you, with the tools ask_human and check_answer.
#[derive(Args)]
#[command(after_help = "\
Agents start this themselves and speak with it on standard input and output:
  claude mcp add aye -- aye mcp                               Claude Code
  {\"mcpServers\": {\"aye\": {\"command\": \"aye\", \"args\": [\"mcp\"]}}}   Cursor, Claude Desktop and others

A client that cuts long calls off gets a ticket before it does:
  aye mcp --ticket-after 50s

The hub serves the same at /mcp, with an agent's token. docs/agents.md has more.")]
pub struct Mcp {
    /// Give back a ticket if nobody has answered by then (default: wait as long as it takes)
    #[arg(long, value_name = "DURATION")]
    ticket_after: Option<SignedDuration>,
}

impl Mcp {
    pub async fn run(self, home: &Home) -> Done {
        let patience = self.ticket_after.map(Duration::try_from).transpose();
        let patience = patience.map_err(|_| anyhow::anyhow!("--ticket-after must not be negative"))?;
        let (gone, tasks) = (CancellationToken::new(), TaskTracker::new());
        let client = McpClient::new(home.clone());
        let server = Server { asks: client.clone(), patience, gone: gone.clone(), tasks: tasks.clone() };
        let (input, output) = stdio_pipes();
        let input = UntilEnd { input, ended: gone.clone() };
        let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(LONGEST_MESSAGE);
        let mut signals = Signals::listen()?;
        let served = tokio::select! {
            served = serve(server, DistinctIds::new(transport)) => served,
            () = client.show_signs_of_life() => Ok(()),
            _ = signals.wait() => Ok(()),
        };
        gone.cancel();
        tasks.close();
        // The hub notices by itself that a process has ended.
        if tokio::time::timeout(LONGEST_GOODBYE, async {
            tasks.wait().await;
            client.end().await
        })
        .await
        .is_err()
        {
            tracing::debug!("the hub was not told that the client is gone");
        }
        served.map(|()| ExitCode::SUCCESS)
    }
}

async fn serve<A: crate::mcp::AskBackend>(
    server: Server<A>,
    transport: impl rmcp::transport::Transport<rmcp::RoleServer, Error = io::Error> + 'static,
) -> anyhow::Result<()> {
    match server.serve(transport).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // Somebody looked whether it starts.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(anyhow::anyhow!("the client does not speak MCP: {error}")),
    }
}

/// Standard input; its end is told at once, because a client that closes it waits for nothing any more.
struct UntilEnd<R> {
    input: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.input).poll_read(context, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.ended.cancel();
        }
        Poll::Ready(read)
    }
}
