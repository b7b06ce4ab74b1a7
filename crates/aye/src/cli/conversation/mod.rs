//! An agent's conversation in a terminal: what it says and does as it goes, what it asks, and the answers and prompts
//! that are typed right there.

mod keyboard;
mod line;
mod printer;
mod screen;
mod typing;

pub use keyboard::{Keyboard, say_if_not_read};
pub use printer::Printer;

use crate::agents::driven::RunEvent;
use crate::client::{CallError, Client, Try};
use crate::protocol::{NewAnswer, Prompt, calls};
use crate::shutdown::Signals;
use crate::surfaces::terminal::in_a_line;
use crate::surfaces::terminal::style::{BAD, DIM, paint};
use aye_core::visible::visible;
use aye_core::{AgentId, NOT_KEPT, Text};
use keyboard::KeyboardInput;
use screen::Screen;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use typing::{TypedLine, read};

const TICK: Duration = Duration::from_millis(120);

/// Somebody at the keyboard who may answer this agent's requests, and send it prompts.
pub struct KeyboardUser {
    pub client: Client,
    pub agent: AgentId,
    pub keyboard: Keyboard,
    /// Cancelled when they leave.
    pub leaves: CancellationToken,
    /// What they are told when they leave while the agent works.
    pub on_leaving: &'static str,
}

/// Whoever sits here could answer: the hub counts them as long as this runs.
pub async fn attend(client: Client) {
    let mut follower = client.follow();
    // After a failure that passes it connects again by itself.
    while follower.next().await.as_ref().err().is_none_or(CallError::is_passing) {}
}

/// The prompt that a person types before there is an agent, unless they leave.
pub async fn first_prompt(
    mut keyboard: Keyboard,
    signals: &mut Signals,
) -> anyhow::Result<Option<(String, Keyboard)>> {
    let (printer, printed) = Printer::start()?;
    let mut screen = Screen::new(printer, true, Beginning { asked: None, working: false });
    let prompt = loop {
        screen.draw(Some(keyboard.line()));
        let typed = tokio::select! {
            typed = keyboard.typed() => typed,
            _ = signals.wait() => KeyboardInput::End,
        };
        match typed {
            KeyboardInput::Line(line) if !line.trim().is_empty() => break Some(line),
            KeyboardInput::Line(_) | KeyboardInput::Changed => {}
            KeyboardInput::End | KeyboardInput::Gone => break None,
        }
    };
    if let Some(prompt) = &prompt {
        screen.echo(prompt);
    }
    screen.end();
    drop(screen);
    drop(printed.await);
    Ok(prompt.map(|prompt| (prompt, keyboard)))
}

/// A secret that a person types at this keyboard without seeing it, unless they leave.
pub async fn secret(keyboard: &mut Keyboard, signals: &mut Signals, question: &str) -> Option<String> {
    anstream::eprintln!("{} {}", visible(question), paint(DIM, "(what you type is not shown)"));
    keyboard.hide(true);
    loop {
        let typed = tokio::select! {
            typed = keyboard.typed() => typed,
            _ = signals.wait() => KeyboardInput::End,
        };
        match typed {
            KeyboardInput::Line(line) if !line.is_empty() => return Some(line),
            KeyboardInput::Line(_) | KeyboardInput::Changed => {}
            KeyboardInput::End | KeyboardInput::Gone => return None,
        }
    }
}

/// The state of a conversation when it is first shown.
pub struct Beginning {
    /// The prompt that whoever looks on already knows.
    pub asked: Option<String>,
    pub working: bool,
}

/// Shows what is told until nothing more is.
pub async fn show(
    mut events: mpsc::Receiver<RunEvent>,
    mut person: Option<KeyboardUser>,
    printer: Printer,
    beginning: Beginning,
) {
    let mut screen = Screen::new(printer, person.is_some(), beginning);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let typed = async {
            match &mut person {
                Some(person) => person.keyboard.typed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { break };
                let shown = screen.tell(event);
                if let Some(person) = &mut person {
                    person.keyboard.shows(shown);
                    person.keyboard.hide(screen.shown_ask().is_some_and(|ask| ask.body.has_secret()));
                }
            }
            typed = typed => match (typed, &mut person) {
                (KeyboardInput::Changed, _) | (_, None) => {}
                (KeyboardInput::Line(line), Some(person)) => take(&mut screen, line, person).await,
                (KeyboardInput::End, Some(leaving)) => {
                    if screen.is_working() && !leaving.on_leaving.is_empty() {
                        screen.line(&paint(DIM, leaving.on_leaving));
                    }
                    leaving.leaves.cancel();
                }
                (KeyboardInput::Gone, Some(gone)) => {
                    gone.leaves.cancel();
                    person = None;
                }
            },
            _ = ticks.tick(), if screen.moves() => {
                screen.tick();
                if let Some(person) = &mut person {
                    person.keyboard.keep();
                }
            }
        }
        screen.draw(person.as_ref().map(|person| person.keyboard.line()));
    }
    screen.end();
}

/// The line answers what is shown, by its digest. Where nothing is, it is the next prompt.
async fn take(screen: &mut Screen, line: String, person: &mut KeyboardUser) {
    let Some(ask) = screen.shown_ask().cloned() else { return prompt(screen, line, person).await };
    match ask.body.has_secret() {
        true => screen.echo(NOT_KEPT),
        false => screen.echo(&line),
    }
    match read(&line, &ask) {
        TypedLine::Nothing => {}
        TypedLine::Unclear(words) => screen.line(&paint(DIM, words)),
        TypedLine::Answer(_) if screen.uncovers() => {
            let words = "Not sent yet: more was printed below the request. Here it is again; type your answer once more.";
            screen.line(&paint(DIM, words));
        }
        TypedLine::Answer(answer) => {
            let call = NewAnswer { answer, digest: ask.digest.clone(), key: None, assertion: None };
            if let Err(error) =
                person.client.call(&calls::ANSWER, ask.id.as_str(), &(), &call, Try::Once).await
            {
                screen.line(&failed("Not recorded", &error));
            }
        }
    }
}

async fn prompt(screen: &mut Screen, line: String, person: &mut KeyboardUser) {
    let Ok(text) = Text::try_from(line.trim()) else { return };
    screen.asks(line.trim());
    let prompt = Prompt { text };
    if let Err(error) =
        person.client.call(&calls::PROMPT, person.agent.as_str(), &(), &prompt, Try::Once).await
    {
        screen.line(&failed("Not sent", &error));
        screen.did_not_ask(line.trim());
        person.keyboard.put_back(line);
    }
}

fn failed(what: &str, error: &CallError) -> String {
    format!("{} {what}: {}", paint(BAD, "!"), in_a_line(&error.to_string()))
}
