//! A settings file on disk. It is replaced whole or not at all, and what was there before is kept beside it.

use super::text::{self, Unusable};
use super::{HookCommand, WrongShape, add, installed, remove};
use serde_json::{Map, Value};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

const BACKUP: &str = "aye-backup";

#[derive(Debug, Clone)]
pub struct SettingsFile {
    path: PathBuf,
}

/// Why a settings file was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{0} is a link that leads nowhere: fix or remove it, and try again")]
    DanglingLink(PathBuf),
    #[error("{0} is read-only: make it writable, and try again")]
    ReadOnly(PathBuf),
    #[error("{path} {source}\nMend it by hand first; it was left as it is.")]
    Unusable { path: PathBuf, source: Unusable },
    #[error("{path} cannot be used, because {source}\nMend it by hand first; it was left as it is.")]
    WrongShape { path: PathBuf, source: WrongShape },
    #[error("{0} was changed by somebody else in this moment; try again")]
    Changed(PathBuf),
    #[error("cannot {what} {path}: {source}")]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

#[derive(Debug, PartialEq, Eq)]
pub enum FileChange {
    Unchanged,
    /// What was there before lies here; nowhere if there was nothing.
    Changed {
        backup: Option<PathBuf>,
    },
}

/// What was read, and from where in the end.
struct Read {
    target: PathBuf,
    text: Option<String>,
}

impl SettingsFile {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn install(&self, command: &HookCommand) -> Result<FileChange, SettingsError> {
        let line = command.line().map_err(|error| SettingsError::Io {
            what: "name",
            path: command.program.clone(),
            source: io::Error::other(error),
        })?;
        self.change(|hooks| add(hooks, &line), |_| None)
    }

    pub fn remove(&self) -> Result<FileChange, SettingsError> {
        self.change(remove, written_before)
    }

    /// Which of our hooks are there.
    pub fn installed(&self) -> Result<Vec<(String, HookCommand)>, SettingsError> {
        let read = self.read()?;
        let hooks = self.hooks(read.text.as_deref().unwrap_or("{}"))?;
        Ok(installed(&hooks))
    }

    /// Whether the person switched all hooks off in this file.
    pub fn are_hooks_off(&self) -> bool {
        self.read().is_ok_and(|read| read.text.is_some_and(|text| text::are_off(&text)))
    }

    fn change(
        &self,
        edit: impl FnOnce(&mut Map<String, Value>) -> Result<(), WrongShape>,
        written_before: impl FnOnce(&Read) -> Option<Option<String>>,
    ) -> Result<FileChange, SettingsError> {
        let read = self.read()?;
        let before = read.text.as_deref().unwrap_or("{}");
        let old = self.hooks(before)?;
        let mut new = old.clone();
        edit(&mut new).map_err(|source| SettingsError::WrongShape { path: self.path.clone(), source })?;
        if new == old {
            return Ok(FileChange::Unchanged);
        }
        let unusable = |source| SettingsError::Unusable { path: self.path.clone(), source };
        let mut after = match written_before(&read) {
            Some(written) => text::with_written(before, written.as_deref()),
            None => text::with_hooks(before, &new),
        }
        .map_err(unusable)?;
        if read.text.is_none() {
            after.push('\n');
        }
        self.write(&read, &after)
    }

    fn hooks(&self, text: &str) -> Result<Map<String, Value>, SettingsError> {
        text::hooks(text).map_err(|source| SettingsError::Unusable { path: self.path.clone(), source })
    }

    fn read(&self) -> Result<Read, SettingsError> {
        let trouble = |source| SettingsError::Io { what: "read", path: self.path.clone(), source };
        match self.path.canonicalize() {
            Ok(target) => match fs::read_to_string(&target) {
                // An empty file is what some programs leave behind, and no settings at all.
                Ok(text) if text.trim().is_empty() => Ok(Read { target, text: Some("{}\n".into()) }),
                Ok(text) => Ok(Read { target, text: Some(text) }),
                Err(source) => Err(trouble(source)),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::symlink_metadata(&self.path) {
                Ok(_) => Err(SettingsError::DanglingLink(self.path.clone())),
                Err(_) => Ok(Read { target: self.path.clone(), text: None }),
            },
            Err(source) => Err(trouble(source)),
        }
    }

    fn write(&self, read: &Read, text: &str) -> Result<FileChange, SettingsError> {
        let target = &read.target;
        let trouble = |what| move |source| SettingsError::Io { what, path: self.path.clone(), source };
        let Some(before) = &read.text else {
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent).map_err(trouble("make the folder of"))?;
            }
            place(target, text, None).map_err(trouble("write"))?;
            return Ok(FileChange::Changed { backup: None });
        };
        let like = fs::metadata(target).map_err(trouble("look at"))?;
        if like.permissions().readonly() {
            return Err(SettingsError::ReadOnly(self.path.clone()));
        }
        let found = fs::read_to_string(target).map_err(trouble("read"))?;
        if found != *before && !found.trim().is_empty() {
            return Err(SettingsError::Changed(self.path.clone()));
        }
        let backup = beside(target, BACKUP);
        place(&backup, &found, Some(&like)).map_err(trouble("keep a copy of"))?;
        place(target, text, Some(&like)).map_err(trouble("write"))?;
        Ok(FileChange::Changed { backup: Some(backup) })
    }
}

/// The person's own hooks as they stood before ours were added, if nothing has changed since. Only there is known
/// how they were written, and which empty entries are theirs.
fn written_before(read: &Read) -> Option<Option<String>> {
    let now = text::hooks(read.text.as_deref()?).ok()?;
    let before = fs::read_to_string(beside(&read.target, BACKUP)).ok()?;
    let mut again = text::hooks(&before).ok()?;
    let (_, command) = installed(&now).into_iter().next()?;
    let is_theirs = installed(&again).is_empty();
    add(&mut again, &command.line().ok()?).ok()?;
    let written = text::written_hooks(&before).ok()?.map(str::to_owned);
    (is_theirs && again == now).then_some(written)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{ending}"));
    path.with_file_name(name)
}

/// Written beside and moved into place, with the mode and the owner of what was there.
fn place(path: &Path, text: &str, like: Option<&fs::Metadata>) -> io::Result<()> {
    let new = beside(path, &format!("{}.new", std::process::id()));
    let written = write_new(&new, text, like).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        drop(fs::remove_file(&new));
    }
    written
}

fn write_new(path: &Path, text: &str, like: Option<&fs::Metadata>) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    if let Some(like) = like {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
        file.set_permissions(like.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
