//! The API as types, for both of its ends: `api/` serves the calls, `client/` makes them, and OpenAPI describes them.
//! Nothing here does I/O.

pub mod access;
pub mod agents;
pub mod asks;
pub mod call;
pub mod calls;
pub mod conversation;
pub mod frames;
pub mod grants;
pub mod policy;

pub use access::{
    ApprovePlan, CredentialInfo, Health, Link, ListedToken, Me, NewToken, PasskeyInfo, Passkeys,
    PlanApproval, RemovePasskey, Token, TokenList,
};
pub use agents::{
    Agents, AgentsQuery, AskReceipt, Command, Commands, CommandsQuery, Events, EventsQuery, Image, NewReport,
    NumberedCommand, NumberedEvent, Prompt, Queued, Registration, Reported, Title,
};
pub use asks::{
    Asks, AsksQuery, ExportFormat, Late, NewAnswer, NewAsk, Outcome, RaisedAsk, Resolution, WaitQuery,
    Withdraw,
};
pub use call::{Call, Failed, Reason};
pub use conversation::{ConversationEvent, Tokens, Turn};
pub use frames::{FollowQuery, Frame, SentResult, Snapshot};
pub use grants::{GrantInfo, GrantList, KeptRule, KeptStatus};
pub use policy::{PolicyView, RuleCount, RuleView, TimeoutView};
