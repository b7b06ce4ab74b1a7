//! A browser's session: begun with a code from a sign-in link, and continued by signing challenges.

use super::App;
use super::caller::{CookieOnly, SESSION_COOKIE};
use super::json::{Body, Failure, Reply, ok};
use crate::es256::PublicKey;
use crate::hub::{SESSION_LASTS, SessionError, SignIn, SignInError};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use aye_core::Invalid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// From behind the # of a sign-in link, which browsers send to no server by themselves.
    code: String,
    /// The page's P-256 key, as an uncompressed point in hexadecimal digits.
    public_key: String,
}

pub async fn sign_in(
    State(app): State<App>,
    headers: HeaderMap,
    Body(new): Body<NewSession>,
) -> Result<Response, Failure> {
    // Checked against our own names already, where it is there.
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let origin = origin.ok_or_else(|| Failure::new(StatusCode::FORBIDDEN, "only a page can sign in"))?;
    let key = unhex(&new.public_key).and_then(PublicKey::from_point);
    let key =
        key.ok_or_else(|| Invalid::new("public_key", "must be an uncompressed point on P-256, in hex"))?;
    let sign_in = SignIn { code: new.code, key, origin: origin.to_owned() };
    let token = app.hub.sign_in(sign_in).await.map_err(|error| match error {
        SignInError::NotValid => Failure::new(StatusCode::GONE, error.to_string()),
        SignInError::Problem(problem) => problem.into(),
    })?;
    let secure = if origin.starts_with("https://") { "; Secure" } else { "" };
    let seconds = SESSION_LASTS.as_secs();
    let cookie =
        format!("{SESSION_COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    Ok((StatusCode::CREATED, [(header::SET_COOKIE, cookie)]).into_response())
}

#[derive(Serialize, JsonSchema)]
pub struct Challenge {
    challenge: String,
}

pub async fn challenge(
    State(app): State<App>,
    Extension(CookieOnly(session)): Extension<CookieOnly>,
) -> Result<Reply<Challenge>, Failure> {
    Ok(ok(Challenge { challenge: app.hub.session_challenge(&session)? }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    challenge: String,
    /// ES256 over `aye page token`, the page's origin and the challenge, a line each; in hexadecimal digits.
    signature: String,
}

#[derive(Serialize, JsonSchema)]
pub struct PageToken {
    /// Goes beside the cookie, in the header Aye-Page.
    token: String,
    /// Seconds until it ends.
    lasts: i64,
}

pub async fn token(
    State(app): State<App>,
    Extension(CookieOnly(session)): Extension<CookieOnly>,
    Body(signed): Body<Signed>,
) -> Result<Reply<PageToken>, Failure> {
    let signature = unhex(&signed.signature).unwrap_or_default();
    match app.hub.session_token(&session, &signed.challenge, &signature).await {
        Ok((token, lasts)) => Ok(ok(PageToken { token, lasts: lasts.as_secs() })),
        Err(SessionError::Problem(problem)) => Err(problem.into()),
        // A page can ask for another challenge, but it cannot change its key.
        Err(error @ SessionError::Challenge) => Err(Failure::new(StatusCode::CONFLICT, error.to_string())),
        Err(error @ SessionError::Signature) => {
            Err(Failure::new(StatusCode::UNAUTHORIZED, error.to_string()))
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}
