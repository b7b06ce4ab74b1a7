//! `AYE_HOME`: where everything lives, for its owner alone.

use crate::config::secret_files;
use crate::own_folder::{self, Links};
use anyhow::{Context, bail, ensure};
use aye_core::Text;
use aye_core::digest::{hex, sha256_hex};
use aye_core::trail::{Chain, ChainKey};
use etcetera::BaseStrategy;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The longest path a Unix socket can have on every platform we run on.
const LONGEST_SOCKET_PATH: usize = 103;

#[derive(Debug, Clone)]
pub struct Home {
    path: PathBuf,
    /// Where the keys are that several hubs share, if not here.
    keys: Option<PathBuf>,
    /// A file with a secret that the command line names.
    secret: Option<PathBuf>,
}

/// How far the rows of the database are protected with the key in `chain.key`. Kept there, where who writes the database
/// cannot say otherwise: rows that are not are taken over once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowMarks {
    None,
    /// They carry MACs.
    Macs,
    /// And those that stand are known as the hub left them.
    Standing,
}

impl RowMarks {
    const WORDS: [(Self, &str); 2] = [(Self::Macs, "whole_rows"), (Self::Standing, "standing_rows")];
}

/// What `chain.key` holds: the key, and the line of the trail that was the first to be written with it.
#[derive(Clone)]
pub struct ChainKeyFile {
    pub key: ChainKey,
    pub line: u64,
    /// The hash of the line before that.
    pub after: String,
    pub marks: RowMarks,
}

impl ChainKeyFile {
    /// The end of the trail when it began to be keyed.
    pub fn before(&self) -> Chain {
        Chain { lines: self.line.saturating_sub(1), head: self.after.clone() }
    }
}

/// Held by the one hub that uses a home; released by the system when that hub ends, however it ends.
pub struct HomeLock {
    _file: File,
}

impl Home {
    /// `AYE_HOME`, or the platform's data directory.
    pub fn from_env() -> anyhow::Result<Self> {
        let path = match std::env::var_os("AYE_HOME").filter(|path| !path.is_empty()) {
            Some(path) => std::path::absolute(path).context("AYE_HOME is not a path")?,
            None => etcetera::choose_base_strategy()
                .context("there is no home directory: set AYE_HOME")?
                .data_dir()
                .join("aye"),
        };
        let keys = std::env::var_os("AYE_KEYS").filter(|path| !path.is_empty());
        let keys = keys.map(std::path::absolute).transpose().context("AYE_KEYS is not a path")?;
        Ok(Self { path, keys, secret: None })
    }

    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), keys: None, secret: None }
    }

    /// The same with its keys in another folder.
    pub fn with_keys(self, folder: impl Into<PathBuf>) -> Self {
        Self { keys: Some(folder.into()), ..self }
    }

    /// The same with a file elsewhere that is as secret as the home itself, such as the key of a certificate.
    pub fn with_secret(self, file: Option<PathBuf>) -> Self {
        Self { secret: file.and_then(|file| std::path::absolute(file).ok()), ..self }
    }

    /// The files outside the home that hold a secret of ours.
    fn secrets(&self) -> Vec<PathBuf> {
        let mut files = secret_files(&self.config(), &self.path);
        files.extend(self.secret.clone());
        files.retain(|file| !file.starts_with(&self.path));
        files
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn database(&self) -> PathBuf {
        self.path.join("aye.db")
    }

    pub fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// What detached runs had to say.
    pub fn run_logs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// What belongs to us, so that no rule ever lets an agent touch it unasked.
    pub fn places(&self) -> aye_policy::OwnPlaces {
        let user = std::env::home_dir();
        let (home, socket) = (self.path.to_string_lossy(), self.socket());
        let settled = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let mut places = vec![home, settled.to_string_lossy(), socket.to_string_lossy()];
        let keys =
            self.keys.as_deref().map(|keys| (keys, keys.canonicalize().unwrap_or_else(|_| keys.into())));
        if let Some((keys, settled)) = &keys {
            places.extend([keys.to_string_lossy(), settled.to_string_lossy()]);
        }
        let mut secrets = self.secrets();
        let settled: Vec<_> = secrets.iter().filter_map(|file| file.canonicalize().ok()).collect();
        secrets.extend(settled);
        places.extend(secrets.iter().map(|file| file.to_string_lossy()));
        let places: Vec<_> = places.iter().map(|place| &**place).collect();
        aye_policy::OwnPlaces::new(&places, user.as_deref().and_then(Path::to_str))
    }

    fn key_file(&self, name: &str) -> PathBuf {
        self.keys.as_ref().unwrap_or(&self.path).join(name)
    }

    /// The same as they are looked for on the disk: our folder, and what we keep elsewhere.
    pub fn own_places(&self) -> Vec<PathBuf> {
        let socket = self.socket();
        let folder = socket.parent().filter(|folder| *folder != self.path).map(Path::to_owned);
        let ours = [self.path.clone(), socket].into_iter().chain(folder).chain(self.keys.clone());
        ours.chain(self.secrets()).collect()
    }

    pub fn operator_token(&self) -> PathBuf {
        self.key_file("operator.token")
    }

    /// In the home, or where that name would be too long for a socket, in the runtime directory.
    pub fn socket(&self) -> PathBuf {
        let name = sha256_hex(self.path.as_os_str().as_bytes());
        let name = format!("{}.sock", &name[..16]);
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
        // A directory of our own: the runtime directory is not ours to make private.
        let runtime = runtime.map(|dir| PathBuf::from(dir).join("aye").join(&name));
        let places = [Some(self.path.join("aye.sock")), runtime];
        let fits = |socket: &PathBuf| socket.as_os_str().len() <= LONGEST_SOCKET_PATH;
        places.into_iter().flatten().find(fits).unwrap_or_else(|| {
            PathBuf::from(format!("/tmp/aye-{}", rustix::process::getuid().as_raw())).join(&name)
        })
    }

    /// Makes the directories, and makes sure that nobody else can look inside.
    pub fn prepare(&self) -> anyhow::Result<()> {
        private_dir(&self.path)?;
        if let Some(keys) = &self.keys {
            // One that is there belongs to whoever put the keys into it, and may not be ours to change.
            let made = DirBuilder::new().recursive(true).mode(0o700).create(keys);
            made.with_context(|| format!("cannot create {}", keys.display()))?;
        }
        private_files(&self.path).with_context(|| format!("cannot make {} private", self.path.display()))?;
        match self.socket().parent() {
            Some(parent) if parent != self.path => private_socket_dir(parent),
            _ => Ok(()),
        }
    }

    /// Whether the socket's folder may be a symbolic link: only where a person chose it.
    pub fn socket_links(&self) -> Links {
        match self.socket().parent() == Some(&self.path) {
            true => Links::OfOurs,
            false => Links::None,
        }
    }

    /// Refused while another hub uses this home.
    pub fn lock(&self) -> anyhow::Result<HomeLock> {
        let path = self.path.join("aye.lock");
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let pid = file.read_to_string(&mut pid).map_or("?", |_| pid.trim());
                bail!(
                    "another hub (process {pid}) already uses {}.\n\
                     Use that one, stop it with `kill {pid}`, or set AYE_HOME to another directory.",
                    self.path.display()
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        let pid = std::process::id().to_string();
        let noted = file.set_len(0).and_then(|()| file.write_all(pid.as_bytes()));
        noted.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(HomeLock { _file: file })
    }

    /// One that is not even text is as good as none.
    pub fn read_operator_token(&self) -> std::io::Result<Option<String>> {
        match fs::read_to_string(self.operator_token()) {
            Ok(token) => Ok(Some(token.trim().to_owned())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn write_operator_token(&self, token: &str) -> std::io::Result<()> {
        write_private(&self.operator_token(), format!("{token}\n").as_bytes())
    }

    pub fn chain_head_file(&self) -> PathBuf {
        self.path.join("chain.head")
    }

    pub fn chain_key_file(&self) -> PathBuf {
        self.key_file("chain.key")
    }

    /// The key of the trail, once there is one.
    pub fn chain_key(&self) -> std::io::Result<Option<ChainKeyFile>> {
        let text = match fs::read(self.chain_key_file()) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = || {
            let mut words = std::str::from_utf8(&text).ok()?.split_ascii_whitespace();
            let key = ChainKey::new(unhex(words.next()?.as_bytes())?);
            let (line, after) = (words.next()?.parse().ok()?, words.next()?.to_owned());
            let word = words.next();
            let known = RowMarks::WORDS.iter().find(|(_, known)| word == Some(known));
            Some(ChainKeyFile { key, line, after, marks: known.map_or(RowMarks::None, |(marks, _)| *marks) })
        };
        let damaged = "it is damaged: put it back from a copy, or remove it; the hub then makes a new one, and the trail says so";
        read().map(Some).ok_or_else(|| std::io::Error::new(ErrorKind::InvalidData, damaged))
    }

    pub fn write_chain_key(&self, file: &ChainKeyFile) -> std::io::Result<()> {
        let mut text = format!("{}\n{} {}\n", hex(file.key.bytes()), file.line, file.after);
        if let Some((_, word)) = RowMarks::WORDS.iter().find(|(marks, _)| *marks == file.marks) {
            text += &format!("{word}\n");
        }
        write_private(&self.chain_key_file(), text.as_bytes())
    }

    pub fn agent_key_file(&self) -> PathBuf {
        self.key_file("agent.key")
    }

    /// What the agents' tokens are derived from; made at the first start.
    pub fn agent_key(&self) -> anyhow::Result<[u8; 32]> {
        let path = self.agent_key_file();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut key = [0; 32];
                getrandom::fill(&mut key).context("the system has no randomness for a key")?;
                write_private(&path, hex(&key).as_bytes())
                    .with_context(|| format!("cannot write {}", path.display()))?;
                return Ok(key);
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        unhex(text.trim_ascii())
            .with_context(|| format!("{} is damaged: remove it and start again", path.display()))
    }
}

fn unhex(text: &[u8]) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    for (byte, digits) in key.iter_mut().zip(text.chunks(2)) {
        let [high, low] = *digits else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    (text.len() == 64).then_some(key)
}

/// Written beside and moved into place: a crash leaves the old file or the new one, never a half.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

fn private_dir(path: &Path) -> anyhow::Result<()> {
    let builder = || DirBuilder::new().recursive(true).mode(0o700).create(path);
    builder().with_context(|| format!("cannot create {}", path.display()))?;
    let metadata = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    let uid = rustix::process::getuid().as_raw();
    ensure!(
        metadata.uid() == uid,
        "{} belongs to another user: choose a directory of your own with AYE_HOME",
        path.display()
    );
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o700))
            .with_context(|| format!("cannot make {} private", path.display()))?;
    }
    Ok(())
}

/// A folder whose name everybody can guess, in a place where others may have been first.
fn private_socket_dir(path: &Path) -> anyhow::Result<()> {
    let builder = DirBuilder::new().recursive(true).mode(0o700).create(path);
    builder.with_context(|| format!("cannot create {}", path.display()))?;
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() && found.uid() == own_folder::our_id() {
        private_dir(path)?;
    }
    own_folder::check(path, Links::None)
        .context("the socket cannot be kept safe there; set AYE_HOME to a shorter path, or XDG_RUNTIME_DIR")
}

/// What lies in the home from other times or hands is its owner's alone, too. Only root can have put a file there that
/// belongs to somebody else, as where it is mounted into a container.
fn private_files(home: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(home)? {
        let entry = entry?;
        let found = entry.metadata()?;
        let is_ours = !found.is_symlink() && found.uid() == own_folder::our_id();
        if is_ours && found.mode() & 0o077 != 0 {
            fs::set_permissions(entry.path(), Permissions::from_mode(found.mode() & 0o700))?;
        }
    }
    Ok(())
}

/// The person's name on this machine; it is recorded with answers given with the operator's token.
pub fn user_name() -> Text {
    let name = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let uid = rustix::process::getuid().as_raw();
    let fallback = if uid == 0 { "root".to_owned() } else { format!("user {uid}") };
    match name.map(Text::try_from) {
        Some(Ok(name)) => name,
        _ => Text::from_displayed(&fallback),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_hubs_share_are_in_their_folder_and_as_protected_as_the_rest() {
        let (dir, keys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = Home::at(dir.path()).with_keys(keys.path().join("new"));
        home.prepare().unwrap();
        let key = home.agent_key().unwrap();
        home.write_operator_token("aye_x").unwrap();
        let mut names: Vec<_> =
            fs::read_dir(keys.path().join("new")).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["agent.key", "operator.token"]);
        let other = Home::at("/elsewhere").with_keys(keys.path().join("new"));
        assert_eq!(other.agent_key().unwrap(), key);
        assert_eq!(other.read_operator_token().unwrap().as_deref(), Some("aye_x"));
        assert_eq!(other.chain_head_file(), Path::new("/elsewhere/chain.head"));
        assert!(home.own_places().contains(&keys.path().join("new")));
    }

    #[test]
    fn secrets_that_are_named_are_ours_also_by_a_configuration_that_is_broken_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path()).with_secret(Some("/etc/tls.key".into()));
        let named = "[telegram]\ntoken_file = \"/srv/bot\"\n[store]\npassword_file = \"/srv/database\"\n";
        for broken in ["", "[policy]\nno_such_key = 1\n", "[policy\n"] {
            fs::write(home.config(), format!("{named}{broken}")).unwrap();
            let ours = home.own_places();
            for file in ["/etc/tls.key", "/srv/bot", "/srv/database"] {
                assert!(ours.contains(&file.into()), "{file}: {broken}");
                let input = serde_json::json!({ "path": file });
                assert!(home.places().is_named("/", input.as_object().unwrap()), "{file}: {broken}");
            }
        }
        fs::write(home.config(), "[telegram]\nusers = [1]\n").unwrap();
        assert_eq!(home.own_places().len(), 3, "the folder, the socket and the key of the certificate");
    }
}
