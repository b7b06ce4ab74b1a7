//! Whether a name in a tool call leads to a file of aye's own. Decided by what would be opened (device and inode of
//! every folder, link and file on the way), because a name alone can be written in endless ways.
//!
//! It is a look, not a lock: a link that is changed between this look and the moment the agent opens it leads
//! elsewhere. What cannot be looked at in time goes to a person.

mod disk;

use aye_core::visible::one_line;
use aye_policy::{Name, Names};
use disk::{Disk, Id, Seen};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// A file system that hangs keeps a thread of its own busy, and nobody else.
const THREADS: usize = 4;
const QUEUE: usize = 1024;
/// How long an agent waits for a file system before a person is asked.
const PATIENCE: Duration = Duration::from_secs(2);
/// As many links in one name as Linux follows.
const MOST_LINKS: usize = 40;
/// Folders in one command that its relative names may start from.
const MOST_FOLDERS: usize = 64;
/// Our own folder never has nearly as many files.
const MOST_OWN_FILES: usize = 100_000;
/// As long as a file's name can be.
const LONGEST_NAME: usize = 255;
const LONGEST_SHOWN: usize = 200;

const NOT_LOOKED_AT: &str = "where a name in it leads could not be looked at in time";

const TOO_MANY: &str = "it has more names in it than can be looked at";

/// Where names are looked up, and from where.
struct LookupRequest {
    names: Names,
    folders: Vec<String>,
    reply: oneshot::Sender<Option<String>>,
}

/// A look that waits for no file system but the hub's own; `None` if it would have to.
type LookAtOnce = Box<dyn Fn(&Names, &[String]) -> Option<Option<String>> + Send + Sync>;

/// The threads that look. They end when this is dropped; one that hangs is left to the system.
pub struct OwnFiles {
    at_once: LookAtOnce,
    queue: Arc<Queue>,
    patience: Duration,
    places: Arc<CurrentPlaces>,
}

/// Our places as they were last named.
#[derive(Default)]
struct CurrentPlaces(RwLock<Arc<Places>>);

impl CurrentPlaces {
    fn get(&self) -> Arc<Places> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, places: Places) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(places);
    }
}

/// What is to be looked at. Each look wakes one thread and no other.
#[derive(Default)]
struct Queue {
    looks: Mutex<Looks>,
    came: Condvar,
}

#[derive(Default)]
struct Looks {
    waiting: VecDeque<LookupRequest>,
    over: bool,
}

impl Queue {
    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was room.
    fn put(&self, look: LookupRequest) -> bool {
        let mut looks = self.looks();
        let has_room = looks.waiting.len() < QUEUE;
        if has_room {
            looks.waiting.push_back(look);
            self.came.notify_one();
        }
        has_room
    }

    /// None at the end.
    fn next(&self) -> Option<LookupRequest> {
        let idle = |looks: &mut Looks| looks.waiting.is_empty() && !looks.over;
        let looks = self.came.wait_while(self.looks(), idle);
        looks.unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }
}

impl Drop for OwnFiles {
    fn drop(&mut self) {
        self.queue.looks().over = true;
        self.queue.came.notify_all();
    }
}

impl OwnFiles {
    /// `places` are our folders and files, as absolute paths.
    pub fn watch(places: Vec<PathBuf>) -> io::Result<Self> {
        let current = Arc::new(CurrentPlaces::default());
        current.set(Places::of(places));
        let known = current.clone();
        let at_once: LookAtOnce =
            Box::new(move |names, folders| known.get().why_asked_at_once(names, folders));
        let known = current.clone();
        let look =
            move |names: &Names, folders: &[String]| known.get().why_asked(&Disk::any(), names, folders);
        let mut files = Self::with(at_once, look)?;
        files.places = current;
        Ok(files)
    }

    /// Looks for these places from now on.
    pub fn set_places(&self, places: Vec<PathBuf>) {
        self.places.set(Places::of(places));
    }

    fn with(
        at_once: LookAtOnce,
        look: impl Fn(&Names, &[String]) -> Option<String> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (queue, look) = (Arc::<Queue>::default(), Arc::new(look));
        for _ in 0..THREADS {
            let (queue, look) = (queue.clone(), look.clone());
            std::thread::Builder::new().name("own files".into()).spawn(move || work(&queue, &*look))?;
        }
        Ok(Self { at_once, queue, patience: PATIENCE, places: Arc::default() })
    }

    /// Why a person must be asked, if one of these names leads to us or cannot be looked at. Relative names are meant
    /// from each of these folders.
    pub async fn why_asked(&self, names: Names, folders: Vec<String>) -> Option<String> {
        if names.too_many {
            return Some(TOO_MANY.to_owned());
        }
        if names.names.is_empty() {
            return None;
        }
        // Two threads less to wake. What panics there panics on a thread of its own as well.
        let at_once = catch_unwind(AssertUnwindSafe(|| (self.at_once)(&names, &folders)));
        if let Ok(Some(found)) = at_once {
            return found;
        }
        let (reply, found) = oneshot::channel();
        if !self.queue.put(LookupRequest { names, folders, reply }) {
            return Some(NOT_LOOKED_AT.to_owned());
        }
        match tokio::time::timeout(self.patience, found).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(_) => Some(NOT_LOOKED_AT.to_owned()),
        }
    }
}

fn work(queue: &Queue, look: impl Fn(&Names, &[String]) -> Option<String>) {
    while let Some(LookupRequest { names, folders, reply }) = queue.next() {
        // A bug that one call meets must not cost everybody the thread.
        match catch_unwind(AssertUnwindSafe(|| look(&names, &folders))) {
            // Nobody waits any more if it took too long.
            Ok(found) => drop(reply.send(found)),
            Err(_) => tracing::error!("where a name leads could not be looked at: a person is asked"),
        }
    }
}

/// The same at once, for somebody who can wait.
pub fn why_asked(places: Vec<PathBuf>, names: &Names, folder: &str) -> Option<String> {
    match names.too_many {
        true => Some(TOO_MANY.to_owned()),
        false => Places::of(places).why_asked(&Disk::any(), names, &[folder.to_owned()]),
    }
}

/// Our folders and files, by name.
#[derive(Default)]
struct Places {
    ours: Vec<PathBuf>,
    /// Every folder that one of ours is in.
    above: Vec<PathBuf>,
}

/// Our folders and files as they are on the disk now.
struct Marks<'a> {
    disk: &'a Disk,
    places: &'a Places,
    ours: Vec<Id>,
    above: Vec<Id>,
    /// The folder in which every process has one.
    processes: Option<Id>,
}

/// Where a name leads.
enum LeadsTo {
    /// To us, or to where it cannot be seen; in words.
    Asked(String),
    Folder(Base),
    Elsewhere,
}

/// A folder that relative names start from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Base {
    /// It is there, and the path to it is free of links.
    at: PathBuf,
    /// How many folders below that do not exist yet.
    missing: usize,
}

impl Base {
    fn at(at: impl Into<PathBuf>) -> Self {
        Self { at: at.into(), missing: 0 }
    }
}

impl Places {
    fn of(places: Vec<PathBuf>) -> Self {
        let mut ours = places;
        let resolved: Vec<_> = ours.iter().filter_map(|place| place.canonicalize().ok()).collect();
        ours.extend(resolved);
        ours.sort();
        ours.dedup();
        let is_ours = |folder: &PathBuf| ours.iter().any(|place| folder.starts_with(place));
        let mut above: Vec<_> =
            ours.iter().flat_map(|place| place.ancestors().skip(1)).map(Path::to_owned).collect();
        above.retain(|folder| !is_ours(folder));
        above.sort();
        above.dedup();
        Self { ours, above }
    }

    /// The files may have been replaced since the last look.
    fn marks<'a>(&'a self, disk: &'a Disk) -> Marks<'a> {
        let mut ours = Vec::with_capacity(2 * self.ours.len());
        for place in &self.ours {
            // A link to us is ours as well: whoever changes it moves us.
            let Ok(found) = disk.look_at_own(place) else { continue };
            ours.push(found.id);
            if found.is_link {
                ours.extend(disk.look_through(place).map(|found| found.id));
            }
        }
        let seen = |path: &Path| {
            disk.look_at_own(path).and_then(|_| disk.look_through(path)).ok().map(|found| found.id)
        };
        let above = self.above.iter().filter_map(|folder| seen(folder)).collect();
        Marks { disk, places: self, ours, above, processes: seen(Path::new("/proc")) }
    }

    /// Without waiting for any file system but our own; none if that is not possible.
    fn why_asked_at_once(&self, names: &Names, folders: &[String]) -> Option<Option<String>> {
        let disk = Disk::in_memory();
        let why = self.why_asked(&disk, names, folders);
        disk.saw_everything().then_some(why)
    }

    fn why_asked(&self, disk: &Disk, names: &Names, folders: &[String]) -> Option<String> {
        let marks = self.marks(disk);
        let mut bases = BTreeSet::new();
        for folder in folders {
            match marks.follow(&Base::at("/"), &Name { path: folder.clone(), through: false }) {
                LeadsTo::Asked(why) => return Some(why),
                LeadsTo::Folder(base) => drop(bases.insert(base)),
                LeadsTo::Elsewhere => {}
            }
        }
        let alone = names.names.iter().find_map(|name| marks.try_name(&bases, name).err());
        alone.or_else(|| marks.walk(&bases, &names.words).err())
    }
}

fn without_detours(base: &Path, path: &str) -> String {
    let mut plain = PathBuf::from("/");
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain.to_string_lossy().into_owned()
}

impl Marks<'_> {
    /// `cd a && cat ../b`, `tar -C a b`, `make b -C a`: a relative word may start from a folder that another word names.
    /// Every word changes the folder at most once.
    fn walk(&self, bases: &BTreeSet<Base>, words: &[Vec<Name>]) -> Result<(), String> {
        let steps_upwards = |name: &Name| name.path.split('/').filter(|step| *step == "..").count();
        let upwards = words.iter().map(|word| word.iter().map(steps_upwards).max().unwrap_or_default()).sum();
        // Nothing in these words leads out of a folder that is deeper below one that is there.
        let counts = |base: &Base| base.missing <= upwards && !bases.contains(base);
        let folders = |bases: &BTreeSet<Base>, word: &[Name]| -> Result<Vec<Base>, String> {
            let found = word.iter().map(|name| self.try_name(bases, name));
            Ok(found.collect::<Result<Vec<_>, _>>()?.concat().into_iter().filter(counts).collect())
        };
        let mut reached = bases.clone();
        for (at, word) in words.iter().enumerate() {
            let found: BTreeSet<Base> = folders(bases, word)?.into_iter().collect();
            if !found.is_empty() {
                for word in &words[..at] {
                    folders(&found, word)?;
                }
            }
            let further = folders(&reached, word)?;
            reached.extend(further);
            if reached.len() > MOST_FOLDERS {
                return Err("it names more folders than can be looked at".to_owned());
            }
        }
        Ok(())
    }

    /// The folders that this name is, or why a person is asked.
    fn try_name(&self, bases: &BTreeSet<Base>, name: &Name) -> Result<Vec<Base>, String> {
        let root = BTreeSet::from([Base::at("/")]);
        let bases = if name.path.starts_with('/') { &root } else { bases };
        let mut folders = vec![];
        for base in bases {
            // Some programs take detours out of a name before they open it.
            let has_detours = base.missing == 0 && name.path.contains("..");
            let plain = has_detours.then(|| without_detours(&base.at, &name.path));
            let plain = plain.map(|path| Name { path, through: name.through });
            for name in [Some(name), plain.as_ref()].into_iter().flatten() {
                match self.follow(base, name) {
                    LeadsTo::Asked(why) => return Err(why),
                    LeadsTo::Folder(folder) => folders.push(folder),
                    LeadsTo::Elsewhere => {}
                }
            }
        }
        Ok(folders)
    }

    /// Goes the way that the system goes when it opens a name, one step at a time.
    fn follow(&self, from: &Base, name: &Name) -> LeadsTo {
        let unclear = |why: &str| LeadsTo::Asked(format!("where `{}` leads {why}", shown(&name.path)));
        let Base { mut at, mut missing } =
            if name.path.starts_with('/') { Base::at("/") } else { from.clone() };
        let mut to_go = steps(OsStr::new(&name.path));
        let mut last = None;
        let mut links = 0;
        while let Some(step) = to_go.pop_front() {
            if missing > 0 && step == ".." && name.through && from.missing == 0 {
                return unclear("goes through a folder that is not there");
            }
            if missing > 0 {
                missing = if step == ".." { missing - 1 } else { missing + 1 };
                continue;
            }
            if step == ".." {
                at.pop();
                last = None;
                continue;
            }
            if self.is_a_process(&at, &step) {
                return match is_standard_stream(&name.path) {
                    true => LeadsTo::Elsewhere,
                    false => unclear("depends on the process that opens it"),
                };
            }
            let next = at.join(&step);
            let found = match self.disk.look(&next) {
                Ok(found) => found,
                // What is made there is made in the folder that was reached, which is none of ours.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    missing = 1;
                    last = None;
                    continue;
                }
                Err(error) if is_no_name(&error, &step) => return LeadsTo::Elsewhere,
                Err(_) => return unclear("cannot be seen"),
            };
            if self.ours.contains(&found.id) {
                return LeadsTo::Asked(format!(
                    "`{}` leads to a place that belongs to aye",
                    shown(&name.path)
                ));
            }
            if !found.is_link {
                at = next;
                last = Some(found);
                continue;
            }
            links += 1;
            let Ok(target) = self.disk.read_link(&next) else { return unclear("cannot be seen") };
            if links > MOST_LINKS {
                return unclear("goes round in circles");
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
                last = None;
            }
            for step in steps(target.as_os_str()).into_iter().rev() {
                to_go.push_front(step);
            }
        }
        if missing > 0 {
            return LeadsTo::Folder(Base { at, missing });
        }
        let last = last.or_else(|| self.disk.look_through(&at).ok());
        let Some(found) = last else { return unclear("cannot be seen") };
        if found.is_folder {
            return match name.through {
                true if self.above.contains(&found.id) => {
                    LeadsTo::Asked(format!("`{}` holds a place that belongs to aye", shown(&name.path)))
                }
                true if Some(found.id) == self.processes => unclear("depends on the process that opens it"),
                true | false => LeadsTo::Folder(Base { at, missing }),
            };
        }
        match found.names > 1 && self.has_by_another_name(&found) {
            true => LeadsTo::Asked(format!("`{}` is a file that belongs to aye", shown(&name.path))),
            false => LeadsTo::Elsewhere,
        }
    }

    /// Whether this step goes into what the system shows of one process. Where that leads is the business of
    /// whoever opens it, and it shows secrets besides.
    fn is_a_process(&self, at: &Path, step: &OsStr) -> bool {
        let step = step.as_encoded_bytes();
        let is_named = matches!(step, b"self" | b"thread-self") || step.iter().all(u8::is_ascii_digit);
        is_named
            && self.processes.is_some()
            && self.disk.look_through(at).ok().map(|found| found.id) == self.processes
    }

    /// Whether a file that has several names has one among ours.
    fn has_by_another_name(&self, file: &Seen) -> bool {
        if !self.ours.iter().any(|(device, _)| *device == file.id.0) {
            return false;
        }
        let mut open: Vec<PathBuf> = self.places.ours.clone();
        let mut looked_at = 0;
        while let Some(path) = open.pop() {
            looked_at += 1;
            let Ok(found) = self.disk.look_anew(&path) else { continue };
            if found.id == file.id || looked_at > MOST_OWN_FILES {
                return true;
            }
            if found.is_folder {
                open.extend(self.disk.entries(&path));
            }
        }
        false
    }
}

fn steps(path: &OsStr) -> VecDeque<OsString> {
    let names = path.as_bytes().split(|byte| *byte == b'/');
    names.filter(|name| !matches!(*name, b"" | b".")).map(|name| OsStr::from_bytes(name).to_owned()).collect()
}

/// Errors that mean that no file can have this name.
fn is_no_name(error: &io::Error, step: &OsStr) -> bool {
    match error.kind() {
        ErrorKind::NotADirectory | ErrorKind::InvalidInput => true,
        ErrorKind::InvalidFilename => step.len() > LONGEST_NAME,
        _ => false,
    }
}

/// Every command has these from whoever started it, and they are no files of ours.
fn is_standard_stream(path: &str) -> bool {
    matches!(path, "/dev/stdin" | "/dev/stdout" | "/dev/stderr")
}

/// A name in a sentence that explains; nobody approves by it, so a long one may be cut.
fn shown(path: &str) -> String {
    one_line(path).chars().take(LONGEST_SHOWN).collect()
}

#[cfg(test)]
mod tests;
