//! The WebSocket: a snapshot, then every change in order, each exactly once. A client that cannot
//! keep up is first sent to the store for what it missed, and dropped when it does not read at all.

use super::App;
use super::caller::Caller;
use super::compat;
use super::json::{Failure, ORDINARY, Params};
use crate::hub::AnswerCall;
use crate::store::{CatchUp, Change};
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use aye_core::invalid::decode;
use aye_core::{AnswerKey, Ask, AskId, Digest};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// A client that takes nothing for this long is dropped.
const SLOWEST_SEND: Duration = Duration::from_secs(10);
const PING_EVERY: Duration = Duration::from_secs(20);
/// A client that says nothing for this long, not even to a ping, is gone.
const DEAD_AFTER: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowParams {
    after: Option<u64>,
}

pub async fn upgrade(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(params): Params<FollowParams>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|error| Failure::new(error.status(), error.body_text()))?;
    // What goes out needs no limit here: one message is sent at a time, and each must be taken before the next.
    let upgrade = upgrade.max_message_size(ORDINARY).max_frame_size(ORDINARY);
    let running = app.tasks.token();
    Ok(upgrade
        .on_upgrade(move |socket| async move {
            let _running = running;
            let _attending = app.hub.attend(caller.credential.role);
            Connection { app, caller, socket, seq: 0 }.run(params.after).await;
        })
        .into_response())
}

struct Connection {
    app: App,
    caller: Caller,
    socket: WebSocket,
    /// The last change this client was sent.
    seq: u64,
}

/// Why a connection ends; the client is told where that is still possible.
enum End {
    Gone,
    Revoked,
    Stopping,
    Failed,
}

impl Connection {
    async fn run(mut self, after: Option<u64>) {
        let end = match self.follow(after).await {
            Ok(never) => never,
            Err(end) => end,
        };
        let (code, reason) = match end {
            End::Gone => return,
            End::Revoked => (close_code::POLICY, "the token was revoked"),
            End::Stopping => (close_code::AWAY, "the hub is stopping"),
            End::Failed => (close_code::ERROR, "the hub could not read its store"),
        };
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        // The client may be gone already; then there is nobody to tell.
        drop(timeout(SLOWEST_SEND, self.socket.send(Message::Close(Some(frame)))).await);
    }

    async fn follow(&mut self, after: Option<u64>) -> Result<End, End> {
        // Subscribed before the snapshot is read, so that no change falls between the two.
        let mut changes = self.app.hub.changes();
        match after {
            Some(after) => self.catch_up(after).await?,
            None => self.send_snapshot().await?,
        }
        let revoked = self.caller.credential.revoked.clone();
        let stop = self.app.stop.clone();
        let mut heard = Instant::now();
        let mut ping = interval(PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.reset();
        loop {
            tokio::select! {
                biased;
                () = revoked.cancelled() => return Ok(End::Revoked),
                () = stop.cancelled() => return Ok(End::Stopping),
                change = changes.recv() => self.pass_on(change, &mut changes).await?,
                frame = self.socket.recv() => {
                    heard = Instant::now();
                    match frame {
                        Some(Ok(Message::Text(text))) => self.take(text.as_str()).await?,
                        Some(Ok(Message::Binary(_))) => self.send_result(None, Err(Failure::new(StatusCode::BAD_REQUEST, "send text"))).await?,
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                        Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(End::Gone),
                    }
                }
                _ = ping.tick() => {
                    if heard.elapsed() > DEAD_AFTER {
                        return Ok(End::Gone);
                    }
                    self.send(Message::Ping(axum::body::Bytes::new())).await?;
                }
            }
        }
    }

    async fn pass_on(
        &mut self,
        change: Result<Change, RecvError>,
        changes: &mut Receiver<Change>,
    ) -> Result<(), End> {
        let mut next = match change {
            Ok(change) => Some(change),
            Err(RecvError::Lagged(_)) => None,
            Err(RecvError::Closed) => return Err(End::Stopping),
        };
        loop {
            match next {
                // Between the snapshot and the first change, some may come twice.
                Some(change) if change.seq <= self.seq => {}
                Some(Change { seq, text: Some(text), .. }) => {
                    self.send(Message::Text(Utf8Bytes::from(&*text))).await?;
                    self.seq = seq;
                }
                Some(Change { text: None, .. }) | None => self.catch_up(self.seq).await?,
            }
            next = match changes.try_recv() {
                Ok(change) => Some(change),
                Err(TryRecvError::Lagged(_)) => None,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(()),
            };
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        match timeout(SLOWEST_SEND, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(End::Gone),
        }
    }

    async fn send_snapshot(&mut self) -> Result<(), End> {
        let snapshot = self.app.hub.snapshot().await.map_err(|_| End::Failed)?;
        self.seq = snapshot.seq;
        let text = json!({
            "type": "snapshot",
            "seq": snapshot.seq,
            "asks": snapshot.asks,
            "agents": snapshot.agents,
            "notices": self.app.hub.notices(),
        });
        self.send(Message::Text(text.to_string().into())).await
    }

    /// Sends what was missed, or a snapshot where that is not known any more.
    async fn catch_up(&mut self, after: u64) -> Result<(), End> {
        self.seq = after;
        loop {
            match self.app.hub.catch_up(self.seq).await.map_err(|_| End::Failed)? {
                CatchUp::Unknown => return self.send_snapshot().await,
                CatchUp::Missed { changes, more } => {
                    for (seq, text) in changes {
                        self.send(Message::Text(text.into())).await?;
                        self.seq = seq;
                    }
                    if !more {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Every frame a client sends gets a result.
    async fn take(&mut self, text: &str) -> Result<(), End> {
        let frame = match aye_core::json::parse(text.as_bytes()) {
            Ok(frame) => frame,
            Err(error) => {
                let failure = Failure::new(StatusCode::BAD_REQUEST, format!("not acceptable JSON: {error}"));
                return self.send_result(None, Err(failure)).await;
            }
        };
        let key = frame.get("key").cloned();
        let result = carry_out(&self.app, &self.caller, frame).await;
        self.send_result(key, result).await
    }

    async fn send_result(&mut self, key: Option<Value>, result: Result<Ask, Failure>) -> Result<(), End> {
        let frame = match result {
            Ok(ask) => json!({ "type": "result", "key": key, "status": 200, "ask": ask }),
            Err(failure) => {
                let mut frame = json!({ "type": "result", "key": key, "status": failure.status.as_u16() });
                if let (Value::Object(frame), Value::Object(why)) = (&mut frame, failure.to_json()) {
                    frame.extend(why);
                }
                frame
            }
        };
        self.send(Message::Text(frame.to_string().into())).await
    }
}

async fn carry_out(app: &App, caller: &Caller, mut frame: Value) -> Result<Ask, Failure> {
    caller.acts_for_a_person(app).await?;
    let kind = frame.as_object_mut().and_then(|fields| fields.shift_remove("type"));
    match kind.as_ref().and_then(Value::as_str) {
        Some("answer") => {
            let frame: AnswerFrame = decode(frame)?;
            let call = AnswerCall {
                ask: frame.id,
                answer: frame.answer,
                digest: frame.digest,
                key: frame.key,
                by: caller.by(),
            };
            Ok(app.hub.answer(call).await?)
        }
        Some("ask_user_response") => {
            let frame: ResponseFrame = decode(frame)?;
            let (agent, tool) = (&frame.conversation_id, frame.tool_call_id.as_deref());
            compat::answer_by_text(app, agent, tool, frame.answers, frame.key, caller.by()).await
        }
        _ => Err(Failure::new(StatusCode::BAD_REQUEST, "the type must be answer or ask_user_response")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerFrame {
    id: AskId,
    answer: Value,
    digest: Digest,
    key: Option<AnswerKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponseFrame {
    conversation_id: String,
    tool_call_id: Option<String>,
    answers: Map<String, Value>,
    key: Option<AnswerKey>,
}
