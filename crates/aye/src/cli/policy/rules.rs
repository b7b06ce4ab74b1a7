//! How rules are read, what they nearly cover, and what they covered once.

use super::{Rules, word_of};
use crate::cli::{Done, open_database, say, say_json};
use crate::home::Home;
use crate::surfaces::terminal::style::{BAD, DIM, NAME, paint};
use aye_core::visible::{one_line, shorten};
use aye_core::{Answer, By, Verdict};
use aye_policy::{Decision, Folder, NearMiss, Policy, Rule, RuleId, Source, ToolCall, tool_and_input};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

const LONGEST_EXAMPLE: usize = 100;

/// How far back it is told what a rule allowed that it does not allow any more.
const LATELY: SignedDuration = SignedDuration::from_hours(30 * 24);
const MOST_EXAMPLES: usize = 3;

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    rules: Rules,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub fn run(self, home: &Home) -> Done {
        let policy = self.rules.load(home)?;
        let tools: Vec<String> = policy.auto_approve().map(ToString::to_string).collect();
        if self.json {
            let rules: Vec<Value> = policy.rules().iter().map(rule_json).collect();
            say_json(&json!({ "rules": rules, "auto_approve": tools }))?;
            return Ok(ExitCode::SUCCESS);
        }
        if policy.rules().is_empty() {
            say(&format!("{}\n", paint(DIM, "There are no rules.")))?;
        }
        say(&policy.rules().iter().map(rule_words).collect::<String>())?;
        if !tools.is_empty() {
            say(&format!("approved without asking: {}\n", one_line(&tools.join(", "))))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn rule_json(rule: &Rule) -> Value {
    json!({
        "number": rule.id.number, "name": rule.id.name, "action": word_of(rule.verb),
        "command": rule.command.as_ref().map(ToString::to_string), "read_as": rule.read_as(),
        "cautions": rule.cautions(),
    })
}

fn rule_words(rule: &Rule) -> String {
    let mut conditions = vec![];
    let mut add = |name: &str, pattern: Option<String>| {
        conditions.extend(pattern.map(|pattern| format!("{name} {}", one_line(&pattern))));
    };
    add("agent", rule.agent.clone());
    add("in", rule.cwd.as_ref().map(ToString::to_string));
    add("tool", rule.tool.as_ref().map(ToString::to_string));
    add("command", rule.command.as_ref().map(ToString::to_string));
    for field in &rule.input {
        add(&field.name, Some(field.glob.to_string()));
    }
    let name = paint(NAME, one_line(&rule.id.to_string()));
    let mut out = format!("{name} {}: {}\n", word_of(rule.verb), conditions.join(", "));
    if let Some(read) = rule.read_as() {
        out += &format!("    {}\n", paint(DIM, format_args!("read as: {}", one_line(&read))));
    }
    for caution in rule.cautions() {
        out += &format!("    {} {}\n", paint(BAD, "!"), one_line(&caution));
    }
    out
}

/// What is dangerous about the rules that decided or nearly did.
pub fn cautions_of(policy: &Policy, decision: &Decision, misses: &[NearMiss]) -> Vec<String> {
    let decided = match &decision.source {
        Source::Rules(ids) => ids.as_slice(),
        Source::AutoApprove | Source::Nothing => &[],
    };
    let concerned = |id: &RuleId| decided.contains(id) || misses.iter().any(|miss| miss.rule == *id);
    let rules = policy.rules().iter().filter(|rule| concerned(&rule.id));
    rules.flat_map(|rule| rule.cautions().into_iter().map(|it| format!("rule {}: {it}", rule.id))).collect()
}

pub fn miss_json(miss: &NearMiss) -> Value {
    let advice = &miss.advice;
    json!({
        "rule": miss.rule.to_string(), "command": miss.line, "word": advice.word, "add": advice.add,
        "amended": advice.amended, "cautions": advice.cautions,
    })
}

pub fn miss_words(miss: &NearMiss) -> String {
    let advice = &miss.advice;
    let (rule, word) = (one_line(&miss.rule.to_string()).into_owned(), one_line(&advice.word).into_owned());
    let Some(amended) = &advice.amended else {
        return format!("rule {rule} covers the beginning, but not `{word}` where it is\n");
    };
    let mut out =
        format!("rule {rule} does not cover `{word}`; to cover it, add {}\n", addition(&advice.add));
    // A string of JSON is one of TOML, too.
    out += &format!("    command = {}\n", json!(amended));
    for caution in &advice.cautions {
        out += &format!("    {} {}\n", paint(BAD, "caution:"), one_line(caution));
    }
    out
}

fn addition(pieces: &[String]) -> String {
    let pieces: Vec<_> = pieces.iter().map(|piece| one_line(piece).into_owned()).collect();
    let may_be_flag = |piece: &String| piece.starts_with("[-") && piece.ends_with(" *]") && piece != "[-- *]";
    match pieces.iter().any(may_be_flag) {
        true => format!("{} (without its `*` if the option takes no value)", pieces.join(" ")),
        false => pieces.join(" "),
    }
}

/// What one rule allowed lately and would not allow any more.
pub struct LostByRule {
    pub rule: RuleId,
    pub requests: usize,
    pub examples: Vec<String>,
    /// What to add to the rule, so that it allows them again.
    pub add: Vec<String>,
}

/// Which rules cover less than they did, by what they decided lately.
pub fn lost_lately(home: &Home, policy: &Policy, now: Timestamp) -> anyhow::Result<Vec<LostByRule>> {
    let database = open_database(home)?;
    let places = home.places();
    let mut lost: BTreeMap<usize, LostByRule> = BTreeMap::new();
    database.permissions_since(now.checked_sub(LATELY)?, |ask, kind| {
        let by_rule = matches!(ask.state.by(), Some(By::Rule { rule }) if rule.as_str().starts_with("rule "));
        let allowed = matches!(ask.state.answer(), Some(Answer::Permission(Verdict::Allow { .. })));
        if !by_rule || !allowed {
            return;
        }
        let (tool, input) = tool_and_input(&ask.body);
        let (agent_kind, folder) = (&kind, Folder::Claimed);
        let call =
            ToolCall { agent_kind, cwd: &ask.cwd, folder, tool: &tool, input: &input, places: &places };
        let mut counted = vec![];
        for part in policy.lost(&call) {
            let id = &part.rule.id;
            let new = || LostByRule { rule: id.clone(), requests: 0, examples: vec![], add: vec![] };
            let entry = lost.entry(id.number).or_insert_with(new);
            if !counted.contains(&id.number) {
                counted.push(id.number);
                entry.requests += 1;
            }
            if entry.examples.len() < MOST_EXAMPLES && !entry.examples.contains(&part.line) {
                entry.examples.push(part.line);
            }
            let add = part.advice.map(|advice| advice.add).unwrap_or_default();
            let unknown: Vec<_> = add.into_iter().filter(|piece| !entry.add.contains(piece)).collect();
            entry.add.extend(unknown);
        }
    })?;
    Ok(lost.into_values().collect())
}

/// What a person should know about a rule, given what it allowed lately.
pub fn rule_notes(rule: &Rule, lost: Option<&LostByRule>) -> Vec<String> {
    let mut notes = vec![];
    let written = rule.command.as_ref().map(ToString::to_string).unwrap_or_default();
    if let Some(read) = rule.read_as() {
        notes.push(format!("`{written}` is read as `{read}`, where `*` is plain words and no option"));
    }
    if let Some(LostByRule { requests, examples, .. }) = lost {
        let requests = if *requests == 1 { "one request".to_owned() } else { format!("{requests} requests") };
        let examples: Vec<_> =
            examples.iter().map(|line| format!("`{}`", shorten(line, LONGEST_EXAMPLE))).collect();
        notes.push(format!(
            "it covers less than it did: in the last 30 days it allowed {requests} that you are asked about now, such as {}",
            examples.join(", ")
        ));
    }
    for example in &rule.lost_examples {
        notes.push(format!("it does not match its example {} any more", shorten(example, LONGEST_EXAMPLE)));
    }
    notes.extend(rule.cautions());
    notes
}
