//! Folders in which a run may be started from afar. An agent obeys the settings of its folder and runs the hooks in them, so whoever
//! can write there would run programs as the hub's user.

use crate::own_folder::{self, NotOurs};
use aye_core::Invalid;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Names under which agents look for settings, hooks, plugins and instructions, in their folder or above it, and those of
/// git, which agents run.
const SETTINGS: [&str; 18] = [
    ".agents",
    ".claude",
    ".codex",
    ".copilot",
    ".env",
    ".gemini",
    ".git",
    ".github",
    ".kimi-code",
    ".mcp.json",
    ".opencode",
    ".qwen",
    "AGENTS.md",
    "CLAUDE.local.md",
    "CLAUDE.md",
    "GEMINI.md",
    "opencode.json",
    "opencode.jsonc",
];
/// A folder of settings with more than this is not looked through.
const MOST_ENTRIES: usize = 1000;

/// A folder for a run, by the name that it has without links.
#[derive(Debug, PartialEq, Eq)]
pub struct RunFolder {
    pub path: PathBuf,
    /// It is in `[projects]`: its owner wants runs there, whatever is configured in it.
    pub is_listed: bool,
}

impl RunFolder {
    /// `named` is a project or a whole path.
    pub fn find(named: &str, projects: &BTreeMap<String, PathBuf>) -> Result<Self, Invalid> {
        let wrong = || Invalid::new("cwd", "must be a folder on this machine, or the name of a project");
        let folder = projects.get(named).cloned().unwrap_or_else(|| PathBuf::from(named));
        if !folder.is_absolute() || !folder.is_dir() {
            return Err(wrong());
        }
        let path = folder.canonicalize().map_err(|_| wrong())?;
        let is_it = |project: &PathBuf| project.canonicalize().is_ok_and(|project| project == path);
        let is_listed = projects.values().any(is_it);
        if !is_listed {
            check(&path).map_err(|why| {
                let words = format!(
                    "cannot be started in from afar: {why}, and an agent would obey what is configured there. If you \
                     want runs in this folder, list it under [projects] in config.toml"
                );
                Invalid::new("cwd", words)
            })?;
        }
        Ok(Self { path, is_listed })
    }
}

/// Refuses a folder that is not ours, or whose settings somebody else could have written. What lies above it is ours or
/// the system's as well, so nobody else can put another in its place before the run begins.
fn check(folder: &Path) -> Result<(), NotOurs> {
    own_folder::check_owner(folder)?;
    own_folder::check_written_by_us(folder)?;
    // A person's own settings count wherever an agent runs.
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    for place in folder.ancestors().filter(|place| Some(*place) != home.as_deref()) {
        for name in SETTINGS {
            check_settings(&place.join(name))?;
        }
    }
    Ok(())
}

/// A file with settings, or a folder with what is directly in it.
fn check_settings(path: &Path) -> Result<(), NotOurs> {
    let unreadable = |error: io::Error| NotOurs::Unreadable(path.display().to_string(), error);
    let Some(found) = resolve(path)? else { return Ok(()) };
    let entries = match fs::read_dir(found) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(()),
        entries => entries.map_err(unreadable)?,
    };
    for (n, entry) in entries.enumerate() {
        if n == MOST_ENTRIES {
            return Err(unreadable(io::Error::other("there is too much in it")));
        }
        resolve(&entry.map_err(unreadable)?.path())?;
    }
    Ok(())
}

/// Follows a name, and refuses it if somebody else could have written what is there. None if there is nothing.
fn resolve(path: &Path) -> Result<Option<PathBuf>, NotOurs> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(NotOurs::Unreadable(path.display().to_string(), error)),
        Ok(found) => found,
    };
    if !found.is_symlink() {
        own_folder::check_written_by_us(path)?;
        return Ok(Some(path.to_owned()));
    }
    // Whoever made the link can let it lead elsewhere after this look.
    own_folder::check_made_by_us(path, &found)?;
    // A link that leads nowhere yet could lead to anything later.
    let target =
        path.canonicalize().map_err(|error| NotOurs::Unreadable(path.display().to_string(), error))?;
    own_folder::check_written_by_us(&target)?;
    Ok(Some(target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    const NOBODY: u32 = 65534;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            place.folder("run");
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn folder(&self, name: &str) -> PathBuf {
            fs::create_dir(self.path(name)).unwrap();
            self.path(name)
        }

        fn file(&self, name: &str) -> PathBuf {
            fs::write(self.path(name), "{}").unwrap();
            self.path(name)
        }

        /// The reason for which a run in this folder is refused.
        fn refused(&self, name: &str) -> Option<String> {
            RunFolder::find(self.path(name).to_str().unwrap(), &BTreeMap::new())
                .err()
                .map(|invalid| invalid.problem)
        }

        #[track_caller]
        fn is_refused(&self, why: &str) {
            let refused = self.refused("run").unwrap_or_default();
            assert!(refused.contains(why) && refused.contains("[projects]"), "{refused:?}");
        }
    }

    fn is_root() -> bool {
        rustix::process::getuid().is_root() || {
            println!("not root, so nobody else can be played here");
            false
        }
    }

    #[test]
    fn a_folder_is_a_real_one_or_a_project() {
        let projects = BTreeMap::from([("web".to_owned(), PathBuf::from("/"))]);
        let root = RunFolder { path: "/".into(), is_listed: true };
        assert_eq!(RunFolder::find("web", &projects), Ok(root));
        for wrong in ["nowhere", "src", "/no/such/folder", "/dev/null"] {
            assert!(RunFolder::find(wrong, &projects).is_err(), "{wrong}");
        }
        let place = Place::new();
        symlink(place.path("run"), place.path("link")).unwrap();
        let found = RunFolder::find(place.path("link").to_str().unwrap(), &projects).unwrap();
        assert_eq!(found, RunFolder { path: place.path("run").canonicalize().unwrap(), is_listed: false });
        let projects = BTreeMap::from([("run".to_owned(), place.path("link"))]);
        assert!(RunFolder::find(place.path("run").to_str().unwrap(), &projects).unwrap().is_listed);
        let below = place.folder("run/below");
        assert!(!RunFolder::find(below.to_str().unwrap(), &projects).unwrap().is_listed);
    }

    #[test]
    fn a_folder_in_which_others_can_write_is_refused() {
        let place = Place::new();
        assert_eq!(place.refused("run"), None);
        fs::set_permissions(place.path("run"), Permissions::from_mode(0o1777)).unwrap();
        place.is_refused("other users can write to");
        fs::set_permissions(place.path("run"), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(place.0.path(), Permissions::from_mode(0o777)).unwrap();
        place.is_refused("other users can change");
    }

    #[test]
    fn a_folder_of_another_user_is_refused_unless_it_is_listed() {
        if !is_root() {
            return;
        }
        let place = Place::new();
        chown(place.path("run"), Some(NOBODY), None).unwrap();
        place.is_refused("belongs to another user (id 65534)");
        symlink(place.path("run"), place.path("link")).unwrap();
        assert!(place.refused("link").unwrap().contains("another user"));
        let projects = BTreeMap::from([("theirs".to_owned(), place.path("run"))]);
        assert!(RunFolder::find("theirs", &projects).unwrap().is_listed);
        assert!(RunFolder::find(place.path("run").to_str().unwrap(), &projects).unwrap().is_listed);
        let ours = place.folder("run/ours");
        let refused = RunFolder::find(ours.to_str().unwrap(), &projects).unwrap_err();
        assert!(refused.problem.contains("another user"), "its owner can put another in its place");
    }

    #[test]
    fn settings_that_another_user_could_have_written_are_refused() {
        if !is_root() {
            return;
        }
        for settings in [
            "run/.claude",
            "run/.claude/settings.json",
            ".opencode",
            ".opencode/plugin",
            "CLAUDE.md",
            "opencode.jsonc",
        ] {
            let place = Place::new();
            assert_eq!(place.refused("run"), None);
            let path = Path::new(settings);
            if let Some(folder) =
                path.parent().filter(|folder| folder.file_name().is_some_and(|name| name != "run"))
            {
                place.folder(folder.to_str().unwrap());
            }
            let path = place.file(settings);
            assert_eq!(place.refused("run"), None, "{settings}");
            chown(path, Some(NOBODY), None).unwrap();
            place.is_refused("belongs to another user");
        }
    }

    #[test]
    fn a_link_to_settings_counts_as_what_it_leads_to() {
        let place = Place::new();
        let elsewhere = place.folder("elsewhere");
        symlink(&elsewhere, place.path("run/.claude")).unwrap();
        assert_eq!(place.refused("run"), None);
        fs::set_permissions(&elsewhere, Permissions::from_mode(0o777)).unwrap();
        place.is_refused("other users can write to");
        fs::remove_dir(&elsewhere).unwrap();
        place.is_refused("cannot be looked at");
    }

    #[test]
    fn a_link_of_another_user_to_settings_of_ours_is_refused() {
        if !is_root() {
            return;
        }
        let place = Place::new();
        let (ours, link) = (place.folder("ours"), place.path(".claude"));
        symlink(ours, &link).unwrap();
        assert_eq!(place.refused("run"), None);
        lchown(link, Some(NOBODY), None).unwrap();
        place.is_refused("belongs to another user");
    }
}
