//! One session that is ours to look after.

use super::ask::WatchedAsk;
use super::follow::{News, Transcript};
use super::past;
use super::sessions::{Session, Status, sub_agents_of};
use super::waits::{self, WaitsInTerminal};
use super::watcher::WatchEvent;
use crate::agents::before;
use crate::agents::claude::hook::handover::{Dialog, Origin};
use crate::agents::claude::hook::notes::{AskNote, Notes};
use crate::agents::claude::mode::asks_in;
use crate::agents::claude::tmux::plan::untouched;
use crate::agents::claude::tmux::prompt::{DialogCall, PromptDialog};
use crate::agents::claude::tmux::screen::compare;
use crate::agents::claude::transcript::pending::{Closed, OpenCall};
use crate::agents::claude::transcript::plans::plan_in;
use crate::agents::claude::transcript::scan::all_open_calls;
use crate::agents::claude::translate::{self, PLAN, QUESTIONS};
use crate::agents::claude::wire::CanUseTool;
use crate::agents::reports::HubReport;
use crate::agents::tmux::pane::{NoPane, Pane};
use crate::client::{AgentClient, CallError, Try};
use crate::processes::Process;
use crate::protocol::{ConversationEvent, Registration};
use aye_core::{AgentId, Body, Key};
use futures_util::FutureExt;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

/// Well below the silence that makes an agent lost.
const SIGN_OF_LIFE: Duration = Duration::from_secs(25);
/// Between two looks at the terminal of a session that waits.
const BETWEEN_SCREENS: Duration = Duration::from_millis(300);
/// After this many looks, a screen that cannot be recognized is shown as it is.
const LOOKS: usize = 6;

/// What the terminal of a session shows, with the name of its pane.
pub type PaneText = (String, Result<(String, String), NoPane>);

pub struct Watched {
    pub session: Session,
    pub agent: AgentId,
    pub transcript: Transcript,
    client: AgentClient,
    /// Told to the hub, one after another.
    reports: mpsc::Sender<HubReport>,
    heard: Instant,
    /// Calls that were raised, by their ids.
    endings: HashMap<String, RaisedCall>,
    tasks: JoinSet<()>,
    waiting: watch::Sender<bool>,
    screens: mpsc::Sender<PaneText>,
    /// Looks at the terminal while the session waits.
    looking: Option<AbortHandle>,
    /// How many looks at the terminal found nothing.
    looks: usize,
    /// Told once the session no longer waits behind a screen that could not be recognized.
    waits_over: Option<watch::Sender<bool>>,
    /// Set for a session with hooks: its hooks raise asks, and we raise those that no hook is called for.
    notes: Option<Notes>,
    /// The title of a session that has none, and the reason why it cannot be answered from here, if so.
    place: (String, Option<String>),
    /// The title that was last reported to the hub.
    told_title: Option<String>,
}

impl Watched {
    pub fn new(
        session: Session,
        transcript: Transcript,
        client: AgentClient,
        reports: mpsc::Sender<HubReport>,
        screens: mpsc::Sender<PaneText>,
        notes: Option<Notes>,
    ) -> Self {
        Self {
            session: Session { status: Status::Working, ..session },
            agent: client.agent().clone(),
            transcript,
            client,
            reports,
            heard: Instant::now(),
            endings: HashMap::new(),
            tasks: JoinSet::new(),
            waiting: watch::channel(false).0,
            screens,
            looking: None,
            looks: 0,
            waits_over: None,
            notes,
            place: Default::default(),
            told_title: None,
        }
    }

    /// Sets what people read where it has no title, and beside it why it cannot be answered from here.
    pub fn set_place(&mut self, untitled: String, unreachable: Option<String>) {
        self.place = (untitled, unreachable);
    }

    /// Reports what is new of the agent. A full queue means that the hub is away; then this report is dropped.
    pub fn register(&mut self, what: Registration) -> bool {
        let is_taken = self.reports.try_send(HubReport::Register(what)).is_ok();
        if !is_taken {
            tracing::debug!(agent = %self.agent, "the hub is away");
        }
        self.heard = Instant::now();
        is_taken
    }

    /// Reports what the session is called, where that is new.
    pub fn tell_title(&mut self) {
        let Some(title) = self.new_title() else { return };
        let news = Registration { title: Some(title.into()), ..Registration::default() };
        if !self.register(news) {
            self.told_title = None;
        }
    }

    /// The session's title, if it is not the one that was last reported.
    pub fn new_title(&mut self) -> Option<String> {
        let own = self.session.title.as_deref();
        let only_prompt = own.is_none() && self.transcript.title.is_prompt();
        let title = match (&self.notes, own.or(self.transcript.title.text())) {
            // Hooks report the first prompt, unless they came after it.
            (Some(notes), Some(title)) if !only_prompt || !notes.has_title() => title.to_owned(),
            (Some(_), _) => return None,
            (None, title) => {
                let (untitled, unreachable) = &self.place;
                let title = title.unwrap_or(untitled);
                match unreachable {
                    None => title.to_owned(),
                    // A person sees here why a session cannot be answered, before they try.
                    Some(why) => format!("{title} (answer in its terminal: {why})"),
                }
            }
        };
        if self.told_title.as_ref() == Some(&title) {
            return None;
        }
        if let Some(notes) = &self.notes {
            notes.titled();
        }
        self.told_title = Some(title.clone());
        Some(title)
    }

    /// The first report, which must arrive before any other.
    pub async fn announce(&mut self, profile: &Registration) -> Result<(), CallError> {
        self.client.register(profile, Try::UntilHeard).await
    }

    pub fn sign_of_life(&mut self) {
        if self.heard.elapsed() >= SIGN_OF_LIFE {
            self.register(Registration::state(self.session.state()));
        }
    }

    /// A newer account of the same session.
    pub fn update(&mut self, session: Session) {
        let (before, now) = (self.session.state(), session.state());
        let another_wait = session.is_waiting() && session.status != self.session.status;
        self.session = session;
        if another_wait || !self.session.is_waiting() {
            self.explained();
        }
        self.waiting.send_if_modified(|waiting| {
            std::mem::replace(waiting, self.session.is_waiting()) != self.session.is_waiting()
        });
        match (self.session.is_waiting(), self.looking.take()) {
            (true, Some(looking)) => self.looking = Some(looking),
            (true, None) => {
                let look = look(self.session.id.clone(), self.session.process, self.screens.clone());
                self.looking = Some(self.tasks.spawn(look.boxed()));
            }
            (false, looking) => drop(looking.map(|looking| looking.abort())),
        }
        if before != now {
            self.register(Registration::state(now));
        }
    }

    /// Raises what is new, and tells those who wait how their calls ended. Says whether anybody did.
    pub fn take(&mut self, news: News, places: &aye_policy::OwnPlaces) -> bool {
        let mut goes_on = false;
        if let Some(mode) = &news.mode {
            self.register(Registration::mode(asks_in(mode)));
        }
        for (open, closed) in news.closed {
            if let Some(call) = self.endings.remove(&open.tool_use_id) {
                call.ending.send_replace(Some(closed));
                goes_on = true;
            }
        }
        // Questions and plans always wait for a person; what else does is seen when the session says so.
        for open in news.opened.iter().filter(|open| is_for_a_person(&open.tool)) {
            if self.notes.is_none() {
                self.raise(open, places);
            }
        }
        while self.tasks.try_join_next().is_some() {}
        goes_on
    }

    /// What the terminal shows while the session waits. What is asked there and not here is raised, and returned.
    pub fn saw(
        &mut self,
        screen: Result<(String, String), NoPane>,
        places: &aye_policy::OwnPlaces,
    ) -> Option<WatchEvent> {
        let Status::Waiting { what, since } = self.session.status.clone() else { return None };
        self.leave_to_hooks();
        if self.endings.values().any(RaisedCall::is_asked) || self.is_asked_by_a_hook() {
            self.explained();
            return None;
        }
        self.looks += 1;
        // A hook is called at about the time that the dialog is drawn, and is given its time.
        let hooks_had_time = if self.notes.is_some() { LOOKS } else { 0 };
        if self.looks <= hooks_had_time {
            return None;
        }
        let shown = screen.as_ref().ok().map(|(_, screen)| screen.as_str());
        if let Some((transcript, open)) = self.asked_on(shown, what.as_deref()) {
            self.explained();
            self.raise_from(transcript, &open, places);
            return Some(WatchEvent::Asks { agent: self.agent.clone(), tool: open.tool });
        }
        if self.looks <= hooks_had_time + LOOKS || self.waits_over.is_some() {
            return None;
        }
        let (pane, shown) = screen.ok().unzip();
        let body = waits::body(what.as_deref(), shown.as_deref())?;
        let (client, notes) = (self.client.clone(), self.notes.clone());
        let (key, place) =
            (waits::key(&self.session.id, since), waits::place(&self.session, pane.as_deref()));
        let (over, is_over) = watch::channel(false);
        self.tasks.spawn(WaitsInTerminal { client, key, body, place, notes }.follow(is_over).boxed());
        self.waits_over = Some(over);
        Some(WatchEvent::Waits { agent: self.agent.clone() })
    }

    fn explained(&mut self) {
        self.looks = 0;
        if let Some(over) = self.waits_over.take() {
            over.send_replace(true);
        }
    }

    /// A hook that came late after all asks in the better way.
    fn leave_to_hooks(&mut self) {
        let Some(notes) = &self.notes else { return };
        for (_, call) in self.endings.extract_if(|id, _| notes.is_claimed(id)) {
            call.ending.send_replace(Some(Closed::PassedOver));
        }
    }

    fn is_asked_by_a_hook(&self) -> bool {
        self.notes.as_ref().is_some_and(Notes::has_waiting_hook)
    }

    /// The one call that is asked about there, with the transcript it is in. Without a screen, the only one that is open.
    fn asked_on(&self, screen: Option<&str>, what: Option<&str>) -> Option<(PathBuf, OpenCall)> {
        let own = self.transcript.open().iter().map(|open| (self.transcript.path().to_owned(), open.clone()));
        let open: Vec<_> = own.chain(self.open_below()).collect();
        let prompt = screen.and_then(PromptDialog::read);
        let is_asked = |(path, open): &(PathBuf, OpenCall)| match (screen, &prompt, open.tool.as_str()) {
            (None, _, _) => what == Some("permission prompt"),
            (Some(screen), _, QUESTIONS) => shows_questions(screen, open),
            (_, Some(prompt), _) => self.call(path, open).is_some_and(|call| prompt.is_for(&call)),
            (_, None, _) => false,
        };
        let mut asked = open.iter().filter(|open| is_asked(open));
        let (path, open) = asked.next().filter(|_| asked.next().is_none())?;
        let is_new = !self.endings.contains_key(&open.tool_use_id)
            && self.notes.as_ref().is_none_or(|notes| !notes.is_claimed(&open.tool_use_id));
        is_new.then(|| (path.clone(), open.clone()))
    }

    /// What its sub-agents wait for; each has a transcript of its own.
    fn open_below(&self) -> Vec<(PathBuf, OpenCall)> {
        let open = sub_agents_of(self.transcript.path()).into_iter().flat_map(|path| {
            all_open_calls(&path).unwrap_or_default().into_iter().map(move |open| (path.clone(), open))
        });
        open.collect()
    }

    fn cwd(&self, open: &OpenCall) -> PathBuf {
        self.session.cwd.clone().or_else(|| open.cwd.as_ref().map(Into::into)).unwrap_or_default()
    }

    fn call(&self, transcript: &Path, open: &OpenCall) -> Option<DialogCall> {
        let input = serde_json::from_str(open.input.as_deref()?).ok()?;
        let (tool, cwd) = (open.tool.clone(), self.cwd(open));
        let by_sub_agent = transcript != self.transcript.path();
        let change = before::and_after(&tool, &input, &cwd);
        Some(DialogCall { tool, input, cwd, by_sub_agent, change })
    }

    pub fn raise(&mut self, open: &OpenCall, places: &aye_policy::OwnPlaces) {
        self.raise_from(self.transcript.path().to_owned(), open, places);
    }

    fn raise_from(&mut self, transcript: PathBuf, open: &OpenCall, places: &aye_policy::OwnPlaces) {
        match body(open, &self.cwd(open), &transcript, places) {
            Ok(body) => {
                let call = self.call(&transcript, open);
                let (tool, id) = (open.tool.clone(), open.tool_use_id.clone());
                let origin = Origin { key: key(&self.session.id, &id), cwd: None, sub_agent: None };
                self.follow_in(
                    transcript,
                    Made { tool_use_id: id, tool, call, opens_late: false },
                    body,
                    origin,
                    None,
                );
            }
            Err(why) => {
                let text =
                    format!("It asks something that cannot be shown here, so look at its terminal: {why}");
                let event = ConversationEvent::Trouble { text, left_out: 0 };
                drop(self.reports.try_send(HubReport::Event(event)));
            }
        }
    }

    /// Follows an ask whose end the transcript shows already.
    pub fn follow_ended(&mut self, tool_use_id: String, body: Body, closed: Closed) {
        let origin = Origin { key: key(&self.session.id, &tool_use_id), cwd: None, sub_agent: None };
        let made = Made { tool_use_id, tool: QUESTIONS.to_owned(), call: None, opens_late: false };
        self.follow_in(self.transcript.path().to_owned(), made, body, origin, Some(closed));
    }

    /// Goes on with an ask whose hook left its dialog to the terminal, or that an earlier follower asked. False if it
    /// cannot be understood.
    pub fn adopt(&mut self, noted: &AskNote, origin: Origin) -> bool {
        let (Some(notes), Some(body), Some(id)) = (&self.notes, noted.body(), noted.tool_use_id.clone())
        else {
            return false;
        };
        // Ours is there before theirs goes, so that the next follower finds the ask after a crash.
        let dialog = Dialog::HandedOver(origin.clone());
        if notes.note(&AskNote { hook: Process::myself(), dialog, ..noted.clone() }).is_err() {
            return true;
        }
        notes.settled(noted);
        notes.unclaim(&id);
        if self.endings.get(&id).is_some_and(RaisedCall::is_asked) {
            return true;
        }
        let open = all_open_calls(&noted.transcript).unwrap_or_default();
        let call = open.iter().find(|open| open.tool_use_id == id);
        let tool = call.map(|open| open.tool.clone()).or_else(|| tool_of(&body)).unwrap_or_default();
        let call = call.and_then(|open| self.call(&noted.transcript, open));
        self.follow_in(
            noted.transcript.clone(),
            Made { tool_use_id: id, tool, call, opens_late: true },
            body,
            origin,
            None,
        );
        true
    }

    fn follow_in(
        &mut self,
        transcript: PathBuf,
        made: Made,
        body: Body,
        origin: Origin,
        closed: Option<Closed>,
    ) {
        let (sender, ending) = watch::channel(closed.clone());
        let (asking, asked) = watch::channel(true);
        let call = RaisedCall { ending: sender.clone(), asked };
        self.endings.insert(made.tool_use_id.clone(), call);
        // Our own transcript is read by whoever has us, from now on.
        let is_read = transcript == self.transcript.path()
            && (closed.is_some()
                || self.transcript.open().iter().any(|open| open.tool_use_id == made.tool_use_id));
        if !is_read {
            self.tasks.spawn(until_closed(transcript.clone(), made.tool_use_id.clone(), sender).boxed());
        }
        let follower = WatchedAsk {
            client: self.client.clone(),
            origin,
            tool_use_id: made.tool_use_id,
            tool: made.tool,
            body,
            call: made.call,
            opens_late: made.opens_late,
            process: self.session.process,
            transcript,
            waiting: self.waiting.subscribe(),
            asking,
            notes: self.notes.clone(),
        };
        self.tasks.spawn(follower.follow(ending).boxed());
    }

    /// Takes back what is open, because its session goes on without us.
    pub async fn end(mut self) {
        self.explained();
        self.looking.take().inspect(AbortHandle::abort);
        for (_, call) in self.endings.drain() {
            call.ending.send_replace(Some(Closed::PassedOver));
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

/// A call that was raised and has not returned.
struct RaisedCall {
    /// Says how it ended.
    ending: watch::Sender<Option<Closed>>,
    asked: watch::Receiver<bool>,
}

impl RaisedCall {
    /// Whether the terminal still waits for its answer.
    fn is_asked(&self) -> bool {
        *self.asked.borrow() && self.asked.has_changed().is_ok()
    }
}

/// A tool call that somebody is asked about.
struct Made {
    tool_use_id: String,
    tool: String,
    call: Option<DialogCall>,
    /// Its hook has only just let the terminal open the dialog.
    opens_late: bool,
}

/// Reads the transcript of a sub-agent until it shows how the call ended, or nobody wants to know.
async fn until_closed(path: PathBuf, tool_use_id: String, ending: watch::Sender<Option<Closed>>) {
    let is_it = |open: &OpenCall| open.tool_use_id == tool_use_id;
    let mut followed: Option<Transcript> = None;
    while !ending.is_closed() {
        let closed = match &mut followed {
            Some(transcript) => {
                let closed = transcript.read().unwrap_or_default().closed;
                closed.into_iter().find(|(open, _)| is_it(open)).map(|(_, closed)| closed)
            }
            None => {
                // Looked for first: a call that is written in between is open, and not passed over.
                let was_there = past::has_call(&path, &tool_use_id);
                match Transcript::follow(path.clone()) {
                    Ok((transcript, open)) if open.iter().any(is_it) => {
                        followed = Some(transcript);
                        None
                    }
                    Ok(_) if was_there => {
                        Some(past::result_in(&path, &tool_use_id).unwrap_or(Closed::PassedOver))
                    }
                    Ok(_) | Err(_) => None,
                }
            }
        };
        if let Some(closed) = closed {
            ending.send_replace(Some(closed));
            return;
        }
        tokio::time::sleep(BETWEEN_SCREENS).await;
    }
}

async fn look(session: String, process: Option<Process>, screens: mpsc::Sender<PaneText>) {
    loop {
        let screen = match Pane::of(process).await {
            Ok(pane) => pane.screen().await.map(|screen| (pane.name.clone(), screen)),
            Err(why) => Err(why),
        };
        if screens.send((session.clone(), screen)).await.is_err() {
            return;
        }
        tokio::time::sleep(BETWEEN_SCREENS).await;
    }
}

fn tool_of(body: &Body) -> Option<String> {
    match body {
        Body::Permission(permission) => Some(permission.tool.clone()),
        Body::Question(_) => Some(QUESTIONS.to_owned()),
        Body::Plan(_) => Some(PLAN.to_owned()),
    }
}

/// Whether a call of this tool always waits for a person.
pub fn is_for_a_person(tool: &str) -> bool {
    [QUESTIONS, PLAN].contains(&tool)
}

fn shows_questions(screen: &str, open: &OpenCall) -> bool {
    let input = open.input.as_deref().and_then(|input| serde_json::from_str(input).ok());
    let questions = input.and_then(|input| translate::questions(&input).ok());
    questions.is_some_and(|body| compare(screen, &body.questions, &untouched(0)).is_ok())
}

/// Unique, and the same for everybody who watches this session.
pub fn key(session: &str, tool_use_id: &str) -> Key {
    Key::from_displayed(&format_args!("{session}/{tool_use_id}"))
}

fn body(
    open: &OpenCall,
    cwd: &Path,
    transcript: &Path,
    places: &aye_policy::OwnPlaces,
) -> Result<Body, String> {
    let input = open.input.clone().ok_or("it is too long")?;
    let tool = CanUseTool {
        tool_name: open.tool.clone(),
        input: RawValue::from_string(input).map_err(|error| error.to_string())?,
        tool_use_id: Some(open.tool_use_id.clone()),
        agent_id: None,
        permission_suggestions: None,
    };
    let plan = || Some(plan_in(transcript, PLAN));
    translate::ask_with_plan(&tool, cwd, places, plan).map_err(|why| why.to_string())
}
