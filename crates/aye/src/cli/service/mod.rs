//! The hub as a service of the person who runs it, started with their session. This only writes the file
//! and says how to go on: what is started at every login is for a person to switch on.

mod launchd;
mod systemd;

use super::say;
use crate::home::Home;
use crate::surfaces::terminal::style::{HEAD, paint};
use anyhow::{Context, bail};
use etcetera::BaseStrategy;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Stands in every file we write, and in none that a person wrote. XML allows no two hyphens in it.
const MARKER: &str = "Written by aye, and again whenever its service is installed: changes do not last.";

/// What is to be run.
struct Service {
    program: String,
    arguments: Vec<String>,
    /// Where it lives, if that is not the default.
    home: Option<String>,
}

/// Writes the file that makes `aye up` with these arguments a service.
pub fn install(home: &Home, listen: SocketAddr, arguments: Vec<String>) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("where this program lies is not known")?;
    let own_home = std::env::var_os("AYE_HOME").is_some_and(|path| !path.is_empty());
    let service = Service {
        program: text(&program)?,
        arguments: ["up", "--no-open"].map(str::to_owned).into_iter().chain(arguments).collect(),
        home: own_home.then(|| text(home.path())).transpose()?,
    };
    let words = [&service.program].into_iter().chain(&service.arguments).chain(&service.home);
    if let Some(odd) = words.into_iter().find(|word| word.contains(char::is_control)) {
        bail!("{odd:?} has characters that no service file can hold");
    }
    let folders = etcetera::choose_base_strategy().context("there is no home directory")?;
    let (path, file, enable) = if cfg!(target_os = "linux") {
        let path = folders.config_dir().join("systemd/user/aye.service");
        // With port 0 the hub takes another port at each start, so there is none to hold.
        let enable = if listen.port() == 0 {
            systemd::ENABLE
        } else {
            put(&path.with_extension("socket"), &systemd::socket_unit(&crate::api::addresses(listen)))?;
            systemd::ENABLE_WITH_SOCKET
        };
        (path, systemd::unit(&service)?, enable.to_owned())
    } else if cfg!(target_os = "macos") {
        let path = folders.home_dir().join(format!("Library/LaunchAgents/{}.plist", launchd::LABEL));
        let enable = launchd::enable(&text(&path)?);
        (path, launchd::plist(&service), enable)
    } else {
        bail!(
            "services are known here for systemd and launchd only; run `aye up --no-open` by what you have"
        );
    };
    let did = match put(&path, &file)? {
        Put::Written => "Wrote",
        Put::Unchanged => "Already there, unchanged:",
    };
    let path = path.display();
    say(&format!(
        "{did} {path}\nNothing is started yet. To start it now and with every login:\n  {}\n",
        paint(HEAD, &enable)
    ))
}

fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{path:?} cannot be written as text"))
}

#[derive(Debug, PartialEq, Eq)]
enum Put {
    Written,
    Unchanged,
}

/// A file that somebody else wrote stays as it is.
fn put(path: &PathBuf, file: &str) -> anyhow::Result<Put> {
    match fs::read_to_string(path) {
        Ok(found) if found == file => return Ok(Put::Unchanged),
        Ok(found) if found.contains(MARKER) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Ok(_) => bail!("{} was not written by aye, and stays as it is: move it away first", path.display()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        // Beside it first: half a file is never there to be started.
        let beside = path.with_added_extension("new");
        fs::write(&beside, file)?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Put::Written)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn awkward() -> Service {
        Service {
            program: "/opt/50% off/$HOME/aye & <co>".into(),
            arguments: [
                "up",
                "--no-open",
                "--listen",
                "127.0.0.1:7177",
                "--tls-key",
                "/k 1/a\"b'c\\d/%i.pem",
            ]
            .map(str::to_owned)
            .into(),
            home: Some("/srv/a b/%h \"$x\"".into()),
        }
    }

    pub(super) fn plain() -> Service {
        Service {
            program: "/usr/local/bin/aye".into(),
            arguments: ["up", "--no-open", "--listen", "127.0.0.1:7177"].map(str::to_owned).into(),
            home: None,
        }
    }

    #[test]
    fn our_own_file_is_replaced_and_a_persons_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("systemd/user/aye.service");
        let (first, second) = (systemd::unit(&plain()).unwrap(), systemd::unit(&awkward()).unwrap());
        assert_eq!(put(&path, &first).unwrap(), Put::Written);
        assert_eq!(put(&path, &first).unwrap(), Put::Unchanged);
        assert_eq!(put(&path, &second).unwrap(), Put::Written);
        assert_eq!(fs::read_to_string(&path).unwrap(), second);

        fs::write(&path, "[Service]\nExecStart=/mine\n").unwrap();
        assert!(put(&path, &first).unwrap_err().to_string().contains("not written by aye"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "[Service]\nExecStart=/mine\n");
        // A unit that is masked is a link to nothing.
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(put(&path, &first).is_err());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
