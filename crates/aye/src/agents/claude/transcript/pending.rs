//! What a session waits for: tool calls without a result, and without a later turn of the person.

use super::line::{Said, TranscriptLine};
use super::returned::Returned;

/// More calls than any session has open; an account that shows more is not followed further.
const MOST: usize = 1024;

/// A tool call that has not returned.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    pub tool_use_id: String,
    pub tool: String,
    /// As the model wrote it; none where the line was too long to be read whole.
    pub input: Option<String>,
    pub session: Option<String>,
    /// The sub-agent that made it.
    pub sub_agent: Option<String>,
    pub cwd: Option<String>,
    pub timestamp: Option<String>,
}

/// How a call came to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum Closed {
    Returned(Box<Returned>),
    /// The person went on without it.
    PassedOver,
    /// The session no longer asks about it, and has no result yet: it was allowed, and runs.
    Running,
}

#[derive(Debug, Default)]
pub struct Pending {
    open: Vec<OpenCall>,
}

impl Pending {
    /// What is known to be open from elsewhere.
    pub fn begin(open: Vec<OpenCall>) -> Self {
        Self { open }
    }

    pub fn open(&self) -> &[OpenCall] {
        &self.open
    }

    pub fn into_open(self) -> Vec<OpenCall> {
        self.open
    }

    /// Takes note of a line, and returns what it ends. The same line twice is the same as once.
    pub fn see(
        &mut self,
        line: TranscriptLine,
        cut: bool,
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<(OpenCall, Closed)> {
        match line.said {
            Said::Assistant { calls, .. } => {
                for call in calls.into_iter().filter(|call| wanted(&call.name)) {
                    let known = self.open.iter().any(|open| open.tool_use_id == call.id);
                    if !known && self.open.len() < MOST {
                        self.open.push(OpenCall {
                            tool_use_id: call.id,
                            tool: call.name,
                            input: (!cut).then_some(call.input),
                            session: line.session.clone(),
                            sub_agent: line.sub_agent.clone(),
                            cwd: line.cwd.clone(),
                            timestamp: line.timestamp.clone(),
                        });
                    }
                }
                Vec::new()
            }
            Said::Results(results) => {
                let ended = |returned: Returned| {
                    let id = &returned.result.tool_use_id;
                    let at = self.open.iter().position(|open| open.tool_use_id == *id)?;
                    Some((self.open.remove(at), Closed::Returned(Box::new(returned))))
                };
                results.into_iter().filter_map(ended).collect()
            }
            Said::Turn if !line.sidechain => {
                // Version 2.1.197 may write the first turn of a session behind the call that it led to.
                let made_later = |open: &OpenCall| match (&open.timestamp, &line.timestamp) {
                    (Some(call), Some(turn)) => call > turn,
                    (None, _) | (_, None) => false,
                };
                let over = self.open.extract_if(.., |open| !made_later(open));
                over.map(|open| (open, Closed::PassedOver)).collect()
            }
            // A sub-agent is told nothing while it waits, unless it is stopped.
            Said::Turn => {
                let stopped =
                    |open: &mut OpenCall| open.sub_agent.is_some() && open.sub_agent == line.sub_agent;
                self.open.extract_if(.., stopped).map(|open| (open, Closed::PassedOver)).collect()
            }
            Said::Other => Vec::new(),
        }
    }
}
