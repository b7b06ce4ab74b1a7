//! The vocabulary of `aye`, in the order in which an ask travels. Nothing here does I/O,
//! reads a clock or looks at the environment, and nothing here can be built invalid.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod agent;
pub mod answer;
pub mod ask;
pub mod body;
pub mod bounded;
pub mod can;
pub mod compact;
mod decimal;
pub mod digest;
pub mod display;
pub mod ids;
pub mod invalid;
pub mod json;
mod length;
pub mod lifecycle;
pub mod outline;
pub mod proof;
pub mod secret;
pub mod tool;
pub mod trail;
pub mod visible;
pub mod who;

pub use agent::{Agent, AgentState, AsksFor, Reach, ReportedState};
pub use answer::{Answer, Choice, Decision, PlanVerdict, Reply, Verdict};
pub use ask::{Ask, AskHead, AskStatus, AskView};
pub use body::{
    Body, Keeper, Kind, Offer, Permission, Plan, Question, QuestionDraft, Questions, RaisedBody, Scope,
    ScopeOffer,
};
pub use bounded::{Bounded, Evidence, FolderText, ShortText};
pub use can::{Can, QuestionCan};
pub use digest::Digest;
pub use display::{Before, ChangedPlace, Display, DisplayKind, Extras, Grants, Hunk, Remarks};
pub use ids::{AgentId, AgentKind, AnswerKey, AskId, Key, Text};
pub use invalid::Invalid;
pub use lifecycle::{AskEvent, AskState, Delivery, Expiry, Receipt, Refused, State, Step, Withdrawal, step};
pub use outline::{Outline, Pause};
pub use proof::Proof;
pub use secret::{NOT_KEPT, Sealed};
pub use tool::{Operation, Tool};
pub use who::{By, Role, Surface};
