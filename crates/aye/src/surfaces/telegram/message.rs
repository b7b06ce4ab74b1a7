//! One message of the bot: what it shows, what its buttons do, and the messages that belong to it.

use super::access::Place;
use super::actions::Action;
use super::api::InlineButton;
use super::render::Button;
use crate::hub::{NO_RANDOMNESS, Problem};
use crate::random::random_hex;
use crate::surfaces::form::Draft;
use aye_core::{AgentId, AskId, Digest, Text};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kept from before it is sent until nobody needs it any more. An ask may have more than one in a chat: when no reply
/// came to the sending of the first, nobody knows whether it is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentMessage {
    pub id: String,
    pub chat: i64,
    /// The topic of a forum that it belongs to.
    #[serde(default)]
    pub topic: Option<i64>,
    /// Known once Telegram said it, or once somebody pressed a button of it.
    pub message: Option<i64>,
    /// It may not be there, and is not sent again.
    pub lost: bool,
    pub shows: Content,
    /// What each button does, by its callback data.
    pub tokens: BTreeMap<String, Action>,
    /// A digest of what it shows now.
    pub shown: String,
    pub sides: Vec<Side>,
    /// It was sent without sound, because another chat rings for the same.
    #[serde(default)]
    pub quiet: bool,
    /// It shows how things ended, and that will not change.
    pub settled: bool,
    pub made_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Ask(AskContent),
    Run(RunContent),
    List(ListContent),
    Offer(OfferContent),
    Choice(ChoiceContent),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskContent {
    pub ask: AskId,
    /// Of what it shows; an answer given on it is bound to that.
    pub digest: Digest,
    pub draft: Draft,
    /// What a person decided on a plan that had been denied automatically.
    pub decided: Option<String>,
}

/// How a run goes, from a prompt to the end of its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunContent {
    pub agent: AgentId,
    /// It shows the events after this number.
    pub since: u64,
    /// The person who pressed Stop; that can be done once.
    #[serde(rename = "cancelled")]
    pub stopped_by: Option<String>,
}

/// Asks that came at once, or that somebody wants to see again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListContent {
    pub asks: Vec<AskId>,
    /// Somebody asked for it, with these lines above.
    pub status: Option<String>,
    /// All of it was shown below, so nothing is added to it any more.
    #[serde(default)]
    pub opened: bool,
}

/// A text that may be the answer to one of these questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferContent {
    pub user: i64,
    pub text: Text,
    /// The message that has the text.
    #[serde(rename = "here")]
    pub message_id: i64,
    pub run: Option<String>,
    /// Its age, if that is the reason to ask.
    #[serde(default)]
    pub age: Option<String>,
    /// The run that it is for, if not the chat's.
    #[serde(default)]
    pub agent: Option<AgentId>,
    /// Messages that show a question, and what each asks.
    pub questions: Vec<(String, String)>,
    /// The words about the choice that was made.
    pub decided: Option<String>,
}

/// A choice for the runs of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    Project,
    Agent,
}

/// Asks for the project or the agent of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChoiceContent {
    pub what: Choice,
    /// The question.
    pub lead: String,
    pub reply_to: Option<i64>,
    /// The text that starts as soon as this is chosen.
    pub waiting: Option<WaitingTask>,
    /// The words about the choice that was made.
    pub decided: Option<String>,
}

/// A text that waits for a choice of its author.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingTask {
    pub user: i64,
    pub text: Text,
}

/// A message that belongs to another: whoever replies to it means that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// None where it could not be sent and will not be tried again.
    pub message: Option<i64>,
    pub what: SideKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideKind {
    /// Of a plan, or of the question with this number.
    Part {
        question: usize,
    },
    File {
        question: usize,
    },
    Reminder,
    /// Asks this person to type.
    Prompt {
        user: i64,
    },
    /// The result of a run.
    #[serde(rename = "end_notice")]
    Result,
}

impl SentMessage {
    pub fn new(place: Place, shows: Content, now: Timestamp) -> Result<Self, Problem> {
        Ok(Self {
            id: random_hex::<16>().map_err(|_| NO_RANDOMNESS)?,
            chat: place.chat,
            topic: place.topic,
            message: None,
            lost: false,
            shows,
            tokens: BTreeMap::new(),
            shown: String::new(),
            sides: vec![],
            quiet: false,
            settled: false,
            made_at: now,
        })
    }

    pub fn of_ask(place: Place, ask: AskId, digest: Digest, now: Timestamp) -> Result<Self, Problem> {
        let shows = AskContent { ask, digest, draft: Draft::default(), decided: None };
        Self::new(place, Content::Ask(shows), now)
    }

    pub fn of_run(place: Place, agent: AgentId, since: u64, now: Timestamp) -> Result<Self, Problem> {
        Self::new(place, Content::Run(RunContent { agent, since, stopped_by: None }), now)
    }

    pub fn of_list(
        place: Place,
        asks: Vec<AskId>,
        status: Option<String>,
        now: Timestamp,
    ) -> Result<Self, Problem> {
        Self::new(place, Content::List(ListContent { asks, status, opened: false }), now)
    }

    pub fn of_offer(place: Place, offer: OfferContent, now: Timestamp) -> Result<Self, Problem> {
        Self::new(place, Content::Offer(offer), now)
    }

    pub fn place(&self) -> Place {
        Place { chat: self.chat, topic: self.topic }
    }

    pub fn as_ask(&self) -> Option<&AskContent> {
        match &self.shows {
            Content::Ask(shown) => Some(shown),
            Content::Run(_) | Content::List(_) | Content::Offer(_) | Content::Choice(_) => None,
        }
    }

    pub fn as_ask_mut(&mut self) -> Option<&mut AskContent> {
        match &mut self.shows {
            Content::Ask(shown) => Some(shown),
            Content::Run(_) | Content::List(_) | Content::Offer(_) | Content::Choice(_) => None,
        }
    }

    pub fn as_run(&self) -> Option<&RunContent> {
        match &self.shows {
            Content::Run(shown) => Some(shown),
            Content::Ask(_) | Content::List(_) | Content::Offer(_) | Content::Choice(_) => None,
        }
    }

    pub fn as_list(&self) -> Option<&ListContent> {
        match &self.shows {
            Content::List(shown) => Some(shown),
            Content::Ask(_) | Content::Run(_) | Content::Offer(_) | Content::Choice(_) => None,
        }
    }

    /// The asks of a list that nobody asked for: they are in it instead of in a message of their own.
    pub fn announced(&self) -> &[AskId] {
        match self.as_list() {
            Some(ListContent { asks, status: None, .. }) => asks,
            Some(_) | None => &[],
        }
    }

    /// The token of a button, made when it is first shown.
    fn token(&mut self, action: &Action) -> Result<String, Problem> {
        if let Some((token, _)) = self.tokens.iter().find(|(_, known)| *known == action) {
            return Ok(token.clone());
        }
        let token = random_hex::<16>().map_err(|_| NO_RANDOMNESS)?;
        self.tokens.insert(token.clone(), action.clone());
        Ok(token)
    }

    /// Buttons as Telegram takes them.
    pub fn keyboard(&mut self, rows: &[Vec<Button>]) -> Result<Vec<Vec<InlineButton>>, Problem> {
        let mut keyboard = Vec::new();
        for row in rows {
            let key = |(label, action): &Button| {
                Ok(InlineButton { label: label.clone(), data: self.token(action)? })
            };
            keyboard.push(row.iter().map(key).collect::<Result<Vec<_>, Problem>>()?);
        }
        Ok(keyboard)
    }

    pub fn has_side(&self, what: SideKind) -> bool {
        self.sides_like(what).next().is_some()
    }

    pub fn sides_like(&self, what: SideKind) -> impl Iterator<Item = &Side> {
        self.sides.iter().filter(move |side| side.what == what)
    }

    /// The number of a side message of such a kind, if it is there.
    pub fn side_number(&self, is_meant: impl Fn(SideKind) -> bool) -> Option<i64> {
        self.sides.iter().filter(|side| is_meant(side.what)).find_map(|side| side.message)
    }

    pub fn is_shown_by(&self, message: i64) -> bool {
        self.message == Some(message) || self.sides.iter().any(|side| side.message == Some(message))
    }

    /// It cannot be shown in its topic any more, and goes on outside of it.
    pub fn leave_topic(&mut self) {
        self.topic = None;
        self.send_again();
    }

    /// It is no longer there, and another takes its place. What no longer fits into it is sent again as well;
    /// nobody is reminded or notified twice.
    pub fn send_again(&mut self) {
        self.message = None;
        self.shown.clear();
        self.sides.retain(|side| !matches!(side.what, SideKind::Part { .. } | SideKind::File { .. }));
    }

    /// Goes on with the form of an earlier message of the same ask, which then waits for no text any more.
    pub fn continue_form(&mut self, earlier: &mut SentMessage) {
        if let (Some(new), Some(old)) = (self.as_ask_mut(), earlier.as_ask_mut()) {
            new.draft = old.draft.clone();
            new.decided = old.decided.clone();
            old.draft.typing = None;
        }
    }

    /// It is on its way or there.
    pub fn is_current(&self) -> bool {
        !self.lost && !self.settled
    }
}

impl StartedFrom {
    pub fn place(&self) -> Place {
        Place { chat: self.chat, topic: self.topic }
    }
}

/// The project and run of a chat, or of a topic.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatNote {
    pub project: Option<String>,
    /// The run that further messages go to.
    pub agent: Option<AgentId>,
    /// The kind of agent that new runs are of, if somebody chose one.
    pub kind: Option<String>,
}

/// The place that a run was started from: its asks are shown nowhere else on Telegram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartedFrom {
    pub chat: i64,
    #[serde(default)]
    pub topic: Option<i64>,
    pub name: String,
    pub at: Timestamp,
}
