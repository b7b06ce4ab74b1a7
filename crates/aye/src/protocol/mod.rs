//! The API as types, for both of its ends: `api/` serves the calls, `client/` makes them, and OpenAPI describes them.
//! Nothing here does I/O.
//!
//! Some fields stay open JSON (`Value`), each for a reason:
//! - `body` and `answer`: how they are read depends on the kind of ask and on the ask itself, so the hub decodes them with
//!   `RaisedBody::decode` and `Answer::read`. OpenAPI describes the types.
//! - `events`, `notices` and `commands`: hub, adapters and pages of different versions talk to each other, and what one does
//!   not know it passes on or ignores instead of refusing the whole message.
//! - `key` of a frame that cannot be read: it goes back as it came.

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
    NewRun, NumberedCommand, NumberedEvent, Project, Projects, Prompt, Queued, Registration, ReportNumber,
    Reported, StartableAgent, Title,
};
pub use asks::{
    AllowedAsk, Asks, AsksQuery, DeciderFilter, ExportFormat, Late, NewAnswer, NewAsk, OpaqueVoucher,
    Outcome, RaiseQuery, RaiseReply, RaisedAsk, Resolution, StateFilter, Timeout, WaitQuery, Withdraw,
};
pub use call::{Call, Failed, Reason};
pub use conversation::{ConversationEvent, RefusedCall, Tokens, Turn};
pub use frames::{
    AnswerFrame, ClientFrame, FollowQuery, Frame, ResponseFrame, ResultTag, SentResult, Snapshot, TokenFrame,
};
pub use grants::{GrantInfo, GrantList, KeptRule, KeptStatus};
pub use policy::{PolicyView, RuleCount, RuleView, TimeoutView};
