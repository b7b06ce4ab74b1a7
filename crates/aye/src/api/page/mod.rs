//! What is not an API call: health, the page, and the headers every response carries.

mod files;
pub mod previews;

use super::App;
use super::json::{Failure, PathId, Reply, ok};
use crate::hub::DatabaseRefused;
use crate::protocol::{Failed, Health, Reason};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};

/// What people read who have no token yet: nothing about where the database is, or why it is away.
const AWAY: &str =
    "The hub cannot reach its database. Nothing that was recorded is lost, and it goes on by itself.";

const BEHIND: &str = "The database is not as this hub left it, so the hub neither reads nor writes: an older state was put \
                      back. Whoever operates it can look with `aye verify`.";

const OUTDATED: &str = "A newer version of aye has changed the database, and this hub is too old to use it. Whoever operates \
                        it can replace the program and restart the hub.";

/// Anything but 200 has a load balancer send its requests to another hub.
pub async fn health(State(app): State<App>) -> Result<Reply<Health>, Failure> {
    let (reason, words) = match (app.hub.away(), app.hub.database_refused()) {
        (None, None) => {
            return Ok(ok(Health { status: "ok".into(), version: env!("CARGO_PKG_VERSION").into() }));
        }
        (Some(_), _) => (Reason::DatabaseAway, AWAY),
        (None, Some(DatabaseRefused::IsBehind)) => (Reason::DatabaseBehind, BEHIND),
        (None, Some(DatabaseRefused::NeedsNewerHub)) => (Reason::DatabaseBehind, OUTDATED),
    };
    let why = Failed { reason: Some(reason), ..Failed::new(words) };
    Err(Failure { status: StatusCode::SERVICE_UNAVAILABLE, why })
}

pub async fn index(headers: HeaderMap) -> Result<Response, Failure> {
    files::file("index.html", &headers).ok_or_else(nothing_here)
}

pub async fn asset(PathId(name): PathId<String>, headers: HeaderMap) -> Result<Response, Failure> {
    files::file(&format!("assets/{name}"), &headers).ok_or_else(nothing_here)
}

/// A person who came by an old link reads a page; a program reads what every failure looks like.
pub async fn not_found(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if method != Method::GET || uri.path().starts_with("/api/") || !accepts.contains("text/html") {
        return nothing_here().into_response();
    }
    // The page is a constant, so the styles in it are ours.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    let policy = [(header::CONTENT_SECURITY_POLICY, policy)];
    (StatusCode::NOT_FOUND, policy, Html(include_str!("missing.html"))).into_response()
}

fn nothing_here() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "there is nothing here; /api/openapi.json lists what there is")
}

pub async fn wrong_method() -> Failure {
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "this call goes by another method; see /api/openapi.json")
}

/// A browser may load nothing from elsewhere, show us in no frame, and keep nothing, except where a
/// response says otherwise of itself.
pub async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 5] = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
