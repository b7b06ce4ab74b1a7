//! What was decided: looked for, and taken along as a file.

use super::App;
use super::json::{Failure, Params};
use crate::hub::{AskFilter, Decider, Hub, Problem};
use crate::protocol::{AsksQuery, DeciderFilter, ExportFormat, StateFilter};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use aye_core::visible::one_line;
use aye_core::{Ask, By};
use futures_util::stream;

/// An export reads this many asks at a time, so that a long one costs no more memory than a short one.
const AT_A_TIME: u32 = 500;
const BYTES_AT_A_TIME: usize = 4 * 1024 * 1024;
const LONGEST_WORDS: usize = 200;

pub fn filter(query: AsksQuery, most: u32) -> Result<AskFilter, Failure> {
    let bad = |why: &str| Err(Failure::new(StatusCode::BAD_REQUEST, why));
    let state = match query.state {
        Some(StateFilter::Open) => Some("open"),
        Some(StateFilter::Answered) => Some("answered"),
        Some(StateFilter::Expired) => Some("expired"),
        Some(StateFilter::Withdrawn) => Some("withdrawn"),
        Some(StateFilter::Ended) => Some("ended"),
        Some(StateFilter::All) | None => None,
    };
    let decided_by = match (query.rule, query.decided_by) {
        (Some(rule), None | Some(DeciderFilter::Rules)) => Some(Decider::Rule(rule)),
        (None, Some(DeciderFilter::Rules)) => Some(Decider::AnyRule),
        (None, Some(DeciderFilter::People)) => Some(Decider::Person),
        (None, None) => None,
        (Some(_), Some(DeciderFilter::People)) => {
            return bad("rule can be combined with decided_by=rules only");
        }
    };
    if query.words.as_ref().is_some_and(|words| words.len() > LONGEST_WORDS) {
        return bad("words may be at most 200 bytes long");
    }
    Ok(AskFilter {
        state: state.map(str::to_owned),
        agent: query.agent,
        id_prefix: query.id.map(String::from),
        kind: query.kind,
        decided_by,
        words: query.words.filter(|words| !words.trim().is_empty()),
        before: query.before,
        after: query.after,
        most_bytes: None,
        limit: query.limit.unwrap_or(most).min(most),
    })
}

pub async fn export(State(app): State<App>, Params(query): Params<AsksQuery>) -> Result<Response, Failure> {
    let format = query.format.unwrap_or_default();
    let (kind, name) = match format {
        ExportFormat::Json => ("application/json", "attachment; filename=\"aye-history.json\""),
        ExportFormat::Csv => ("text/csv; charset=utf-8", "attachment; filename=\"aye-history.csv\""),
    };
    let filter = filter(query, u32::MAX)?;
    let export =
        Export { hub: app.hub.clone(), left: filter.limit, filter, format, begun: false, ended: false };
    let parts = stream::try_unfold(export, |mut export| async move {
        Ok::<_, Problem>(export.next().await?.map(|part| (part, export)))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static(name)),
    ];
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// An export under way.
struct Export {
    hub: Hub,
    filter: AskFilter,
    left: u32,
    format: ExportFormat,
    begun: bool,
    ended: bool,
}

impl Export {
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if self.ended {
            return Ok(None);
        }
        self.filter.limit = self.left.min(AT_A_TIME);
        self.filter.most_bytes = Some(BYTES_AT_A_TIME);
        let page = self.hub.asks(self.filter.clone()).await?;
        let (next, asks) = (page.next(), page.asks);
        let found = u32::try_from(asks.len()).unwrap_or(u32::MAX);
        self.left -= found.min(self.left);
        self.ended = next.is_none() || self.left == 0;
        // Open asks come oldest first, all others newest first.
        match self.filter.state.as_deref() {
            Some("open") => self.filter.after = next,
            _ => self.filter.before = next,
        }
        let first = !std::mem::replace(&mut self.begun, true);
        Ok(Some(match self.format {
            ExportFormat::Json => json_part(&asks, first, self.ended),
            ExportFormat::Csv => csv_part(&asks, first),
        }))
    }
}

fn json_part(asks: &[Ask], first: bool, last: bool) -> Bytes {
    let mut out = String::from(if first { "[\n" } else { "" });
    for (i, ask) in asks.iter().enumerate() {
        if !first || i > 0 {
            out.push_str(",\n");
        }
        out.push_str(&serde_json::to_string(ask).unwrap_or_else(|_| "null".to_owned()));
    }
    if last {
        out.push_str("\n]\n");
    }
    out.into()
}

const COLUMNS: &str =
    "id,raised,ended,kind,state,agent,folder,asked,answer,by,surface,rule,receipt,note,digest\r\n";

fn csv_part(asks: &[Ask], first: bool) -> Bytes {
    let mut out = String::from(if first { COLUMNS } else { "" });
    for ask in asks {
        let (name, surface, rule) = match ask.state.by() {
            Some(By::Person { name, surface }) => (name.to_string(), surface.as_str(), String::new()),
            Some(By::Rule { rule }) => (String::new(), "", rule.to_string()),
            None => (String::new(), "", String::new()),
        };
        let cells = [
            ask.id.to_string(),
            ask.created_at.to_string(),
            ask.state.ended_at().map(|at| at.to_string()).unwrap_or_default(),
            ask.body.kind().to_string(),
            ask.state.name().to_owned(),
            ask.agent.to_string(),
            ask.cwd.clone(),
            ask.body.to_json().to_string(),
            ask.state.answer().map(|answer| answer.to_json().to_string()).unwrap_or_default(),
            name,
            surface.to_owned(),
            rule,
            ask.state.receipt().map(|receipt| receipt.as_str().to_owned()).unwrap_or_default(),
            ask.state.note().unwrap_or_default().to_owned(),
            ask.digest.to_string(),
        ];
        let cells: Vec<_> = cells.iter().map(|cell| csv_cell(cell)).collect();
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
    out.into()
}

/// Quoted, hidden characters visible, and never a formula: a spreadsheet runs cells that begin like one.
fn csv_cell(text: &str) -> String {
    let text = one_line(text);
    let guard = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_text_whatever_an_agent_writes_into_it() {
        assert_eq!(csv_cell("plain"), "\"plain\"");
        assert_eq!(csv_cell("a \"b\", c\nd"), "\"a \"\"b\"\", c\\nd\"");
        assert_eq!(csv_cell("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(csv_cell("a\u{202e}b"), "\"a\\u{202e}b\"");
    }
}
