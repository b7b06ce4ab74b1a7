//! Runs that are started and prompted from a chat, and the messages that show their progress.

use super::access::{Person, Place};
use super::actions::Action;
use super::api::Outgoing;
use super::asks::digest;
use super::bot_loop::BotLoop;
use super::calls::{BotCall, CallPurpose, Markup, Op, outgoing_of};
use super::chooser::NO_PROJECT;
use super::html::label;
use super::memory::{ChatNote, START, SentMessage, SideKind, StartedFrom, forget};
use super::message::{Choice, RunContent};
use super::progress::{RunResult, bare_result, closed_page, progress_page, result};
use super::queue::Job;
use super::render::button;
use super::waiting_texts::IncomingText;
use crate::hub::{Command, EventPage, Image, Memo, NewRun, Problem};
use crate::protocol::ConversationEvent;
use aye_core::{Agent, AgentId, AgentState, Reach, Surface, Text};
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The message of a run is edited no more often than this, in Telegram's seconds.
const BETWEEN_EDITS: f64 = 3.0;
const EVENTS_AT_ONCE: u32 = 1000;
const WHICH_PROJECT: &str = "In which project?";
/// A prompt that waited this long, because the hub was down, is started only if its author still means it.
const MAY_BE_STALE: SignedDuration = SignedDuration::from_hours(1);

/// What somebody wants done.
pub struct Task {
    pub update: i64,
    pub person: Person,
    pub text: String,
    pub image: Option<Image>,
    /// The message to reply to.
    pub message_id: Option<i64>,
    /// When it was written, if that may be long ago.
    pub written_at: Option<Timestamp>,
    /// Saved together with it.
    pub memos: Vec<Memo>,
}

impl Task {
    pub fn new(update: i64, person: &Person, text: &str, message_id: Option<i64>) -> Self {
        let (person, text) = (person.clone(), text.to_owned());
        Self { update, person, text, image: None, message_id, written_at: None, memos: vec![] }
    }

    /// A task from a message, with this text.
    pub fn of(said: &IncomingText, text: String) -> Self {
        let task = Self::new(said.update, &said.person, &text, Some(said.message_id));
        Self { written_at: said.written_at, ..task }
    }
}

/// How the start of a run ended.
pub struct Started {
    place: Place,
    update: i64,
    message_id: Option<i64>,
    project: String,
    agent: Result<Agent, Problem>,
}

impl BotLoop {
    /// What is for no ask goes to the chat's run, or starts one.
    pub(super) async fn work(&mut self, task: Task) -> Result<(), Problem> {
        if let Some(age) = self.age_if_old(task.written_at) {
            return self.offer_old(task, None, age).await;
        }
        let note = self.note_of(task.person.place());
        let agent = match &note.agent {
            Some(agent) => self.hub.agent(agent.as_str()).await.ok(),
            None => None,
        };
        match agent {
            Some(agent) if agent.state != AgentState::Ended && agent.reach == Reach::Driven => {
                self.prompt(agent.id, task).await
            }
            // A run that has ended is resumed, by the same agent.
            Some(ended) => {
                let note = ChatNote { kind: Some(ended.kind), ..note };
                self.start(task, note, ended.session).await
            }
            None => self.start(task, note, None).await,
        }
    }

    /// A run stays where it was started, whoever prompts it from elsewhere in that chat.
    fn place_of_run(&self, agent: &AgentId, from: Place) -> Place {
        let home = self.memory.started_from.get(agent).map(StartedFrom::place);
        home.filter(|home| home.chat == from.chat).unwrap_or(from)
    }

    pub(super) fn note_of(&self, place: Place) -> ChatNote {
        self.memory.chats.get(&place).cloned().unwrap_or_default()
    }

    /// The run that this chat goes on with, if it can, and its name.
    pub(super) async fn run_of(&self, place: Place) -> Option<(AgentId, String)> {
        let agent = self.memory.chats.get(&place)?.agent.clone()?;
        let agent = self.hub.agent(agent.as_str()).await.ok()?;
        let goes_on = agent.state != AgentState::Ended && agent.reach == Reach::Driven;
        let name = self.name_of(&agent.id).unwrap_or_else(|| agent.id.to_string());
        goes_on.then_some((agent.id, name))
    }

    pub(super) async fn prompt_unless_old(&mut self, agent: AgentId, task: Task) -> Result<(), Problem> {
        match self.age_if_old(task.written_at) {
            Some(age) => self.offer_old(task, Some(agent), age).await,
            None => self.prompt(agent, task).await,
        }
    }

    /// The age of a text in words, if it may no longer be meant because the hub was down meanwhile.
    pub(super) fn age_if_old(&self, written_at: Option<Timestamp>) -> Option<String> {
        let age = self.hub.clock().now().duration_since(written_at?);
        (age >= MAY_BE_STALE).then(|| in_words(age))
    }

    pub(super) async fn prompt(&mut self, agent: AgentId, task: Task) -> Result<(), Problem> {
        let Task { update, person, text, image, message_id, written_at: _, mut memos } = task;
        memos.extend(self.memory.put_handled(update));
        let Ok(words) = Text::try_from(text) else { return self.save(memos).await };
        let anyway = memos.clone();
        if self.unfinished(&agent).is_none() {
            let since = self.hub.last_seq().await?;
            let place = self.place_of_run(&agent, person.place());
            let message = SentMessage::of_run(place, agent.clone(), since, self.hub.clock().now())?;
            self.put_reaction(place.chat, Job::Message(message.id.clone()));
            memos.push(self.memory.put(message));
        }
        let command = Command::Prompt { text: words, image };
        let queued =
            self.hub.command_and_remember(agent, command, person.who(), Surface::Telegram, memos).await;
        if queued.is_err() {
            self.mark_stale();
            self.reload_if_stale().await?;
        }
        match queued {
            Ok(()) => Ok(()),
            Err(problem @ Problem::Store(_)) => Err(problem),
            Err(problem) => {
                self.say_loud(person.place(), message_id, &format!("That did not work: {problem}."));
                self.save(anyway).await
            }
        }
    }

    async fn start(&mut self, task: Task, note: ChatNote, resume: Option<String>) -> Result<(), Problem> {
        let chosen = match self.chosen_project(&note) {
            Ok(Some(project)) => project,
            Ok(None) => return self.choose_for(Choice::Project, task, WHICH_PROJECT).await,
            Err(words) => {
                self.say_loud(task.person.place(), task.message_id, &words);
                return self.save(task.memos).await;
            }
        };
        if let Some(lead) = self.unknown_agent(&note) {
            return self.choose_for(Choice::Agent, task, &lead).await;
        }
        let Task { update, person, text, image, message_id, written_at: _, mut memos } = task;
        let (Ok(cwd), Ok(prompt)) = (Text::try_from(chosen.as_str()), Text::try_from(text)) else {
            return Ok(());
        };
        if self.starting.contains_key(&person.place()) {
            self.say(person.place(), message_id, "A run is just being started. Send this again in a moment.");
            return self.save(memos).await;
        }
        self.starting.insert(person.place(), self.hub.clock().now());
        // Stored first: after a crash the run is not started twice, and the person is told.
        memos.extend(self.memory.put_handled(update));
        let body = json!({ "chat": person.chat, "topic": person.topic, "message": message_id });
        memos.push(Memo { kind: START, key: update.to_string(), body: Some(body) });
        let kind = note.kind.clone();
        memos.push(self.memory.put_chat(person.place(), ChatNote { project: Some(chosen.clone()), ..note }));
        if let Err(problem) = self.save(memos).await {
            self.starting.remove(&person.place());
            return Err(problem);
        }
        let (hub, place, who) = (self.hub.clone(), person.place(), person.who());
        self.starts.spawn(
            async move {
                let run = NewRun { cwd, prompt, image, mode: None, agent: kind, resume, assertion: None };
                Started { place, update, message_id, project: chosen, agent: hub.start_run(run, who).await }
            }
            .boxed(),
        );
        Ok(())
    }

    /// The chat's own, or the only one there is. None where people have to choose.
    pub(super) fn chosen_project(&self, note: &ChatNote) -> Result<Option<String>, String> {
        let projects = self.hub.projects().map_err(|problem| problem.to_string())?.projects;
        let chosen =
            note.project.as_ref().filter(|name| projects.iter().any(|project| project.name == **name));
        match (chosen, projects.as_slice()) {
            (Some(name), _) => Ok(Some(name.clone())),
            (None, [only]) => Ok(Some(only.name.clone())),
            (None, []) => Err(NO_PROJECT.to_owned()),
            (None, _) => Ok(None),
        }
    }

    /// Asks for another agent if the chat's own is not there any more.
    fn unknown_agent(&self, note: &ChatNote) -> Option<String> {
        let kind = note.kind.as_deref()?;
        let agents = self.hub.projects().ok()?.agents;
        let is_there = agents.iter().any(|agent| agent.kind == kind);
        (!is_there).then(|| format!("No agent {} is installed here any more. Which one?", label(kind, 60)))
    }

    pub(super) async fn run_started(&mut self, started: Option<Started>) {
        let Some(Started { place, update, message_id, project, agent }) = started else { return };
        self.starting.remove(&place);
        let place = Place { chat: self.memory.current_chat(place.chat), ..place };
        let now = self.hub.clock().now();
        let mut memos = vec![forget(START, update.to_string())];
        match agent {
            Ok(agent) => {
                let message = match SentMessage::of_run(place, agent.id.clone(), 0, now) {
                    Ok(message) => message,
                    Err(problem) => return self.report_failure(&problem),
                };
                self.put_reaction(place.chat, Job::Message(message.id.clone()));
                memos.push(self.memory.put(message));
                let note = self.note_of(place);
                let note = ChatNote { project: Some(project.clone()), agent: Some(agent.id.clone()), ..note };
                memos.push(self.memory.put_chat(place, note));
                let Place { chat, topic } = place;
                let from = StartedFrom { chat, topic, name: project, at: now };
                memos.push(self.memory.put_started_from(agent.id, from));
            }
            Err(problem) => self.say_loud(place, message_id, &format!("{problem}.")),
        }
        if let Err(problem) = self.save(memos).await {
            self.report_failure(&problem);
        }
        for fetched in std::mem::take(&mut self.waiting_photos) {
            self.photo_fetched(Some(fetched)).await;
        }
    }

    pub(super) fn run_changed(&mut self, agent: &AgentId, is_over: bool) {
        let Some((chat, id)) = self.memory.of_run(agent).map(|message| (message.chat, message.id.clone()))
        else {
            return;
        };
        // People wait for the end, which must not wait for its turn among the edits.
        if is_over {
            return self.put_announcement(chat, Job::Message(id));
        }
        // Edits are limited, however fast the agent writes.
        match self.next_edit.get(&id).copied().filter(|next| Instant::now() < *next) {
            Some(next) => drop(self.edits_due.insert((next, id))),
            None => self.put(chat, Job::Message(id)),
        }
    }

    /// What a run of this chat does because of somebody elsewhere, or by itself, is shown there, too.
    pub(super) async fn event(&mut self, agent: &AgentId, seq: u64, event: &Value) -> Result<(), Problem> {
        if self.memory.of_run(agent).is_some() {
            self.run_changed(agent, ends_turn(event));
            return Ok(());
        }
        let Some(place) = self.memory.started_from.get(agent).map(StartedFrom::place) else { return Ok(()) };
        match begins_turn(event) {
            true => self.show_turn(agent.clone(), place, seq.saturating_sub(1)).await,
            false => Ok(()),
        }
    }

    pub(super) async fn next_call_for_run(
        &mut self,
        mut message: SentMessage,
        shown: &RunContent,
    ) -> Result<Option<BotCall>, Problem> {
        let agent = match self.hub.agent(shown.agent.as_str()).await {
            Ok(agent) => agent,
            Err(Problem::NoSuchAgent) => return Ok(None),
            Err(problem) => return Err(problem),
        };
        let id = message.id.clone();
        self.read_events(&id, shown).await?;
        let name = self.run_name(&agent);
        let progress = self.progress.entry(id.clone()).or_default();
        let stopped_by = shown.stopped_by.as_deref();
        let result = result(&agent, &name, progress, stopped_by);
        let is_over = result.is_some();
        let page = match (&result, stopped_by) {
            (None, _) => progress_page(&agent, &name, progress, stopped_by),
            // Whoever stopped it looks at this message.
            (Some(result), Some(_)) => result.page.clone(),
            (Some(_), None) => closed_page(&name, progress),
        };
        if let Some(result) = result.as_ref().filter(|_| stopped_by.is_none())
            && let Some(call) = self.send_result(&message, &agent, &name, result)
        {
            return Ok(Some(call));
        }
        let file = result.and_then(|result| result.file);
        let markup = self.markup.get(&id).copied().unwrap_or_default();
        let mut outgoing = Outgoing { silent: true, ..outgoing_of(&page, markup) };
        if !is_over && stopped_by.is_none() {
            outgoing.rows = message.keyboard(&[vec![button("⏹ Stop", Action::Stop)]])?;
        }
        let next = self.next_edit.get(&id).copied().filter(|next| Instant::now() < *next && !is_over);
        if let Some(next) = next.filter(|_| message.shown != digest(&outgoing)) {
            self.edits_due.insert((next, id));
            return Ok(None);
        }
        // For a run that was over at once, the result is enough.
        let is_needed = message.message.is_some() || !message.has_side(SideKind::Result);
        if is_needed && let Some(call) = self.show(&message, outgoing).await? {
            return Ok(Some(call));
        }
        if let Some(text) = file.filter(|_| !message.has_side(SideKind::File { question: 0 })) {
            return Ok(self.send_file(&message, Job::Message(id), ("reply.md".into(), text), 0));
        }
        if is_over {
            let seen = self.progress.remove(&id).map_or(shown.since, |progress| progress.seen);
            self.next_edit.remove(&id);
            self.markup.remove(&id);
            self.change(&id, |message| message.settled = true).await?;
            self.show_next_turn(message.place(), &shown.agent, seen).await?;
        }
        Ok(None)
    }

    fn run_name(&self, agent: &Agent) -> String {
        let given = self.name_of(&agent.id).filter(|name| !name.trim().is_empty());
        let title = Some(agent.title.clone()).filter(|title| !title.trim().is_empty());
        given.or(title).unwrap_or_else(|| agent.id.to_string())
    }

    /// An edit notifies nobody, so the result is a separate message.
    fn send_result(
        &self,
        message: &SentMessage,
        agent: &Agent,
        name: &str,
        result: &RunResult,
    ) -> Option<BotCall> {
        if message.has_side(SideKind::Result) {
            return None;
        }
        let rings = if result.failed { self.settings.notify_failure } else { self.settings.notify_end };
        let outgoing = match self.markup.get(&message.id).copied().unwrap_or_default() {
            Markup::Bare => outgoing_of(&bare_result(agent, name), Markup::Plain),
            markup => outgoing_of(&result.page, markup),
        };
        let outgoing = Outgoing { reply_to: message.message, silent: !rings, ..outgoing };
        let purpose = CallPurpose::Side { id: message.id.clone(), what: SideKind::Result };
        Some(BotCall { purpose, op: Op::Send(outgoing) })
    }

    /// The message of this run that still has something to show.
    pub(super) fn unfinished(&self, agent: &AgentId) -> Option<&SentMessage> {
        let has_ended = |message: &&SentMessage| {
            self.progress.get(&message.id).is_some_and(|progress| progress.end.is_some())
        };
        self.memory.of_run(agent).filter(|message| !has_ended(message))
    }

    /// The next turn may have begun before this message was done with the last.
    async fn show_next_turn(&mut self, place: Place, agent: &AgentId, seen: u64) -> Result<(), Problem> {
        if self.memory.of_run(agent).is_some() {
            return Ok(());
        }
        let events = self.hub.events(agent.clone(), EventPage::After(seen), EVENTS_AT_ONCE).await?;
        match events.iter().find(|(_, event)| begins_turn(event)) {
            Some((seq, _)) => self.show_turn(agent.clone(), place, seq.saturating_sub(1)).await,
            None => Ok(()),
        }
    }

    async fn show_turn(&mut self, agent: AgentId, place: Place, since: u64) -> Result<(), Problem> {
        let message = SentMessage::of_run(place, agent, since, self.hub.clock().now())?;
        self.put_announcement(place.chat, Job::Message(message.id.clone()));
        self.keep(message).await
    }

    async fn read_events(&mut self, id: &str, shown: &RunContent) -> Result<(), Problem> {
        loop {
            let progress = self.progress.entry(id.to_owned()).or_default();
            let after = progress.seen.max(shown.since);
            let events =
                self.hub.events(shown.agent.clone(), EventPage::After(after), EVENTS_AT_ONCE).await?;
            let all = events.len() < EVENTS_AT_ONCE as usize;
            for (seq, event) in events {
                progress.add(seq, &event);
            }
            if all || progress.end.is_some() {
                return Ok(());
            }
        }
    }

    /// The message of a run is edited no more often than Telegram likes.
    pub(super) fn run_edited(&mut self, id: &str) {
        if self.memory.messages.get(id).is_some_and(|message| message.as_run().is_some()) {
            let next = Instant::now() + self.settings.pace.seconds(BETWEEN_EDITS);
            self.next_edit.insert(id.to_owned(), next);
        }
    }

    /// Nobody knows whether a run's message is there: another takes its place.
    pub(super) fn replace_run(&mut self, message: SentMessage) -> Vec<Memo> {
        let now = self.hub.clock().now();
        let new = message
            .as_run()
            .map(|shown| SentMessage::of_run(message.place(), shown.agent.clone(), shown.since, now));
        let (shows, sides) = (message.shows.clone(), message.sides.clone());
        let mut memos = vec![self.memory.put(SentMessage { lost: true, ..message })];
        if let Some(Ok(new)) = new {
            let new = SentMessage { shows, sides, ..new };
            self.put(new.chat, Job::Message(new.id.clone()));
            memos.push(self.memory.put(new));
        }
        memos
    }
}

/// A time of at least an hour, roughly.
fn in_words(age: SignedDuration) -> String {
    match age.as_hours() {
        1 => "1 hour".to_owned(),
        hours @ ..48 => format!("{hours} hours"),
        hours => format!("{} days", hours / 24),
    }
}

fn ends_turn(event: &Value) -> bool {
    matches!(ConversationEvent::read(event), ConversationEvent::Turn { .. } | ConversationEvent::Ended { .. })
}

/// A prompt that came in the middle of a turn, or a sub-agent that is done, can begin one without a further prompt.
fn begins_turn(event: &Value) -> bool {
    matches!(
        ConversationEvent::read(event),
        ConversationEvent::Prompt { .. }
            | ConversationEvent::Text { .. }
            | ConversationEvent::Tool { .. }
            | ConversationEvent::Turn { .. }
    )
}
