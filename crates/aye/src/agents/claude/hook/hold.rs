//! While a hook for a sub-agent in the background waits, the terminal shows no dialog. In tmux it is shown after a
//! moment, because answers can be typed into it; elsewhere somebody is told, and it is shown to whoever is there.

use super::events::Session;
use super::follower;
use super::handover::Dialog;
use super::notes::{AskNote, Notes};
use super::session_terminal::{SessionTerminal, notify, title};
use crate::agents::claude::tmux::prompt::DialogCall;
use crate::agents::claude::watch::sessions::ConfigDir;
use crate::agents::tmux::pane::Pane;
use crate::home::Home;
use crate::processes::Process;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep};

/// In this time a rule has decided, and a dialog that the hook does not hold back is drawn.
const SHOWN_AFTER: Duration = Duration::from_secs(3);
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// A follower that was started has taken its lock by then.
const BETWEEN_STARTS: Duration = Duration::from_secs(1);
/// The session sets its title about once a second while it works.
const BETWEEN_TITLES: Duration = Duration::from_secs(1);

pub struct Hold<'a> {
    home: &'a Home,
    session: &'a Session,
    notes: Notes,
    process: Process,
    config: ConfigDir,
    file: PathBuf,
    call: DialogCall,
    since: Instant,
    requested: Option<SystemTime>,
    is_noted: bool,
    way: Option<Way>,
    /// Last start of a follower by us.
    revived: Option<Instant>,
}

/// The way in which the dialog comes to be shown.
enum Way {
    /// Answers can be typed into it.
    Typed,
    /// It can be answered in the terminal alone, so it is shown only to somebody who is there.
    Told { terminal: Option<SessionTerminal>, titled: Instant },
}

impl<'a> Hold<'a> {
    /// None where the session does not say what it does, as in older versions.
    pub fn new(
        home: &'a Home,
        session: &'a Session,
        notes: Notes,
        process: Process,
        call: DialogCall,
    ) -> Option<Self> {
        let config = ConfigDir::new(session.config_dir()?);
        let file = config.session_file(process.pid);
        let (requested, since) = (notes.handover_requested(), Instant::now());
        let new = Self {
            home,
            session,
            notes,
            process,
            config,
            file,
            call,
            since,
            requested,
            is_noted: false,
            way: None,
            revived: None,
        };
        new.file.exists().then_some(new)
    }

    /// Returns once the terminal is to show the dialog of this ask.
    pub async fn until_released(&mut self, asked: &AskNote) {
        loop {
            sleep(BETWEEN_LOOKS).await;
            let is_requested = self.notes.handover_requested() != self.requested;
            let is_due = is_requested || self.is_due(asked).await;
            // Looked at in any case: while we wait, the follower of another ask may be killed.
            if self.is_followed() && is_due {
                return;
            }
        }
    }

    async fn is_due(&mut self, asked: &AskNote) -> bool {
        if self.since.elapsed() < SHOWN_AFTER {
            return false;
        }
        // A session that waits shows a dialog: this one, which is not held back then, or another that comes first.
        let shows_none = self.config.session_at(&self.file).is_some_and(|session| !session.is_waiting());
        if !shows_none {
            return false;
        }
        if !self.is_noted {
            let held = AskNote { dialog: Dialog::HeldBack, ..asked.clone() };
            self.is_noted = self.notes.note(&held).is_ok();
        }
        if self.way.is_none() {
            self.way = Some(self.choose(asked).await);
        }
        match &mut self.way {
            Some(Way::Typed) => self.notes.take_turn(&asked.ask),
            Some(Way::Told { terminal: Some(terminal), titled }) => {
                if titled.elapsed() >= BETWEEN_TITLES {
                    terminal.set_title(&title(&asked.ask));
                    *titled = Instant::now();
                }
                terminal.has_input() && self.notes.take_turn(&asked.ask)
            }
            Some(Way::Told { terminal: None, .. }) | None => false,
        }
    }

    async fn choose(&self, asked: &AskNote) -> Way {
        if asked.tool_use_id.is_some()
            && let Ok(pane) = Pane::of(Some(self.process)).await
            && let Ok((width, height)) = pane.size().await
            && self.call.is_likely_legible(width, height)
        {
            return Way::Typed;
        }
        let terminal = SessionTerminal::of(self.process.pid);
        if let Some(terminal) = &terminal {
            terminal.ring();
            terminal.set_title(&title(&asked.ask));
        }
        notify(&asked.ask);
        Way::Told { terminal, titled: Instant::now() }
    }

    /// True if a follower runs. Starts one otherwise.
    fn is_followed(&mut self) -> bool {
        let is_followed = matches!(self.notes.follower_lock(), Ok(None));
        if !is_followed && self.revived.is_none_or(|at| at.elapsed() >= BETWEEN_STARTS) {
            self.revived = Some(Instant::now());
            if let Err(error) = follower::ensure(self.home, self.session) {
                tracing::debug!(%error, "nobody follows the session");
            }
        }
        is_followed
    }
}
