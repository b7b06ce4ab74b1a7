//! A TCP proxy in front of a PostgreSQL server, which does to connections what networks do: cuts them, also in the middle of
//! a commit, and swallows what is sent. It also does what servers do that fail, and loses notifications.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// How a statement that commits begins or ends, as it stands in a message.
const COMMIT: &[u8] = b"COMMIT\0";

/// What a server says whose disk fails: it ends the session, and not in the way in which servers are shut down.
const FATAL: &[u8] = b"SFATAL\0VFATAL\0C58030\0Mcould not write to file: Input/output error\0\0";

/// When the connection of a commit is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Before the server hears of the commit: it does not take place.
    Before,
    /// After the server has committed, before the client hears of it.
    After,
    /// The same as before, and the client is told that the server's disk failed.
    FatalBefore,
    FatalAfter,
    /// After the server has committed, nothing gets through on this connection any more, and it is not closed either.
    SilentAfter,
}

impl Cut {
    fn is_before(self) -> bool {
        matches!(self, Self::Before | Self::FatalBefore)
    }
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
    loses_notifications: bool,
    /// How many notifications were lost.
    lost: u64,
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
    /// Nothing gets through any more, but its ends are not closed.
    is_silent: AtomicBool,
    /// What the server says next is kept from the client, and the connection cut in this way.
    cut_at_reply: Mutex<Option<Cut>>,
}

impl Link {
    /// Tells the client that the server's disk failed.
    fn say_fatal(&self) {
        let length = u32::try_from(FATAL.len() + 4).unwrap().to_be_bytes();
        // The client may be gone.
        drop((&self.client).write_all(&[&b"E"[..], &length, FATAL].concat()));
    }

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

    /// Nothing gets through any more on the connections that there are, and they are not closed either, as if the server stood
    /// still. New ones work.
    pub fn silence_connections(&self) {
        let links = std::mem::take(&mut self.shared.state.lock().unwrap().links);
        links.iter().for_each(|link| link.is_silent.store(true, Ordering::SeqCst));
    }

    /// From now on no notification reaches a client, and everything else does.
    pub fn lose_notifications(&self) {
        self.shared.state.lock().unwrap().loses_notifications = true;
    }

    pub fn notifications_lost(&self) -> u64 {
        self.shared.state.lock().unwrap().lost
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
            is_silent: AtomicBool::new(false),
            cut_at_reply: Mutex::new(None),
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
            let mut messages = Messages::default();
            pump(&shared, &back, from_server, &back.client, |bytes| {
                shared.passes_back(&back).then(|| shared.without_notifications(&mut messages, bytes))
            });
        });
        pump(&self, &link, from_client, &link.server, |bytes| {
            self.passes(&link, bytes).then(|| bytes.to_vec())
        });
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
        if !when.is_before() {
            *link.cut_at_reply.lock().unwrap() = Some(when);
            return true;
        }
        state.has_cut();
        if when == Cut::FatalBefore {
            link.say_fatal();
        }
        false
    }

    /// Whether what the server says may reach the client.
    fn passes_back(&self, link: &Link) -> bool {
        let Some(how) = link.cut_at_reply.lock().unwrap().take() else { return true };
        self.state.lock().unwrap().has_cut();
        match how {
            Cut::FatalAfter => link.say_fatal(),
            Cut::SilentAfter => link.is_silent.store(true, Ordering::SeqCst),
            Cut::Before | Cut::After | Cut::FatalBefore => {}
        }
        how == Cut::SilentAfter
    }

    /// What a server says, as far as the client is to hear it: whole messages.
    fn without_notifications(&self, messages: &mut Messages, bytes: &[u8]) -> Vec<u8> {
        let mut state = self.state.lock().unwrap();
        let mut passed = Vec::new();
        for message in messages.add(bytes) {
            match message[0] == b'A' && state.loses_notifications {
                true => state.lost += 1,
                false => passed.extend(message),
            }
        }
        passed
    }

    fn wait_while_swallowing(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.swallows && !state.ends).unwrap());
    }
}

/// What a server has said, message by message: a letter, the length of the rest, and the rest.
#[derive(Default)]
struct Messages {
    begun: Vec<u8>,
}

impl Messages {
    /// Those that are complete with these bytes.
    fn add(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.begun.extend(bytes);
        let mut complete = Vec::new();
        while let Some(length) = self.begun.get(1..5) {
            let end = 1 + u32::from_be_bytes(length.try_into().unwrap()) as usize;
            if self.begun.len() < end {
                break;
            }
            let rest = self.begun.split_off(end);
            complete.push(std::mem::replace(&mut self.begun, rest));
        }
        complete
    }
}

/// Passes on what `from` says until one end closes, or something must not pass.
fn pump(
    shared: &Shared,
    link: &Link,
    mut from: impl Read,
    mut to: impl Write,
    mut passes: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        shared.wait_while_swallowing();
        let Some(passed) = passes(&buffer[..length]) else { return link.cut() };
        shared.wait_while_swallowing();
        if !link.is_silent.load(Ordering::SeqCst) && to.write_all(&passed).is_err() {
            break;
        }
    }
    shared.wait_while_swallowing();
    link.cut();
}
