//! Questions by agent and tool call, for programs that know those and not our asks. An answer still
//! goes to exactly one ask, bound to what that ask says.

use super::App;
use super::caller::Caller;
use super::json::{Body, Failure, PathId, Reply, ok};
use crate::hub::AskFilter;
use crate::hub::{AnswerCall, AskReference, Problem};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use aye_core::{AnswerKey, Ask, Digest, Invalid, Question};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

#[derive(Serialize, JsonSchema)]
pub struct Pending {
    pending: bool,
    questions: Vec<PendingQuestion>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingQuestion {
    tool_id: String,
    session_id: String,
    timestamp: Timestamp,
    /// Of what is shown; an answer that names it counts for nothing else.
    digest: Digest,
    questions: Vec<PlainQuestion>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlainQuestion {
    question: String,
    header: String,
    options: Vec<PlainOption>,
    multi_select: bool,
}

#[derive(Serialize, JsonSchema)]
pub struct PlainOption {
    label: String,
    description: String,
}

/// An unknown agent has nothing pending.
pub async fn pending(State(app): State<App>, PathId(id): PathId<String>) -> Result<Reply<Pending>, Failure> {
    let open = match open_questions(&app, &id).await {
        Err(Problem::NoSuchAgent) => Vec::new(),
        open => open?,
    };
    let questions: Vec<_> =
        open.into_iter().map(|(ask, session, questions)| plain(&ask, session, &questions)).collect();
    Ok(ok(Pending { pending: !questions.is_empty(), questions }))
}

fn plain(ask: &Ask, session: String, questions: &[Question]) -> PendingQuestion {
    let option = |offer: &aye_core::Offer| PlainOption {
        label: offer.label.clone(),
        description: offer.description.clone(),
    };
    let question = |question: &Question| PlainQuestion {
        question: question.question.clone(),
        header: question.header.clone(),
        options: question.options.iter().map(option).collect(),
        multi_select: question.multi_select,
    };
    PendingQuestion {
        tool_id: ask.tool_call().to_owned(),
        session_id: session,
        timestamp: ask.created_at,
        digest: ask.digest.clone(),
        questions: questions.iter().map(question).collect(),
    }
}

async fn open_questions(app: &App, agent: &str) -> Result<Vec<(Ask, String, Vec<Question>)>, Problem> {
    questions_in(app, agent, Some("open")).await
}

async fn questions_in(
    app: &App,
    agent: &str,
    state: Option<&str>,
) -> Result<Vec<(Ask, String, Vec<Question>)>, Problem> {
    let agent = app.hub.agent(agent).await?;
    let session = agent.session.unwrap_or_else(|| agent.id.to_string());
    let filter = AskFilter {
        state: state.map(str::to_owned),
        agent: Some(agent.id),
        limit: 1000,
        ..AskFilter::default()
    };
    let asks = app.hub.asks(filter).await?.asks;
    let questions = asks.into_iter().filter_map(|ask| match &ask.body {
        aye_core::Body::Question(body) => Some((ask.clone(), session.clone(), body.questions.clone())),
        aye_core::Body::Permission(_) | aye_core::Body::Plan(_) => None,
    });
    Ok(questions.collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuestion {
    /// May be left out only when exactly one question is pending.
    tool_call_id: Option<String>,
    /// Of the question that was shown. Needed where the tool call has named another request of this agent, or where the hub
    /// cannot tell for sure.
    digest: Option<Digest>,
    /// One entry a question: a label, several labels, or `{"text": "…"}` for free text.
    answers: Vec<Value>,
}

#[derive(Serialize, JsonSchema)]
pub struct Success {
    success: bool,
}

pub async fn answer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<String>,
    Body(body): Body<AnswerQuestion>,
) -> Result<Reply<Success>, Failure> {
    let wanted = QuestionReference { agent: id, tool_call: body.tool_call_id, digest: body.digest };
    let (ask, _) = find(&app, &wanted).await?;
    let answers = body.answers.into_iter().enumerate();
    let answers =
        answers.map(|(i, answer)| entry(answer, &format!("answers[{i}]"))).collect::<Result<Vec<_>, _>>()?;
    send(&app, &ask, wanted, answers, None, &caller).await?;
    Ok(ok(Success { success: true }))
}

/// The question that is answered, as far as the caller says which.
pub struct QuestionReference {
    pub agent: String,
    pub tool_call: Option<String>,
    pub digest: Option<Digest>,
}

/// The WebSocket's form: answers by the text of their question.
pub async fn answer_by_text(
    app: &App,
    wanted: QuestionReference,
    mut answers: Map<String, Value>,
    key: Option<AnswerKey>,
    caller: &Caller,
) -> Result<Ask, Failure> {
    let (ask, questions) = find(app, &wanted).await?;
    let mut entries = Vec::new();
    for question in &questions {
        let text = &question.question;
        if questions.iter().filter(|other| other.question == *text).count() > 1 {
            return Err(
                Invalid::new("answers", format!("two questions read {text:?}: answer by position")).into()
            );
        }
        let answer = answers.shift_remove(text);
        let answer = answer.ok_or_else(|| Invalid::new("answers", format!("{text:?} is not answered")))?;
        entries.push(entry(answer, &format!("answers[{text:?}]"))?);
    }
    match answers.keys().next() {
        Some(unknown) => Err(Invalid::new("answers", format!("{unknown:?} was not asked")).into()),
        None => send(app, &ask, wanted, entries, key, caller).await,
    }
}

async fn send(
    app: &App,
    ask: &Ask,
    wanted: QuestionReference,
    answers: Vec<Value>,
    key: Option<AnswerKey>,
    caller: &Caller,
) -> Result<Ask, Failure> {
    let (answer, digest) = (json!({ "answers": answers }), ask.digest.clone());
    let (by, token) = (caller.by(), Some(caller.credential.id.clone()));
    let call = AnswerCall { ask: ask.id.clone(), answer, digest, key, by, token, assertion: None };
    let QuestionReference { agent, tool_call, digest } = wanted;
    Ok(match digest {
        Some(_) => app.hub.answer(call).await?,
        None => app.hub.answer_named(call, AskReference { agent, tool_call }).await?,
    })
}

async fn find(app: &App, wanted: &QuestionReference) -> Result<(Ask, Vec<Question>), Failure> {
    let by_tool_call = |ask: &Ask| wanted.tool_call.as_deref().is_none_or(|id| ask.tool_call() == id);
    let is_wanted =
        |ask: &Ask| by_tool_call(ask) && wanted.digest.as_ref().is_none_or(|digest| ask.digest == *digest);
    let mut open = open_questions(app, &wanted.agent).await?;
    open.retain(|(ask, _, _)| is_wanted(ask));
    if open.is_empty() && (wanted.tool_call.is_some() || wanted.digest.is_some()) {
        // One that has ended says how, and knows its own answer when it is sent again.
        let all = questions_in(app, &wanted.agent, None).await?;
        let (fitting, others): (Vec<_>, Vec<_>) =
            all.into_iter().filter(|(ask, _, _)| by_tool_call(ask)).partition(|(ask, _, _)| is_wanted(ask));
        let other = others.into_iter().find(|_| wanted.tool_call.is_some());
        match (fitting.into_iter().next(), other) {
            (Some(found), _) => open.push(found),
            (None, Some((ask, _, _))) => return Err(Problem::OtherDigest { ask: Box::new(ask) }.into()),
            (None, None) => {}
        }
    }
    let several = open.len() > 1;
    match open.pop() {
        Some(_) if several && wanted.digest.is_some() => {
            let why =
                "several questions like this are pending: answer one by its id, at /api/asks/{id}/answer";
            Err(Invalid::new("digest", why).into())
        }
        Some(_) if several && wanted.tool_call.is_some() => {
            let why =
                "several questions are pending under this tool call: say which one was shown by its digest";
            Err(Invalid::new("digest", why).into())
        }
        Some(_) if several => {
            let why = "several questions are pending: say which by tool_call_id";
            Err(Invalid::new("tool_call_id", why).into())
        }
        Some((ask, _, questions)) => Ok((ask, questions)),
        None => Err(Failure::new(StatusCode::NOT_FOUND, "no such question is pending")),
    }
}

fn entry(answer: Value, field: &str) -> Result<Value, Invalid> {
    match answer {
        Value::String(label) => Ok(json!({ "selected": [label] })),
        Value::Array(labels) => Ok(json!({ "selected": labels })),
        Value::Object(fields) => Ok(Value::Object(fields)),
        _ => Err(Invalid::new(field, "must be a label, a list of labels, or {\"text\": …}")),
    }
}
