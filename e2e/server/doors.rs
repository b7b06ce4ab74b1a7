//! How a hub gets into its database, and what it says when it does not.

use super::hub_on;
use crate::support::{Hub, aye, code, complained};
use aye_testkit::postgres::{Certificate, Cluster};
use rcgen::generate_simple_self_signed;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const PASSWORD: &str = "very:secret\\";

/// A server on the network, with a role that has a password and owns a database.
struct Server {
    cluster: Cluster,
    database: String,
    dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = Certificate { chain: made.cert.pem(), key: made.signing_key.serialize_pem() };
        let cluster = Cluster::on_network(&certificate);
        let database = cluster.create_database();
        cluster.sql("postgres", &format!("CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'"));
        cluster.sql("postgres", &format!("ALTER DATABASE {database} OWNER TO ann"));
        let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
        std::fs::write(dir.path().join("trusted.pem"), &certificate.chain).unwrap();
        Self { cluster, database, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn url(&self, host: &str, rest: &str) -> String {
        format!("postgres://ann@{host}:{}/{}{rest}", self.cluster.port(), self.database)
    }

    /// A hub gets in with these variables, and by TLS or without.
    fn lets_in(&self, url: &str, variables: &[(&str, &Path)], by_tls: bool) {
        let home = self.path("home");
        let mut command = aye(&home);
        command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
        command.env("AYE_DATABASE_URL", url).env("HOME", self.dir.path()).env_remove("PGPASSWORD");
        command.envs(variables.iter().copied());
        let mut hub = Hub::start_with(command, home);
        assert_eq!(hub.get("/api/health", "").status, 200);
        let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'aye%'";
        assert_eq!(self.cluster.sql("postgres", sql), if by_tls { "t" } else { "f" });
        assert!(hub.stop().success());
    }

    /// What is said to whoever does not get in, without what changes from one time to the next.
    fn complaint(&self, url: &str, variables: &[(&str, &Path)]) -> String {
        let home = self.path("other");
        let mut command = aye(&home);
        command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
        command.env("AYE_DATABASE_URL", url).env("HOME", "/nowhere").env_remove("PGPASSWORD");
        let refused = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(code(&refused), Some(1), "{refused:?}");
        let port = self.cluster.port().to_string();
        let place = self.dir.path().display().to_string();
        let said = complained(&refused);
        let said = said.lines().find(|line| line.starts_with("aye: ")).unwrap_or(&said);
        said.replace(&port, "PORT").replace(&self.database, "DATABASE").replace(&place, "")
    }
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn the_password_comes_from_a_file_a_variable_or_the_shared_password_file() {
    let server = Server::start();
    let url = server.url("localhost", "");
    server.lets_in(&url, &[("PGPASSWORD", Path::new(PASSWORD))], false);
    let line = format!("localhost:{}:{}:ann:very\\:secret\\\\\n", server.cluster.port(), server.database);
    let shared = server.write("shared", &line);
    server.lets_in(&url, &[("PGPASSFILE", &shared)], false);
    server.write(".pgpass", &line);
    server.lets_in(&url, &[], false);
    std::fs::remove_file(server.path(".pgpass")).unwrap();
    let own = server.write("password", &format!("{PASSWORD}\n"));
    server.write("home/config.toml", &format!("[store]\npassword_file = \"{}\"\n", own.display()));
    server.lets_in(&url, &[], false);
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_certificate_counts_if_this_machine_trusts_it_and_it_names_the_host() {
    let server = Server::start();
    let (password, trusted) = (("PGPASSWORD", Path::new(PASSWORD)), server.path("trusted.pem"));
    let trusting = [password, ("SSL_CERT_FILE", trusted.as_path())];
    for mode in ["require", "verify-full"] {
        server.lets_in(&server.url("localhost", &format!("?sslmode={mode}")), &trusting, true);
    }
    let said = [
        server.complaint(&server.url("localhost", "?sslmode=require"), &[password]),
        server.complaint(&server.url("127.0.0.1", "?sslmode=require"), &trusting),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    aye: cannot use PostgreSQL at localhost:PORT/DATABASE: its certificate is not accepted: invalid peer certificate: UnknownIssuer. It must name the host of the URL, and this machine must trust who signed it
    aye: cannot use PostgreSQL at 127.0.0.1:PORT/DATABASE: its certificate is not accepted: invalid peer certificate: certificate not valid for name "127.0.0.1"; certificate is only valid for DnsName("localhost"). It must name the host of the URL, and this machine must trust who signed it
    "#);
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn every_way_it_can_fail_has_a_sentence_that_helps() {
    let server = Server::start();
    let password = [("PGPASSWORD", Path::new(PASSWORD))];
    let near = |rest: &str| server.url("localhost", rest);
    let port = server.cluster.port();
    // A server that speaks no TLS.
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let plain_port = plain.local_addr().unwrap().port();
    let speaking = std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        stream.read_exact(&mut [0; 8]).unwrap();
        stream.write_all(b"N").unwrap();
    });
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut said = vec![
        server.complaint(&near(""), &[("PGPASSWORD", Path::new("wrong"))]),
        server.complaint(&near(""), &[]),
        server.complaint(&near(""), &[("PGPASSFILE", &server.path("trusted.pem"))]),
        server.complaint(&format!("postgres://ann@localhost:{port}/missing"), &password),
        server.complaint("postgres://ann@nowhere.invalid/aye", &password),
        server
            .complaint(&format!("postgres://ann@localhost:{free}/aye"), &password)
            .replace(&free.to_string(), "FREE"),
        server.complaint("postgres:///aye?host=/nowhere", &password),
        server
            .complaint(&format!("postgres://ann@localhost:{plain_port}/aye?sslmode=require"), &password)
            .replace(&plain_port.to_string(), "PLAIN"),
        server.complaint("postgres:///aye", &password),
        server.complaint("postgres://ann@localhost:x/aye", &password),
        server.complaint("mysql://ann@localhost/aye", &password),
    ];
    speaking.join().unwrap();
    server.cluster.sql(&server.database, "CREATE TABLE somebody_elses (x INT)");
    said.push(server.complaint(&near(""), &password));
    server.cluster.sql(&server.database, "DROP TABLE somebody_elses");
    drop(hub_on(&near("").replace("ann@", &format!("ann:{}@", "very%3Asecret%5C")), &server.path("home")));
    server.cluster.sql(&server.database, "UPDATE schema_version SET version = 99, oldest = 99");
    let newer = server.complaint(&near(""), &password);
    assert!(newer.contains("it was changed by a newer aye (schema 99, this one knows "), "{newer}");
    insta::assert_snapshot!(said.join("\n"), @r#"
    aye: cannot use PostgreSQL at localhost:PORT/DATABASE: password authentication failed for user "ann". The password is taken from the URL, password_file in [store], PGPASSWORD or ~/.pgpass, the first that there is
    aye: cannot use PostgreSQL at localhost:PORT/DATABASE: it wants a password for ann. The password is taken from the URL, password_file in [store], PGPASSWORD or ~/.pgpass, the first that there is
    aye: cannot use the database: the password file /trusted.pem can be read by others, so it is not used: chmod 600 /trusted.pem
    aye: cannot use PostgreSQL at localhost:PORT/missing: database "missing" does not exist. Create it on the server: createdb --owner ann missing
    aye: cannot use PostgreSQL at nowhere.invalid:5432/aye: its host is not known (failed to lookup address information: Name or service not known)
    aye: cannot use PostgreSQL at localhost:FREE/aye: nothing listens there (Connection refused (os error 111)). Is it running, and is that its port?
    aye: cannot use PostgreSQL at /nowhere:5432/aye: there is no socket of a server (No such file or directory (os error 2)). Is it running, and is that its folder?
    aye: cannot use PostgreSQL at localhost:PLAIN/aye: server does not support TLS. Turn it on there (ssl = on), or add sslmode=disable to the URL to go without
    aye: cannot use the database: its URL names no host
    aye: cannot use the database: its URL is not understood: invalid value for option `port`
    aye: cannot use the database: its URL does not begin with postgres://
    aye: cannot use PostgreSQL at localhost:PORT/DATABASE: it holds something else: aye wants a database of its own
    "#);
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_database_that_cannot_be_made_ready_has_a_sentence_that_helps() {
    let server = Server::start();
    let password = [("PGPASSWORD", Path::new(PASSWORD))];
    let others = server.cluster.create_database();
    let url = server.url("localhost", "");
    let not_owned = url.replace(&server.database, &others);
    let mut said = vec![server.complaint(&not_owned, &password).replace(&others, "OTHERS")];
    let sql = format!("ALTER DATABASE {} SET default_transaction_read_only = on", server.database);
    server.cluster.sql("postgres", &sql);
    said.push(server.complaint(&url, &password));
    // Something that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let silence = server.complaint(&format!("postgres://ann@localhost:{port}/aye"), &password);
    said.push(silence.replace(&port.to_string(), "SILENT"));
    insta::assert_snapshot!(said.join("\n"), @r#"
    aye: cannot use PostgreSQL at localhost:PORT/OTHERS: permission denied for schema public. The hub creates its tables itself. Make its role the owner: ALTER DATABASE "OTHERS" OWNER TO "ann"
    aye: cannot use PostgreSQL at localhost:PORT/DATABASE: cannot execute CREATE TABLE in a read-only transaction. It is a standby, or was set to be read only: name the server that can be written
    aye: cannot use PostgreSQL at localhost:SILENT/aye: something takes the connection and does not answer for 15 seconds. Is that its port, and does the server work?
    "#);
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_schema_that_a_newer_hub_extended_is_used_if_it_says_that_this_one_may() {
    let server = Server::start();
    let url = server.url("localhost", "");
    let password = [("PGPASSWORD", Path::new(PASSWORD))];
    server.lets_in(&url, &password, false);
    server.cluster.sql(
        &server.database,
        "ALTER TABLE agents ADD COLUMN newer TEXT; UPDATE schema_version SET version = 99",
    );
    server.lets_in(&url, &password, false);
    assert_eq!(server.cluster.sql(&server.database, "SELECT version FROM schema_version"), "99");
}
