//! The hub's HTTP and WebSocket interface, and who may use which part of it.

mod agents;
mod asks;
mod attempts;
mod caller;
mod compat;
mod grants;
mod guard;
mod history;
mod json;
mod listeners;
mod metrics;
mod page;
mod passkeys;
mod policy;
mod replies;
mod serve;
mod sessions;
mod snapshots;
mod socket;
mod table;
mod tokens;
mod ws;

pub use guard::AllowedHosts;
pub use listeners::{Listeners, addresses};
pub use serve::serve;

use crate::hub::Hub;
use attempts::Attempts;
use axum::Router;
use axum::middleware;
use snapshots::Snapshots;
use std::sync::Arc;
use table::{Needs, Table};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What every handler may use.
#[derive(Clone)]
pub struct App {
    pub hub: Hub,
    pub hosts: Arc<AllowedHosts>,
    /// Where a browser finds us; sign-in links begin with it, and cookies are made for it.
    pub url: Arc<str>,
    attempts: Arc<Attempts>,
    snapshots: Arc<Snapshots>,
    previews: Arc<page::previews::Previews>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl App {
    pub fn new(
        hub: Hub,
        hosts: AllowedHosts,
        url: String,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        let (attempts, snapshots, previews) = Default::default();
        Self { hub, hosts: Arc::new(hosts), url: url.into(), attempts, snapshots, previews, stop, tasks }
    }

    /// A link that signs one browser in, and lets it add the first passkey.
    pub async fn first_passkey_link(&self) -> Result<String, crate::hub::Problem> {
        Ok(format!("{}/sign-in#{}", self.url, self.hub.first_passkey_code().await?))
    }

    pub fn sign_in_link(&self) -> Result<String, crate::hub::Problem> {
        Ok(format!("{}/sign-in#{}", self.url, self.hub.sign_in_code()?))
    }
}

/// Every call there is, with who may make it: the router and its description come from this one table.
fn table(app: &App) -> Table {
    use aye_core::Role::{Agent, Operator, Viewer};
    let mut t = Table::new(app.clone());
    t.get("/api/health", Needs::Nothing, page::health, "Whether the hub is there").gives::<page::Health>();
    t.get("/api/openapi.json", Viewer, table::openapi, "This description");
    t.get("/api/me", Needs::AnyToken, tokens::me, "Who the token in use belongs to").gives::<tokens::Me>();

    t.get("/api/asks", Viewer, asks::list, "Asks; open ones oldest first").gives::<asks::Asks>();
    t.get(
        "/api/history",
        Viewer,
        history::export,
        "All asks that a filter finds, as a file: format=json or csv",
    );
    t.get("/api/asks/{id}", Viewer, asks::get, "One ask").gives::<aye_core::AskView>();
    t.post(
        "/api/asks/{id}/answer",
        Operator,
        asks::answer,
        "Answer an ask; 409 when it has already ended, 410 when it expired, 412 when another one was shown",
    )
    .takes::<asks::AnswerBody>()
    .gives::<aye_core::AskView>();
    t.get("/api/alarms", Viewer, asks::alarms, "Disputed answers that nobody has marked as seen")
        .gives::<asks::Asks>();
    t.post("/api/asks/{id}/seen", Operator, asks::mark_seen, "Mark a disputed answer as seen");
    t.post("/api/asks", Agent, asks::raise, "Raise an ask; the same key again returns the same ask")
        .takes::<asks::RaiseBody>()
        .gives::<aye_core::AskView>();
    t.get(
        "/api/asks/{id}/resolution",
        Agent,
        asks::resolution,
        "Wait for an ask's end; 204 when the wait ends first",
    )
    .gives::<crate::hub::Resolution>();
    t.post("/api/asks/{id}/receipt", Agent, asks::receipt, "Report what became of an outcome")
        .takes::<asks::ReceiptBody>()
        .gives::<aye_core::AskView>();
    t.post("/api/asks/{id}/late", Agent, asks::late, "Record a call that ran before its record was on disk")
        .takes::<asks::LateBody>()
        .gives::<asks::RaisedAsk>();
    t.post("/api/asks/{id}/withdraw", Agent, asks::withdraw, "Take an ask back")
        .takes::<asks::WithdrawBody>()
        .gives::<aye_core::AskView>();

    t.get("/api/agents", Viewer, agents::list, "Agents; with all=true, ended ones too")
        .gives::<agents::Agents>();
    t.post("/api/agents", Operator, agents::start, "Start a driven run, and wait until it is there")
        .takes::<crate::hub::NewRun>()
        .gives::<aye_core::Agent>();
    t.get("/api/projects", Viewer, agents::projects, "What runs can be started with")
        .gives::<crate::hub::Projects>();
    t.get("/api/agents/{id}", Viewer, agents::get, "One agent, by our id or its own session id")
        .gives::<aye_core::Agent>();
    t.put("/api/agents/{id}", Agent, agents::register, "Register an agent or report its state")
        .takes::<crate::hub::Registration>()
        .gives::<aye_core::Agent>();
    t.get("/api/agents/{id}/events", Viewer, agents::events, "The conversation, oldest first")
        .gives::<agents::Events>();
    t.post("/api/agents/{id}/events", Agent, agents::report_events, "Report the conversation as it goes")
        .takes::<agents::NewEvents>()
        .gives::<agents::Reported>();
    t.get("/api/agents/{id}/commands", Agent, agents::commands, "Wait for prompts, interrupts and stops")
        .gives::<agents::Commands>();
    t.post(
        "/api/agents/{id}/token",
        Needs::SameUser,
        tokens::hand_out,
        "The agent's own token, for a process of the same user on the Unix socket",
    )
    .gives::<tokens::Token>();
    t.post("/api/agents/{id}/prompt", Operator, agents::prompt, "Send the agent a prompt")
        .takes::<agents::Prompt>()
        .gives::<agents::Queued>();
    t.post("/api/agents/{id}/interrupt", Operator, agents::interrupt, "Interrupt the agent's turn")
        .gives::<agents::Queued>();
    t.post("/api/agents/{id}/stop", Operator, agents::stop, "End the agent's run").gives::<agents::Queued>();
    t.put("/api/agents/{id}/title", Operator, agents::rename, "Name the agent")
        .takes::<agents::Title>()
        .gives::<aye_core::Agent>();
    t.get("/api/agents/{id}/pending-questions", Viewer, compat::pending, "The questions an agent waits for")
        .gives::<compat::Pending>();
    t.post(
        "/api/agents/{id}/answer-question",
        Operator,
        compat::answer,
        "Answer a pending question by its tool call",
    )
    .takes::<compat::AnswerQuestion>()
    .gives::<compat::Success>();

    t.get("/api/tokens", Operator, tokens::list, "All tokens, without their secrets")
        .gives::<tokens::Tokens>();
    t.post("/api/tokens", Operator, tokens::create, "Make a token")
        .takes::<tokens::NewToken>()
        .gives::<tokens::Token>();
    t.delete("/api/tokens/{id}", Operator, tokens::revoke, "Revoke a token and close what it opened");
    t.put("/api/tokens/{id}/label", Operator, tokens::label, "Name the browser that a token belongs to")
        .takes::<tokens::Label>();
    t.post("/api/sign-in-links", Operator, tokens::link, "A link that signs one browser in, once")
        .gives::<tokens::Link>();

    t.get("/api/grants", Viewer, grants::list, "What people allowed for longer than once")
        .gives::<grants::Grants>();
    t.delete("/api/grants/{id}", Operator, grants::revoke, "Revoke a grant");
    t.post(
        "/api/agents/{id}/plan-approval",
        Operator,
        agents::approve_plan,
        "Approve or deny the plan that was refused for an outline",
    )
    .takes::<agents::ApprovePlan>()
    .gives::<aye_core::Agent>();

    t.get("/api/passkeys", Viewer, passkeys::list, "The passkeys that can allow").gives::<passkeys::List>();
    t.post("/api/passkeys", Operator, passkeys::add, "Add a passkey, by the signature of one that is there")
        .takes::<passkeys::NewPasskey>()
        .gives::<crate::hub::PasskeyInfo>();
    t.post(
        "/api/passkeys/link",
        Operator,
        passkeys::link,
        "A link that lets one browser add the first passkey; only over the Unix socket",
    )
    .gives::<tokens::Link>();
    t.post(
        "/api/passkeys/challenge",
        Operator,
        passkeys::challenge,
        "What a passkey has to sign, once and soon",
    )
    .takes::<passkeys::Wanted>()
    .gives::<crate::hub::Challenge>();
    t.post(
        "/api/passkeys/{id}/remove",
        Operator,
        passkeys::remove,
        "Remove a passkey, by the signature of one that is there",
    )
    .takes::<passkeys::Removal>();

    t.get("/api/policy", Viewer, policy::view, "The policy in force, and what it decided")
        .gives::<policy::PolicyView>();
    t.post(
        "/api/asks/{id}/preview",
        Viewer,
        page::previews::make,
        "An address, good for one fetch, under which an option's HTML preview can be framed",
    )
    .takes::<page::previews::Which>()
    .gives::<page::previews::Address>();

    t.get("/metrics", Viewer, metrics::metrics, "Figures, in the text format of Prometheus");
    t.get("/api/ws", Viewer, ws::upgrade, "WebSocket: a snapshot, then numbered changes; after=N catches up");
    t.post(
        "/api/sign-in",
        Needs::Nothing,
        sessions::sign_in,
        "Trade a one-time code for a browser's session",
    )
    .takes::<sessions::NewSession>();
    t.post(
        "/api/session/challenge",
        Needs::Cookie,
        sessions::challenge,
        "Something for the page to sign, once and within a minute",
    )
    .gives::<sessions::Challenge>();
    t.post(
        "/api/session/token",
        Needs::Cookie,
        sessions::token,
        "Trade a signed challenge for the token that a browser's calls need beside their cookie",
    )
    .takes::<sessions::Signed>()
    .gives::<sessions::PageToken>();
    t.get("/sign-in", Needs::Nothing, page::index, "The page, which signs in with what stands behind the #");
    t.get("/", Needs::Nothing, page::index, "The page");
    t.get(
        "/preview/{ticket}",
        Needs::Nothing,
        page::previews::show,
        "A preview, once, in a frame without rights",
    );
    t.get("/assets/{name}", Needs::Nothing, page::asset, "The page's script, style and pictures");
    t
}

pub fn router(app: App) -> Router {
    let (router, description) = table(&app).finish();
    router
        .layer(axum::Extension(Arc::new(description)))
        .fallback(page::not_found)
        .method_not_allowed_fallback(page::wrong_method)
        .layer(middleware::from_fn_with_state(app, guard::guard))
        // Outermost, so that refusals carry the headers too.
        .layer(middleware::map_response(page::harden))
}

#[cfg(test)]
mod tests;
