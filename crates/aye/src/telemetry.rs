use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Logs go to standard error, as `key=value`. `AYE_LOG` chooses what: `debug`, `aye=trace`, …
pub fn start() {
    let filter = EnvFilter::try_from_env("AYE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    if let Err(error) = log.compact().try_init() {
        eprintln!("aye: logging could not be started: {error}");
    }
}
