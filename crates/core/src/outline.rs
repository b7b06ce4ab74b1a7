//! Pause and outline: instead of deciding on a plan, a person can ask for an outline in plain words first. During the
//! pause that follows, new plans are refused automatically, and the person can approve the refused plan in advance.
//! There is one such state per agent, and it ends with the agent's session.

use crate::digest::Digest;
use crate::ids::{AskId, Text};
use crate::proof::Proof;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const STEP: i64 = 30;
const LONGEST: i64 = 120;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// Number of outlines requested in a row.
    n: u32,
    pause: Option<Pause>,
    pass: Option<Pass>,
}

/// A pause: when it ends, and the last plan that was refused because of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    pub until: Timestamp,
    pub ask: AskId,
    pub digest: Digest,
}

/// An approval in advance, for one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pass {
    /// `None` means whichever plan comes next.
    digest: Option<Digest>,
    by: Text,
    /// The proof that the approval was given with.
    #[serde(default)]
    proof: Proof,
}

/// What happens to a plan that an agent sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanRuling {
    AskAPerson,
    /// Refused without asking; the pause continues.
    Refused {
        left: SignedDuration,
    },
    /// Approved, because this person approved it in advance.
    Passes {
        by: Text,
        proof: Proof,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    #[error("no outline is awaited, so there is no refused plan to decide on")]
    NothingAwaited,
    #[error("another plan was refused meanwhile: look at it before approving")]
    OtherPlan,
}

impl Outline {
    /// The last pause, whether or not it is over.
    pub fn pause(&self) -> Option<&Pause> {
        self.pause.as_ref()
    }

    /// The pause, if it is not over.
    pub fn awaited(&self, now: Timestamp) -> Option<&Pause> {
        self.pause.as_ref().filter(|pause| now < pause.until)
    }

    /// A person asked for an outline instead of this plan.
    pub fn asked_for(&mut self, ask: AskId, digest: Digest, now: Timestamp) {
        self.n = self.n.saturating_add(1);
        let seconds = LONGEST.min(STEP.saturating_mul(i64::from(self.n)));
        let until = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
        self.pause = Some(Pause { until, ask, digest });
        self.pass = None;
    }

    /// Takes a new plan. A refused plan neither counts as an outline nor extends the pause; it becomes the plan on hold.
    pub fn plan_comes(&mut self, ask: &AskId, digest: &Digest, now: Timestamp) -> PlanRuling {
        if let Some(pass) = self.pass.take() {
            return match pass.digest.is_none_or(|meant| meant == *digest) {
                true => PlanRuling::Passes { by: pass.by, proof: pass.proof },
                false => PlanRuling::AskAPerson,
            };
        }
        match self.awaited(now).map(|pause| pause.until) {
            None => PlanRuling::AskAPerson,
            Some(until) => {
                self.pause = Some(Pause { until, ask: ask.clone(), digest: digest.clone() });
                PlanRuling::Refused { left: now.duration_until(until) }
            }
        }
    }

    /// Approves the refused plan in advance: exactly that plan, or with `any_next` whichever comes next.
    pub fn approve(
        &mut self,
        digest: &Digest,
        any_next: bool,
        (by, proof): (Text, Proof),
        now: Timestamp,
    ) -> Result<(), NotNow> {
        let pause = self.awaited(now).ok_or(NotNow::NothingAwaited)?;
        if pause.digest != *digest {
            return Err(NotNow::OtherPlan);
        }
        let digest = (!any_next).then(|| digest.clone());
        *self = Outline { pass: Some(Pass { digest, by, proof }), ..Outline::default() };
        Ok(())
    }

    /// Denies the refused plan for good and ends the pause.
    pub fn deny(&mut self, digest: &Digest, now: Timestamp) -> Result<(), NotNow> {
        let pause = self.awaited(now).ok_or(NotNow::NothingAwaited)?;
        if pause.digest != *digest {
            return Err(NotNow::OtherPlan);
        }
        *self = Outline::default();
        Ok(())
    }

    /// A person decided on a plan: the count of outlines starts over.
    pub fn plan_decided(&mut self) {
        *self = Outline::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ask(n: u64) -> AskId {
        AskId::from_random(n)
    }

    fn plan(text: &str) -> Digest {
        Digest::from(text.to_owned())
    }

    fn ann() -> Text {
        Text::try_from("ann").unwrap()
    }

    fn paused() -> Outline {
        let mut outline = Outline::default();
        outline.asked_for(ask(1), plan("a"), at(0));
        outline
    }

    fn length(outline: &Outline, now: i64) -> i64 {
        outline.awaited(at(now)).map_or(0, |pause| at(now).duration_until(pause.until).as_secs())
    }

    #[test]
    fn the_pause_grows_with_each_outline_up_to_two_minutes() {
        let mut outline = Outline::default();
        let lengths: Vec<_> = (0..6)
            .map(|i| {
                outline.asked_for(ask(1), plan("a"), at(i * 1000));
                length(&outline, i * 1000)
            })
            .collect();
        assert_eq!(lengths, [30, 60, 90, 120, 120, 120]);
    }

    #[test]
    fn a_plan_that_comes_meanwhile_is_refused_and_the_clock_goes_on() {
        let mut outline = paused();
        let left = SignedDuration::from_secs(10);
        assert_eq!(outline.plan_comes(&ask(2), &plan("b"), at(20)), PlanRuling::Refused { left });
        assert_eq!(
            outline.awaited(at(20)).unwrap(),
            &Pause { until: at(30), ask: ask(2), digest: plan("b") }
        );
        assert_eq!(outline.plan_comes(&ask(3), &plan("c"), at(30)), PlanRuling::AskAPerson);
        // Refused plans are not counted, so the next outline is the second.
        outline.asked_for(ask(3), plan("c"), at(40));
        assert_eq!(length(&outline, 40), 60);
    }

    #[test]
    fn an_approved_plan_passes_once_and_only_that_plan() {
        let mut outline = paused();
        outline.approve(&plan("a"), false, (ann(), Proof::None), at(5)).unwrap();
        assert_eq!(outline.awaited(at(5)), None);
        let mut changed = outline.clone();
        assert_eq!(
            outline.plan_comes(&ask(2), &plan("a"), at(6)),
            PlanRuling::Passes { by: ann(), proof: Proof::None }
        );
        assert_eq!(outline.plan_comes(&ask(3), &plan("a"), at(7)), PlanRuling::AskAPerson);
        assert_eq!(changed.plan_comes(&ask(2), &plan("b"), at(6)), PlanRuling::AskAPerson);
        assert_eq!(changed.plan_comes(&ask(3), &plan("a"), at(7)), PlanRuling::AskAPerson);
    }

    #[test]
    fn with_any_next_whatever_comes_next_passes_once() {
        let mut outline = paused();
        outline.approve(&plan("a"), true, (ann(), Proof::None), at(5)).unwrap();
        assert_eq!(
            outline.plan_comes(&ask(2), &plan("b"), at(6)),
            PlanRuling::Passes { by: ann(), proof: Proof::None }
        );
        assert_eq!(outline.plan_comes(&ask(3), &plan("c"), at(7)), PlanRuling::AskAPerson);
    }

    #[test]
    fn only_the_plan_on_show_can_be_approved_and_only_while_the_clock_runs() {
        let mut outline = paused();
        outline.plan_comes(&ask(2), &plan("b"), at(1));
        assert_eq!(outline.approve(&plan("a"), false, (ann(), Proof::None), at(2)), Err(NotNow::OtherPlan));
        assert_eq!(
            outline.approve(&plan("b"), false, (ann(), Proof::None), at(30)),
            Err(NotNow::NothingAwaited)
        );
        assert_eq!(outline.deny(&plan("b"), at(30)), Err(NotNow::NothingAwaited));
    }

    #[test]
    fn the_count_is_kept_when_the_clock_runs_out_and_reset_by_a_decision() {
        let again = |mut outline: Outline| {
            outline.asked_for(ask(9), plan("z"), at(1000));
            length(&outline, 1000)
        };
        assert_eq!(again(paused()), 60);
        let decided: [fn(&mut Outline); 3] = [
            |outline| outline.deny(&plan("a"), at(5)).unwrap(),
            |outline| outline.approve(&plan("a"), false, (ann(), Proof::None), at(5)).unwrap(),
            Outline::plan_decided,
        ];
        for decide in decided {
            let mut outline = paused();
            decide(&mut outline);
            assert_eq!(again(outline), 30);
        }
    }
}
