//! Asks as people look for them: what waits, what was decided, and by which rule.

use super::asks::read_shown;
use super::row_mac::pass_by;
use super::{AskFilter, AskPage, Decider, Reader, StoreError};
use aye_core::{AgentId, Ask, AskId, Kind};
use rusqlite::ToSql;
use schemars::JsonSchema;
use serde::Serialize;

const OPEN: &str = "state = 'open'";
/// So far back decisions are counted by rule: further back they are too many to count while somebody waits.
const COUNTED: i64 = 100_000;
/// Lasting approvals that are looked up at once.
const MOST_APPROVALS: i64 = 1_000;

impl Reader {
    /// Open asks come oldest first, as they should be answered; ended ones newest first.
    pub fn asks(&self, filter: &AskFilter) -> Result<AskPage, StoreError> {
        // Only the conditions that are asked for, and the state spelled out: an index serves no others.
        let mut conditions = Vec::new();
        let (condition, order) = match filter.state.as_deref() {
            None => ("TRUE", "n DESC"),
            Some("open") => (OPEN, "n"),
            Some("answered") => ("state = 'answered'", "n DESC"),
            Some("expired") => ("state = 'expired'", "n DESC"),
            Some("withdrawn") => ("state = 'withdrawn'", "n DESC"),
            Some("ended") => ("state <> 'open'", "n DESC"),
            Some(_) => return Ok(AskPage { asks: Vec::new(), more: false }),
        };
        conditions.push(condition);
        // One more than asked for tells whether there are more.
        let one_more = i64::from(filter.limit) + 1;
        let mut params: Vec<(&str, &dyn ToSql)> = vec![(":limit", &one_more)];
        let agent = filter.agent.as_ref().map(AgentId::as_str);
        if agent.is_some() {
            conditions.push("agent = :agent");
            params.push((":agent", &agent));
        }
        if filter.id_prefix.is_some() {
            // Ids are visible ASCII, so DEL comes after all of them.
            conditions.push("id BETWEEN :prefix AND :prefix || char(127)");
            params.push((":prefix", &filter.id_prefix));
        }
        let kind = filter.kind.map(Kind::as_str);
        if kind.is_some() {
            conditions.push("kind = :kind");
            params.push((":kind", &kind));
        }
        let before = filter.before.as_ref().map(AskId::as_str);
        if before.is_some() {
            conditions.push("n < (SELECT n FROM asks WHERE id = :before)");
            params.push((":before", &before));
        }
        let after = filter.after.as_ref().map(AskId::as_str);
        if after.is_some() {
            conditions.push("n > (SELECT n FROM asks WHERE id = :after)");
            params.push((":after", &after));
        }
        let rule = match &filter.decided_by {
            Some(Decider::Rule(rule)) => Some(rule),
            Some(Decider::Person | Decider::AnyRule) | None => None,
        };
        match &filter.decided_by {
            None => {}
            Some(Decider::Person) => {
                conditions.push("iif(json_valid(by), by ->> '$.name', NULL) IS NOT NULL")
            }
            Some(Decider::AnyRule) => {
                conditions.push("iif(json_valid(by), by ->> '$.rule', NULL) IS NOT NULL")
            }
            Some(Decider::Rule(_)) => {
                conditions.push("iif(json_valid(by), by ->> '$.rule', NULL) = :rule");
                params.push((":rule", &rule));
            }
        }
        let words = filter.words.as_deref().map(as_it_is_stored);
        if words.is_some() {
            conditions.push(
                "(body LIKE :words ESCAPE '\\' OR answer LIKE :words ESCAPE '\\' OR by LIKE :words ESCAPE '\\'
                  OR cwd LIKE :words ESCAPE '\\' OR id LIKE :words ESCAPE '\\'
                  OR agent IN (SELECT id FROM agents WHERE id LIKE :words ESCAPE '\\' OR title LIKE :words ESCAPE '\\'))",
            );
            params.push((":words", &words));
        }
        let index = if agent.is_some() && condition == OPEN { "INDEXED BY asks_open" } else { "" };
        let conditions = conditions.join(" AND ");
        let sql = format!("SELECT * FROM asks {index} WHERE {conditions} ORDER BY {order} LIMIT :limit");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params.as_slice())?;
        let (mut asks, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let length = |column| {
                Ok::<_, StoreError>(
                    row.get_ref(column)?.as_str_or_null().map_or(0, |text| text.map_or(0, str::len)),
                )
            };
            bytes += length("body")? + length("extras")?;
            let is_full = filter.most_bytes.is_some_and(|most| bytes > most) && !asks.is_empty();
            if is_full || asks.len() == filter.limit as usize {
                return Ok(AskPage { asks, more: true });
            }
            asks.extend(pass_by("asks", read_shown(row))?);
        }
        Ok(AskPage { asks, more: false })
    }

    /// What people allowed for longer than once and an agent was told, of the latest asks, the newest first.
    pub fn lasting_approvals(&self) -> Result<Vec<Ask>, StoreError> {
        let sql = "SELECT * FROM asks WHERE n > (SELECT max(n) FROM asks) - ?1 AND state = 'answered' AND kind = 'permission'
             AND receipt IN ('delivered', 'confirmed')
             AND iif(json_valid(answer), answer ->> '$.scope', NULL) IN ('session', 'always')
             ORDER BY n DESC LIMIT ?2";
        self.rows("asks", sql, (COUNTED, MOST_APPROVALS), read_shown)
    }

    pub fn rule_counts(&self) -> Result<Vec<RuleCount>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT iif(json_valid(by), by ->> '$.rule', NULL) AS rule, count(*) FROM asks
             WHERE n > (SELECT max(n) FROM asks) - ?1 AND by IS NOT NULL AND rule IS NOT NULL
             GROUP BY rule ORDER BY count(*) DESC LIMIT 1000",
        )?;
        let rows =
            statement.query_map([COUNTED], |row| Ok(RuleCount { rule: row.get(0)?, asks: row.get(1)? }))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// A pattern that finds these words in JSON, where quotes and line breaks are escaped.
fn as_it_is_stored(words: &str) -> String {
    let json = serde_json::Value::from(words).to_string();
    let mut pattern = String::from("%");
    for c in json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// How many of the latest asks a rule or grant decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RuleCount {
    pub rule: String,
    pub asks: u64,
}
