//! What can be used once, soon, and at any of the hubs on a server. A hub that is alone keeps such things in memory.

use super::row_mac::RowText;
use super::sql::{Connection, Row, params};
use super::{Store, StoreError, Tx};
use aye_core::digest::sha256_hex;
use aye_core::trail::ChainKey;
use jiff::SignedDuration;
use rusqlite::types::ValueRef;
use subtle::ConstantTimeEq;

/// What a ticket is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketFor {
    SignIn,
    /// A sign-in code that also lets its browser add the first passkey.
    FirstPasskeyLink,
    /// A session that came by such a link.
    FirstPasskey,
    /// A challenge for a passkey.
    Challenge,
    /// A challenge that a page has signed, so that it is not taken again.
    SignedByPage,
    Preview,
}

impl TicketFor {
    fn as_str(self) -> &'static str {
        match self {
            Self::SignIn => "sign in",
            Self::FirstPasskeyLink => "first passkey link",
            Self::FirstPasskey => "first passkey",
            Self::Challenge => "challenge",
            Self::SignedByPage => "signed by page",
            Self::Preview => "preview",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Ticket {
    pub purpose: TicketFor,
    /// Only its hash is kept.
    pub secret: String,
    pub by: String,
    pub detail: String,
    pub lasts: SignedDuration,
}

/// How many tickets for one purpose there may be.
#[derive(Debug, Clone, Copy)]
pub struct TicketLimits {
    pub of_all: usize,
    /// Per caller; beyond it the caller's oldest ticket is dropped.
    pub of_one: usize,
}

impl TicketLimits {
    /// A limit on the total only.
    pub const fn of_all(most: usize) -> Self {
        Self { of_all: most, of_one: most + 1 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Yes,
    /// It was there already.
    Known,
    /// There are too many.
    NoRoom,
}

impl Store {
    pub async fn put_ticket(&self, ticket: Ticket, room: TicketLimits) -> Result<Kept, StoreError> {
        let key = self.key().clone();
        self.beside(move |connection| put(connection, &key, &ticket, room)).await
    }

    /// Who asked for it and what it says, if it was there and in time. It is not there any more.
    pub async fn take_ticket(
        &self,
        purpose: TicketFor,
        secret: &str,
    ) -> Result<Option<(String, String)>, StoreError> {
        let (key, name) = (self.key().clone(), sha256_hex(secret.as_bytes()));
        let take = move |connection: &Connection| {
            let sql = "DELETE FROM tickets WHERE purpose = ?1 AND name = ?2
                 RETURNING by, detail, until, mac, now_ms()";
            let read = |row: &Row| read(row, &key, purpose.as_str(), &name);
            Ok(connection.first(sql, params![purpose.as_str(), name], read)?.flatten())
        };
        self.beside(take).await
    }

    pub async fn has_ticket(&self, purpose: TicketFor, secret: &str) -> Result<bool, StoreError> {
        let (key, name) = (self.key().clone(), sha256_hex(secret.as_bytes()));
        let look = move |connection: &Connection| {
            let sql = "SELECT by, detail, until, mac, now_ms() FROM tickets WHERE purpose = ?1 AND name = ?2";
            let read = |row: &Row| read(row, &key, purpose.as_str(), &name);
            Ok(connection.first(sql, params![purpose.as_str(), name], read)?.flatten().is_some())
        };
        self.beside(look).await
    }
}

impl Tx<'_> {
    /// Nobody may add the first passkey any more, through whatever link they came.
    pub fn forget_first_passkey_tickets(&self) -> Result<(), StoreError> {
        if !self.connection.is_server() {
            return Ok(());
        }
        let (link, session) = (TicketFor::FirstPasskeyLink.as_str(), TicketFor::FirstPasskey.as_str());
        let sql = "DELETE FROM tickets WHERE purpose IN (?1, ?2)";
        self.connection.execute(sql, params![link, session]).map(drop)
    }
}

fn put(
    connection: &Connection,
    key: &ChainKey,
    ticket: &Ticket,
    room: TicketLimits,
) -> Result<Kept, StoreError> {
    let (purpose, name) = (ticket.purpose.as_str(), sha256_hex(ticket.secret.as_bytes()));
    connection.execute("DELETE FROM tickets WHERE until <= now_ms()", params![])?;
    let sql = "DELETE FROM tickets WHERE purpose = ?1 AND by = ?2 AND name NOT IN
         (SELECT name FROM tickets WHERE purpose = ?1 AND by = ?2 ORDER BY until DESC LIMIT ?3)";
    connection.execute(sql, params![purpose, ticket.by, room.of_one.saturating_sub(1)])?;
    let there: u64 =
        connection.one_value("SELECT count(*) FROM tickets WHERE purpose = ?1", params![purpose])?;
    if there >= room.of_all as u64 {
        return Ok(Kept::NoRoom);
    }
    let now: i64 = connection.one_value("SELECT now_ms()", params![])?;
    let until = now.saturating_add(i64::try_from(ticket.lasts.as_millis()).unwrap_or(i64::MAX));
    let mac = mac(key, purpose, &name, (&ticket.by, &ticket.detail), until);
    let sql = "INSERT INTO tickets (purpose, name, by, detail, until, mac) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO NOTHING";
    let values = params![purpose, name, ticket.by, ticket.detail, until, mac];
    Ok(if connection.execute(sql, values)? == 1 { Kept::Yes } else { Kept::Known })
}

/// Only what a hub put there, and not for longer than it said.
fn read(
    row: &Row,
    key: &ChainKey,
    purpose: &str,
    name: &str,
) -> Result<Option<(String, String)>, StoreError> {
    let (by, detail, until): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let good = mac(key, purpose, name, (&by, &detail), until);
    let is_ours: bool = good.as_bytes().ct_eq(row.get::<String>(3)?.as_bytes()).into();
    Ok((is_ours && until > row.get::<i64>(4)?).then_some((by, detail)))
}

fn mac(key: &ChainKey, purpose: &str, name: &str, (by, detail): (&str, &str), until: i64) -> String {
    let mut text: RowText = [purpose, name, by, detail].into_iter().map(ValueRef::from).collect();
    text.add(ValueRef::Integer(until));
    text.tag(key, "tickets")
}
