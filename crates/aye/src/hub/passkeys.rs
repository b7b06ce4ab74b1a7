//! Passkeys: what takes one, who has one, and the challenges that are out to be signed.

use super::first_passkey::FirstPasskey;
use super::problem::{NO_RANDOMNESS, random_id};
use super::{Hub, Problem};
use crate::protocol::PasskeyInfo;
use crate::store::passkeys::{added_detail, used_detail};
use crate::store::{Kept, PasskeyRow, Reader, Ticket, TicketFor, TicketLimits, Tx};
use crate::webauthn::{
    Assertion, Encoded, Pages, PasskeyRegistration, Purpose, Registered, Site, Statement, Unproven,
    check_assertion, check_registration,
};
use aye_core::digest::hex;
use aye_core::{AgentId, AskId, Text};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A person needs a moment to find the key; nobody needs longer.
const CHALLENGE_LASTS: SignedDuration = SignedDuration::from_mins(5);
/// Of one caller, whose own oldest gives way; so that nobody pushes out another's.
const MOST_OF_ONE: usize = 16;
const MOST_OF_ALL: usize = 1024;
const TOO_MANY: Problem = Problem::Conflict("too many challenges are out: try again in a few minutes");
const MOST_PASSKEYS: usize = 64;

#[derive(Default)]
pub struct Passkeys {
    pages: OnceLock<Arc<Pages>>,
    challenges: Mutex<HashMap<String, Challenged>>,
    pub(super) first: FirstPasskey,
}

struct Challenged {
    by: String,
    until: Timestamp,
}

/// A challenge to be signed, and by which passkeys.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Challenge {
    pub nonce: String,
    pub challenge: Encoded,
    /// The relying party: the host of the page.
    pub rp: String,
    /// The credentials that can be used there.
    pub credentials: Vec<Encoded>,
    pub until: Timestamp,
}

impl From<PasskeyRow> for PasskeyInfo {
    fn from(row: PasskeyRow) -> Self {
        Self { id: row.id, name: row.name, rp: row.rp, created_at: row.created_at, used_at: row.used_at }
    }
}

/// A signature that a call brought.
pub struct Presented {
    assertion: Option<Assertion>,
    /// Whether its challenge was out. It is not any more: each serves once.
    fresh: bool,
    pages: Arc<Pages>,
    /// Where in the page the person is sent who cannot do it here.
    place: String,
}

/// What a signature must be for, and whom the trail names.
pub struct SignedAct<'a> {
    pub purpose: Purpose,
    pub subject: Value,
    pub agent: Option<&'a AgentId>,
    pub ask: Option<&'a AskId>,
    pub who: &'a str,
}

impl Presented {
    /// Writes the signature into the trail if it is good.
    pub fn check(self, tx: &mut Tx, act: &SignedAct, now: Timestamp) -> Result<(), Problem> {
        let page =
            self.pages.first().map(|site| format!("{}/{}", site.origin, self.place)).unwrap_or_default();
        let refused = |why: String| Problem::Unproven { why, page: page.clone() };
        let Some(assertion) = self.assertion else {
            return Err(refused(match tx.passkeys()?.is_empty() {
                true => "This can only be allowed with a passkey, and none is registered: run `aye passkey add` where the hub runs. Until then it can only be refused.".to_owned(),
                false => format!("This can only be allowed with a passkey, on the page: {page}"),
            }));
        };
        let wrong = |why: Unproven| refused(format!("Not allowed: {why}."));
        if !self.fresh {
            return Err(wrong(Unproven::Stale));
        }
        let passkey = tx.passkey_of(&assertion.credential)?.ok_or_else(|| wrong(Unproven::UnknownPasskey))?;
        let statement = Statement { purpose: act.purpose, nonce: &assertion.nonce, subject: &act.subject };
        let key = (&passkey.key, passkey.rp.as_str());
        let is_ours = |site: &Site| self.pages.contains(site);
        let counter = check_assertion(&assertion, statement, key, is_ours).map_err(wrong)?;
        // Some authenticators never count. One that counts and goes back may have been copied: a hint, no proof.
        let copied = (counter, passkey.counter) != (0, 0) && counter <= passkey.counter;
        if copied {
            tracing::warn!(passkey = %passkey.id, "the counter of a passkey went back: there may be a copy of it");
        }
        tx.passkey_used(&passkey.id, counter, now)?;
        let detail = used_detail(&passkey.id, statement, &assertion, copied);
        Ok(tx.audit(now, "passkey.used", act.who, act.agent, act.ask, detail)?)
    }
}

impl Passkeys {
    fn challenges(&self) -> MutexGuard<'_, HashMap<String, Challenged>> {
        self.challenges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pages(&self) -> Arc<Pages> {
        self.pages.get().cloned().unwrap_or_default()
    }

    /// From here on this nonce can be taken once.
    fn give(&self, nonce: &str, by: &str, until: Timestamp, now: Timestamp) -> Result<(), Problem> {
        let mut out = self.challenges();
        out.retain(|_, challenged| challenged.until > now);
        let own = out.iter().filter(|(_, challenged)| challenged.by == by);
        let (count, oldest) = (own.clone().count(), own.min_by_key(|(_, challenged)| challenged.until));
        if let Some(oldest) = oldest.map(|(nonce, _)| nonce.clone()).filter(|_| count >= MOST_OF_ONE) {
            out.remove(&oldest);
        }
        if out.len() >= MOST_OF_ALL {
            return Err(TOO_MANY);
        }
        out.insert(nonce.to_owned(), Challenged { by: by.to_owned(), until });
        Ok(())
    }

    fn take(&self, nonce: &str, now: Timestamp) -> bool {
        self.challenges().remove(nonce).is_some_and(|challenged| challenged.until > now)
    }
}

impl Hub {
    /// Said once, when the hub knows where it listens: on other pages no passkey counts.
    pub fn serves_pages(&self, pages: Pages) {
        if self.inner.passkeys.pages.set(Arc::new(pages)).is_err() {
            tracing::warn!("where the page is served was said twice; the first counts");
        }
    }

    pub fn pages(&self) -> Arc<Pages> {
        self.inner.passkeys.pages()
    }

    pub async fn passkeys(&self) -> Result<Vec<PasskeyInfo>, Problem> {
        let rows = self.inner.store.read(Reader::passkeys).await?;
        Ok(rows.into_iter().map(PasskeyInfo::from).collect())
    }

    /// A code that signs a browser in, and lets it add the first passkey.
    pub async fn first_passkey_code(&self) -> Result<String, Problem> {
        let code = self.sign_in_code().await?;
        self.offer_first_passkey(&code).await?;
        let (first, now) = (self.inner.passkeys.first.clone(), self.inner.clock.now());
        let page = self.passkeys_page();
        // In the order of all additions, so that none happens between the look and the offer.
        let work = move |tx: &mut Tx| {
            if !tx.complete_passkeys()?.is_empty() {
                let why = format!(
                    "A passkey is registered, and it has to sign for another one. Add that on the page: {page} \
                     (`aye open` signs another browser in)"
                );
                return Err(Problem::Unproven { why, page });
            }
            first.offer(&code, now);
            Ok(code)
        };
        self.inner.store.write(work).await
    }

    fn passkeys_page(&self) -> String {
        self.pages().first().map(|site| format!("{}/#/passkeys", site.origin)).unwrap_or_default()
    }

    /// A challenge for a page at this site.
    pub async fn challenge(
        &self,
        purpose: Purpose,
        subject: &Value,
        site: &Site,
        by: &str,
    ) -> Result<Challenge, Problem> {
        let rows = self.inner.store.read(Reader::passkeys).await?;
        let credentials =
            rows.into_iter().filter(|row| row.rp == site.rp).map(|row| row.credential).collect();
        let (nonce, until) = self.give_challenge(by).await?;
        let challenge = Statement { purpose, nonce: &nonce, subject }.challenge();
        Ok(Challenge { nonce, challenge, rp: site.rp.clone(), credentials, until })
    }

    /// A nonce that can be taken once.
    async fn give_challenge(&self, by: &str) -> Result<(String, Timestamp), Problem> {
        let (mut bytes, now) = ([0; 16], self.inner.clock.now());
        getrandom::fill(&mut bytes).map_err(|_| NO_RANDOMNESS)?;
        let (nonce, until) = (hex(&bytes), now.saturating_add(CHALLENGE_LASTS).unwrap_or(now));
        if !self.inner.store.is_on_server() {
            self.inner.passkeys.give(&nonce, by, until, now)?;
            return Ok((nonce, until));
        }
        let (secret, by, detail) = (nonce.clone(), by.to_owned(), String::new());
        let ticket = Ticket { purpose: TicketFor::Challenge, secret, by, detail, lasts: CHALLENGE_LASTS };
        let room = TicketLimits { of_all: MOST_OF_ALL, of_one: MOST_OF_ONE };
        match self.inner.store.put_ticket(ticket, room).await? {
            Kept::Yes => Ok((nonce, until)),
            Kept::Known | Kept::NoRoom => Err(TOO_MANY),
        }
    }

    async fn take_challenge(&self, nonce: &str) -> Result<bool, Problem> {
        match self.inner.store.is_on_server() {
            true => Ok(self.inner.store.take_ticket(TicketFor::Challenge, nonce).await?.is_some()),
            false => Ok(self.inner.passkeys.take(nonce, self.inner.clock.now())),
        }
    }

    /// Takes the challenge of a signature off the list, before anything else is known of it.
    pub(super) async fn present(
        &self,
        assertion: Option<Assertion>,
        place: String,
    ) -> Result<Presented, Problem> {
        let fresh = match &assertion {
            Some(assertion) => self.take_challenge(&assertion.nonce).await?,
            None => false,
        };
        Ok(Presented { assertion, fresh, pages: self.inner.passkeys.pages(), place })
    }

    /// What a new passkey says of itself. The challenge stays out: first another passkey may have to sign for it.
    fn read_registration(&self, registration: &PasskeyRegistration) -> Result<Registered, Problem> {
        let statement =
            Statement { purpose: Purpose::Register, nonce: &registration.nonce, subject: &json!({}) };
        check_registration(registration, statement, &self.pages()).map_err(|why| self.not_added(&why))
    }

    pub fn subject_of_addition(
        &self,
        registration: &PasskeyRegistration,
        name: &Text,
    ) -> Result<(Purpose, Value), Problem> {
        let new = self.read_registration(registration)?;
        Ok((Purpose::AddPasskey, new_subject(&new, name)))
    }

    fn not_added(&self, why: &Unproven) -> Problem {
        Problem::Unproven { why: format!("The passkey was not added: {why}."), page: self.passkeys_page() }
    }

    /// Adds a passkey: the first by its link, any other by the signature of one that is there.
    pub async fn add_passkey(
        &self,
        (registration, name): (PasskeyRegistration, Text),
        assertion: Option<Assertion>,
        (session, who): (String, String),
    ) -> Result<PasskeyInfo, Problem> {
        let now = self.inner.clock.now();
        let new = self.read_registration(&registration)?;
        if !self.take_challenge(&registration.nonce).await? {
            return Err(self.not_added(&Unproven::Stale));
        }
        let first = self.inner.passkeys.first.clone();
        let has_ticket = match self.inner.store.is_on_server() {
            true => Some(self.may_add_first_passkey(&session).await?),
            false => None,
        };
        let presented = self.present(assertion, "#/passkeys".to_owned()).await?;
        let id = random_id()?.as_str().to_owned();
        let work = move |tx: &mut Tx| {
            let there = tx.complete_passkeys()?;
            if there.len() >= MOST_PASSKEYS {
                return Err(Problem::Conflict("there are too many passkeys: remove one first"));
            }
            if there.iter().any(|passkey| passkey.credential == new.credential) {
                return Err(Problem::Conflict("this passkey is registered already"));
            }
            match there.is_empty() {
                true if has_ticket.unwrap_or_else(|| first.may_add(&session, now)) => {}
                true => {
                    return Err(Problem::NotAllowed(
                        "the first passkey needs the link that `aye passkey add` prints where the hub runs",
                    ));
                }
                false => {
                    let subject = new_subject(&new, &name);
                    let act = SignedAct {
                        purpose: Purpose::AddPasskey,
                        subject,
                        agent: None,
                        ask: None,
                        who: &who,
                    };
                    presented.check(tx, &act, now)?;
                }
            }
            let Registered { credential, key, rp, counter } = new;
            let row = PasskeyRow { id, credential, key, name, rp, counter, created_at: now, used_at: None };
            // Whichever way it came, it is no longer the first that anybody could add.
            first.is_there();
            tx.forget_first_passkey_tickets()?;
            tx.put_passkey(&row)?;
            tx.audit(now, "passkey.added", &who, None, None, added_detail(&row))?;
            Ok(PasskeyInfo::from(row))
        };
        self.inner.store.write(work).await
    }

    pub async fn remove_passkey(
        &self,
        id: String,
        assertion: Option<Assertion>,
        who: String,
    ) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        let presented = self.present(assertion, "#/passkeys".to_owned()).await?;
        let work = move |tx: &mut Tx| {
            let passkey = tx.passkeys()?.into_iter().find(|passkey| passkey.id == id);
            let PasskeyRow { id, credential, .. } = passkey.ok_or(Problem::NoSuchPasskey)?;
            let subject = json!({ "passkey": id });
            let act =
                SignedAct { purpose: Purpose::RemovePasskey, subject, agent: None, ask: None, who: &who };
            presented.check(tx, &act, now)?;
            tx.remove_passkey(&id, now)?;
            let detail = json!({ "passkey": id, "credential": credential });
            Ok(tx.audit(now, "passkey.removed", &who, None, None, detail)?)
        };
        self.inner.store.write(work).await
    }
}

/// What another passkey signs for a new one: this key, by this name.
fn new_subject(new: &Registered, name: &Text) -> Value {
    json!({ "credential": new.credential, "key": new.key, "name": name, "rp": new.rp })
}
