//! Asks as people look for them: what waits, what was decided, and by which rule.

use super::asks::{ASK_COLUMNS, column, read_shown};
use super::row_mac::pass_by;
use super::sql::{Conditions, containing, params};
use super::{AskFilter, AskPage, Decider, Reader, StoreError};
use aye_core::{AgentId, Ask, AskId, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::ControlFlow;

const OPEN: &str = "state = 'open'";
/// Decisions by rule are counted among this many of the newest asks; counting more would be too slow for a request.
const COUNTED: i64 = 100_000;
/// Lasting approvals that are looked up at once.
const MOST_APPROVALS: i64 = 1_000;

impl Reader {
    /// Open asks come oldest first, as they should be answered; ended ones newest first.
    pub fn asks(&self, filter: &AskFilter) -> Result<AskPage, StoreError> {
        // The state spelled out: an index serves no others.
        let (state, order) = match filter.state.as_deref() {
            None => ("TRUE", "n DESC"),
            Some("open") => (OPEN, "n"),
            Some("answered") => ("state = 'answered'", "n DESC"),
            Some("expired") => ("state = 'expired'", "n DESC"),
            Some("withdrawn") => ("state = 'withdrawn'", "n DESC"),
            Some("ended") => ("state <> 'open'", "n DESC"),
            Some(_) => return Ok(AskPage { asks: Vec::new(), more: false }),
        };
        let (agent, kind) = (filter.agent.as_ref().map(AgentId::as_str), filter.kind.map(Kind::as_str));
        let prefix = filter.id_prefix.as_deref();
        // Ids are visible ASCII, so DEL comes after all of them.
        let after_prefix = prefix.map(|prefix| format!("{prefix}\u{7f}"));
        let before = filter.before.as_ref().map(AskId::as_str);
        let after = filter.after.as_ref().map(AskId::as_str);
        let (person, by_rule) =
            (self.connection.json_field("by", "name"), self.connection.json_field("by", "rule"));
        let (by_person, by_any_rule) = (format!("{person} IS NOT NULL"), format!("{by_rule} IS NOT NULL"));
        let by_this_rule = format!("{by_rule} = :rule");
        let mut rule = None;
        let words = filter.words.as_deref().map(as_it_is_stored);
        let has_words = self.has_words();
        let mut conditions = Conditions::default();
        conditions.must(state);
        match &filter.decided_by {
            None => {}
            Some(Decider::Person) => conditions.must(&by_person),
            Some(Decider::AnyRule) => conditions.must(&by_any_rule),
            Some(Decider::Rule(name)) => rule = Some(name),
        }
        conditions.given(":rule", &rule, &by_this_rule);
        conditions.given(":agent", &agent, "agent = :agent");
        conditions.given(":prefix", &prefix, "id >= :prefix");
        conditions.given(":after_prefix", &after_prefix, "id < :after_prefix");
        conditions.given(":kind", &kind, "kind = :kind");
        conditions.given(":before", &before, "n < (SELECT n FROM asks WHERE id = :before)");
        conditions.given(":after", &after, "n > (SELECT n FROM asks WHERE id = :after)");
        conditions.given(":words", &words, &has_words);
        let index = match agent.is_some() && state == OPEN {
            true => self.connection.indexed_by("asks_open"),
            false => String::new(),
        };
        // One more than asked for tells whether there are more.
        let one_more = i64::from(filter.limit) + 1;
        let sql = format!(
            "SELECT {} FROM asks {index} WHERE {} ORDER BY {order} LIMIT {one_more}",
            self.ask_columns()?,
            conditions.text()
        );
        let (mut asks, mut bytes) = (Vec::new(), 0);
        let mut more = false;
        self.connection.each(&sql, conditions.values(), |row| {
            let length = |column: usize| {
                let text = row.value(column)?;
                Ok::<_, StoreError>(text.as_str_or_null().map_or(0, |text| text.map_or(0, str::len)))
            };
            bytes += length(column::BODY)? + length(column::EXTRAS)?;
            let is_full = filter.most_bytes.is_some_and(|most| bytes > most) && !asks.is_empty();
            if is_full || asks.len() == filter.limit as usize {
                more = true;
                return Ok::<_, StoreError>(ControlFlow::Break(()));
            }
            asks.extend(pass_by("asks", read_shown(row))?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(AskPage { asks, more })
    }

    fn has_words(&self) -> String {
        let columns = |columns: &[&str]| {
            let like = self.connection.like();
            columns
                .iter()
                .map(|column| format!("{column} {like} :words ESCAPE '\\'"))
                .collect::<Vec<_>>()
                .join(" OR ")
        };
        format!(
            "({} OR agent IN (SELECT id FROM agents WHERE {}))",
            columns(&["body", "answer", "by", "cwd", "id"]),
            columns(&["id", "title"])
        )
    }

    /// What people allowed for longer than once and an agent was told, of the latest asks, the newest first.
    pub fn lasting_approvals(&self) -> Result<Vec<Ask>, StoreError> {
        let sql = format!(
            "SELECT {ASK_COLUMNS} FROM asks WHERE n > (SELECT max(n) FROM asks) - ?1 AND state = 'answered' AND kind = 'permission'
             AND receipt IN ('delivered', 'confirmed') AND {} IN ('session', 'always')
             ORDER BY n DESC LIMIT ?2",
            self.connection.json_field("answer", "scope")
        );
        self.rows("asks", &sql, params![COUNTED, MOST_APPROVALS], read_shown)
    }

    pub fn rule_counts(&self) -> Result<Vec<RuleCount>, StoreError> {
        let sql = format!(
            "SELECT rule, count(*) FROM (
                 SELECT {} AS rule FROM asks WHERE n > (SELECT max(n) FROM asks) - ?1 AND by IS NOT NULL
             ) AS decided WHERE rule IS NOT NULL GROUP BY rule ORDER BY count(*) DESC LIMIT 1000",
            self.connection.json_field("by", "rule")
        );
        self.connection
            .all(&sql, params![COUNTED], |row| Ok(RuleCount { rule: row.get(0)?, asks: row.get(1)? }))
    }
}

/// A pattern that finds these words in JSON, where quotes and line breaks are escaped.
fn as_it_is_stored(words: &str) -> String {
    let json = serde_json::Value::from(words).to_string();
    containing(json.trim_start_matches('"').strip_suffix('"').unwrap_or_default())
}

/// How many of the latest asks a rule or grant decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RuleCount {
    pub rule: String,
    pub asks: u64,
}
