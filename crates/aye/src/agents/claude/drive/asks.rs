//! The asks of a driven agent: raised, answered, confirmed, taken back.

use super::super::outcome::{permit, told_as_result, unanswered};
use super::super::receipts::{Expected, judge};
use super::super::told::Told;
use super::super::translate;
use super::super::wire::{self, Block, CanUseTool, Request, TurnResult, permit_line};
use super::{Driver, Effect, Waiting, trouble};
use crate::protocol::{Registration, Resolution};
use aye_core::{AskId, AskState, AskView, By, Key, Receipt, Withdrawal};
use serde_json::Value;

/// More open asks than this cannot be meant for a person.
const MOST_OPEN: usize = 500;
/// An agent that uses an id again does so soon.
const REMEMBERED: usize = 1000;

impl Driver {
    /// What waited under this request, which is now over.
    fn finish(&mut self, request: &str) -> Option<Waiting> {
        let waiting = self.waiting.remove(request)?;
        if self.over.len() == REMEMBERED {
            self.over.pop_front();
        }
        self.over.push_back(request.to_owned());
        Some(waiting)
    }

    pub(super) fn requested(&mut self, id: String, request: Request) -> Vec<Effect> {
        let tool = match request {
            Request::CanUseTool(tool) => self.with_plan(*tool),
            Request::Initialize => return vec![Effect::Write(wire::success_line(&id))],
            Request::Unknown { subtype } => {
                let error = format!("aye does not know the request {subtype:?}");
                return vec![Effect::Write(wire::error_line(&id, &error))];
            }
            Request::Malformed { why } => {
                let error = format!("aye cannot read this request, so nothing is approved: {why}");
                return vec![Effect::Write(wire::error_line(&id, &error)), trouble(error)];
            }
        };
        if self.waiting.contains_key(&id) {
            // The first one still waits under this id, and gets the answer.
            return vec![trouble(format!(
                "The agent asked twice under the id {id}; the second is passed by."
            ))];
        }
        if self.over.contains(&id) {
            let error = format!("the id {id} was used before, and its answer counts once");
            return vec![Effect::Write(wire::error_line(&id, &error)), trouble(error)];
        }
        self.ask(id, tool, false)
    }

    fn ask(&mut self, request: String, tool: CanUseTool, by_tool_use: bool) -> Vec<Effect> {
        if self.waiting.len() >= MOST_OPEN {
            let why = format!("{MOST_OPEN} asks of this agent are open already, so this one was refused");
            return vec![Effect::Write(refusal_line(&request, &why, by_tool_use)), trouble(why)];
        }
        match translate::ask(&tool, &self.cwd, &self.places) {
            Ok(body) => {
                let (tool_use_id, raised) = (tool.tool_use_id.clone(), body.clone());
                let sub_agent = self.crew.behind(tool_use_id.as_deref(), tool.agent_id.as_deref());
                self.waiting.insert(request.clone(), Waiting { tool, body, ask: None, by_tool_use });
                self.asked += 1;
                let key = Key::from_displayed(&format_args!("{}/{}", self.nonce, self.asked));
                vec![Effect::Raise { request, key, body: raised, tool_use_id, sub_agent }]
            }
            Err(why) => {
                let line = refusal_line(&request, &why.to_string(), by_tool_use);
                vec![Effect::Write(line), trouble(why.to_string())]
            }
        }
    }

    pub(super) fn asked_by_tool_use(&mut self, tool_use_id: &str, input: &Value) -> Vec<Effect> {
        let Ok(input) = serde_json::value::to_raw_value(input) else { return Vec::new() };
        if self.waiting.contains_key(tool_use_id) {
            return Vec::new();
        }
        let tool = CanUseTool {
            tool_name: translate::QUESTIONS.to_owned(),
            input,
            tool_use_id: Some(tool_use_id.to_owned()),
            agent_id: None,
            permission_suggestions: None,
        };
        self.ask(tool_use_id.to_owned(), tool, true)
    }

    pub(super) fn remember_plans(&mut self, blocks: &[Block]) {
        for block in blocks {
            if let Block::ToolUse { id, name, input } = block
                && name == "ExitPlanMode"
            {
                self.plans.insert(id.clone(), input["plan"].clone());
            }
        }
    }

    /// The plan stands in the message before the request, and what is approved must be what is carried out.
    fn with_plan(&mut self, tool: CanUseTool) -> CanUseTool {
        let plan = tool.tool_use_id.as_ref().and_then(|id| self.plans.remove(id)).filter(Value::is_string);
        let given: Value = serde_json::from_str(tool.input.get()).unwrap_or_default();
        match plan.filter(|_| tool.tool_name == "ExitPlanMode" && given["plan"].is_null()) {
            Some(plan) => {
                match wire::with_fields(&tool.input, [("plan".to_owned(), plan)].into_iter().collect()) {
                    Ok(input) => CanUseTool { input, ..tool },
                    Err(_) => tool,
                }
            }
            None => tool,
        }
    }

    pub(super) fn raised(&mut self, request: &str, ask: AskView) -> Vec<Effect> {
        let Some(waiting) = self.waiting.get_mut(request) else {
            // Taken back before the hub had recorded it.
            return vec![Effect::Withdraw { ask: ask.id, why: Withdrawal::Cancelled }];
        };
        waiting.ask = Some(ask.id.clone());
        match (Resolution::by_rule(&ask), &ask.by) {
            (Some(resolution), Some(By::Rule { rule })) => {
                let (tool, decision) = (waiting.tool.tool_name.clone(), resolution.outcome.decision);
                let mut effects = self.deliver(request, &resolution, false);
                effects.push(Effect::Tell(Told::Decided { tool, decision, rule: rule.to_string() }));
                effects
            }
            _ => vec![Effect::Tell(Told::Asked(Box::new(ask)))],
        }
    }

    pub(super) fn refuse(&mut self, request: &str, why: &str) -> Vec<Effect> {
        let Some(waiting) = self.finish(request) else { return Vec::new() };
        let mut effects =
            vec![Effect::Write(refusal_line(request, why, waiting.by_tool_use)), trouble(why.to_owned())];
        effects.extend(waiting.ask.into_iter().flat_map(|ask| withdraw(ask, Withdrawal::Cancelled)));
        effects
    }

    pub(super) fn resolved(&mut self, request: &str, resolution: Resolution) -> Vec<Effect> {
        let Some(ask) = self.waiting.get(request).and_then(|waiting| waiting.ask.clone()) else {
            return Vec::new();
        };
        let mut effects = match resolution.state {
            // Whoever withdrew it has already told the agent, or the agent no longer wants to know.
            AskState::Withdrawn => {
                self.finish(request);
                Vec::new()
            }
            AskState::Open | AskState::Answered | AskState::Expired => {
                self.deliver(request, &resolution, true)
            }
        };
        effects.push(Effect::Tell(Told::AskEnded { ask, resolution }));
        effects
    }

    fn deliver(&mut self, request: &str, resolution: &Resolution, awaited: bool) -> Vec<Effect> {
        let Some(Waiting { tool, body, ask: Some(ask), by_tool_use }) = self.finish(request) else {
            return Vec::new();
        };
        let message = resolution.outcome.message.as_deref();
        let (line, expected) = match &resolution.outcome.answer {
            Some(answer) if by_tool_use => told_as_result(request, &body, answer),
            Some(answer) => {
                // An answer that cannot be told is no approval.
                let lost = |error| unanswered(Some(&format!("The answer was lost: {error}")));
                let (permit, expected) = permit(&tool, &body, answer, message).unwrap_or_else(lost);
                (permit_line(request, &permit), expected)
            }
            None => {
                let (permit, expected) = unanswered(message);
                match &expected {
                    Expected::Refused { message, .. } if by_tool_use => {
                        (refusal_line(request, message, true), expected)
                    }
                    _ => (permit_line(request, &permit), expected),
                }
            }
        };
        if let Some(id) = tool.tool_use_id {
            self.expected.insert(id, (ask.clone(), expected));
        }
        vec![Effect::Deliver { ask, line, awaited }]
    }

    pub(super) fn returned(&mut self, result: &wire::ToolResult, detail: Option<&Value>) -> Vec<Effect> {
        self.crew.returned(&result.tool_use_id);
        let mut effects = vec![Effect::Tell(Told::ToolEnded {
            id: result.tool_use_id.clone(),
            failed: result.is_error,
            text: result.text.clone(),
            images: result.images.clone(),
            took: None,
        })];
        if let Some((ask, expected)) = self.expected.remove(&result.tool_use_id) {
            let (receipt, evidence) = judge(&expected, result, detail);
            match receipt {
                Receipt::Confirmed => effects.push(Effect::Receipt { ask, receipt, evidence }),
                _ => effects.extend(doubt(ask, receipt, evidence)),
            }
        }
        effects
    }

    pub(super) fn cancelled(&mut self, request: &str) -> Vec<Effect> {
        let ask = self.finish(request).and_then(|waiting| waiting.ask);
        ask.into_iter().flat_map(|ask| withdraw(ask, Withdrawal::Cancelled)).collect()
    }

    /// Sub-agents go on after the turn in which they were started, and so do their asks. Whatever else is
    /// open no longer counts, and the agent is told so in case it still listens.
    pub(super) fn turn_ended(&mut self, result: TurnResult) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (request, waiting) in self.waiting.extract_if(|_, waiting| waiting.tool.agent_id.is_none()) {
            let why = "The turn ended before anybody answered.";
            effects.push(Effect::Write(refusal_line(&request, why, waiting.by_tool_use)));
            effects.extend(waiting.ask.into_iter().flat_map(|ask| withdraw(ask, Withdrawal::Cancelled)));
        }
        self.speaking = None;
        self.activity.turn_ended();
        let told = Registration { cost: result.total_cost_usd, ..Registration::state(self.state()) };
        effects.extend([Effect::Register(told), Effect::Tell(Told::Turn(result))]);
        effects
    }

    pub(super) fn withdraw_all(&mut self) -> Vec<Effect> {
        let open = self.waiting.drain().filter_map(|(_, waiting)| waiting.ask);
        open.flat_map(|ask| withdraw(ask, Withdrawal::Gone)).collect()
    }

    pub(super) fn closed(&mut self) -> Vec<Effect> {
        let mut effects = self.withdraw_all();
        for (_, (ask, _)) in self.expected.drain() {
            let evidence = "the agent ended before its transcript showed whether it took this".to_owned();
            effects.extend(doubt(ask, Receipt::Unknown, evidence));
        }
        effects
    }
}

fn refusal_line(request: &str, why: &str, by_tool_use: bool) -> String {
    match by_tool_use {
        true => wire::tool_result_line(request, why, true),
        false => permit_line(request, &wire::Permit::Deny { message: why.to_owned(), interrupt: false }),
    }
}

fn withdraw(ask: AskId, why: Withdrawal) -> [Effect; 2] {
    [Effect::Withdraw { ask: ask.clone(), why }, Effect::Tell(Told::Withdrawn { ask })]
}

/// Whatever is not confirmed, the person is told as well.
fn doubt(ask: AskId, receipt: Receipt, evidence: String) -> [Effect; 2] {
    let told = Told::Doubt { ask: ask.clone(), receipt, evidence: evidence.clone() };
    [Effect::Tell(told), Effect::Receipt { ask, receipt, evidence }]
}
