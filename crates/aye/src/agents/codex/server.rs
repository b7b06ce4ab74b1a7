//! The server behind a Codex in its own terminal. It is started for that terminal alone, so that all it runs is below us,
//! and takes nobody without a token, which only the terminal and we have.

use super::joined::Input;
use crate::agents::driven::Writer;
use crate::agents::driven::process::{OWN_SESSION, WITH_PARENT};
use crate::agents::lines::{LONGEST, Line, next_line};
use crate::processes::Process;
use crate::random::random_hex;
use crate::tcp_peer::{self, require_descendant};
use anyhow::Context;
use aye_core::digest::sha256_hex;
use futures_util::{FutureExt, SinkExt, StreamExt};
use hyper::header::{AUTHORIZATION, HeaderValue};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufRead, BufReader};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// In the terminal's environment: the token for its server.
const VARIABLE: &str = "AYE_CODEX_TOKEN";
const LONGEST_START: Duration = Duration::from_secs(30);
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(10);
const BETWEEN_TRIES: Duration = Duration::from_millis(500);
const LONGEST_GOODBYE: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// Before this, the server names its address.
const LISTENING: &str = "listening on: ws://";
const LONGEST_LINE: usize = 16 * 1024;

#[derive(Clone)]
pub struct Address {
    address: String,
    token: String,
}

pub struct Server {
    pub address: Address,
    process: Process,
    _errors: JoinSet<()>,
}

impl Server {
    /// Starts it with these arguments, and waits until it listens.
    pub async fn start(program: &Path, arguments: &[OsString]) -> anyhow::Result<Self> {
        let token = random_hex::<32>()?;
        let ourselves = std::env::current_exe().context("cannot find this program itself")?;
        let mut command = Command::new(ourselves);
        command.args([OWN_SESSION, WITH_PARENT, "--"]).arg(program).arg("app-server").args(arguments);
        command.args(["--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token"]);
        command.args(["--ws-token-sha256", &sha256_hex(token.as_bytes())]).env_remove("AYE_TOKEN");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let process = Process::now(child.id());
        let errors = child.stderr.take().context("its output cannot be read")?;
        let errors = pipe::Receiver::from_owned_fd(errors.into())?;
        let mut errors = BufReader::new(errors);
        let address = timeout(LONGEST_START, listening(&mut errors)).await;
        let address = address.context("its server does not say where it listens")??;
        let mut reading = JoinSet::new();
        // A pipe that nobody reads would hold it up.
        reading.spawn(
            async move { while let Ok(Some(_)) = next_line(&mut errors, LONGEST_LINE).await {} }.boxed(),
        );
        Ok(Self { address: Address { address, token }, process, _errors: reading })
    }

    /// What makes a terminal use it.
    pub fn serve(&self, terminal: &mut Command) {
        terminal.args(["--remote", &format!("ws://{}", self.address.address)]);
        terminal.args(["--remote-auth-token-env", VARIABLE]).env(VARIABLE, &self.address.token);
    }

    pub async fn end(self) {
        let Some(pid) = i32::try_from(self.process.pid).ok().and_then(Pid::from_raw) else { return };
        let gone = async {
            while self.process.is_alive() && matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)) {
                sleep(BETWEEN_LOOKS).await;
            }
        };
        // It ends with us in any case.
        if self.process.is_alive() && kill_process(pid, Signal::TERM).is_ok() {
            drop(timeout(LONGEST_GOODBYE, gone).await);
        }
    }
}

async fn listening(errors: &mut (impl AsyncBufRead + Unpin)) -> anyhow::Result<String> {
    let mut last = String::new();
    while let Some(Line::Whole(line)) = next_line(errors, LONGEST_LINE).await? {
        let line = String::from_utf8_lossy(&line).into_owned();
        if let Some((_, address)) = line.split_once(LISTENING) {
            return Ok(address.trim().to_owned());
        }
        last = line;
    }
    anyhow::bail!("its server ended: {}", aye_core::visible::one_line(&last))
}

/// A line for the server, and where to say whether it was written.
type Outgoing = (String, oneshot::Sender<io::Result<()>>);

/// The way to the server.
pub struct ToServer(mpsc::Sender<Outgoing>);

impl Writer<String> for ToServer {
    async fn write(&mut self, message: String) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.send((message, done)).await.map_err(|_| gone())?;
        written.await.map_err(|_| gone())?
    }
}

impl Address {
    /// Another client of the server, for as long as anybody wants to know what it says.
    pub fn join(self, inputs: mpsc::Sender<Input>, tasks: &mut JoinSet<()>) -> ToServer {
        let (outgoing, messages) = mpsc::channel(1);
        tasks.spawn(self.stay(inputs, messages).boxed());
        ToServer(outgoing)
    }

    async fn stay(self, inputs: mpsc::Sender<Input>, mut messages: mpsc::Receiver<Outgoing>) {
        while !inputs.is_closed() {
            match timeout(LONGEST_HANDSHAKE, self.connect()).await {
                Ok(Ok(socket)) => converse(socket, &inputs, &mut messages).await,
                Ok(Err(error)) => tracing::debug!(%error, "Codex's server cannot be reached"),
                Err(_) => tracing::debug!("Codex's server does not answer"),
            }
            // Written to nobody: whoever waits for it must know.
            while let Ok((_, done)) = messages.try_recv() {
                drop(done.send(Err(io::Error::from(io::ErrorKind::NotConnected))));
            }
            sleep(BETWEEN_TRIES).await;
        }
    }

    async fn connect(&self) -> anyhow::Result<WebSocketStream<TcpStream>> {
        let stream = TcpStream::connect(&self.address).await?;
        // Once the server has ended, anybody may listen there.
        if tcp_peer::IS_KNOWN {
            require_descendant(&stream).await?;
        }
        let mut request = format!("ws://{}/", self.address).into_client_request()?;
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.token))?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let longest =
            WebSocketConfig::default().max_message_size(Some(LONGEST)).max_frame_size(Some(LONGEST));
        Ok(client_async_with_config(request, stream, Some(longest)).await?.0)
    }
}

async fn converse(
    mut socket: WebSocketStream<TcpStream>,
    inputs: &mpsc::Sender<Input>,
    messages: &mut mpsc::Receiver<Outgoing>,
) {
    if inputs.send(Input::Connected).await.is_err() {
        return;
    }
    loop {
        tokio::select! {
            heard = socket.next() => match heard {
                Some(Ok(Message::Text(text))) => {
                    let line = Line::Whole(text.as_bytes().to_vec());
                    if inputs.send(Input::Said(line)).await.is_err() {
                        return;
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            Some((line, done)) = messages.recv() => {
                let sent = socket.send(Message::text(line)).await.map_err(io::Error::other);
                let failed = sent.is_err();
                drop(done.send(sent));
                if failed {
                    return;
                }
            }
            () = inputs.closed() => return,
        }
    }
}
