//! The key that the lines of the trail are bound with, and the rows that the hub relies on. Who can write the database
//! and cannot read `chain.key` can change no line from the marked one on, and no such row.

use super::asks::json;
use super::live_rows::{self, Doubt, LiveRows};
use super::sql::{Connection, Row, params};
use super::{OpenError, StoreError, audit, head};
use crate::home::{ChainKeyFile, Home, RowMarks};
use aye_core::trail::{Chain, ChainKey, Line};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::io::Error;

/// The line from which on the trail is keyed.
pub const KEYED: &str = "chain.keyed";
/// The line from which on it has a new key, because the key before was lost, or the trail before it is not ours.
pub const REKEYED: &str = "chain.rekeyed";
/// Lines that the hub had written are not there any more.
pub const CUT: &str = "chain.cut";
/// The rows in force were not as the hub had left them, so they were revoked.
pub const DOUBTED: &str = "rows.doubted";

/// What a hub goes on from.
pub struct Begun {
    pub key: ChainKey,
    pub newest: Chain,
    /// The number of this change, on a server.
    pub group: u64,
    /// The number of the last change that the surfaces were told of.
    pub seq: u64,
    pub live_rows: LiveRows,
    /// The tag stays unchanged until these rows are revoked, so a hub that is killed before that revokes them at its next
    /// start.
    pub doubt: Option<Doubt>,
}

/// A trail that has no key yet, or whose key is gone, gets one, and a line that says so. With `beside`, a connection to the
/// same server, most is read before the others have to wait.
pub fn begin(
    connection: &Connection,
    beside: Option<&Connection>,
    home: &Home,
    now: Timestamp,
) -> Result<Begun, OpenError> {
    let key_error = |why| OpenError::Key { path: home.chain_key_file(), why };
    let found = home.chain_key().map_err(key_error)?;
    let mut early = match (beside, &found) {
        (Some(beside), Some(file)) => read_early(beside, &file.key)?,
        _ => None,
    };
    let (file, begun) = connection.in_change(&home.database(), || {
        let left = audit::chain_head(connection)?;
        let (file, is_cut) = begin_in(connection, home, now)?;
        connection.mark_rows(&file.key, file.marks)?;
        let newest = audit::chain_head(connection)?;
        let caught_up = match early.take() {
            Some((group, rows)) if newest == left => rows.catch_up(connection, group, &left)?,
            _ => None,
        };
        let live_rows = match caught_up {
            Some(rows) => rows,
            None => LiveRows::read(connection, &file.key)?,
        };
        // A new part of the trail has no earlier tag to compare with.
        let is_known = file.marks == RowMarks::Standing && newest == left;
        let doubt = match is_cut {
            true => Some(Doubt::TrailWasCut),
            false if is_known && !live_rows::is_as_left(connection, &live_rows, &left)? => {
                Some(Doubt::RowsWereChanged)
            }
            false => None,
        };
        if doubt.is_none() {
            live_rows::write_tag(connection, &live_rows, &newest)?;
        }
        let (key, group) = (file.key.clone(), connection.group());
        let seq = connection.last_number("outbox")?;
        Ok((file, Begun { key, newest, group, seq, live_rows, doubt }))
    })?;
    // After the rows: a hub that is killed in between marks them again.
    if file.marks != RowMarks::Standing {
        home.write_chain_key(&ChainKeyFile { marks: RowMarks::Standing, ..file }).map_err(key_error)?;
    }
    Ok(begun)
}

/// The rows that stand, and the group after which they do.
fn read_early(connection: &Connection, key: &ChainKey) -> Result<Option<(u64, LiveRows)>, StoreError> {
    let _moment = connection.moment()?;
    let (group, _) = connection.look_at_head(&Chain::default())?;
    group.map(|group| Ok((group, LiveRows::read(connection, key)?))).transpose()
}

/// The key, and whether lines are missing.
fn begin_in(connection: &Connection, home: &Home, now: Timestamp) -> Result<(ChainKeyFile, bool), OpenError> {
    let key_error = |why| OpenError::Key { path: home.chain_key_file(), why };
    let found = home.chain_key().map_err(key_error)?;
    let mut missing = match &found {
        Some(file) => missing(connection, home, file)?,
        // Whoever took the key away may take the rest as it is.
        None => None,
    };
    if connection.is_server() {
        check_key_of_server(connection, home, found.as_ref(), missing.as_ref())?;
    }
    let file = match found {
        Some(file) if is_marked(connection, &file)? => file,
        Some(file) => {
            // A hub that was killed between the file and the line left the trail as it was before; nobody else does.
            if audit::chain_head(connection)? != file.before() {
                missing = missing.or_else(|| Some(file.before()));
            }
            begin_part(connection, home, (file.key, file.marks), None, now)?
        }
        None => {
            let lost = last_key(connection)?;
            if let Some(lost) = &lost {
                tracing::error!(
                    key = lost,
                    "the key of the trail is lost; what was written with it cannot be checked any more"
                );
            }
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes).map_err(|error| key_error(error.into()))?;
            begin_part(connection, home, (ChainKey::new(bytes), RowMarks::None), lost, now)?
        }
    };
    if let Some(Chain { lines, head }) = &missing {
        tracing::error!("the trail had at least {lines} lines, and now some are missing; run `aye verify`");
        write(connection, CUT, json!({ "line": lines, "head": head }), &file.key, now)?;
    }
    Ok((file, missing.is_some()))
}

/// A trail on a server is not begun anew by a home that does not know it: the home may be the wrong one.
fn check_key_of_server(
    connection: &Connection,
    home: &Home,
    found: Option<&ChainKeyFile>,
    missing: Option<&Chain>,
) -> Result<(), OpenError> {
    let refuse = |why: String| Err(OpenError::Key { path: home.chain_key_file(), why: Error::other(why) });
    let written_with = last_key(connection)?;
    match (found, written_with) {
        (_, None) if audit::chain_head(connection)? != Chain::default() => {
            refuse("the database has a trail without a key".to_owned())
        }
        (Some(file), None) if file.line > 1 || missing.is_some() => {
            refuse(
                "this home has a trail already, and the database has none: copy it there with `aye store copy`, or take an \
                 AYE_HOME of its own"
                    .to_owned(),
            )
        }
        (_, None) => Ok(()),
        (found, Some(key)) if found.is_none_or(|file| file.key.id() != key) => refuse(format!(
            "the trail in the database was written with the key {key}, and this is not it: bring chain.key, chain.head and \
             agent.key from the home of the hub that wrote it"
        )),
        (Some(file), Some(_)) if !is_marked(connection, file)? => {
            refuse("it names a line of the trail that is not there".to_owned())
        }
        (_, Some(_)) => match missing {
            None => Ok(()),
            Some(Chain { lines, .. }) => refuse(format!(
                "the database is behind: this home has seen line {lines}, and it is not there. If you put back a backup, \
                 remove {} to go on from there",
                home.chain_head_file().display()
            )),
        },
    }
}

/// What the hub is known to have written, if it is not in the trail.
fn missing(connection: &Connection, home: &Home, file: &ChainKeyFile) -> Result<Option<Chain>, OpenError> {
    let path = home.chain_head_file();
    let noted = head::read(&path).map_err(|why| OpenError::Io { path, why })?;
    let noted = match noted {
        Some(noted) => noted,
        None => file.before(),
    };
    let there = noted.lines == 0 || audit::has_line(connection, &noted)?;
    Ok((!there).then_some(noted))
}

fn is_marked(connection: &Connection, file: &ChainKeyFile) -> Result<bool, StoreError> {
    let sql = "SELECT kind, detail FROM audit WHERE seq = ?1";
    let read = |row: &Row| Ok((row.get::<String>(0)?, row.get::<String>(1)?));
    let found = connection.first(sql, params![file.line], read)?;
    let Some((kind, detail)) = found else { return Ok(false) };
    let names_it = json(&detail).is_ok_and(|detail: Value| detail["key"] == file.key.id().as_str());
    Ok(matches!(kind.as_str(), KEYED | REKEYED) && names_it)
}

/// With the kinds spelled out: only then the index over such lines serves it.
pub const LAST_KEY: &str =
    "SELECT detail FROM audit WHERE kind IN ('chain.keyed', 'chain.rekeyed') ORDER BY seq DESC LIMIT 1";

/// The name of the key that the trail was last written with.
fn last_key(connection: &Connection) -> Result<Option<String>, StoreError> {
    let detail: Option<String> = connection.first(LAST_KEY, params![], |row| row.get(0))?;
    let name = |detail: String| Ok(json(&detail)?["key"].as_str().unwrap_or("unknown").to_owned());
    detail.map(name).transpose()
}

/// Keys the trail from its next line on. The file comes first: a hub that is killed in between does this again.
fn begin_part(
    connection: &Connection,
    home: &Home,
    (key, marks): (ChainKey, RowMarks),
    lost: Option<String>,
    now: Timestamp,
) -> Result<ChainKeyFile, OpenError> {
    let chain = audit::chain_head(connection)?;
    let file = ChainKeyFile { key, line: chain.lines + 1, after: chain.head, marks };
    home.write_chain_key(&file).map_err(|why| OpenError::Key { path: home.chain_key_file(), why })?;
    let is_keyed = connection.exists("SELECT 1 FROM audit WHERE kind = ?1 LIMIT 1", params![KEYED])?;
    let kind = if is_keyed { REKEYED } else { KEYED };
    write(connection, kind, json!({ "key": file.key.id(), "lost": lost }), &file.key, now)?;
    Ok(file)
}

fn write(
    connection: &Connection,
    kind: &str,
    detail: Value,
    key: &ChainKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    let chain = audit::chain_head(connection)?;
    let (kind, who) = (kind.to_owned(), "hub".to_owned());
    let line = Line { seq: chain.lines + 1, at: now, kind, who, agent: None, ask: None, detail };
    audit::append(connection, &chain, &line, key).map(drop)
}
