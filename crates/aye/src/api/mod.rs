//! The hub's HTTP and WebSocket interface, and who may use which part of it.

mod agents;
mod asks;
mod attempts;
mod caller;
mod changes;
mod compat;
mod grants;
mod guard;
mod history;
mod json;
mod limits;
mod listeners;
mod mcp;
mod metrics;
mod page;
mod passkeys;
mod policy;
mod poll_again;
mod reading;
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
use crate::protocol::{
    Asks, AsksQuery, Call, ClientFrame, Frame, NewRun, PasskeyInfo, Projects, SentResult, calls,
};
use attempts::Attempts;
use axum::Router;
use axum::middleware;
use snapshots::Snapshots;
use std::ops::Deref;
use std::sync::Arc;
use table::{Needs, Table};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What every handler may use. One `Arc` for all of it, because every layer of every request clones it.
#[derive(Clone)]
pub struct App(Arc<AppParts>);

pub struct AppParts {
    pub hub: Hub,
    pub hosts: Arc<AllowedHosts>,
    /// Where a browser finds us; sign-in links begin with it, and cookies are made for it.
    pub url: Arc<str>,
    attempts: Arc<Attempts>,
    snapshots: Arc<Snapshots>,
    previews: Arc<page::previews::Previews>,
    mcp_calls: Arc<mcp::McpCalls>,
    limits: Arc<limits::ConnectionLimits>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.0
    }
}

impl App {
    pub fn new(
        hub: Hub,
        hosts: AllowedHosts,
        url: String,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        let (attempts, snapshots, previews, mcp_calls, limits) = Default::default();
        let (hosts, url) = (Arc::new(hosts), url.into());
        Self(Arc::new(AppParts {
            hub,
            hosts,
            url,
            attempts,
            snapshots,
            previews,
            mcp_calls,
            limits,
            stop,
            tasks,
        }))
    }

    /// A link that signs one browser in, and lets it add the first passkey.
    pub async fn first_passkey_link(&self) -> Result<String, crate::hub::Problem> {
        Ok(format!("{}/sign-in#{}", self.url, self.hub.first_passkey_code().await?))
    }

    pub async fn sign_in_link(&self) -> Result<String, crate::hub::Problem> {
        Ok(format!("{}/sign-in#{}", self.url, self.hub.sign_in_code().await?))
    }
}

/// Every call there is, with who may make it: the router and its description come from this one table.
fn table(app: &App) -> Table {
    use aye_core::Role::{Agent, Operator, Viewer};
    type Plain = Call<(), (), ()>;
    type Gives<Reply> = Call<(), (), Reply>;
    type Takes<Body, Reply = ()> = Call<(), Body, Reply>;
    let mut t = Table::new(app.clone());
    t.add(calls::HEALTH, Needs::Nothing, page::health);
    t.add(Plain::get("/api/openapi.json", "This description"), Viewer, table::openapi);
    t.add(calls::ME, Needs::AnyToken, tokens::me);

    t.add(calls::ASKS, Viewer, asks::list);
    t.add(
        Call::<AsksQuery, (), ()>::get(
            "/api/history",
            "All asks that a filter finds, as a file: format=json or csv",
        ),
        Viewer,
        history::export,
    );
    t.add(calls::ASK, Viewer, asks::get);
    t.add(calls::ANSWER, Operator, asks::answer);
    t.add(
        Gives::<Asks>::get("/api/alarms", "Disputed answers that nobody has marked as seen"),
        Viewer,
        asks::alarms,
    );
    t.add(Plain::post("/api/asks/{id}/seen", "Mark a disputed answer as seen"), Operator, asks::mark_seen);
    t.add(calls::RAISE, Agent, asks::raise);
    t.add(calls::RESOLUTION, Agent, asks::resolution);
    t.add(calls::RECEIPT, Agent, asks::receipt);
    t.add(calls::LATE, Agent, asks::late);
    t.add(calls::CAN, Agent, asks::set_can);
    t.add(calls::WITHDRAW, Agent, asks::withdraw);

    t.add(calls::AGENTS, Viewer, agents::list);
    t.add(
        Takes::<NewRun, aye_core::Agent>::post(
            "/api/agents",
            "Start a driven run, and wait until it is there",
        ),
        Operator,
        agents::start,
    );
    t.add(Gives::<Projects>::get("/api/projects", "What runs can be started with"), Viewer, agents::projects);
    t.add(calls::AGENT, Viewer, agents::get);
    t.add(calls::REGISTER, Agent, agents::register);
    t.add(calls::EVENTS, Viewer, agents::events);
    t.add(calls::REPORT, Agent, agents::report_events);
    t.add(calls::COMMANDS, Agent, agents::commands);
    t.add(calls::AGENT_TOKEN, Needs::SameUser, tokens::hand_out);
    t.add(calls::PROMPT, Operator, agents::prompt);
    t.add(calls::INTERRUPT, Operator, agents::interrupt);
    t.add(calls::STOP, Operator, agents::stop);
    t.add(calls::RENAME, Operator, agents::rename);
    t.add(
        Gives::<compat::Pending>::get(
            "/api/agents/{id}/pending-questions",
            "The questions an agent waits for",
        ),
        Viewer,
        compat::pending,
    );
    t.add(
        Takes::<compat::AnswerQuestion, compat::Success>::post(
            "/api/agents/{id}/answer-question",
            "Answer a pending question by its tool call",
        ),
        Operator,
        compat::answer,
    );

    t.add(calls::TOKENS, Operator, tokens::list);
    t.add(calls::MAKE_TOKEN, Operator, tokens::create);
    t.add(calls::REVOKE_TOKEN, Operator, tokens::revoke);
    t.add(
        Takes::<tokens::Label>::put("/api/tokens/{id}/label", "Name the browser that a token belongs to"),
        Operator,
        tokens::label,
    );
    t.add(calls::SIGN_IN_LINK, Operator, tokens::link);

    t.add(calls::GRANTS, Viewer, grants::list);
    t.add(calls::REVOKE_GRANT, Operator, grants::revoke);
    t.add(calls::APPROVE_PLAN, Operator, agents::approve_plan);

    t.add(calls::PASSKEYS, Viewer, passkeys::list);
    t.add(
        Takes::<passkeys::NewPasskey, PasskeyInfo>::post(
            "/api/passkeys",
            "Add a passkey, by the signature of one that is there",
        ),
        Operator,
        passkeys::add,
    );
    t.add(calls::PASSKEY_LINK, Operator, passkeys::link);
    t.add(
        Takes::<passkeys::ChallengePurpose, crate::hub::Challenge>::post(
            "/api/passkeys/challenge",
            "What a passkey has to sign, once and soon",
        ),
        Operator,
        passkeys::challenge,
    );
    t.add(calls::REMOVE_PASSKEY, Operator, passkeys::remove);

    t.add(calls::POLICY, Viewer, policy::view);
    t.add(
        Takes::<page::previews::Which, page::previews::Address>::post(
            "/api/asks/{id}/preview",
            "An address, good for one fetch, under which an option's HTML preview can be framed",
        ),
        Viewer,
        page::previews::make,
    );

    t.add(
        Takes::<serde_json::Value>::post(
            "/mcp",
            "The MCP server (streamable HTTP), with the tools ask_human and check_answer",
        ),
        Agent,
        mcp::serve,
    );
    t.add(Plain::get("/metrics", "Figures, in the text format of Prometheus"), Viewer, metrics::metrics);
    t.add(calls::FOLLOW, Viewer, ws::upgrade);
    t.add_frames::<ClientFrame, Frame, SentResult>(calls::FOLLOW.path);
    t.add(
        Takes::<sessions::NewSession>::post("/api/sign-in", "Trade a one-time code for a browser's session"),
        Needs::Nothing,
        sessions::sign_in,
    );
    t.add(
        Gives::<sessions::Challenge>::post(
            "/api/session/challenge",
            "Something for the page to sign, once and within a minute",
        ),
        Needs::Cookie,
        sessions::challenge,
    );
    t.add(
        Takes::<sessions::Signed, sessions::PageToken>::post(
            "/api/session/token",
            "Trade a signed challenge for the token that a browser's calls need beside their cookie",
        ),
        Needs::Cookie,
        sessions::token,
    );
    t.add(
        Plain::get("/sign-in", "The page; it signs in with the code after the #"),
        Needs::Nothing,
        page::index,
    );
    t.add(Plain::get("/", "The page"), Needs::Nothing, page::index);
    t.add(
        Plain::get("/preview/{ticket}", "A preview, once, in a frame without rights"),
        Needs::Nothing,
        page::previews::show,
    );
    t.add(Plain::get("/assets/{name}", "The page's script, style and pictures"), Needs::Nothing, page::asset);
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
