//! Calls that a rule allowed and a crash kept from being recorded. The early reply carried a voucher that only this
//! hub could make; an adapter that finds its ask unknown later sends it back, and the record is made then.

use super::change::change;
use super::decide::allowed_by;
use super::problem::random_id;
use super::raise::{Raise, Raised, enter};
use super::write_budget::{REQUEST, WriteBudget};
use super::{Hub, Problem};
use crate::store::Tx;
use aye_core::digest::canonical;
use aye_core::trail::ChainKey;
use aye_core::{Ask, AskEvent, AskId, Body, Digest, Invalid, Proof, Withdrawal};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use subtle::ConstantTimeEq;

/// What the hub said before it was on disk: that a rule allowed this very ask, at this time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Voucher {
    cwd: String,
    rule: String,
    at: Timestamp,
    mac: String,
}

impl Voucher {
    pub(super) fn of(ask: &Ask, rule: &str, key: &ChainKey) -> Self {
        let mac = mac(ask, rule, key);
        Self { cwd: ask.cwd.clone(), rule: rule.to_owned(), at: ask.created_at, mac }
    }

    fn vouches_for(&self, ask: &Ask, key: &ChainKey) -> bool {
        mac(ask, &self.rule, key).as_bytes().ct_eq(self.mac.as_bytes()).into()
    }
}

fn mac(ask: &Ask, rule: &str, key: &ChainKey) -> String {
    let said = json!([ask.id, ask.agent, ask.key, ask.digest, rule, ask.created_at.as_millisecond()]);
    key.tag("call that a rule allowed", &canonical(&said))
}

impl Hub {
    /// Records a call that ran before its record was on disk. With a voucher of ours it was allowed by a rule;
    /// without one, all that is recorded is that the agent says so. What is recorded already stays as it is.
    pub async fn record_late(
        &self,
        id: AskId,
        raise: Raise,
        voucher: Option<Voucher>,
    ) -> Result<Raised, Problem> {
        if !matches!(raise.body, Body::Permission(_)) {
            return Err(Invalid::new("ask.kind", "only a permission can have been used").into());
        }
        self.heard(&raise.agent).await?;
        self.inner.askers.uses(&raise.agent, &raise.key);
        let now = self.inner.clock.now();
        let key = self.inner.store.key().clone();
        let own_id = random_id()?;
        let raise = Raise { timeout: None, ..raise };
        let budget = self.inner.write_budget.clone();
        let work = move |tx: &mut Tx| match recorded(tx, &id, &raise)? {
            Some(ask) => Ok(Raised { ask, new: false, voucher: None }),
            None => record(tx, (id, own_id), raise, voucher, (&key, &budget), now),
        };
        let raised = self.inner.store.write(work).await?;
        if raised.new {
            self.inner.meters.raised(&raised.ask, None);
        }
        Ok(raised)
    }
}

/// The ask, if it is on disk after all: by its id, or raised again under its key.
fn recorded(tx: &Tx, id: &AskId, raise: &Raise) -> Result<Option<Ask>, Problem> {
    let found = match tx.ask(id)? {
        Some(ask) => Some(ask),
        None => tx.ask_by_key(&raise.agent, &raise.key)?,
    };
    let is_it = |ask: &Ask| {
        (&ask.agent, &ask.key) == (&raise.agent, &raise.key)
            && ask.digest == Digest::of(&ask.cwd, &raise.body)
    };
    match found {
        Some(ask) if !is_it(&ask) => Err(Problem::KeyReused),
        found => Ok(found),
    }
}

fn record(
    tx: &mut Tx,
    (id, own_id): (AskId, AskId),
    raise: Raise,
    voucher: Option<Voucher>,
    (key, budget): (&ChainKey, &WriteBudget),
    now: Timestamp,
) -> Result<Raised, Problem> {
    let agent = tx.agent(&raise.agent)?.ok_or(Problem::NoSuchAgent)?;
    let vouched = voucher.and_then(|voucher| {
        let ask = raise.clone().open_in(id, &voucher.cwd, false, Proof::None, voucher.at);
        voucher.vouches_for(&ask, key).then_some((ask, voucher.rule))
    });
    let (ask, event, who) = match vouched {
        Some((ask, rule)) => {
            let answer = allowed_by(&ask.body, &format!("{rule}, recorded late"));
            let answer = answer.ok_or(Problem::Fault("a rule vouched for what no rule allows"))?;
            (ask, answer.event, answer.who)
        }
        // Under an id of our own: the agent's word is not to choose one.
        None => {
            let ask = raise.open_in(own_id, &agent.profile.cwd, false, Proof::None, now);
            let who = ask.agent.to_string();
            (ask, AskEvent::Withdraw { why: Withdrawal::Reported, answer: None }, who)
        }
    };
    let length = enter(tx, &ask, now)?;
    budget.spend(&ask.agent, REQUEST + length, now)?;
    let ask = change(tx, ask, event, &who, now)?;
    Ok(Raised { ask, new: true, voucher: None })
}
