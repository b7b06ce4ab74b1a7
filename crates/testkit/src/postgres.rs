//! A PostgreSQL server of its own for tests, in a temporary folder. It ends with the process that started it, however that
//! ends, and takes its folder along.

use crate::proxy::Proxy;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Starts the server, says where it is, and waits for the end of its input.
const KEEP: &str = r#"
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/aye-postgres.XXXXXX")
cd "$folder"
"$1/initdb" -D data -U aye -A trust -E UTF8 --locale=C --no-sync >initdb.log 2>&1 || { cat initdb.log >&2; exit 1; }
cat >>data/postgresql.conf <<END
listen_addresses = ''
unix_socket_directories = '$folder'
max_connections = 400
shared_buffers = 16MB
fsync = $2
END
if [ -n "${3:-}" ]; then
  # Over the network it wants a password, and it has a certificate.
  printf '%s\n' "$4" >data/server.crt
  (umask 077; printf '%s\n' "$5" >data/server.key)
  printf "listen_addresses = '127.0.0.1'\nport = $3\nssl = on\n" >>data/postgresql.conf
  printf 'local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n' >data/pg_hba.conf
fi
"$1/pg_ctl" -D data -l server.log -w start >/dev/null || { cat server.log >&2; exit 1; }
echo "$folder"
cat >/dev/null
"$1/pg_ctl" -D data -m immediate stop >/dev/null || true
cd /
rm -rf "$folder"
"#;

/// The certificate of a server, and its key, in PEM form.
pub struct Certificate {
    pub chain: String,
    pub key: String,
}

pub struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    /// Its input ends when this process does.
    _keeper: Child,
    databases: AtomicU32,
}

static SHARED: LazyLock<Cluster> = LazyLock::new(Cluster::start);

impl Cluster {
    /// One for all tests of a process that only want databases.
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// Commits survive the end of the server, and not that of the machine.
    pub fn start() -> Self {
        Self::start_with(5432, "off", &[])
    }

    /// Commits are synced to the disk, as they are for people.
    pub fn durable() -> Self {
        Self::start_with(5432, "on", &[])
    }

    /// One that is reached over the network: with a password, and with TLS if that is wanted.
    pub fn on_network(certificate: &Certificate) -> Self {
        // Nobody else takes a port so soon after it was free.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start_with(port, "off", &[&port.to_string(), &certificate.chain, &certificate.key])
    }

    fn start_with(port: u16, fsync: &str, arguments: &[&str]) -> Self {
        let programs = programs();
        let mut keeper = unprivileged("sh")
            .args(["-c", KEEP, "sh"])
            .arg(&programs)
            .arg(fsync)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut folder = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut folder).unwrap();
        assert!(!folder.is_empty(), "PostgreSQL did not start");
        let folder = PathBuf::from(folder.trim_end());
        Self { programs, folder, port, _keeper: keeper, databases: AtomicU32::new(0) }
    }

    /// The URL of a new, empty database.
    pub fn new_database(&self) -> String {
        let name = self.create_database();
        format!("postgres:///{name}?host={}&port={}&user=aye", self.folder.display(), self.port)
    }

    /// The name of a new, empty database.
    pub fn create_database(&self) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whoever still uses it loses it.
    pub fn drop_database(&self, url: &str) {
        self.sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", name_of(url)));
    }

    /// The same database, reached through a proxy.
    pub fn through(&self, proxy: &Proxy, url: &str) -> String {
        format!("postgres://aye@127.0.0.1:{}/{}", proxy.port(), name_of(url))
    }

    /// The socket that the server listens on.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }

    /// What a statement returns, as `psql` prints it.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        let psql = psql.args([
            "-h",
            path(&self.folder),
            "-p",
            &self.port.to_string(),
            "-U",
            "aye",
            "-d",
            database,
            "-Atqc",
            sql,
        ]);
        let done = psql.output().unwrap();
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
    }

    /// Everything in a database, as text.
    pub fn dump(&self, url: &str) -> String {
        let mut dump = Command::new(self.programs.join("pg_dump"));
        let done = dump
            .args(["-h", path(&self.folder), "-p", &self.port.to_string(), "-U", "aye", name_of(url)])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Ends every connection to it in the middle of whatever it does.
    pub fn cut_connections(&self) {
        self.sql(
            "postgres",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'aye%'",
        );
    }

    /// Ends the connections by which hubs hear of each other's commits in this database. Returns how many there were.
    pub fn cut_listeners(&self, database: &str) -> u64 {
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE application_name = 'aye listener' AND datname = '{database}'"
        );
        self.sql("postgres", &sql).parse().unwrap()
    }

    /// As a power cut would.
    pub fn stop_at_once(&self) {
        self.control(&["-m", "immediate", "stop"]);
    }

    pub fn start_again(&self) {
        self.control(&["-l", path(&self.folder.join("server.log")), "-w", "start"]);
    }

    fn control(&self, what: &[&str]) {
        let mut control = unprivileged(path(&self.programs.join("pg_ctl")));
        let control = control.args(["-D", path(&self.folder.join("data"))]).args(what).current_dir("/");
        assert!(control.stdout(Stdio::null()).status().unwrap().success(), "pg_ctl {what:?}");
    }
}

/// The name of the database that a URL of ours leads to.
pub fn name_of(url: &str) -> &str {
    url.split(['/', '?']).nth(3).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Where Debian and others put the newest version.
fn programs() -> PathBuf {
    let mut found: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.map(|version| version.unwrap().path().join("bin")).collect())
        .unwrap_or_default();
    found.retain(|folder| folder.join("initdb").exists());
    found.sort();
    found.pop().expect("PostgreSQL is not installed: apt-get install postgresql")
}

/// PostgreSQL refuses to run as root.
fn unprivileged(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--", program]);
    command
}
