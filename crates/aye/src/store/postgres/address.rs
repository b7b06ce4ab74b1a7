//! How a database is named, and how to get in: its URL, its password, and TLS.

use super::failure::in_words;
use super::password;
use super::tls::Tls;
use std::error::Error;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A peer that does not answer is given up after this.
const SILENT_FOR: Duration = Duration::from_secs(5);
const BETWEEN_KEEPALIVES: Duration = Duration::from_secs(1);

/// The variables of this process.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What is needed to connect to the database of this URL, or why that cannot be known.
pub fn read(
    url: &str,
    password_file: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(Config, Option<Tls>), String> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err("its URL does not begin with postgres://".to_owned());
    }
    // Whoever wants TLS at all gets the certificate checked, name included.
    let (plain, names_sslmode) = with_plain_sslmode(url);
    let config = Config::from_str(&plain);
    let cause =
        |error: tokio_postgres::Error| error.source().map_or_else(|| in_words(&error), ToString::to_string);
    let mut config = config.map_err(|error| format!("its URL is not understood: {}", cause(error)))?;
    if config.get_hosts().is_empty() {
        return Err("its URL names no host".to_owned());
    }
    if config.get_user().is_none() {
        config.user(variable("PGUSER").unwrap_or_else(|| crate::home::user_name().to_string()));
    }
    if config.get_password().is_none()
        && let Some(password) = password::find(&config, password_file, variable)?
    {
        config.password(password);
    }
    let is_near = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
    });
    // Across a network nothing is sent in the clear unless the URL says so itself.
    if !names_sslmode {
        config.ssl_mode(if is_near { SslMode::Disable } else { SslMode::Require });
    }
    let tls = match config.get_ssl_mode() {
        SslMode::Disable => None,
        _ => Some(Tls(crate::tls::client(None).map_err(|error| error.to_string())?)),
    };
    config
        .application_name("aye")
        .connect_timeout(CONNECT_WITHIN)
        .keepalives_idle(BETWEEN_KEEPALIVES)
        .keepalives_interval(BETWEEN_KEEPALIVES)
        .keepalives_retries(4)
        .tcp_user_timeout(SILENT_FOR);
    Ok((config, tls))
}

/// The URL with an `sslmode` that the library knows, and whether it names one. Only the options at its end are looked at: a
/// password may contain the same words.
fn with_plain_sslmode(url: &str) -> (String, bool) {
    let Some((place, options)) = url.split_once('?') else { return (url.to_owned(), false) };
    let names_sslmode = options.split('&').any(|option| option.starts_with("sslmode="));
    let plain = options.split('&').map(|option| match option {
        "sslmode=verify-full" | "sslmode=verify-ca" => "sslmode=require",
        other => other,
    });
    (format!("{place}?{}", plain.collect::<Vec<_>>().join("&")), names_sslmode)
}

/// Where a database is, without secrets.
pub fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(i, host)| {
        let port = ports.get(i).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Unix(path) => format!("{}:{port}", path.display()),
            Host::Tcp(name) => format!("{name}:{port}"),
        }
    });
    format!("PostgreSQL at {}/{}", hosts.collect::<Vec<_>>().join(","), database(config))
}

/// A database has its user's name unless the URL says otherwise.
pub fn database(config: &Config) -> &str {
    config.get_dbname().or(config.get_user()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_across_a_network_is_encrypted_unless_the_url_says_otherwise() {
        let mode = |url: &str| read(url, None, &|_| None).map(|(config, _)| config.get_ssl_mode());
        assert_eq!(mode("postgres://aye@db.example/aye"), Ok(SslMode::Require));
        assert_eq!(mode("postgres://aye@localhost,db.example/aye"), Ok(SslMode::Require));
        assert_eq!(mode("postgres://aye@db.example/aye?sslmode=verify-full"), Ok(SslMode::Require));
        assert_eq!(mode("postgres://aye@db.example/aye?sslmode=verify-ca"), Ok(SslMode::Require));
        assert_eq!(mode("postgres://aye@db.example/aye?sslmode=disable"), Ok(SslMode::Disable));
        assert_eq!(mode("postgres://aye@localhost/aye"), Ok(SslMode::Disable));
        assert_eq!(mode("postgres:///aye?host=/run/postgresql"), Ok(SslMode::Disable));
        assert_eq!(mode("postgres://aye@localhost/aye?sslmode=require"), Ok(SslMode::Require));
        assert_eq!(mode("postgres://aye@db.example/aye?user=x&sslmode=disable"), Ok(SslMode::Disable));
        assert_eq!(mode("postgres://aye:sslmode=disable@db.example/aye"), Ok(SslMode::Require));
    }

    #[test]
    fn a_password_that_reads_like_an_option_stays_as_it_is() {
        let config = read("postgres://aye:sslmode=verify-full@db.example/aye", None, &|_| None).unwrap().0;
        assert_eq!(config.get_password(), Some(&b"sslmode=verify-full"[..]));
    }

    #[test]
    fn a_place_names_no_password_and_the_user_is_found() {
        let variable = |name: &str| (name == "PGUSER").then(|| "ann".to_owned());
        let place_of = |url: &str| place(&read(url, None, &variable).unwrap().0);
        assert_eq!(
            place_of("postgres://aye:geheim@db.example:6432/team"),
            "PostgreSQL at db.example:6432/team"
        );
        assert_eq!(
            place_of("postgres://a.example,b.example"),
            "PostgreSQL at a.example:5432,b.example:5432/ann"
        );
    }
}
