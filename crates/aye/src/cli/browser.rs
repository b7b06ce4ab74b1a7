//! Opens a sign-in link in the person's browser. What a program is started with can be read by every user of
//! the machine, so the browser is given a private file that leads to the link.

use crate::home::Home;
use crate::hub::Hub;
use aye_core::digest::sha256_hex;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

/// As long as the link works.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Best effort: the link is printed anyway. Ends once the file is not needed any more.
pub async fn open(hub: Hub, home: Home, link: String, stop: CancellationToken) {
    let has_screen = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !has_screen {
        return;
    }
    let file = match LinkFile::write(&home, &link) {
        Ok(file) => file,
        Err(error) => return tracing::debug!(%error, "the sign-in link could not be handed to a browser"),
    };
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(&file.path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Not waited for: an opener may live as long as the browser. The runtime collects it when it ends.
    if let Err(error) = command.spawn() {
        return tracing::debug!(%error, "no browser could be opened");
    }
    let code = link.split_once('#').map_or("", |(_, code)| code);
    tokio::select! {
        () = hub.sign_in_code_used(code) => {}
        () = tokio::time::sleep(LONGEST) => {}
        () = stop.cancelled() => {}
    }
}

/// A page that goes on to a link, for as long as this is held.
struct LinkFile {
    path: PathBuf,
}

impl LinkFile {
    fn write(home: &Home, link: &str) -> io::Result<Self> {
        let path = folder(home).join(name(home));
        // One that a hub left behind when it was killed; its link is worth nothing any more.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let kept = Self { path };
        file.write_all(page(link).as_bytes())?;
        Ok(kept)
    }
}

impl Drop for LinkFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "the file for the browser stays behind");
        }
    }
}

/// Browsers that come as a Snap read nothing hidden and nothing outside the person's own folder.
fn folder(home: &Home) -> PathBuf {
    let ours = |folder: &Path| {
        fs::metadata(folder).is_ok_and(|found| {
            found.is_dir() && found.uid() == crate::own_folder::our_id() && found.mode() & 0o022 == 0
        })
    };
    std::env::home_dir().filter(|folder| ours(folder)).unwrap_or_else(|| home.path().to_owned())
}

fn name(home: &Home) -> String {
    let hash = sha256_hex(home.path().as_os_str().as_bytes());
    format!("aye-sign-in-{}.html", &hash[..8])
}

/// A link is made of characters that mean nothing in HTML.
fn page(link: &str) -> String {
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\">\n<title>aye</title>\n\
         <p><a href=\"{link}\">Open aye</a></p>\n"
    )
}
