//! What was allowed without a person at that moment: by a grant, or because a plan was approved in advance. Either
//! is in the trail before it, and was in force.

use super::VerifyError;
use super::asks::{Asks, wrong};
use super::grants::Grants;
use aye_core::trail::Line;
use aye_core::{Body, Proof};
use std::collections::HashMap;

#[derive(Default)]
pub struct Approvals {
    /// By agent: a plan that a person let pass in advance, once.
    plans: HashMap<String, ApprovedPlan>,
}

struct ApprovedPlan {
    /// None: whichever comes next.
    digest: Option<String>,
    proof: Proof,
    /// Another plan that came first, and used the approval up unless a rule denied it.
    passed_by: Option<String>,
}

impl ApprovedPlan {
    fn is(&self, digest: &str) -> bool {
        self.digest.as_ref().is_none_or(|approved| approved == digest)
    }
}

impl Approvals {
    pub fn take(&mut self, line: &Line, asks: &Asks, grants: &Grants) -> Result<(), VerifyError> {
        match line.kind.as_str() {
            "plan.approved" => {
                let any_next = line.detail["any_next"] == true;
                let digest = line.detail["digest"].as_str().filter(|_| !any_next).map(str::to_owned);
                let proof = match line.detail["proof"] == "passkey" {
                    true => Proof::Passkey,
                    false => Proof::None,
                };
                let agent = line.agent.clone().unwrap_or_default();
                self.plans.insert(agent, ApprovedPlan { digest, proof, passed_by: None });
            }
            "ask.raised" if line.detail["kind"] == "plan" => {
                let raised = line.detail["digest"].as_str().unwrap_or_default();
                if let Some(plan) = self.plan_of(line).filter(|plan| !plan.is(raised)) {
                    plan.passed_by.clone_from(&line.ask);
                }
            }
            "plan.denied" | "agent.ended" => self.forget(line),
            "ask.answered" => self.take_answer(line, asks, grants)?,
            _ => {}
        }
        Ok(())
    }

    fn take_answer(&mut self, line: &Line, asks: &Asks, grants: &Grants) -> Result<(), VerifyError> {
        let (Some(id), Some(rule)) = (&line.ask, line.detail["by"]["rule"].as_str()) else {
            return self.take_persons_answer(line, asks);
        };
        if let Some(grant) = rule.strip_prefix("grant ") {
            return grants.allows(grant, &asks.find(id)?, line.at).map_err(|problem| wrong(id, problem));
        }
        if !rule.starts_with("approved in advance") {
            // A rule that denied the plan has left the approval of another where it was.
            let passed = |plan: &&mut ApprovedPlan| plan.passed_by.as_ref() == Some(id);
            if let Some(plan) = self.plan_of(line).filter(passed) {
                plan.passed_by = None;
            }
            return Ok(());
        }
        let ask = asks.find(id)?;
        let approved = line.agent.as_ref().and_then(|agent| self.plans.remove(agent));
        let is_it = |plan: &ApprovedPlan| plan.passed_by.is_none() && plan.is(ask.digest.as_str());
        let Some(approved) = approved.filter(is_it) else {
            return Err(wrong(id, "it passed as approved in advance, and nobody had approved it"));
        };
        match approved.proof < ask.proof {
            true => Err(wrong(id, "it was approved in advance without the passkey that it takes")),
            false => Ok(()),
        }
    }

    /// A plan that a person decided on ends what was approved in advance.
    fn take_persons_answer(&mut self, line: &Line, asks: &Asks) -> Result<(), VerifyError> {
        let Some(id) = line.ask.clone().filter(|_| self.plan_of(line).is_some()) else { return Ok(()) };
        if matches!(asks.find(&id)?.body, Body::Plan(_)) {
            self.forget(line);
        }
        Ok(())
    }

    fn plan_of(&mut self, line: &Line) -> Option<&mut ApprovedPlan> {
        self.plans.get_mut(line.agent.as_ref()?)
    }

    fn forget(&mut self, line: &Line) {
        if let Some(agent) = &line.agent {
            self.plans.remove(agent);
        }
    }
}
