//! Passkeys: who has one, adding and removing them, and the challenges that they sign.

use super::App;
use super::caller::Caller;
use super::json::{Body, Failure, LARGE, PathId, Reply, ok};
use crate::hub::{Challenge, NewRun};
use crate::protocol::{Link, PasskeyInfo, Passkeys, RemovePasskey};
use crate::webauthn::{Assertion, PasskeyRegistration, Purpose, Site};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use aye_core::{AgentId, AskId, Digest, Invalid, Text};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Reply<Passkeys>, Failure> {
    let may_add_first = app.hub.may_add_first_passkey(&caller.credential.id).await?;
    let (passkeys, needed) = (app.hub.passkeys().await?, app.hub.policy().asks_for_proof());
    Ok(ok(Passkeys { passkeys, needed, may_add_first }))
}

/// A token that was stolen is no use for this: it takes a process of the owner's on this machine.
pub async fn link(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Reply<Link>, Failure> {
    match caller.is_same_user() {
        true => Ok(Reply(StatusCode::CREATED, Link { url: app.first_passkey_link().await? })),
        false => Err(Failure::new(
            StatusCode::FORBIDDEN,
            "this link is given only over the Unix socket: run `aye passkey add` where the hub runs",
        )),
    }
}

/// What is to be signed for.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "purpose", rename_all = "snake_case", deny_unknown_fields)]
pub enum ChallengePurpose {
    /// A new passkey is to be made.
    Register,
    Allow {
        ask: AskId,
        digest: Digest,
        #[schemars(with = "aye_core::Answer")]
        answer: Value,
    },
    ApprovePlan {
        agent: AgentId,
        digest: Digest,
    },
    StartRun {
        run: NewRun,
    },
    AddPasskey {
        registration: PasskeyRegistration,
        name: Text,
    },
    RemovePasskey {
        passkey: String,
    },
}

pub async fn challenge(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(wanted): Body<ChallengePurpose, LARGE>,
) -> Result<Reply<Challenge>, Failure> {
    let site = site(&app, &headers)?;
    let (purpose, subject) = match wanted {
        ChallengePurpose::Register => (Purpose::Register, json!({})),
        ChallengePurpose::Allow { ask, digest, answer } => {
            app.hub.subject_of_allow(&ask, &digest, answer).await?
        }
        ChallengePurpose::ApprovePlan { agent, digest } => app.hub.subject_of_approval(&agent, &digest),
        ChallengePurpose::StartRun { run } => app.hub.subject_of_run(&run),
        ChallengePurpose::AddPasskey { registration, name } => {
            app.hub.subject_of_addition(&registration, &name)?
        }
        ChallengePurpose::RemovePasskey { passkey } => {
            (Purpose::RemovePasskey, json!({ "passkey": passkey }))
        }
    };
    let challenge = app.hub.challenge(purpose, &subject, &site, &caller.credential.id).await?;
    Ok(Reply(StatusCode::CREATED, challenge))
}

/// The page that asks. A program that is no page gets what links lead to.
fn site(app: &App, headers: &HeaderMap) -> Result<Site, Failure> {
    let pages = app.hub.pages();
    let found = match headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()) {
        Some(origin) => pages.site(origin),
        None => pages.first(),
    };
    found.cloned().ok_or_else(|| {
        let page = pages.first().map_or("http://localhost", |site| &site.origin);
        let why = format!("A passkey belongs to a name, not to an address: open the page at {page}");
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, why)
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPasskey {
    /// What people call it: the phone, the laptop, the key on the ring.
    name: Text,
    registration: PasskeyRegistration,
    /// By a passkey that is there; only the first needs none.
    assertion: Option<Assertion>,
}

pub async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<NewPasskey>,
) -> Result<Reply<PasskeyInfo>, Failure> {
    const LONGEST_NAME: usize = 64;
    if new.name.as_str().chars().count() > LONGEST_NAME {
        return Err(Invalid::new("name", format!("may have at most {LONGEST_NAME} characters")).into());
    }
    let by = (caller.credential.id.clone(), caller.who());
    let added = app.hub.add_passkey((new.registration, new.name), new.assertion, by).await?;
    Ok(Reply(StatusCode::CREATED, added))
}

pub async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<String>,
    Body(removal): Body<RemovePasskey>,
) -> Result<StatusCode, Failure> {
    app.hub.remove_passkey(id, removal.assertion, caller.who()).await?;
    Ok(StatusCode::NO_CONTENT)
}
