//! A session that waits behind a screen that cannot be recognized: people are told that it waits, where, and what its
//! terminal shows.

use super::ask::TO_THE_TERMINAL;
use super::sessions::Session;
use crate::agents::claude::hook::handover::Dialog;
use crate::agents::claude::hook::notes::{AskNote, Notes};
use crate::client::{AgentClient, CallError, Try, Waits};
use crate::processes::Process;
use crate::processes::host;
use crate::protocol::{NewAsk, Withdraw};
use aye_core::{Body, Can, Key, Question, QuestionDraft, Questions, Withdrawal};
use tokio::sync::watch;

/// Enough of a screen to know what it is about.
const MOST_LINES: usize = 40;

/// Raises the ask, and takes it back once `over` says so.
pub struct WaitsInTerminal {
    pub client: AgentClient,
    pub key: Key,
    pub body: Body,
    /// Where it can be answered.
    pub place: String,
    pub notes: Option<Notes>,
}

impl WaitsInTerminal {
    pub async fn follow(self, over: watch::Receiver<bool>) {
        if let Err(error) = self.live(over).await {
            tracing::warn!(%error, agent = %self.client.agent(), "an ask could not be followed");
        }
    }

    async fn live(&self, mut over: watch::Receiver<bool>) -> Result<(), CallError> {
        let can = Can::elsewhere(format!("{TO_THE_TERMINAL}: {}", self.place));
        let new = NewAsk::new(self.key.clone(), self.client.agent().clone(), &self.body);
        let ask = self.client.raise(&NewAsk { can, ..new }).await?.ask;
        let noted = AskNote {
            ask: ask.id.clone(),
            tool_use_id: None,
            kind: self.body.kind(),
            body: self.body.to_json(),
            transcript: Default::default(),
            offset: 0,
            hook: Process::myself(),
            printed: None,
            waited: false,
            dialog: Dialog::Beside,
        };
        if let Some(notes) = &self.notes {
            drop(notes.note(&noted));
        }
        tokio::select! {
            resolution = self.client.resolution(&ask.id, &self.body, Waits::Alone) => drop(resolution?),
            // Whoever watched is gone where nobody can say any more that it is over.
            () = async { drop(over.wait_for(|over| *over).await) } => {
                let terminal = Withdraw { why: Withdrawal::Terminal, answer: None };
                self.client.withdraw(&ask.id, terminal, Try::UntilHeard).await?;
            }
        }
        if let Some(notes) = &self.notes {
            notes.settled(&noted);
        }
        Ok(())
    }
}

/// The same for everybody who sees this session wait.
pub fn key(session: &str, since: u64) -> Key {
    Key::from_displayed(&format_args!("{session}/waits-{since}"))
}

pub fn body(what: Option<&str>, screen: Option<&str>) -> Option<Body> {
    let mut question = match what {
        Some(what) => format!("Claude Code is waiting in its own terminal: {what}."),
        None => "Claude Code is waiting in its own terminal.".to_owned(),
    };
    if let Some(screen) = screen.map(dialog_on).filter(|dialog| !dialog.is_empty()) {
        question += &format!("\n\n{screen}");
    }
    let (header, options) = ("Waiting".to_owned(), Vec::new());
    let draft =
        QuestionDraft { question, header, options, multi_select: false, free_text: true, secret: false };
    let question = Question::try_from(draft).ok()?;
    Some(Body::Question(Questions::new(vec![question]).ok()?))
}

/// Host, folder and pane.
pub fn place(session: &Session, pane: Option<&str>) -> String {
    let cwd = session.cwd.as_ref().map(|cwd| format!(", in {}", cwd.display())).unwrap_or_default();
    let pane = pane.map(|pane| format!(", tmux pane {pane}")).unwrap_or_default();
    format!("on {}{cwd}{pane}", host())
}

/// What stands below the last rule: the dialog, in all versions.
fn dialog_on(screen: &str) -> String {
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let is_rule = |line: &&str| line.chars().count() >= 20 && line.trim().chars().all(|c| c == '─');
    let start = lines.iter().rposition(is_rule).map_or(0, |at| at + 1);
    let lines = lines[start..].iter().filter(|line| !line.is_empty()).take(MOST_LINES);
    lines.map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_waits_for_is_told_with_its_screen() {
        let screen = format!("old words\n{}\n  A dialog\n\n  Enter to go on\n\n", "─".repeat(80));
        let Some(Body::Question(body)) = body(Some("dialog open"), Some(&screen)) else {
            panic!("no question")
        };
        insta::assert_snapshot!(body.questions[0].question, @r"
        Claude Code is waiting in its own terminal: dialog open.

        A dialog
        Enter to go on
        ");
        assert!(super::body(None, None).is_some());
    }
}
