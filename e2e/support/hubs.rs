//! Hubs on one PostgreSQL database, each on a home of its own and behind a proxy of its own.

use super::{Hub, PATIENCE, aye};
use aye_testkit::postgres::{Cluster, name_of};
use aye_testkit::proxy::Proxy;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// What every machine has a copy of.
const SHARED_FILES: [&str; 3] = ["chain.key", "agent.key", "operator.token"];

// Dropped in this order: hubs before what they use.
pub struct Hubs {
    pub hubs: Vec<Hub>,
    pub proxies: Vec<Proxy>,
    pub cluster: Cluster,
    url: String,
    dir: tempfile::TempDir,
}

impl Hubs {
    pub fn start(count: usize) -> Self {
        let cluster = Cluster::start();
        let url = cluster.new_database();
        let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
        let mut hubs = Self { hubs: Vec::new(), proxies: Vec::new(), cluster, url, dir };
        (0..count).for_each(|_| hubs.add());
        hubs
    }

    /// One more hub.
    pub fn add(&mut self) {
        let home = self.prepare_another();
        self.hubs.push(Hub::start_in(home));
    }

    /// The home of one more hub, with its proxy.
    pub fn prepare_another(&mut self) -> PathBuf {
        let home = self.dir.path().join(format!("home{}", self.proxies.len()));
        fs::create_dir(&home).unwrap();
        if let Some(first) = self.hubs.first() {
            for name in SHARED_FILES {
                fs::copy(first.home.join(name), home.join(name)).unwrap();
            }
        }
        let proxy = Proxy::to(&self.cluster.socket());
        let url = self.cluster.through(&proxy, &self.url);
        fs::write(home.join("config.toml"), format!("[store]\nurl = \"{url}\"\n")).unwrap();
        self.proxies.push(proxy);
        home
    }

    /// What a statement returns, past all proxies.
    pub fn sql(&self, sql: &str) -> String {
        self.cluster.sql(name_of(&self.url), sql)
    }

    /// How many changes there were.
    pub fn last_seq(&self) -> u64 {
        self.sql("SELECT last FROM numbers WHERE name = 'outbox'").parse().unwrap()
    }
}

impl Hub {
    /// A new process for the same home, again and again until one listens: without its database a hub ends.
    pub fn restart_until_it_listens(&mut self) {
        let since = Instant::now();
        loop {
            if let Some(hub) = Self::try_start_with(up(&self.home), self.home.clone()) {
                *self = hub;
                return;
            }
            assert!(since.elapsed() < PATIENCE, "no hub starts in {}", self.home.display());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

pub fn up(home: &Path) -> Command {
    let mut command = aye(home);
    command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
    command
}
