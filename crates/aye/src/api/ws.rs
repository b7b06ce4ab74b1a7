//! The WebSocket: a snapshot, then every change in order, each exactly once. A client that cannot keep up is sent what
//! it missed from the store, and dropped when it does not read at all.

use super::App;
use super::caller::Caller;
use super::changes::JoinedPieces;
use super::json::{Failure, Params};
use super::limits::Connection as Counted;
use super::socket::{Gone, Handshake, Socket};
use super::{changes, compat};
use crate::hub::{AnswerCall, Followed, Follower};
use crate::protocol::{AnswerFrame, ClientFrame, FollowQuery, ResponseFrame, ResultTag, SentResult};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use aye_core::{Ask, Invalid};
use futures_util::FutureExt;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

const PING_EVERY: Duration = Duration::from_secs(20);
/// A client that says nothing for this long, not even to a ping, is gone.
const DEAD_AFTER: Duration = Duration::from_secs(60);
/// The first change goes out at once; what comes within this time of it goes out together. A person
/// does not notice, and many clients cost one write for many changes.
const PACE: Duration = Duration::from_millis(25);

pub async fn upgrade(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(params): Params<FollowQuery>,
    request: Request,
) -> Result<Response, Failure> {
    let mut parts = request.into_parts().0;
    let handshake = Handshake::read(&mut parts)?;
    let counted = parts.extensions.remove::<Arc<Counted>>();
    if let Some(Err(full)) = counted.as_ref().map(|it| it.becomes_socket(&caller.credential)) {
        return Ok(full.into_response());
    }
    let reply = handshake.reply();
    let tasks = app.tasks.clone();
    tasks.spawn(
        async move {
            // The server is done with the connection once it is upgraded; its slot is not free before the socket ends.
            let _counted = counted;
            if let Some(socket) = handshake.socket().await {
                let _attending = app.hub.attend(caller.credential.role);
                let page_until = caller.page_until;
                Connection { app, caller, socket, page_until }.run(params.after).await;
            }
        }
        .boxed(),
    );
    Ok(reply)
}

struct Connection {
    app: App,
    caller: Caller,
    socket: Socket,
    /// Until when a page may follow without showing a new token.
    page_until: Option<Instant>,
}

/// Why a connection ends; the client is told where that is still possible.
enum CloseReason {
    Gone,
    Revoked,
    PageExpired,
    Stopping,
    Failed,
}

impl From<Gone> for CloseReason {
    fn from(_: Gone) -> Self {
        CloseReason::Gone
    }
}

impl Connection {
    async fn run(mut self, after: Option<u64>) {
        let revoked = self.caller.credential.revoked.clone();
        // Over everything, so that a client that takes nothing does not put it off.
        let end = tokio::select! {
            biased;
            () = revoked.cancelled() => CloseReason::Revoked,
            end = self.follow(after) => match end {
                Ok(end) | Err(end) => end,
            },
        };
        let (code, reason) = match end {
            CloseReason::Gone => return,
            CloseReason::Revoked => (CloseCode::Policy, "the token was revoked"),
            CloseReason::PageExpired => (CloseCode::Policy, "the page showed no new token in time"),
            CloseReason::Stopping => (CloseCode::Away, "the hub is stopping"),
            CloseReason::Failed => (CloseCode::Error, "the hub could not read its store"),
        };
        self.socket.close(code, reason).await;
    }

    async fn follow(&mut self, after: Option<u64>) -> Result<CloseReason, CloseReason> {
        // Subscribed before the snapshot is read, so that no change falls between the two.
        let mut changes = self.app.hub.follow();
        match after {
            Some(after) => changes.go_on_after(after),
            None => self.send_snapshot(&mut changes).await?,
        }
        let stop = self.app.stop.clone();
        let mut heard = Instant::now();
        let mut ping = interval(PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.reset();
        let (rest, mut resting) = (sleep_until(heard), false);
        tokio::pin!(rest);
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.page_until.unwrap_or(heard)), if self.page_until.is_some() => return Ok(CloseReason::PageExpired),
                () = stop.cancelled() => return Ok(CloseReason::Stopping),
                () = &mut rest, if resting => resting = false,
                followed = changes.next(), if !resting => {
                    self.pass_on(followed.map_err(|_| CloseReason::Failed)?, &mut changes).await?;
                    rest.as_mut().reset(Instant::now() + PACE);
                    resting = true;
                }
                frame = self.socket.recv() => {
                    heard = Instant::now();
                    match frame {
                        Some(Message::Text(text)) => self.take(text.as_str()).await?,
                        Some(Message::Binary(_)) => self.send_result(None, Err(Failure::new(StatusCode::BAD_REQUEST, "send text"))).await?,
                        Some(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                        Some(Message::Close(_)) | None => return Ok(CloseReason::Gone),
                    }
                }
                _ = ping.tick() => {
                    if heard.elapsed() > DEAD_AFTER {
                        return Ok(CloseReason::Gone);
                    }
                    self.socket.ping().await?;
                }
            }
        }
    }

    /// Sends this change, and all that are there by then.
    async fn pass_on(&mut self, first: Followed, changes: &mut Follower) -> Result<(), CloseReason> {
        let mut next = Some(first);
        let mut pieces: Option<JoinedPieces> = None;
        while let Some(followed) = next {
            self.may_go_on()?;
            if let Followed::Piece(piece) = &followed {
                if !pieces.as_mut().is_some_and(|pieces| pieces.join(piece)) {
                    self.queue_pieces(pieces.replace(JoinedPieces::begin(piece))).await?;
                }
            } else {
                self.queue_pieces(pieces.take()).await?;
            }
            match followed {
                Followed::Change(change) => {
                    self.socket.queue(changes::text(&change).ok_or(CloseReason::Failed)?).await?;
                }
                Followed::Lost => self.send_snapshot(changes).await?,
                Followed::Piece(_) => {}
            }
            // However fast changes come and are read, other connections get their turn.
            tokio::task::coop::consume_budget().await;
            next = changes.next_if_any().await.map_err(|_| CloseReason::Failed)?;
        }
        self.queue_pieces(pieces).await?;
        Ok(self.socket.flush().await?)
    }

    async fn queue_pieces(&mut self, pieces: Option<JoinedPieces>) -> Result<(), CloseReason> {
        match pieces {
            Some(pieces) => Ok(self.socket.queue(pieces.text()).await?),
            None => Ok(()),
        }
    }

    /// However much there is to send, a token that was revoked gets no more of it.
    fn may_go_on(&self) -> Result<(), CloseReason> {
        if self.caller.credential.revoked.is_cancelled() {
            return Err(CloseReason::Revoked);
        }
        if self.page_until.is_some_and(|until| until <= Instant::now()) {
            return Err(CloseReason::PageExpired);
        }
        if self.app.stop.is_cancelled() { Err(CloseReason::Stopping) } else { Ok(()) }
    }

    async fn send_snapshot(&mut self, changes: &mut Follower) -> Result<(), CloseReason> {
        let snapshot = self.app.snapshots.take(&self.app.hub).await.map_err(|_| CloseReason::Failed)?;
        changes.has_seen(snapshot.seq);
        Ok(self.socket.send(snapshot.text.clone()).await?)
    }

    /// Every frame a client sends gets a result.
    async fn take(&mut self, text: &str) -> Result<(), CloseReason> {
        let frame = match aye_core::json::parse(text.as_bytes()) {
            Ok(frame) => frame,
            Err(error) => {
                let failure = Failure::new(StatusCode::BAD_REQUEST, format!("not acceptable JSON: {error}"));
                return self.send_result(None, Err(failure)).await;
            }
        };
        // A frame that does not fit gets its result by its key, too.
        let key = frame.get("key").cloned();
        let result = match ClientFrame::decode(frame) {
            Ok(Some(ClientFrame::Token(renewal))) => self.renew(&renewal.token).map(|()| None),
            frame => carry_out(&self.app, &self.caller, frame).await.map(Some),
        };
        self.send_result(key, result).await
    }

    /// A page that shows a new token in time keeps its socket.
    fn renew(&mut self, token: &str) -> Result<(), Failure> {
        let lasts = self.app.hub.page_token_lasts(&self.caller.credential, token);
        match lasts.and_then(|lasts| Duration::try_from(lasts).ok()) {
            Some(lasts) if self.page_until.is_some() => {
                self.page_until = Some(Instant::now() + lasts);
                Ok(())
            }
            _ => Err(Failure::new(
                StatusCode::UNAUTHORIZED,
                "this token does not belong to this page's session",
            )),
        }
    }

    async fn send_result(
        &mut self,
        key: Option<Value>,
        result: Result<Option<Ask>, Failure>,
    ) -> Result<(), CloseReason> {
        let (status, ask, failed) = match result {
            Ok(ask) => (StatusCode::OK, ask, None),
            Err(Failure { status, why }) => (status, None, Some(why)),
        };
        let frame = SentResult { tag: ResultTag::Result, key, status: status.as_u16(), ask, failed };
        let frame = serde_json::to_string(&frame).map_err(|_| CloseReason::Failed)?;
        Ok(self.socket.send(frame.into()).await?)
    }
}

/// Who may not answer is told that, whatever they sent.
async fn carry_out(
    app: &App,
    caller: &Caller,
    frame: Result<Option<ClientFrame>, Invalid>,
) -> Result<Ask, Failure> {
    caller.acts_for_a_person(app).await?;
    match frame? {
        Some(ClientFrame::Answer(AnswerFrame { id, answer, digest, key, assertion })) => {
            let (by, token) = (caller.by(), Some(caller.credential.id.clone()));
            Ok(app.hub.answer(AnswerCall { ask: id, answer, digest, key, by, token, assertion }).await?)
        }
        Some(ClientFrame::AskUserResponse(frame)) => {
            let ResponseFrame { conversation_id: agent, tool_call_id: tool_call, digest, answers, key } =
                frame;
            let wanted = compat::QuestionReference { agent, tool_call, digest };
            compat::answer_by_text(app, wanted, answers, key, caller).await
        }
        // A token is shown to the connection, not to the hub.
        Some(ClientFrame::Token(_)) | None => {
            Err(Failure::new(StatusCode::BAD_REQUEST, "the type must be answer, ask_user_response or token"))
        }
    }
}
