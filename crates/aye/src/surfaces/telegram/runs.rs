//! Work that is started and steered from a chat, and the messages that show how it goes.

use super::api::{Key, Outgoing};
use super::calls::{Call, Doing, Op, Plainness, plainly};
use super::card::card;
use super::desk::Desk;
use super::gate::Person;
use super::lane::Job;
use super::memory::{Card, ChatNote, Homed, START, forget};
use super::show::digest;
use crate::hub::{Change, Command, Image, Memo, NewRun, Problem, Subject};
use aye_core::{Agent, AgentId, AgentState, Reach, Surface, Text};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The message of a run is edited no more often than this, in Telegram's seconds.
const BETWEEN_EDITS: f64 = 3.0;
const EVENTS_AT_ONCE: u32 = 1000;

/// What somebody wants done.
pub struct Task {
    pub update: i64,
    pub person: Person,
    pub text: String,
    pub image: Option<Image>,
    /// The message that says so.
    pub here: Option<i64>,
    /// Saved together with it.
    pub memos: Vec<Memo>,
}

impl Task {
    pub fn new(update: i64, person: &Person, text: &str, here: Option<i64>) -> Self {
        Self { update, person: person.clone(), text: text.to_owned(), image: None, here, memos: vec![] }
    }
}

/// How the start of a run ended.
pub struct Started {
    chat: i64,
    update: i64,
    project: String,
    agent: Result<Agent, Problem>,
}

impl Desk {
    /// What is for no ask goes to the chat's run, or starts one.
    pub(super) async fn work(&mut self, task: Task) -> Result<(), Problem> {
        let note = self.note_of(task.person.chat);
        let agent = match &note.agent {
            Some(agent) => self.hub.agent(agent.as_str()).await.ok(),
            None => None,
        };
        match agent {
            Some(agent) if agent.state != AgentState::Ended && agent.reach == Reach::Driven => {
                self.prompt(agent.id, task).await
            }
            // What ended can be taken up again where it was left.
            ended => self.start(task, note, ended.and_then(|agent| agent.session)).await,
        }
    }

    pub(super) fn note_of(&self, chat: i64) -> ChatNote {
        self.memory.chats.get(&chat).cloned().unwrap_or_default()
    }

    /// The run that this chat goes on with, if it can, and its name.
    pub(super) async fn run_of(&self, chat: i64) -> Option<(AgentId, String)> {
        let agent = self.memory.chats.get(&chat)?.agent.clone()?;
        let agent = self.hub.agent(agent.as_str()).await.ok()?;
        let goes_on = agent.state != AgentState::Ended && agent.reach == Reach::Driven;
        let name = self.name_of(&agent.id).unwrap_or_else(|| agent.id.to_string());
        goes_on.then_some((agent.id, name))
    }

    pub(super) async fn prompt(&mut self, agent: AgentId, task: Task) -> Result<(), Problem> {
        let Task { update, person, text, image, here, mut memos } = task;
        memos.extend(self.memory.put_handled(update));
        let Ok(words) = Text::try_from(text) else { return self.save(memos).await };
        let anyway = memos.clone();
        if self.going_card(&agent).is_none() {
            let since = self.hub.last_seq().await?;
            let card = Card::new(agent.clone(), person.chat, since, self.hub.clock().now())?;
            self.put(person.chat, Job::Card(card.id.clone()));
            memos.push(self.memory.put_card(card));
        }
        let command = Command::Prompt { text: words, image };
        let queued =
            self.hub.command_and_remember(agent, command, person.who(), Surface::Telegram, memos).await;
        if queued.is_err() {
            self.doubt();
            self.be_sure().await?;
        }
        match queued {
            Ok(()) => Ok(()),
            Err(problem @ Problem::Store(_)) => Err(problem),
            Err(problem) => {
                self.say(person.chat, here, &format!("That did not work: {problem}."));
                self.save(anyway).await
            }
        }
    }

    async fn start(&mut self, task: Task, note: ChatNote, resume: Option<String>) -> Result<(), Problem> {
        let Task { update, person, text, image, here, mut memos } = task;
        let chosen = match self.chosen_project(&note) {
            Ok(project) => project,
            Err(words) => {
                self.say(person.chat, here, &words);
                return self.save(memos).await;
            }
        };
        let (Ok(cwd), Ok(prompt)) = (Text::try_from(chosen.as_str()), Text::try_from(text)) else {
            return Ok(());
        };
        if self.starting.contains_key(&person.chat) {
            self.say(person.chat, here, "A run is just being started. Send this again in a moment.");
            return self.save(memos).await;
        }
        self.starting.insert(person.chat, self.hub.clock().now());
        // Noted first: should the hub end now, the run is not started twice, and the person is told.
        memos.extend(self.memory.put_handled(update));
        memos.push(Memo { kind: START, key: update.to_string(), body: Some(json!({ "chat": person.chat })) });
        memos.push(self.memory.put_chat(person.chat, ChatNote { project: Some(chosen.clone()), ..note }));
        if let Err(problem) = self.save(memos).await {
            self.starting.remove(&person.chat);
            return Err(problem);
        }
        let (hub, chat, who) = (self.hub.clone(), person.chat, person.who());
        self.starts.spawn(async move {
            let run = NewRun { cwd, prompt, image, mode: None, agent: None, resume, assertion: None };
            Started { chat, update, project: chosen, agent: hub.start_run(run, who).await }
        });
        Ok(())
    }

    /// The chat's own, or the only one there is.
    pub(super) fn chosen_project(&self, note: &ChatNote) -> Result<String, String> {
        let projects = self.hub.projects().map_err(|problem| problem.to_string())?.projects;
        let chosen =
            note.project.as_ref().filter(|name| projects.iter().any(|project| project.name == **name));
        match (chosen, projects.as_slice()) {
            (Some(name), _) => Ok(name.clone()),
            (None, [only]) => Ok(only.name.clone()),
            (None, []) => Err("There is no project to work in yet. Name one under [projects] in config.toml: web = \"~/src/web\"".into()),
            (None, several) => {
                let names: Vec<_> = several.iter().map(|project| project.name.as_str()).collect();
                Err(format!("In which project? Choose with /project NAME, then send this again: {}", names.join(", ")))
            }
        }
    }

    pub(super) async fn run_started(&mut self, started: Option<Started>) {
        let Some(Started { chat, update, project, agent }) = started else { return };
        self.starting.remove(&chat);
        let now = self.hub.clock().now();
        let mut memos = vec![forget(START, update.to_string())];
        match agent {
            Ok(agent) => {
                let card = match Card::new(agent.id.clone(), chat, 0, now) {
                    Ok(card) => card,
                    Err(problem) => return self.stumble(&problem),
                };
                self.put(chat, Job::Card(card.id.clone()));
                memos.push(self.memory.put_card(card));
                let note = ChatNote { project: Some(project.clone()), agent: Some(agent.id.clone()) };
                memos.push(self.memory.put_chat(chat, note));
                memos.push(self.memory.put_home(agent.id, Homed { chat, name: project, at: now }));
            }
            Err(problem) => self.say(chat, None, &format!("{problem}.")),
        }
        if let Err(problem) = self.save(memos).await {
            self.stumble(&problem);
        }
        for fetched in std::mem::take(&mut self.waiting_photos) {
            self.photo_fetched(Some(fetched)).await;
        }
    }

    pub(super) fn card_changed(&mut self, agent: &AgentId) {
        let Some((chat, card)) = self.memory.active_card(agent).map(|card| (card.chat, card.id.clone()))
        else {
            return;
        };
        // An agent that speaks fast is not looked at for every word.
        match self.card_free.get(&card).copied().filter(|free| Instant::now() < *free) {
            Some(free) => drop(self.cards_due.insert((free, card))),
            None => self.put(chat, Job::Card(card)),
        }
    }

    /// What a run of this chat does because of somebody elsewhere, or by itself, is shown there, too.
    pub(super) async fn event(&mut self, agent: &AgentId, change: &Change) -> Result<(), Problem> {
        if self.memory.active_card(agent).is_some() {
            self.card_changed(agent);
            return Ok(());
        }
        let Some(chat) = self.memory.homes.get(agent).map(|home| home.chat) else { return Ok(()) };
        let before = change.seq.saturating_sub(1);
        let begins = match &change.subject {
            Subject::Event(_, event) => begins_turn(event),
            // A long event is not in the change itself.
            _ => {
                let events = self.hub.events(agent.clone(), before, 1).await?;
                events.first().is_some_and(|(seq, event)| *seq == change.seq && begins_turn(event))
            }
        };
        if begins { self.new_card(agent.clone(), chat, before).await } else { Ok(()) }
    }

    pub(super) async fn plan_card(&mut self, id: &str) -> Result<Option<Call>, Problem> {
        let Some(known) = self.memory.cards.get(id).cloned() else { return Ok(None) };
        if known.lost || known.done {
            return Ok(None);
        }
        let agent = match self.hub.agent(known.agent.as_str()).await {
            Ok(agent) => agent,
            Err(Problem::NoSuchAgent) => return Ok(None),
            Err(problem) => return Err(problem),
        };
        self.read_events(&known).await?;
        let progress = self.progress.entry(known.id.clone()).or_default();
        let done = progress.end.is_some() || agent.state == AgentState::Ended;
        let name = self.memory.homes.get(&agent.id).map_or(agent.title.as_str(), |home| home.name.as_str());
        let name = if name.trim().is_empty() { agent.id.as_str() } else { name };
        let (page, file) = card(&agent, name, progress, known.cancelled.as_deref());
        let plainness = self.plainness.get(id).copied().unwrap_or_default();
        let mut outgoing = Outgoing { silent: true, ..plainly(&page, plainness) };
        if !done && known.cancelled.is_none() {
            outgoing.rows = vec![vec![Key { label: "Cancel".into(), data: known.token.clone() }]];
        }
        let shown = digest(&outgoing);
        if known.shown != shown {
            let now = Instant::now();
            let free = self.card_free.get(id).copied().filter(|free| now < *free && !done);
            if let Some(free) = free {
                self.cards_due.insert((free, id.to_owned()));
                return Ok(None);
            }
            let op = match known.message {
                None => Op::Send(outgoing),
                Some(message) => Op::Edit(message, outgoing),
            };
            return Ok(Some(Call { doing: Doing::ShowCard { card: known.id, shown }, op }));
        }
        if let Some(call) = self.ring_for(&known, &agent) {
            return Ok(Some(call));
        }
        if let Some(text) = file.filter(|_| !known.has_file) {
            if let Some(at) = self.file_waits(known.chat, &(known.id.clone(), 0)) {
                if let Some(lane) = self.lanes.get_mut(&known.chat) {
                    lane.put_later(Job::Card(known.id), at);
                }
                return Ok(None);
            }
            let op = Op::File { name: "reply.md".into(), text, reply_to: known.message };
            return Ok(Some(Call { doing: Doing::CardFile { card: known.id }, op }));
        }
        if done {
            let seen = self.progress.remove(id).map_or(known.since, |progress| progress.seen);
            self.card_free.remove(id);
            self.plainness.remove(id);
            self.change_card(id, |card| card.done = true).await?;
            self.show_next_turn(&known, seen).await?;
        }
        Ok(None)
    }

    /// Whoever cancelled it knows already; for everybody else the end rings, which an edit does not.
    fn ring_for(&mut self, card: &Card, agent: &Agent) -> Option<Call> {
        let progress = self.progress.entry(card.id.clone()).or_default();
        let name = self.memory.homes.get(&agent.id).map_or(agent.title.as_str(), |home| home.name.as_str());
        let name = if name.trim().is_empty() { agent.id.as_str() } else { name };
        let (failed, page) = super::card::ring(agent, name, progress)?;
        let wanted = if failed { self.settings.notify_failure } else { self.settings.notify_end };
        if card.rung || card.cancelled.is_some() || !wanted {
            return None;
        }
        let outgoing = Outgoing { reply_to: card.message, ..plainly(&page.fitting(), Plainness::Marked) };
        Some(Call { doing: Doing::Ring { card: card.id.clone() }, op: Op::Send(outgoing) })
    }

    /// The message of this run that still has something to show.
    fn going_card(&self, agent: &AgentId) -> Option<&Card> {
        let has_ended =
            |card: &&Card| self.progress.get(&card.id).is_some_and(|progress| progress.end.is_some());
        self.memory.active_card(agent).filter(|card| !has_ended(card))
    }

    /// The next turn may have begun before this message was done with the last.
    async fn show_next_turn(&mut self, card: &Card, seen: u64) -> Result<(), Problem> {
        if self.memory.active_card(&card.agent).is_some() {
            return Ok(());
        }
        let events = self.hub.events(card.agent.clone(), seen, EVENTS_AT_ONCE).await?;
        match events.iter().find(|(_, event)| begins_turn(event)) {
            Some((seq, _)) => self.new_card(card.agent.clone(), card.chat, seq.saturating_sub(1)).await,
            None => Ok(()),
        }
    }

    async fn new_card(&mut self, agent: AgentId, chat: i64, since: u64) -> Result<(), Problem> {
        let card = Card::new(agent, chat, since, self.hub.clock().now())?;
        self.put(chat, Job::Card(card.id.clone()));
        let memo = self.memory.put_card(card);
        self.save(vec![memo]).await
    }

    async fn read_events(&mut self, card: &Card) -> Result<(), Problem> {
        loop {
            let progress = self.progress.entry(card.id.clone()).or_default();
            let after = progress.seen.max(card.since);
            let events = self.hub.events(card.agent.clone(), after, EVENTS_AT_ONCE).await?;
            let all = events.len() < EVENTS_AT_ONCE as usize;
            for (seq, event) in events {
                progress.add(seq, &event);
            }
            if all || progress.end.is_some() {
                return Ok(());
            }
        }
    }

    pub(super) fn card_edited(&mut self, id: &str) {
        let free = Instant::now() + self.settings.pace.seconds(BETWEEN_EDITS);
        self.card_free.insert(id.to_owned(), free);
    }

    /// Nobody knows whether a run's message is there: another takes its place.
    pub(super) fn replace_card(&mut self, card: Card) -> Vec<Memo> {
        let now = self.hub.clock().now();
        let new = Card::new(card.agent.clone(), card.chat, card.since, now);
        let mut memos = vec![self.memory.put_card(Card { lost: true, ..card })];
        if let Ok(new) = new {
            self.put(new.chat, Job::Card(new.id.clone()));
            memos.push(self.memory.put_card(new));
        }
        memos
    }
}

/// A prompt that came in the middle of a turn, or a sub-agent that is done, can begin one without a further prompt.
fn begins_turn(event: &Value) -> bool {
    matches!(event["type"].as_str(), Some("prompt" | "text" | "tool" | "turn"))
}
