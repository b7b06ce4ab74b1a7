//! Looking at files by name: with all the time it takes, or only at what the system holds in memory, which never waits.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names that one decision looks at as a rule: ours, and those of a call with one file. There is room for them from the start.
const USUALLY_SEEN: usize = 28;

/// What one file is, whatever it is called.
pub type Id = (u64, u64);

#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub id: Id,
    pub is_folder: bool,
    pub is_link: bool,
    /// How many names it has.
    pub names: u64,
}

impl Seen {
    fn at(path: &Path) -> io::Result<Self> {
        fs::symlink_metadata(path).map(|found| Self::of(&found))
    }

    fn of(found: &Metadata) -> Self {
        Self {
            id: (found.dev(), found.ino()),
            is_folder: found.is_dir(),
            is_link: found.is_symlink(),
            names: found.nlink(),
        }
    }
}

/// The disk during one decision. What was seen once is not looked at again within it: the names of one call share most of
/// their folders, with each other and with our own. The next decision looks anew.
pub struct Disk {
    may_wait: bool,
    /// Something could not be seen without waiting, so that nothing can be said.
    missed: Cell<bool>,
    /// What has each name itself.
    seen: RefCell<HashMap<PathBuf, Result<Seen, ErrorKind>>>,
}

impl Disk {
    pub fn any() -> Self {
        Self::new(true)
    }

    pub fn in_memory() -> Self {
        Self::new(false)
    }

    fn new(may_wait: bool) -> Self {
        let seen = RefCell::new(HashMap::with_capacity(USUALLY_SEEN));
        Self { may_wait, missed: Cell::new(false), seen }
    }

    pub fn saw_everything(&self) -> bool {
        !self.missed.get()
    }

    /// What has this name itself, be it a link.
    pub fn look(&self, path: &Path) -> io::Result<Seen> {
        self.look_once(path, |path| self.look_anew(path))
    }

    /// The same for what the hub could not work without: the way to its own folder. If that hangs, so does the hub, and a look
    /// that may wait takes a third of the calls.
    pub fn look_at_own(&self, path: &Path) -> io::Result<Seen> {
        self.look_once(path, Seen::at)
    }

    fn look_once(&self, path: &Path, look: impl FnOnce(&Path) -> io::Result<Seen>) -> io::Result<Seen> {
        if let Some(seen) = self.seen.borrow().get(path) {
            return seen.map_err(io::Error::from);
        }
        let found = look(path);
        let seen = found.as_ref().copied().map_err(io::Error::kind);
        self.seen.borrow_mut().insert(path.to_owned(), seen);
        found
    }

    /// The same, of which nothing is remembered.
    pub fn look_anew(&self, path: &Path) -> io::Result<Seen> {
        match self.may_wait {
            true => Seen::at(path),
            false => self.note(in_memory::look(path, false)),
        }
    }

    /// What a name leads to.
    pub fn look_through(&self, path: &Path) -> io::Result<Seen> {
        let itself = self.look(path)?;
        if !itself.is_link {
            return Ok(itself);
        }
        match self.may_wait {
            true => fs::metadata(path).map(|found| Seen::of(&found)),
            false => self.note(in_memory::look(path, true)),
        }
    }

    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match self.may_wait {
            true => fs::read_link(path),
            false => self.note(Err(ErrorKind::WouldBlock.into())),
        }
    }

    pub fn entries(&self, folder: &Path) -> Vec<PathBuf> {
        if !self.may_wait {
            self.missed.set(true);
            return Vec::new();
        }
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// Only that a name is there or not is certain; any other error may be of the way of looking.
    fn note<T>(&self, found: io::Result<T>) -> io::Result<T> {
        if found.as_ref().is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            self.missed.set(true);
        }
        found
    }
}

#[cfg(target_os = "linux")]
mod in_memory {
    use super::Seen;
    use rustix::fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, makedev, openat2, statx,
    };
    use std::io;
    use std::path::Path;

    /// Refused by the system if it would have to ask a file system for anything.
    pub fn look(path: &Path, through: bool) -> io::Result<Seen> {
        let how = OFlags::PATH | OFlags::CLOEXEC;
        let how = if through { how } else { how | OFlags::NOFOLLOW };
        let file = openat2(CWD, path, how, Mode::empty(), ResolveFlags::CACHED)?;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK;
        let found = statx(&file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, wanted)?;
        let kind = FileType::from_raw_mode(found.stx_mode.into());
        Ok(Seen {
            id: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            is_folder: kind == FileType::Directory,
            is_link: kind == FileType::Symlink,
            names: found.stx_nlink.into(),
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod in_memory {
    use super::Seen;
    use std::io;
    use std::path::Path;

    pub fn look(_: &Path, _: bool) -> io::Result<Seen> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_name_is_looked_at_once_for_a_decision_and_anew_for_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let (name, link) = (dir.path().join("name"), dir.path().join("link"));
        for new in [Disk::any, Disk::in_memory] {
            let disk = new();
            assert_eq!(disk.look(&name).unwrap_err().kind(), ErrorKind::NotFound);
            fs::write(&name, "").unwrap();
            assert_eq!(disk.look(&name).unwrap_err().kind(), ErrorKind::NotFound);
            assert!(!new().look(&name).unwrap().is_folder);
            fs::remove_file(&name).unwrap();
        }
        fs::create_dir(&name).unwrap();
        symlink(&name, &link).unwrap();
        let disk = Disk::any();
        let (itself, through) = (disk.look(&link).unwrap(), disk.look_through(&link).unwrap());
        assert!(itself.is_link && through.is_folder && itself.id != through.id);
        assert_eq!(disk.look_through(&name).unwrap().id, through.id);
    }
}
