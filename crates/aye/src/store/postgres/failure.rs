//! What went wrong with the database, in words that say what to do about it.

use super::super::StoreError;
use super::address::database;
use super::client::NoConnection;
use std::error::Error;
use std::io;
use tokio_postgres::Config;
use tokio_postgres::error::SqlState;

/// What the server or the system said, without the library's own words around it.
pub fn in_words(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(error), _) => error.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Why there is no connection, and what would help.
pub fn no_connection(error: &NoConnection, config: &Config) -> String {
    let error = match error {
        NoConnection::Failed(error) => error,
        NoConnection::Silent(within) => {
            return format!(
                "something takes the connection and does not answer for {} seconds. Is that its port, and does the server work?",
                within.as_secs()
            );
        }
        NoConnection::System(error) => return format!("this machine cannot wait for it: {error}"),
    };
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

/// Why the schema cannot be made or changed, and what would help.
pub fn no_migration(error: &tokio_postgres::Error, config: &Config) -> String {
    let said = in_words(error);
    let (user, database) = (config.get_user().unwrap_or_default(), database(config));
    match error.code().map(SqlState::code) {
        // insufficient_privilege: since PostgreSQL 15 only the owner of a database may create tables in it.
        Some("42501") => format!(
            "{said}. The hub creates its tables itself. Make its role the owner: ALTER DATABASE \"{database}\" OWNER TO \"{user}\""
        ),
        // read_only_sql_transaction
        Some("25006") => {
            format!(
                "{said}. It is a standby, or was set to be read only: name the server that can be written"
            )
        }
        // lock_not_available
        Some("55P03") => {
            format!("{said}. Somebody uses its tables for longer than a hub can wait; try again")
        }
        _ => said,
    }
}

impl From<NoConnection> for StoreError {
    fn from(error: NoConnection) -> Self {
        match error {
            NoConnection::Failed(error) => match StoreError::from(error) {
                // Whatever keeps the hub from connecting may be put right while it runs.
                StoreError::Postgres(words) => StoreError::Away(words),
                other => other,
            },
            NoConnection::Silent(within) => {
                StoreError::Away(format!("it has not answered for {} seconds", within.as_secs()))
            }
            NoConnection::System(error) => StoreError::Away(error.to_string()),
        }
    }
}

fn io_error(error: &tokio_postgres::Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let words = in_words(&error);
        match error.code().map(SqlState::code) {
            // disk_full
            Some("53100") => StoreError::Full,
            // admin_shutdown, crash_shutdown, cannot_connect_now, idle_in_transaction_session_timeout, lock_not_available,
            // too_many_connections, and read_only_sql_transaction, as after a failover. feature_not_supported and
            // invalid_sql_statement_name: a statement was prepared before the tables were changed.
            Some("57P01" | "57P02" | "57P03" | "25P03" | "55P03" | "53300" | "25006" | "0A000" | "26000") => {
                StoreError::Away(words)
            }
            Some(_) => StoreError::Postgres(words),
            // Values that do not fit come from us; whatever else has no code is the connection.
            None if io_error(&error).is_some() || error.is_closed() => StoreError::Away(words),
            None => StoreError::Postgres(words),
        }
    }
}
