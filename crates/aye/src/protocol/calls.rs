//! The calls that are typed on both sides. The others are defined in `api/`: they are the page's.

use super::access::{ApprovePlan, Health, Link, Me, NewToken, Passkeys, RemovePasskey, Token, TokenList};
use super::agents::{
    Agents, AgentsQuery, Commands, CommandsQuery, Events, EventsQuery, NewReport, Prompt, Queued,
    Registration, Reported, Title,
};
use super::asks::{
    Asks, AsksQuery, Late, NewAnswer, NewAsk, RaiseQuery, RaiseReply, RaisedAsk, Resolution, WaitQuery,
    Withdraw,
};
use super::call::Call;
use super::frames::{FollowQuery, Frame};
use super::grants::GrantList;
use super::policy::PolicyView;
use aye_core::{Agent, AskView, Can, Delivery};

pub const HEALTH: Call<(), (), Health> = Call::get("/api/health", "Whether the hub is there");
pub const ME: Call<(), (), Me> = Call::get("/api/me", "Who the token in use belongs to");

pub const ASKS: Call<AsksQuery, (), Asks> = Call::get("/api/asks", "Asks; open ones oldest first");
pub const ASK: Call<(), (), AskView> = Call::get("/api/asks/{id}", "One ask");
pub const ANSWER: Call<(), NewAnswer, AskView> = Call::post(
    "/api/asks/{id}/answer",
    "Answer an ask; 409 when it has already ended, 410 when it expired, 412 when another one was shown",
);
pub const RAISE: Call<RaiseQuery, NewAsk, RaiseReply> =
    Call::post("/api/asks", "Raise an ask; the same key again returns the same ask");
pub const RESOLUTION: Call<WaitQuery, (), Resolution> =
    Call::get("/api/asks/{id}/resolution", "Wait for an ask's end; 204 when the wait ends first");
pub const RECEIPT: Call<(), Delivery, AskView> =
    Call::post("/api/asks/{id}/receipt", "Report what became of an outcome");
pub const LATE: Call<(), Late, RaisedAsk> =
    Call::post("/api/asks/{id}/late", "Record a call that ran before its record was on disk");
pub const CAN: Call<(), Can, AskView> =
    Call::put("/api/asks/{id}/can", "Say what the agent can take of an open ask");
pub const WITHDRAW: Call<(), Withdraw, AskView> = Call::post("/api/asks/{id}/withdraw", "Take an ask back");

pub const FOLLOW: Call<FollowQuery, (), Frame> =
    Call::get("/api/ws", "WebSocket: a snapshot, then numbered changes; after=N catches up");

pub const AGENTS: Call<AgentsQuery, (), Agents> =
    Call::get("/api/agents", "Agents; with all=true, ended ones too");
pub const AGENT: Call<(), (), Agent> = Call::get(
    "/api/agents/{id}",
    "One agent, by our id, its own session id, or the tmux session that it alone runs in",
);
pub const REGISTER: Call<(), Registration, Agent> =
    Call::put("/api/agents/{id}", "Register an agent or report its state");
pub const EVENTS: Call<EventsQuery, (), Events> =
    Call::get("/api/agents/{id}/events", "The conversation, oldest first");
pub const REPORT: Call<(), NewReport, Option<Reported>> =
    Call::post("/api/agents/{id}/events", "Report the conversation as it goes");
pub const COMMANDS: Call<CommandsQuery, (), Commands> =
    Call::get("/api/agents/{id}/commands", "Wait for prompts, interrupts and stops");
pub const PROMPT: Call<(), Prompt, Queued> = Call::post("/api/agents/{id}/prompt", "Send the agent a prompt");
pub const INTERRUPT: Call<(), (), Queued> =
    Call::post("/api/agents/{id}/interrupt", "Interrupt the agent's turn");
pub const STOP: Call<(), (), Queued> = Call::post("/api/agents/{id}/stop", "End the agent's run");
pub const RENAME: Call<(), Title, Agent> = Call::put("/api/agents/{id}/title", "Name the agent");
pub const AGENT_TOKEN: Call<(), (), Token> = Call::post(
    "/api/agents/{id}/token",
    "The agent's own token, for a process of the same user on the Unix socket",
);
pub const APPROVE_PLAN: Call<(), ApprovePlan, Agent> =
    Call::post("/api/agents/{id}/plan-approval", "Approve or deny the plan that was refused for an outline");

pub const TOKENS: Call<(), (), TokenList> = Call::get("/api/tokens", "All tokens, without their secrets");
pub const MAKE_TOKEN: Call<(), NewToken, Token> = Call::post("/api/tokens", "Make a token");
pub const REVOKE_TOKEN: Call = Call::delete("/api/tokens/{id}", "Revoke a token and close what it opened");
pub const SIGN_IN_LINK: Call<(), (), Link> =
    Call::post("/api/sign-in-links", "A link that signs one browser in, once");

pub const PASSKEYS: Call<(), (), Passkeys> = Call::get("/api/passkeys", "The passkeys that can allow");
pub const PASSKEY_LINK: Call<(), (), Link> = Call::post(
    "/api/passkeys/link",
    "A link that lets one browser add the first passkey; only over the Unix socket",
);
pub const REMOVE_PASSKEY: Call<(), RemovePasskey> =
    Call::post("/api/passkeys/{id}/remove", "Remove a passkey, by the signature of one that is there");

pub const GRANTS: Call<(), (), GrantList> =
    Call::get("/api/grants", "What people allowed for longer than once");
pub const REVOKE_GRANT: Call = Call::delete("/api/grants/{id}", "Revoke a grant");
pub const POLICY: Call<(), (), PolicyView> =
    Call::get("/api/policy", "The policy in force, and what it decided");
