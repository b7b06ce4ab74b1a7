//! The hub on a PostgreSQL server: how it gets there, who gets in, and what is said when that fails.

mod away;
mod deployment;
mod doors;
mod moving;
mod together;

use crate::support::{Hub, aye};
use std::path::Path;

/// A hub that keeps everything in this database.
fn hub_on(url: &str, home: &Path) -> Hub {
    let mut command = aye(home);
    command.env("AYE_DATABASE_URL", url).args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
    Hub::start_with(command, home.to_owned())
}
