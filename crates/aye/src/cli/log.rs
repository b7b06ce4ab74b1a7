use super::{Done, open_database, say};
use crate::home::Home;
use crate::store::AuditFilter;
use crate::surfaces::terminal::style::{BAD, DIM, NAME, paint};
use crate::surfaces::terminal::{answer_lines, shorten};
use anyhow::Context;
use aye_core::trail::Line;
use aye_core::visible::{one_line, visible_json};
use aye_core::{Answer, Kind};
use clap::Args;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

/// Show the audit log: what was asked, who decided, and whether the answer arrived.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye log --limit 20
  aye log --agent nightly --since 2h
  aye log --who ann --kind ask.answered --json

Times are durations back from now (90m, 2h, 3d) or points in time (2026-05-01T08:00:00Z).
Works with and without a running hub.")]
pub struct Log {
    /// Only this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Only this request
    #[arg(long, value_name = "ID")]
    ask: Option<String>,
    /// Only entries by people or rules whose name contains this
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// Only kinds that begin with this: ask, ask.answered, receipt, agent, token, hub
    #[arg(long)]
    kind: Option<String>,
    /// Only from this time on
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only the newest N entries
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Log {
    pub fn run(self, home: &Home) -> Done {
        let database = open_database(home)?;
        let now = Timestamp::now();
        let filter = AuditFilter {
            since: self.since.as_deref().map(|since| moment(since, now)).transpose()?,
            until: self.until.as_deref().map(|until| moment(until, now)).transpose()?,
            agent: self.agent,
            ask: self.ask,
            who: self.who,
            kind: self.kind,
            limit: self.limit,
        };
        let zone = TimeZone::system();
        database.trail(&filter, |line| match self.json {
            true => print_json(&line),
            false => say(&in_words(&line, &zone)),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn print_json(line: &Line) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let text = serde_json::to_string(line).map_err(io::Error::from)?;
    Ok(writeln!(out, "{}", visible_json(&text))?)
}

pub fn moment(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    if let Ok(back) = text.parse::<SignedDuration>() {
        return now.checked_sub(back).context("that is too long ago");
    }
    let days = text.strip_suffix('d').and_then(|days| days.parse::<i64>().ok());
    if let Some(days) = days {
        return now.checked_sub(SignedDuration::from_hours(24 * days)).context("that is too long ago");
    }
    text.parse().with_context(|| {
        format!("{text:?} is neither a duration like 2h nor a time like 2026-05-01T08:00:00Z")
    })
}

/// The trail does not say what kind of request it was; what answers a plan has nothing that only a permission has.
fn answer_in_words(answer: &Value) -> String {
    let kinds = [Kind::Question, Kind::Plan, Kind::Permission];
    let read = kinds.into_iter().find_map(|kind| Answer::decode(kind, answer.clone()).ok());
    read.map_or_else(|| answer.to_string(), |answer| answer_lines(&answer).join(" · "))
}

fn in_words(line: &Line, zone: &TimeZone) -> String {
    let at = line.at.to_zoned(zone.clone()).strftime("%F %T");
    let ask = line.ask.as_deref().unwrap_or("-");
    let detail = &line.detail;
    let told = match line.kind.as_str() {
        "ask.answered" => answer_in_words(&detail["answer"]),
        "ask.raised" => detail["kind"].as_str().unwrap_or_default().to_owned(),
        "agent.command" => {
            let text = detail["text"].as_str().map(|text| format!(": {}", shorten(text, 80)));
            format!("{}{}", detail["type"].as_str().unwrap_or_default(), text.unwrap_or_default())
        }
        "agent.refused_itself" => {
            let text = |field: &str| detail[field].as_str().unwrap_or_default();
            format!("{} {}: {}", text("tool"), shorten(text("input"), 80), text("why"))
        }
        "ask.expired" | "ask.withdrawn" => detail["why"].as_str().unwrap_or_default().to_owned(),
        _ => detail["evidence"].as_str().or(detail["name"].as_str()).unwrap_or_default().to_owned(),
    };
    let alarm = matches!(line.kind.as_str(), "receipt.disputed" | "receipt.unknown" | "receipt.undelivered");
    let kind = format!("{:<18}", line.kind);
    format!(
        "{}  {}  {}  {}  {}\n",
        paint(DIM, at),
        if alarm { paint(BAD, kind) } else { kind },
        paint(NAME, format_args!("{ask:<10}")),
        one_line(&line.who),
        paint(DIM, one_line(&told)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_told_in_words() {
        for (answer, words) in [
            (json!({"answers": [{"selected": ["SQLite"]}, {"text": "mine"}]}), "SQLite · mine"),
            (json!({"decision": "allow", "scope": "session"}), "allowed (session)"),
            (json!({"decision": "deny", "message": "not now", "interrupt": false}), "denied: not now"),
            (json!({"decision": "allow"}), "allowed"),
            (json!({"newer": 1}), "{\"newer\":1}"),
        ] {
            assert_eq!(answer_in_words(&answer), words);
        }
    }
}
