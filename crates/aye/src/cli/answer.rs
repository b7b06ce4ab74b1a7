use super::conversation::{self, Keyboard};
use super::show::in_full;
use super::{ALREADY_ENDED, Done, INVALID, say, say_json};
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::{NewAnswer, calls};
use crate::shutdown::Signals;
use crate::surfaces::terminal::style::{DIM, paint};
use crate::surfaces::terminal::{answer_lines, receipt_words};
use anyhow::Context;
use aye_core::visible::visible;
use aye_core::{AskId, AskState, AskView, Body, Question, Receipt};
use clap::Args;
use serde_json::{Map, Value, json};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long to wait for the agent to take an answer. What it is allowed to do may take longer than anybody waits.
const MOMENT: Duration = Duration::from_secs(3);
/// How long to wait for the proof of an answer that was typed into a terminal: until then its receipt is `unknown`.
const PROOF_MOMENT: Duration = Duration::from_secs(6);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Answer a request.
#[derive(Args)]
#[command(after_help = "\
Questions:
  aye answer k3v9 1                 the first option; `aye answer k3v9 SQLite` is the same
  aye answer k3v9 '#1'              the first option, if another one is called 1
  aye answer k3v9 1,3 --text more   several options and your own words, where that is allowed
  aye answer k3v9 2 - 1,3           three questions: the second skipped, two options for the third
  aye answer k3v9 1 --text 2=mine   your own words for the second question
  aye answer k3v9 --reply \"…\"       one reply to all questions
  aye answer k3v9                   a secret: it is asked for, and not shown while you type; or read
                                    from standard input, a line for each
  aye answer k3v9 --skip            decline
Permissions and plans:
  aye answer k3v9 --allow           once; --scope session or always, if offered
  aye answer k3v9 --deny \"why\"      the agent is told why
  aye answer k3v9 --outline         a plan: pause, and show me an outline first

Says what became of the answer, if that is known within a moment.
Exit codes: 0 recorded, 4 already ended, 5 invalid, 1 error.")]
pub struct Answer {
    /// The request's id, or its beginning
    #[arg(value_name = "ID", value_parser = ask_id)]
    id: AskId,
    /// Options by number or label; with several questions, one argument each
    #[arg(value_name = "PICK")]
    picks: Vec<String>,
    /// An answer in your own words; with several questions, N= says which one
    #[arg(long, value_name = "[N=]TEXT")]
    text: Vec<String>,
    /// A note for the agent, beside the options you chose
    #[arg(long, value_name = "[N=]TEXT")]
    note: Vec<String>,
    /// One reply to all questions together
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["picks", "text", "note"])]
    reply: Option<String>,
    /// Decline to answer
    #[arg(long, conflicts_with_all = ["picks", "text", "note", "reply"])]
    skip: bool,
    /// Allow the tool, or approve the plan
    #[arg(long, conflicts_with_all = ["picks", "text", "note", "reply", "skip"])]
    allow: bool,
    /// How long the permission lasts: once, session or always
    #[arg(long, conflicts_with_all = ["picks", "text", "note", "reply", "skip", "deny", "outline"])]
    scope: Option<String>,
    /// Allow it with this input instead; implies --allow
    #[arg(long, value_name = "JSON", conflicts_with_all = ["picks", "text", "note", "reply", "skip", "deny", "outline"])]
    input: Option<String>,
    /// Approve this plan instead; implies --allow
    #[arg(long, value_name = "FILE", conflicts_with_all = ["picks", "text", "note", "reply", "skip", "deny", "outline"])]
    plan: Option<PathBuf>,
    /// Deny, and tell the agent why, if it can take that
    #[arg(long, value_name = "WHY", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["picks", "text", "note", "reply", "skip", "allow"])]
    deny: Option<String>,
    /// Deny, and end the agent's turn
    #[arg(long, requires = "deny")]
    interrupt: bool,
    /// Pause, and ask for an outline of the plan first
    #[arg(long, conflicts_with_all = ["picks", "text", "note", "reply", "skip", "allow", "deny"])]
    outline: bool,
    /// The answer as JSON, as the API takes it
    #[arg(long, value_name = "JSON", conflicts_with_all = ["picks", "text", "note", "reply", "skip", "allow", "deny", "outline"])]
    answer: Option<String>,
    /// Print the request as JSON
    #[arg(long)]
    json: bool,
}

pub fn ask_id(text: &str) -> Result<AskId, String> {
    AskId::try_from(text.to_ascii_lowercase())
        .map_err(|_| "this cannot be an id; `aye list` shows them".to_owned())
}

impl Answer {
    pub async fn run(mut self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        let (_, ask) = client.find_ask(&self.id).await?;
        if let Body::Question(asked) = &ask.body
            && ask.body.has_secret()
            && ask.status.state == AskState::Open
            && !self.skip
        {
            self.ask_for_secrets(&asked.questions).await?;
        }
        let answer = match self.build(&ask.body) {
            Ok(answer) => answer,
            Err(_) if ask.status.state != AskState::Open => {
                let shown = in_full(&client, &ask).await;
                anstream::eprintln!("{shown}\naye: this request has already ended");
                return Ok(ExitCode::from(ALREADY_ENDED));
            }
            Err(problem) => {
                let shown = in_full(&client, &ask).await;
                anstream::eprintln!("{shown}\naye: {}", visible(&format!("{problem:#}")));
                return Ok(ExitCode::from(INVALID));
            }
        };
        let call = NewAnswer { answer, digest: ask.digest.clone(), key: None, assertion: None };
        let recorded = client.call(&calls::ANSWER, ask.id.as_str(), &(), &call, Try::Once).await?;
        if !self.json {
            let lines = recorded.status.answer.as_ref().map(answer_lines).unwrap_or_default();
            say(&format!("Recorded: {}\n", visible(&lines.join(" · "))))?;
        }
        let latest = became(&client, recorded).await;
        match self.json {
            true => say_json(&latest)?,
            false => say(&format!("{}\n", became_words(&latest)))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Takes secrets from the keyboard, unseen, or from a pipe; other users can read a command's arguments.
    async fn ask_for_secrets(&mut self, questions: &[Question]) -> anyhow::Result<()> {
        let as_argument = "a secret does not belong in a command: leave it out, and you are asked for it";
        anyhow::ensure!(self.answer.is_none() && self.reply.is_none(), as_argument);
        let given = by_question(&self.text, questions.len())?;
        let mut keyboard = Keyboard::open();
        let mut signals = Signals::listen()?;
        for (n, (question, given)) in
            (1_usize..).zip(questions.iter().zip(given)).filter(|(_, (q, _))| q.secret)
        {
            anyhow::ensure!(given.is_none(), as_argument);
            let pick = if questions.len() > 1 { self.picks.get(n - 1) } else { self.picks.first() };
            if pick.is_some_and(|pick| pick != "-") {
                continue;
            }
            let secret = match &mut keyboard {
                Some(keyboard) => conversation::secret(keyboard, &mut signals, &question.question).await,
                None => io::stdin().lines().next().transpose()?,
            };
            let secret = secret.filter(|secret| !secret.is_empty()).context("no secret was given")?;
            let numbered = if questions.len() > 1 { format!("{n}=") } else { String::new() };
            self.text.push(numbered + &secret);
        }
        Ok(())
    }

    fn build(&self, body: &Body) -> anyhow::Result<Value> {
        if let Some(json) = &self.answer {
            return aye_core::json::parse(json.as_bytes()).context("--answer is not JSON that can be used");
        }
        match body {
            Body::Question(questions) => self.reply(&questions.questions),
            Body::Permission(_) | Body::Plan(_) => self.verdict(body),
        }
    }

    fn reply(&self, questions: &[Question]) -> anyhow::Result<Value> {
        anyhow::ensure!(
            !self.allows() && self.scope.is_none() && self.deny.is_none() && !self.outline,
            "this is a question: pick an option, or give --text, --reply or --skip"
        );
        if self.skip {
            return Ok(json!({ "skip": true }));
        }
        if let Some(reply) = &self.reply {
            return Ok(json!({ "response": reply }));
        }
        let answers = answers(&self.picks, &self.text, &self.note, questions);
        answers.map_err(|problem| match problem.is::<Ambiguous>() {
            true => anyhow::anyhow!("{problem} (in quotes, because of the shell)"),
            false => problem,
        })
    }

    fn allows(&self) -> bool {
        self.allow || self.input.is_some() || self.plan.is_some()
    }

    fn verdict(&self, body: &Body) -> anyhow::Result<Value> {
        let kind = body.kind();
        anyhow::ensure!(
            self.allows() || self.deny.is_some() || self.outline,
            "this is a {kind}: say --allow or --deny \"why\""
        );
        if self.outline {
            return Ok(json!({ "decision": "outline" }));
        }
        let mut verdict = Map::new();
        match (&self.deny, body) {
            (Some(why), _) => {
                verdict.insert("decision".into(), json!("deny"));
                if !why.trim().is_empty() {
                    verdict.insert("message".into(), json!(why));
                }
                if self.interrupt {
                    verdict.insert("interrupt".into(), json!(true));
                }
            }
            (None, Body::Plan(_)) => {
                anyhow::ensure!(self.input.is_none(), "--input is for permissions; a plan takes --plan FILE");
                anyhow::ensure!(self.scope.is_none(), "--scope is for permissions; a plan is approved once");
                verdict.insert("decision".into(), json!("allow"));
                if let Some(path) = &self.plan {
                    let plan = std::fs::read_to_string(path);
                    let plan = plan.with_context(|| format!("cannot read {}", path.display()))?;
                    verdict.insert("plan".into(), json!(plan));
                }
            }
            (None, Body::Permission(_) | Body::Question(_)) => {
                anyhow::ensure!(self.plan.is_none(), "--plan is for plans; a permission takes --input JSON");
                verdict.insert("decision".into(), json!("allow"));
                verdict.insert("scope".into(), json!(self.scope.as_deref().unwrap_or("once")));
                if let Some(input) = &self.input {
                    verdict.insert(
                        "input".into(),
                        aye_core::json::parse(input.as_bytes())
                            .context("--input is not JSON that can be used")?,
                    );
                }
            }
        }
        Ok(Value::Object(verdict))
    }
}

/// The request once its answer has arrived, or as it is a moment later.
async fn became(client: &Client, mut latest: AskView) -> AskView {
    let start = Instant::now();
    let patience = |ask: &AskView| match ask.status.receipt {
        Some(Receipt::Pending | Receipt::Delivered) => MOMENT,
        Some(Receipt::Unknown) => PROOF_MOMENT,
        Some(_) | None => Duration::ZERO,
    };
    while start.elapsed() < patience(&latest) {
        tokio::time::sleep(LOOK_AGAIN).await;
        // It is recorded, whatever else fails.
        let Ok(now) = client.call(&calls::ASK, latest.id.as_str(), &(), &(), Try::Once).await else { break };
        latest = now;
    }
    latest
}

fn became_words(ask: &AskView) -> String {
    match ask.status.receipt {
        Some(Receipt::Pending) | None => {
            let id = &ask.id;
            paint(DIM, format_args!("The agent has not taken it yet. See what becomes of it: aye show {id}"))
        }
        Some(receipt) => receipt_words(receipt),
    }
}

/// What can be read in two ways is not guessed; this says how each of them is written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Ambiguous(pub String);

/// Answers to all questions, from what a person typed for them.
pub fn answers(
    picks: &[String],
    texts: &[String],
    notes: &[String],
    questions: &[Question],
) -> anyhow::Result<Value> {
    let texts = by_question(texts, questions.len())?;
    let notes = by_question(notes, questions.len())?;
    let picks = picks_by_question(picks, questions)?;
    let each = picks.into_iter().zip(texts).zip(notes).zip(questions);
    let answers = each.map(|(((picks, text), note), question)| entry(&picks, text, note, question));
    Ok(json!({ "answers": answers.collect::<anyhow::Result<Vec<_>>>()? }))
}

/// With one question every argument is a pick of it; with several, each question has one argument.
fn picks_by_question(picks: &[String], questions: &[Question]) -> anyhow::Result<Vec<Vec<String>>> {
    if let [only] = questions {
        return Ok(vec![picks.iter().flat_map(|pick| split(pick, only)).collect()]);
    }
    anyhow::ensure!(
        picks.len() <= questions.len(),
        "there are {} questions and {} picks: give one for each, and - to skip one",
        questions.len(),
        picks.len()
    );
    let mut picks: Vec<_> =
        picks.iter().zip(questions).map(|(pick, question)| split(pick, question)).collect();
    picks.resize(questions.len(), Vec::new());
    Ok(picks)
}

/// `1,3` is two picks, unless something on offer reads just so; `#1,#3` is always two.
fn split(pick: &str, question: &Question) -> Vec<String> {
    let numbers = || pick.split(',').all(|part| number(part.trim()).is_some());
    match reads(pick, question).is_none() && numbers() {
        true => pick.split(',').map(|part| part.trim().to_owned()).collect(),
        false => vec![pick.to_owned()],
    }
}

/// The position of the option with exactly this text.
fn reads(pick: &str, question: &Question) -> Option<usize> {
    question.options.iter().position(|offer| offer.label == pick)
}

/// `3` or `#3`.
fn number(pick: &str) -> Option<usize> {
    let digits = pick.strip_prefix('#').unwrap_or(pick);
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn by_question(texts: &[String], questions: usize) -> anyhow::Result<Vec<Option<String>>> {
    let mut by_question = vec![None; questions];
    for text in texts {
        let numbered = text.split_once('=').and_then(|(n, text)| Some((n.parse::<usize>().ok()?, text)));
        let (n, text) = match numbered {
            Some(numbered) if questions > 1 => numbered,
            _ if questions == 1 => (1, text.as_str()),
            _ => anyhow::bail!("there are several questions: say which, as in --text 2=…"),
        };
        let slot = n.checked_sub(1).and_then(|i| by_question.get_mut(i));
        let slot = slot.with_context(|| format!("there is no question {n}"))?;
        anyhow::ensure!(slot.is_none(), "question {n} is given two texts");
        *slot = Some(text.to_owned());
    }
    Ok(by_question)
}

fn entry(
    picks: &[String],
    text: Option<String>,
    note: Option<String>,
    question: &Question,
) -> anyhow::Result<Value> {
    if picks.iter().any(|pick| pick == "-")
        && let Some(place) = reads("-", question)
    {
        let option = place + 1;
        anyhow::bail!(Ambiguous(format!(
            "- skips a question and is also an option here: write #{option} for it"
        )));
    }
    if let [pick] = picks
        && pick == "-"
        && text.is_none()
    {
        return Ok(json!({ "skip": true }));
    }
    let selected = picks.iter().filter(|pick| *pick != "-").map(|pick| label(pick, question));
    let selected = selected.collect::<anyhow::Result<Vec<_>>>()?;
    anyhow::ensure!(
        !selected.is_empty() || text.is_some(),
        "{:?} is not answered: pick an option, give --text, or skip it with -",
        question.question
    );
    let mut entry = Map::new();
    if !selected.is_empty() {
        entry.insert("selected".into(), json!(selected));
    }
    for (field, words) in [("text", text), ("notes", note)] {
        if let Some(words) = words {
            entry.insert(field.into(), json!(words));
        }
    }
    Ok(Value::Object(entry))
}

/// A label as it is or the number of one, else the one label that differs only in case.
fn label(pick: &str, question: &Question) -> anyhow::Result<String> {
    let labels = || question.options.iter().map(|offer| &offer.label);
    let numbered = number(pick).and_then(|number| number.checked_sub(1));
    let numbered = numbered.filter(|place| *place < question.options.len());
    let place = match (reads(pick, question), numbered) {
        (Some(named), Some(numbered)) if named != numbered => {
            let mark = if pick.starts_with('#') { "" } else { "#" };
            let (named, numbered) = (named + 1, numbered + 1);
            anyhow::bail!(Ambiguous(format!(
                "{pick:?} is what option {named} reads and could be the number {numbered}: \
                 write {mark}{named} or {mark}{numbered}"
            )));
        }
        (named, numbered) => named.or(numbered),
    };
    if let Some(offer) = place.and_then(|place| question.options.get(place)) {
        return Ok(offer.label.clone());
    }
    if let Some(number) = number(pick) {
        anyhow::bail!("there is no option {number}");
    }
    let mut alike = labels().filter(|label| label.to_lowercase() == pick.to_lowercase());
    match (alike.next(), alike.next()) {
        (Some(label), None) => Ok(label.clone()),
        _ => anyhow::bail!("{pick:?} is not one of the options; for your own words use --text"),
    }
}

#[cfg(test)]
mod tests;
