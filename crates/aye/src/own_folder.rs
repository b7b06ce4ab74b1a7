//! Whether a folder is its owner's alone: whoever can write to it, or to a folder above it, could put a socket
//! of their own where ours is looked for.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;

#[derive(Debug, thiserror::Error)]
pub enum NotOurs {
    #[error("{0} is a symbolic link, and may lead anywhere")]
    Link(String),
    #[error("{0} is not a folder")]
    NoFolder(String),
    #[error("{0} belongs to another user (id {1})")]
    Owner(String, u32),
    #[error("a process of another user (id {1}) listens on {0}")]
    Listener(String, u32),
    #[error("{0} can be used by other users (its mode is {1:o}); make it private with `chmod 700`")]
    Open(String, u32),
    #[error("other users can change what lies in {0} (its mode is {1:o})")]
    Above(String, u32),
    #[error("other users can write to {0} (its mode is {1:o})")]
    Writable(String, u32),
    #[error("{0} cannot be looked at: {1}")]
    Unreadable(String, io::Error),
}

/// Whether a folder may be a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// One that a person made themselves, as for a home on another disk.
    OfOurs,
    None,
}

/// Refuses a folder that is not ours alone, and one that is reached through a folder that others can change.
pub fn check(folder: &Path, links: Links) -> Result<(), NotOurs> {
    let found = look_at(folder)?;
    if found.is_symlink() && links == Links::None {
        return Err(NotOurs::Link(name(folder)));
    }
    for part in folder.ancestors().filter(|part| !part.as_os_str().is_empty()) {
        let found = look_at(part)?;
        if found.is_symlink() {
            check_made_by_us(part, &found)?;
        }
    }
    let folder = fs::canonicalize(folder).map_err(|error| NotOurs::Unreadable(name(folder), error))?;
    let found = look_at(&folder)?;
    if !found.is_dir() {
        return Err(NotOurs::NoFolder(name(&folder)));
    }
    if found.uid() != our_id() {
        return Err(NotOurs::Owner(name(&folder), found.uid()));
    }
    if found.mode() & 0o077 != 0 {
        return Err(NotOurs::Open(name(&folder), found.mode() & 0o7777));
    }
    check_above(&folder)
}

/// Refuses what nobody but us and the system should have written, if others could have. The name must lead through no
/// link.
pub fn check_written_by_us(path: &Path) -> Result<(), NotOurs> {
    let found = look_at(path)?;
    check_made_by_us(path, &found)?;
    if others_can_write(&found) {
        return Err(NotOurs::Writable(name(path), found.mode() & 0o7777));
    }
    check_above(path)
}

/// Refuses a folder, a file or a link that is not our own.
pub fn check_owner(path: &Path) -> Result<(), NotOurs> {
    let found = look_at(path)?;
    match found.uid() == our_id() {
        true => Ok(()),
        false => Err(NotOurs::Owner(name(path), found.uid())),
    }
}

/// Refuses a path in whose place others could put something else.
fn check_above(path: &Path) -> Result<(), NotOurs> {
    for above in path.ancestors().skip(1) {
        let found = look_at(above)?;
        check_made_by_us(above, &found)?;
        // In a sticky folder everybody may make things, and nobody replace those of others.
        if others_can_write(&found) && found.mode() & STICKY == 0 {
            return Err(NotOurs::Above(name(above), found.mode() & 0o7777));
        }
    }
    Ok(())
}

fn others_can_write(found: &Metadata) -> bool {
    // Many systems give each person a group of their own, and let it write.
    let group = match found.gid() == rustix::process::getegid().as_raw() {
        true => 0,
        false => WRITABLE_BY_GROUP,
    };
    found.mode() & (WRITABLE_BY_ALL | group) != 0
}

/// Refuses what belongs neither to us nor to the system.
pub fn check_made_by_us(path: &Path, found: &Metadata) -> Result<(), NotOurs> {
    match found.uid() == 0 || found.uid() == our_id() {
        true => Ok(()),
        false => Err(NotOurs::Owner(name(path), found.uid())),
    }
}

fn look_at(path: &Path) -> Result<Metadata, NotOurs> {
    fs::symlink_metadata(path).map_err(|error| NotOurs::Unreadable(name(path), error))
}

pub fn our_id() -> u32 {
    rustix::process::getuid().as_raw()
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    const NOBODY: u32 = 65534;

    fn folder(within: &Path, name: &str, mode: u32) -> PathBuf {
        let path = within.join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn refusal(path: &Path, links: Links) -> Option<String> {
        check(path, links).err().map(|why| why.to_string())
    }

    #[test]
    fn only_a_private_folder_of_our_own_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        let ours = folder(dir.path(), "ours", 0o700);
        assert_eq!(refusal(&ours, Links::None), None);
        for mode in [0o770, 0o720, 0o702, 0o750, 0o705] {
            let open = folder(dir.path(), &format!("{mode:o}"), mode);
            assert!(refusal(&open, Links::None).unwrap().contains("can be used by other users"), "{mode:o}");
        }
        let link = dir.path().join("link");
        symlink(&ours, &link).unwrap();
        assert!(refusal(&link, Links::None).unwrap().contains("symbolic link"));
        assert_eq!(refusal(&link, Links::OfOurs), None);
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(refusal(&dir.path().join("file"), Links::None).unwrap().contains("not a folder"));
        assert!(refusal(&dir.path().join("missing"), Links::None).is_some());
    }

    #[test]
    fn what_others_can_change_above_it_counts_too() {
        let dir = tempfile::tempdir().unwrap();
        let open = folder(dir.path(), "open", 0o777);
        let within = folder(&open, "ours", 0o700);
        assert!(refusal(&within, Links::None).unwrap().contains("other users can change"));
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(refusal(&within, Links::None), None);
    }

    #[test]
    fn what_another_user_made_is_not_ours() {
        if our_id() != 0 {
            return println!("only root can make a folder of another user");
        }
        let dir = tempfile::tempdir().unwrap();
        let theirs = folder(dir.path(), "theirs", 0o700);
        let within = folder(&theirs, "ours", 0o700);
        let (ours, link) = (folder(dir.path(), "ours", 0o700), dir.path().join("link"));
        symlink(&ours, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
        chown(&theirs, Some(NOBODY), None).unwrap();
        for path in [&theirs, &within, &link] {
            assert!(refusal(path, Links::OfOurs).unwrap().contains("another user"), "{}", path.display());
        }
        let group = folder(dir.path(), "group", 0o770);
        let within = folder(&group, "ours", 0o700);
        assert_eq!(refusal(&within, Links::None), None, "our own group");
        chown(&group, None, Some(NOBODY)).unwrap();
        assert!(refusal(&within, Links::None).unwrap().contains("other users can change"));
    }
}
