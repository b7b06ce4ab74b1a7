use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Logs go to standard error, as `key=value`. `AYE_LOG` chooses what: `debug`, `aye=trace`, … A person at a
/// terminal sees the asks themselves, so there only what goes wrong is logged unless they want more.
pub fn start() {
    // What the MCP library tells of each call is for those who look for a fault in it.
    let usual = if std::io::stderr().is_terminal() { "warn" } else { "info,rmcp=warn" };
    let filter = EnvFilter::try_from_env("AYE_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    if let Err(error) = log.compact().try_init() {
        eprintln!("aye: logging could not be started: {error}");
    }
}
