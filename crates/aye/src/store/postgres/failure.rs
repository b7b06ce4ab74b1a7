//! What went wrong with the database, in words that say what to do about it.

use super::super::StoreError;
use super::address::database;
use postgres::Config;
use postgres::error::SqlState;
use std::error::Error;
use std::io;

/// What the server or the system said, without the library's own words around it.
pub fn in_words(error: &postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(error), _) => error.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Why there is no connection, and what would help.
pub fn no_connection(error: &postgres::Error, config: &Config) -> String {
    let said = in_words(error);
    let user = config.get_user().unwrap_or_default();
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    match error.code().map(SqlState::code) {
        // invalid_password
        Some("28P01") => format!("{said}. {WHERE_FROM}"),
        // invalid_authorization_specification
        Some("28000") => format!("{said}. The server's pg_hba.conf or the role decides who may connect how"),
        // invalid_catalog_name
        Some("3D000") => {
            format!("{said}. Create it on the server: createdb --owner {user} {}", database(config))
        }
        // too_many_connections
        Some("53300") => format!("{said}. A hub takes eight: see max_connections"),
        Some(_) => said,
        None if cause == "password missing" => format!("it wants a password for {user}. {WHERE_FROM}"),
        None if cause.contains("server does not support TLS") => {
            format!("{cause}. Turn it on there (ssl = on), or add sslmode=disable to the URL to go without")
        }
        None if cause.contains("invalid peer certificate") => format!(
            "its certificate is not accepted: {cause}. It must name the host of the URL, and this machine must trust who \
             signed it"
        ),
        None => match io_error(error).map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => {
                format!("nothing listens there ({cause}). Is it running, and is that its port?")
            }
            Some(io::ErrorKind::NotFound) => {
                format!("there is no socket of a server ({cause}). Is it running, and is that its folder?")
            }
            Some(io::ErrorKind::TimedOut) => {
                format!("it does not answer ({cause}). Does a firewall keep it from being reached?")
            }
            _ if cause.contains("lookup address") => format!("its host is not known ({cause})"),
            _ => said,
        },
    }
}

const WHERE_FROM: &str = "The password is taken from the URL, password_file in [store], PGPASSWORD or ~/.pgpass, the first that there is";

fn io_error(error: &postgres::Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}

impl From<postgres::Error> for StoreError {
    fn from(error: postgres::Error) -> Self {
        let words = in_words(&error);
        match error.code().map(SqlState::code) {
            // disk_full
            Some("53100") => StoreError::Full,
            // admin_shutdown, crash_shutdown, cannot_connect_now, idle_in_transaction_session_timeout, lock_not_available,
            // too_many_connections, and read_only_sql_transaction, as after a failover.
            Some("57P01" | "57P02" | "57P03" | "25P03" | "55P03" | "53300" | "25006") => {
                StoreError::Away(words)
            }
            Some(_) => StoreError::Postgres(words),
            // Values that do not fit come from us; whatever else has no code is the connection.
            None if io_error(&error).is_some() || error.is_closed() => StoreError::Away(words),
            None => StoreError::Postgres(words),
        }
    }
}
