//! Replies that take a while to be sent: they end when the token they were asked for with is revoked.

use super::App;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use futures_util::FutureExt;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A reply up to this size is sent at once.
const SHORT: u64 = 64 * 1024;
const PIECE: usize = 64 * 1024;

/// Ends the connection a request came by, with whatever is being sent on it.
#[derive(Clone, Default)]
pub struct Cut(pub CancellationToken);

pub fn end_when_revoked(
    app: &App,
    response: Response,
    (revoked, turn): (CancellationToken, Option<OwnedSemaphorePermit>),
    cut: Option<Cut>,
) -> Response {
    let short = response.body().size_hint().exact().is_some_and(|size| size <= SHORT);
    let Some(Cut(cut)) = cut.filter(|_| !short) else { return response };
    let (sent, stop) = (CancellationToken::new(), app.stop.clone());
    let whole = sent.clone();
    app.tasks.spawn(
        async move {
            tokio::select! {
                () = revoked.cancelled() => cut.cancel(),
                () = whole.cancelled() => {}
                () = stop.cancelled() => {}
            }
        }
        .boxed(),
    );
    response
        .map(|body| Body::new(InPieces { body, rest: Bytes::new(), _sent: sent.drop_guard(), _turn: turn }))
}

/// A body that is handed on piece by piece, so that it is known how long it is being sent.
struct InPieces {
    body: Body,
    rest: Bytes,
    _sent: DropGuard,
    /// Among the long calls of its token.
    _turn: Option<OwnedSemaphorePermit>,
}

impl HttpBody for InPieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let piece = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(piece);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}
