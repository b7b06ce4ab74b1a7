//! The calls that are typed on both sides. The others are defined in `api/`; commands make some of them by path.

use super::agents::{
    Agents, AgentsQuery, Commands, CommandsQuery, Events, EventsQuery, NewReport, Prompt, Queued,
    Registration, Reported, Title,
};
use super::asks::{Asks, AsksQuery, Late, NewAnswer, NewAsk, RaisedAsk, Resolution, WaitQuery, Withdraw};
use super::call::Call;
use super::frames::{FollowQuery, Frame};
use aye_core::{Agent, AskView, Can, Delivery};

pub const ASKS: Call<AsksQuery, (), Asks> = Call::get("/api/asks", "Asks; open ones oldest first");
pub const ASK: Call<(), (), AskView> = Call::get("/api/asks/{id}", "One ask");
pub const ANSWER: Call<(), NewAnswer, AskView> = Call::post(
    "/api/asks/{id}/answer",
    "Answer an ask; 409 when it has already ended, 410 when it expired, 412 when another one was shown",
);
pub const RAISE: Call<(), NewAsk, RaisedAsk> =
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
pub const AGENT: Call<(), (), Agent> =
    Call::get("/api/agents/{id}", "One agent, by our id or its own session id");
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
