//! What the tools take. A question is the agent's own words; a permission is too, so nothing but a person decides it.

use aye_core::tool::Tool as KnownTool;
use aye_core::{AskId, Body, Can, Offer, Permission, Question, QuestionDraft, Questions, ScopeOffer};
use rmcp::model::Tool;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// Asks a person. Give `question` or `permission`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskHuman {
    /// What to ask.
    #[serde(default)]
    question: Option<String>,
    /// What the person can choose from. Without options, they answer in their own words.
    #[serde(default)]
    options: Vec<OptionArgument>,
    /// Several options may be chosen.
    #[serde(default, alias = "multi_select")]
    multi: bool,
    /// The person may also answer in their own words. Always so without options.
    #[serde(default)]
    free_text: bool,
    /// What you want to do, in words, instead of a question: the person allows it once, or refuses.
    #[serde(default)]
    permission: Option<String>,
    /// Give back a ticket after this many seconds, at most 3600, if nobody has answered by then; the request stays open.
    /// Without it, the call waits as long as it takes.
    #[serde(default)]
    wait_seconds: Option<u32>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
enum OptionArgument {
    Label(String),
    Described {
        label: String,
        #[serde(default)]
        description: String,
    },
}

/// Looks whether a request that you have a ticket for was answered.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckAnswer {
    /// The ticket that `ask_human` gave back.
    ticket: String,
    /// How many seconds to wait for the answer, at most 3600; 0 if left out.
    #[serde(default)]
    wait_seconds: Option<u32>,
}

impl From<OptionArgument> for Offer {
    fn from(choice: OptionArgument) -> Self {
        let (label, description) = match choice {
            OptionArgument::Label(label) => (label, String::new()),
            OptionArgument::Described { label, description } => (label, description),
        };
        Self { label, description, preview: None, allows: false }
    }
}

impl AskHuman {
    pub const TOOL: &'static str = "ask_human";

    /// The ask, and what its agent can take as an answer.
    pub fn body(&self) -> Result<(Body, Can), String> {
        match (&self.question, &self.permission) {
            (Some(question), None) => {
                let question = Question::try_from(QuestionDraft {
                    question: question.clone(),
                    header: String::new(),
                    options: self.options.iter().cloned().map(Offer::from).collect(),
                    multi_select: self.multi,
                    free_text: self.free_text || self.options.is_empty(),
                    secret: false,
                })?;
                Ok((Body::Question(Questions::new(vec![question])?), Can::default()))
            }
            (None, Some(text)) if self.options.is_empty() && !self.multi && !self.free_text => {
                if text.trim().is_empty() {
                    return Err("permission must say what you want to do".into());
                }
                let input = Map::from_iter([("text".to_owned(), Value::from(text.as_str()))]);
                let tool = KnownTool::Unclear.name().to_owned();
                let permission = Permission::new(tool, input, Some(vec![ScopeOffer::once()]))?;
                let why = "it asks over MCP, which takes no other input and ends no turn".to_owned();
                let can = Can { edit: false, stop: false, why: Some(why.into()), ..Can::default() };
                Ok((Body::Permission(permission), can))
            }
            (None, Some(_)) => {
                Err("options, multi and free_text go with question, not with permission".into())
            }
            _ => Err("give either question or permission".into()),
        }
    }

    pub fn wait(&self) -> Option<Duration> {
        self.wait_seconds.map(waiting)
    }
}

impl CheckAnswer {
    pub const TOOL: &'static str = "check_answer";

    pub fn ticket(&self) -> Result<AskId, String> {
        AskId::try_from(self.ticket.as_str()).map_err(|_| "this is not a ticket of ask_human".into())
    }

    pub fn wait(&self) -> Option<Duration> {
        self.wait_seconds.map(waiting)
    }
}

/// Longer waits end with a ticket after this long.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

fn waiting(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into()).min(LONGEST_WAIT)
}

/// As clients are told of them.
pub fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            AskHuman::TOOL,
            "Ask the person you work for, and wait for the answer. Give `question`, with `options` if there are some, \
             or `permission` with what you want to do. The person may take minutes or hours. If your client cuts long \
             calls off, set `wait_seconds` below its limit: you then get a ticket, and call check_answer with it later.",
            schema::<AskHuman>(),
        ),
        Tool::new(
            CheckAnswer::TOOL,
            "Look whether a request that ask_human left open with a ticket has been answered. Until it has, nothing is \
             decided: do not act as if it were.",
            schema::<CheckAnswer>(),
        ),
    ]
}

fn schema<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    schema.as_object_mut().map(std::mem::take).unwrap_or_default()
}
