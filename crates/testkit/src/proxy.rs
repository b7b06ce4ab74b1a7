//! A TCP proxy in front of a PostgreSQL server, which does to connections what networks do: cuts them, also in the middle of
//! a commit, and swallows what is sent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// How a statement that commits begins or ends, as it stands in a message.
const COMMIT: &[u8] = b"COMMIT\0";

/// When the connection of a commit is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Before the server hears of the commit: it does not take place.
    Before,
    /// After the server has committed, before the client hears of it.
    After,
}

pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    swallows: bool,
    ends: bool,
    next_commit: Option<Cut>,
    /// Whether everything is swallowed once a commit was cut.
    then_swallows: bool,
    /// Whether everything is swallowed from the next commit on, which is swallowed first.
    swallows_commit: bool,
    /// How many commits were cut, and connections begun.
    cut: u64,
    begun: u64,
    links: Vec<Arc<Link>>,
}

impl State {
    fn has_cut(&mut self) {
        self.cut += 1;
        self.swallows |= std::mem::take(&mut self.then_swallows);
    }
}

/// One connection, from its client to the server.
struct Link {
    client: TcpStream,
    server: UnixStream,
    is_cut: AtomicBool,
    /// What the server says next is kept from the client, and the connection cut.
    cut_at_reply: AtomicBool,
}

impl Link {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        // Either end may have closed it already.
        drop(self.client.shutdown(Shutdown::Both));
        drop(self.server.shutdown(Shutdown::Both));
    }
}

impl Proxy {
    /// In front of the server that listens on this Unix socket.
    pub fn to(server: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared =
            Arc::new(Shared { server: server.to_owned(), state: Mutex::default(), changed: Condvar::new() });
        let taking = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                {
                    let mut state = taking.state.lock().unwrap();
                    state.begun += 1;
                    if state.ends {
                        break;
                    }
                }
                let shared = taking.clone();
                thread::spawn(move || shared.lead(client));
            }
        });
        Self { address, shared }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        let links = std::mem::take(&mut self.shared.state.lock().unwrap().links);
        links.iter().for_each(|link| link.cut());
    }

    /// Cuts the connection of the next commit.
    pub fn cut_next_commit(&self, when: Cut) {
        self.shared.state.lock().unwrap().next_commit = Some(when);
    }

    /// The same, and nothing gets through any more after that.
    pub fn cut_next_commit_and_swallow(&self, when: Cut) {
        let mut state = self.shared.state.lock().unwrap();
        (state.next_commit, state.then_swallows) = (Some(when), true);
    }

    /// From the next commit on nothing gets through, and the commit is the first that does not.
    pub fn swallow_next_commit(&self) {
        self.shared.state.lock().unwrap().swallows_commit = true;
    }

    pub fn is_swallowing(&self) -> bool {
        self.shared.state.lock().unwrap().swallows
    }

    /// How many connections clients have begun, also where they lead nowhere.
    pub fn connections_begun(&self) -> u64 {
        self.shared.state.lock().unwrap().begun
    }

    /// How many commits were cut so far.
    pub fn commits_cut(&self) -> u64 {
        self.shared.state.lock().unwrap().cut
    }

    /// From now on nothing gets through in either direction, not even the end of a connection, until this is taken back:
    /// then all of it does.
    pub fn swallow(&self, swallows: bool) {
        self.shared.state.lock().unwrap().swallows = swallows;
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap().ends = true;
        self.shared.changed.notify_all();
        self.cut();
        // Wakes whoever takes connections.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn lead(self: Arc<Self>, client: TcpStream) {
        self.wait_while_swallowing();
        // A server that is stopped takes no connection, and then the client loses its own.
        let Ok(server) = UnixStream::connect(&self.server) else { return };
        client.set_nodelay(true).unwrap();
        let (from_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let link = Arc::new(Link {
            client,
            server,
            is_cut: AtomicBool::new(false),
            cut_at_reply: AtomicBool::new(false),
        });
        {
            let mut state = self.state.lock().unwrap();
            if state.ends {
                return link.cut();
            }
            state.links.retain(|link| !link.is_cut.load(Ordering::SeqCst));
            state.links.push(link.clone());
        }
        let (shared, back) = (self.clone(), link.clone());
        let answers = thread::spawn(move || {
            pump(&shared, &back, from_server, &back.client, |_| shared.passes_back(&back));
        });
        pump(&self, &link, from_client, &link.server, |bytes| self.passes(&link, bytes));
        answers.join().unwrap();
    }

    /// Whether this may reach the server.
    fn passes(&self, link: &Link, bytes: &[u8]) -> bool {
        if !bytes.windows(COMMIT.len()).any(|part| part == COMMIT) {
            return true;
        }
        let mut state = self.state.lock().unwrap();
        state.swallows |= std::mem::take(&mut state.swallows_commit);
        let Some(when) = state.next_commit.take() else { return true };
        match when {
            Cut::Before => state.has_cut(),
            Cut::After => link.cut_at_reply.store(true, Ordering::SeqCst),
        }
        when == Cut::After
    }

    /// Whether what the server says may reach the client.
    fn passes_back(&self, link: &Link) -> bool {
        let cuts = link.cut_at_reply.load(Ordering::SeqCst);
        if cuts {
            self.state.lock().unwrap().has_cut();
        }
        !cuts
    }

    fn wait_while_swallowing(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.swallows && !state.ends).unwrap());
    }
}

/// Passes on what `from` says until one end closes, or something must not pass.
fn pump(
    shared: &Shared,
    link: &Link,
    mut from: impl Read,
    mut to: impl Write,
    passes: impl Fn(&[u8]) -> bool,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        shared.wait_while_swallowing();
        let bytes = &buffer[..length];
        if !passes(bytes) {
            return link.cut();
        }
        shared.wait_while_swallowing();
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    shared.wait_while_swallowing();
    link.cut();
}
