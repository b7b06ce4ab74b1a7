//! HTML that an agent offers as a preview, shown in a frame of its own. The frame can show no secret to get
//! it, so it is fetched by an address that works once and soon; and it is served so that it can do nothing.

use super::super::App;
use super::super::json::{Body, Failure, PathId, Reply};
use crate::hub::NO_RANDOMNESS;
use crate::random::random_hex;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use aye_core::AskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const LASTS: Duration = Duration::from_secs(60);
const MOST: usize = 256;
/// No script, no request to anywhere, no form, no window, no origin; only what it looks like is its own.
const FRAME_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
     frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

/// Previews that were asked for and not fetched yet. Only where they are found is kept: their text may be megabytes long.
#[derive(Default)]
pub struct Previews {
    waiting: Mutex<HashMap<String, (Instant, Place)>>,
}

/// An ask, and the numbers of its question and option.
type Place = (AskId, [usize; 2]);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// The number of the question, from 0.
    question: usize,
    /// The number of its option, from 0.
    option: usize,
}

#[derive(Serialize, JsonSchema)]
pub struct Address {
    /// Where it can be fetched, once and soon.
    path: String,
}

pub async fn make(
    State(app): State<App>,
    PathId(id): PathId<AskId>,
    Body(which): Body<Which>,
) -> Result<Reply<Address>, Failure> {
    find(&app, &id, &which).await?;
    let place = [which.question, which.option];
    let ticket = random_hex::<32>().map_err(|_| Failure::from(NO_RANDOMNESS))?;
    let path = format!("/preview/{ticket}");
    match app.hub.is_one_of_several() {
        true => app.hub.keep_preview(&ticket, &id, place).await?,
        false => app.previews.put(ticket, (id, place), Instant::now()),
    }
    Ok(Reply(StatusCode::CREATED, Address { path }))
}

async fn find(app: &App, id: &AskId, which: &Which) -> Result<String, Failure> {
    let aye_core::Body::Question(body) = app.hub.ask(id).await?.body else { return Err(nothing()) };
    let question = body.questions.into_iter().nth(which.question).ok_or_else(nothing)?;
    let offer = question.options.into_iter().nth(which.option).ok_or_else(nothing)?;
    offer.preview.ok_or_else(nothing)
}

pub async fn show(State(app): State<App>, PathId(ticket): PathId<String>) -> Result<Response, Failure> {
    // Any of several hubs may have been asked for it.
    let place = match app.hub.is_one_of_several() {
        true => app.hub.take_preview(&ticket).await?,
        false => app.previews.take(&ticket, Instant::now()),
    };
    let (id, [question, option]) = place.ok_or_else(nothing)?;
    let html = find(&app, &id, &Which { question, option }).await?;
    let page = format!("<!doctype html><meta charset=\"utf-8\"><title>Preview</title>{html}");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(FRAME_POLICY)),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN")),
    ];
    Ok((headers, page).into_response())
}

fn nothing() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "there is no such preview; each is shown once")
}

impl Previews {
    fn put(&self, ticket: String, place: Place, now: Instant) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, (since, _)| now.duration_since(*since) < LASTS);
        if waiting.len() >= MOST
            && let Some(oldest) =
                waiting.iter().min_by_key(|(_, (since, _))| *since).map(|(it, _)| it.clone())
        {
            waiting.remove(&oldest);
        }
        waiting.insert(ticket, (now, place));
    }

    fn take(&self, ticket: &str, now: Instant) -> Option<Place> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, place) = waiting.remove(ticket)?;
        (now.duration_since(since) < LASTS).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_shown_once_and_soon_and_few_wait() {
        let (previews, now) = (Previews::default(), Instant::now());
        let place = || (AskId::from_random(1), [0, 1]);
        previews.put("a".into(), place(), now);
        assert_eq!(previews.take("a", now), Some(place()));
        assert_eq!(previews.take("a", now), None);
        previews.put("late".into(), place(), now);
        assert_eq!(previews.take("late", now + LASTS), None);
        for i in 0..2 * MOST {
            previews.put(i.to_string(), place(), now);
        }
        assert_eq!(previews.waiting.lock().unwrap().len(), MOST);
    }
}
