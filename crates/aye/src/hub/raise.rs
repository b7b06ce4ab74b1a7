use super::allow::{Allowed, Early};
use super::askers::{MOST_READ, Use};
use super::change::publish_agent;
use super::decide::{Lookup, PolicyReading, decide};
use super::problem::{on_another_thread, random_id};
use super::write_budget::{REQUEST, WriteBudget};
use super::{Hub, Problem, Voucher, extras};
use crate::store::{AgentRow, Tx};
use aye_core::{
    AgentId, Ask, AskHead, AskId, Before, Body, Can, Digest, Extras, Grants, Key, Proof, ReportedState,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// One agent may have this many asks open, a hundred sub-agents' worth of them, and this much text in them: what is
/// open is held in memory by surfaces and sent to each of them.
const MOST_OPEN: u64 = 1000;
const MOST_OPEN_BYTES: u64 = 16 * 1024 * 1024;

const UNREAD: &str = "the policy could not be read for this ask";

/// An ask as an adapter raises it.
#[derive(Debug, Clone)]
pub struct Raise {
    pub key: Key,
    pub agent: AgentId,
    pub body: Body,
    /// What the agent's machine says of the file that would change.
    pub before: Option<Before>,
    /// The folder that its adapter says it was asked in.
    pub cwd: Option<String>,
    pub timeout: Option<SignedDuration>,
    pub tool_use_id: Option<String>,
    pub sub_agent: Option<String>,
    /// What the agent can take from here.
    pub can: Can,
}

#[derive(Debug)]
pub struct Raised {
    pub ask: Ask,
    pub new: bool,
    /// For an ask that is not on disk yet.
    pub voucher: Option<Voucher>,
}

impl Raise {
    /// The ask that this raises in a folder.
    pub(super) fn open(
        self,
        id: AskId,
        agent: &AgentRow,
        reading: &PolicyReading,
        proof: Proof,
        now: Timestamp,
    ) -> Ask {
        self.open_in(id, &agent.profile.cwd, reading.has_checked(agent), proof, now)
    }

    /// The same in a folder that is known by itself.
    pub(super) fn open_in(
        self,
        id: AskId,
        cwd: &str,
        cwd_checked: bool,
        proof: Proof,
        now: Timestamp,
    ) -> Ask {
        // To the millisecond, which is what the store keeps.
        let deadline = self.timeout.and_then(|timeout| now.saturating_add(timeout).ok());
        let deadline =
            deadline.and_then(|deadline| Timestamp::from_millisecond(deadline.as_millisecond()).ok());
        let head = AskHead {
            cwd_checked,
            tool_use_id: self.tool_use_id,
            sub_agent: self.sub_agent,
            deadline,
            proof,
            ..AskHead::new(id, self.key, self.agent, cwd, &self.body, now)
        };
        Ask::open(head, self.body)
    }
}

/// What is known of an ask before anything is written.
struct Prepared {
    raise: Raise,
    reading: PolicyReading,
    /// What people are shown beside the ask; almost empty for what a rule allows.
    extras: Extras,
    agent: AgentRow,
    allowed: Option<Allowed>,
}

impl Prepared {
    fn new(
        mut raise: Raise,
        id: &AskId,
        (agent, key_is_used): (Option<AgentRow>, bool),
        lookup: &Lookup,
        now: Timestamp,
    ) -> Self {
        let before = raise.before.take();
        let known = agent.is_some() && !key_is_used;
        let agent = agent.unwrap_or_else(|| AgentRow::unannounced(raise.agent.clone(), now));
        let reading = lookup.read(&raise.body, &agent, raise.cwd.as_deref());
        let allowed =
            (known && raise.can.answer).then(|| Allowed::of(&raise, id, &agent, &reading, now)).flatten();
        let extras = match &allowed {
            Some(_) => Extras { before, ..Extras::default() },
            None => extras::of(&raise.body, before, &agent, &lookup.places),
        };
        Self { raise, reading, extras, agent, allowed }
    }

    /// A person is asked after all, and no grant would count.
    fn goes_to_a_person(mut self, why: &str, places: &aye_policy::OwnPlaces) -> Self {
        self.reading.goes_to_a_person(why);
        if self.allowed.take().is_some() {
            self.extras = extras::of(&self.raise.body, self.extras.before, &self.agent, places);
        }
        self.extras.remarks.grants = Grants::default();
        self
    }
}

impl Hub {
    /// Raising the same key again returns the same ask, whatever became of it meanwhile.
    pub async fn raise(&self, raise: Raise) -> Result<Raised, Problem> {
        let now = self.inner.clock.now();
        let id = random_id()?;
        self.heard(&raise.agent).await?;
        let timeout = raise.timeout.or_else(|| self.policy().timeout.of(raise.body.kind()));
        let raise = Raise { timeout, ..raise };
        let claim = self.inner.claims.claim(&raise.agent, &raise.key).await;
        let prepared = self.prepare(raise, id.clone(), now).await?;
        let Prepared { raise, reading, extras, allowed, .. } = self.check_files(prepared).await?;
        let claim = match allowed {
            Some(allowed) => match self.record_later(allowed, claim)? {
                Early::Allowed(ask, voucher) => {
                    return Ok(Raised { ask: *ask, new: true, voucher: Some(voucher) });
                }
                Early::Waits(claim) => claim,
            },
            None => claim,
        };
        let budget = self.inner.write_budget.clone();
        let work = move |tx: &mut Tx| {
            record(tx, raise, id, (reading, extras), &budget, now).map(|recorded| (recorded, claim))
        };
        let ((raised, asking), _claim) = self.inner.store.write(work).await?;
        if raised.new {
            self.inner.meters.raised(&raised.ask, asking);
        }
        // The timers also end what comes while nobody is there to answer.
        if timeout.is_some() || self.rejects_now() {
            self.inner.sooner.notify_one();
        }
        Ok(raised)
    }

    /// What leads to a file of our own is not allowed without a person, however it is named.
    async fn check_files(&self, mut prepared: Prepared) -> Result<Prepared, Problem> {
        let Some((names, bases)) = prepared.reading.take_names() else { return Ok(prepared) };
        let Some(why) = self.inner.own_files.why_asked(names, bases).await else { return Ok(prepared) };
        let places = self.inner.policy.places();
        on_another_thread(UNREAD, move || prepared.goes_to_a_person(&why, &places)).await
    }

    /// Runs at once if all is known and it is quick, or on a reader's thread, or, if evaluating the policy may take long,
    /// on one of its own.
    async fn prepare(&self, raise: Raise, id: AskId, now: Timestamp) -> Result<Prepared, Problem> {
        let (policy, places) = (self.policy(), self.inner.policy.places());
        let lookup = Lookup { policy, places, processes: self.inner.asking.clone() };
        let quick = lookup.is_quick(&raise.body);
        let is_ours = |(agent, _): &(Option<AgentRow>, bool)| agent.as_ref().is_none_or(|agent| agent.ours);
        // Asked for before anything is read: it may be of an earlier commit, never of a later one.
        let version = self.inner.store.version_of_agent(&raise.agent);
        let key_use = match self.inner.store.is_on_server() {
            // Another hub may have been asked.
            true => Use::Possible,
            false => self.inner.askers.uses(&raise.agent, &raise.key),
        };
        if quick
            && key_use == Use::New
            && let Some(agent) = self.inner.askers.agent(&raise.agent, version)
        {
            return Ok(Prepared::new(raise, &id, (Some(agent), false), &lookup, now));
        }
        let hub = self.clone();
        let find = self.inner.store.read(move |db| {
            let found = db.asker(&raise.agent, &raise.key)?;
            if key_use == Use::Unread {
                hub.inner.askers.has_used(&raise.agent, db.keys_of(&raise.agent, MOST_READ)?);
            }
            if let Some(agent) = found.0.as_ref().filter(|agent| agent.ours) {
                hub.inner.askers.is(version, agent.clone());
            }
            Ok(match quick && is_ours(&found) {
                true => Ok(Prepared::new(raise, &id, found, &lookup, now)),
                false => Err((raise, id, found, lookup)),
            })
        });
        let (raise, id, mut found, lookup) = match find.await? {
            Ok(prepared) => return Ok(prepared),
            Err(long) => long,
        };
        if !is_ours(&found) {
            // The row may have been replaced after this read began: the hub's memory has its new MAC already. Read again.
            self.inner.store.catch_up().await?;
            let (agent, key) = (raise.agent.clone(), raise.key.clone());
            found = self.inner.store.read(move |db| db.asker(&agent, &key)).await?;
        }
        on_another_thread(UNREAD, move || Prepared::new(raise, &id, found, &lookup, now)).await
    }
}

/// The ask, and the rule that wants a person asked.
fn record(
    tx: &mut Tx,
    raise: Raise,
    id: AskId,
    (reading, mut extras): (PolicyReading, Extras),
    budget: &WriteBudget,
    now: Timestamp,
) -> Result<(Raised, Option<String>), Problem> {
    let agent = match tx.agent(&raise.agent)? {
        Some(agent) => agent,
        None => register_script(tx, &raise.agent, now)?,
    };
    if let Some(ask) = tx.ask_by_key(&raise.agent, &raise.key)? {
        // An ask of an older version may have been raised with more words than are taken today.
        let known = Digest::of(&ask.cwd, &ask.body.as_raised_now());
        return match known == Digest::of(&agent.profile.cwd, &raise.body) {
            true => Ok((Raised { ask, new: false, voucher: None }, None)),
            false => Err(Problem::KeyReused),
        };
    }
    mark_working(tx, &agent)?;
    let asking = reading.rule_that_asks();
    let proof = reading.proof_for(&raise.body);
    if !reading.is_about(&agent) {
        extras.remarks.grants = Grants::default();
    }
    extras.can = raise.can.clone();
    let ask = Ask { extras, ..raise.open(id, &agent, &reading, proof, now) };
    let length = enter(tx, &ask, now)?;
    let ask = decide(tx, ask, &agent, reading, now)?;
    if ask.state.is_open() {
        let (asks, bytes) = tx.open_load(&ask.agent)?;
        if asks > MOST_OPEN || (asks > 1 && bytes > MOST_OPEN_BYTES) {
            return Err(Problem::TooMuchOpen { asks: asks - 1, bytes });
        }
        tx.publish_ask(&ask)?;
        if agent.open_asks == 0 {
            publish_agent(tx, &ask.agent)?;
        }
    }
    budget.spend(&ask.agent, REQUEST + length, now)?;
    Ok((Raised { ask, new: true, voucher: None }, asking))
}

/// An agent that asks is at work, whatever was said of it.
pub(super) fn mark_working(tx: &mut Tx, agent: &AgentRow) -> Result<(), Problem> {
    if agent.report == ReportedState::Ended {
        tx.put_agent(&AgentRow { report: ReportedState::Working, lost: false, ..agent.clone() })?;
    }
    Ok(())
}

/// Writes down that it was asked, now or earlier. Returns how many bytes of text it has.
pub(super) fn enter(tx: &mut Tx, ask: &Ask, now: Timestamp) -> Result<u64, Problem> {
    let length = tx.insert_ask(ask)?;
    let mut detail =
        json!({ "kind": ask.body.kind(), "key": ask.key, "digest": ask.digest, "deadline": ask.deadline });
    if !ask.proof.is_none() {
        detail["proof"] = json!(ask.proof);
    }
    if ask.created_at != now {
        detail["late"] = json!(ask.created_at);
    }
    tx.audit(now, "ask.raised", ask.agent.as_str(), Some(&ask.agent), Some(&ask.id), detail)?;
    Ok(length)
}

/// An agent nobody announced is a script.
fn register_script(tx: &mut Tx, id: &AgentId, now: Timestamp) -> Result<AgentRow, Problem> {
    let row = AgentRow::unannounced(id.clone(), now);
    tx.register_agent(&row)?;
    Ok(row)
}
