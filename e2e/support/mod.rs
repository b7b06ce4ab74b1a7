//! A real hub in a home of its own, and the plainest possible client.

pub mod browser;
pub mod hubs;
pub mod socket;
pub mod terminal;

pub use aye_testkit::patience::{PATIENCE, eventually, eventually_within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use tungstenite::{ClientRequestBuilder, WebSocket};

/// The real Claude Code. Tests with it are ignored unless asked for, because a plain `cargo test` may not have it.
pub fn claude() -> PathBuf {
    let named = std::env::var_os("AYE_TEST_CLAUDE").map(PathBuf::from);
    named.expect("AYE_TEST_CLAUDE must name the real program: run scripts/test, which installs it")
}

pub struct Hub {
    pub home: PathBuf,
    pub address: String,
    pub link: String,
    pub child: Child,
    /// Held open: a hub that cannot print ends.
    _said: BufReader<ChildStdout>,
    /// The directory goes with the last hub that used it.
    _dir: Option<tempfile::TempDir>,
}

impl Hub {
    /// Starts a hub in a new home.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
        let mut hub = Self::start_in(dir.path().join("home"));
        hub._dir = Some(dir);
        hub
    }

    pub fn start_in(home: PathBuf) -> Self {
        let mut command = aye(&home);
        command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
        Self::start_with(command, home)
    }

    pub fn start_with(command: Command, home: PathBuf) -> Self {
        Self::try_start_with(command, home).expect("the hub ended before it listened")
    }

    /// None if it ends before it listens, as without its database.
    pub fn try_start_with(mut command: Command, home: PathBuf) -> Option<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        // Made before anything can fail, so that the hub ends with it.
        let mut hub =
            Self { home, address: String::new(), link: String::new(), child, _said: said, _dir: None };
        let mut line = || {
            let mut line = String::new();
            (hub._said.read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_owned())
        };
        let (first, second) = (line()?, line()?);
        let listens = first.strip_prefix("aye is listening on ").expect("the first line");
        hub.address = listens.split_once("://").expect("an address").1.to_owned();
        // With a public address, that is where the link leads.
        let link = second.split_whitespace().find(|word| word.contains("/sign-in#"));
        hub.link = link.expect("the sign-in link").to_owned();
        Some(hub)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: nothing is flushed, nothing is said.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and how the hub ended.
    pub fn stop(&mut self) -> ExitStatus {
        signal(&self.child, Signal::TERM);
        ended(&mut self.child)
    }

    /// The same home, with a new process.
    pub fn restart(&mut self) {
        let dir = self._dir.take();
        *self = Self::start_in(self.home.clone());
        self._dir = dir;
    }

    pub fn operator(&self) -> String {
        let token = std::fs::read_to_string(self.home.join("operator.token")).unwrap();
        token.trim().to_owned()
    }

    /// A token of this role, which must not be an agent's.
    pub fn token(&self, role: &str) -> String {
        let made = self.post("/api/tokens", &self.operator(), json!({"role": role, "name": role}));
        assert_eq!(made.status, 201, "{}", made.body);
        made.body["token"].as_str().unwrap().to_owned()
    }

    /// An agent's own token, made by the operator.
    pub fn agent(&self, id: &str) -> String {
        let made = self.post("/api/tokens", &self.operator(), json!({"role": "agent", "agent": id}));
        assert_eq!(made.status, 201, "{}", made.body);
        made.body["token"].as_str().unwrap().to_owned()
    }

    pub fn get(&self, path: &str, token: &str) -> Reply {
        self.call("GET", path, &[("Authorization", &format!("Bearer {token}"))], None)
    }

    pub fn post(&self, path: &str, token: &str, body: Value) -> Reply {
        self.send("POST", path, token, body)
    }

    pub fn put(&self, path: &str, token: &str, body: Value) -> Reply {
        self.send("PUT", path, token, body)
    }

    pub fn delete(&self, path: &str, token: &str) -> Reply {
        self.call("DELETE", path, &[("Authorization", &format!("Bearer {token}"))], None)
    }

    fn send(&self, method: &str, path: &str, token: &str, body: Value) -> Reply {
        let headers =
            [("Authorization", format!("Bearer {token}")), ("Content-Type", "application/json".to_owned())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.call(method, path, &headers, Some(body.to_string().as_bytes()))
    }

    /// A call with exactly these headers; `Host` is ours unless given. The operator's own token goes over the Unix socket.
    pub fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Reply {
        match self.has_owners_token(headers) {
            true => {
                let stream = self.connect_unix();
                stream.set_read_timeout(Some(2 * PATIENCE)).unwrap();
                call_on(stream, &self.address, method, path, headers, body)
            }
            false => try_call(&self.address, method, path, headers, body).unwrap(),
        }
    }

    /// Tells whether these headers carry the token that counts on the Unix socket only.
    fn has_owners_token(&self, headers: &[(&str, &str)]) -> bool {
        let Ok(token) = std::fs::read_to_string(self.home.join("operator.token")) else { return false };
        headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("authorization") && *value == format!("Bearer {}", token.trim())
        })
    }

    /// A WebSocket; `query` is empty or like `?after=3`.
    pub fn websocket(&self, token: &str, query: &str) -> WebSocket<TcpStream> {
        websocket(&self.address, token, query).unwrap()
    }

    /// A connection that fails a test rather than block it forever.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn connect_unix(&self) -> UnixStream {
        let stream = UnixStream::connect(aye::home::Home::at(&self.home).socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A call with JSON over the Unix socket; no token is sent where it is empty.
    pub fn call_unix(&self, method: &str, path: &str, token: &str, body: Value) -> Reply {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Content-Type", "application/json")];
        if !token.is_empty() {
            headers.push(("Authorization", bearer.as_str()));
        }
        call_on(self.connect_unix(), "localhost", method, path, &headers, Some(body.to_string().as_bytes()))
    }

    /// Sends these bytes as they are.
    pub fn raw(&self, request: &[u8]) -> Reply {
        exchange(self.connect(), request, &[], true).unwrap()
    }

    /// The ask as it is now.
    pub fn ask(&self, ask: &Value) -> Value {
        let found = self.get(&path_of(ask, ""), &self.operator());
        assert_eq!(found.status, 200, "{}", found.body);
        found.body
    }

    /// Who is recorded for answers given with the operator's token.
    pub fn person(&self) -> Value {
        self.get("/api/me", &self.operator()).body["name"].clone()
    }

    /// Registers an agent and returns it.
    pub fn register(&self, token: &str, agent: &str, profile: Value) -> Value {
        let registered = self.put(&format!("/api/agents/{agent}"), token, profile);
        assert_eq!(registered.status, 200, "{}", registered.body);
        registered.body
    }

    /// Raises an ask and returns it.
    pub fn raise(&self, token: &str, agent: &str, key: &str, kind: &str, body: Value) -> Value {
        let raise = json!({"key": key, "agent": agent, "kind": kind, "body": body});
        let raised = self.post("/api/asks", token, raise);
        assert_eq!(raised.status, 201, "{}", raised.body);
        raised.body
    }

    /// Has this agent ask until not even a short request is taken any more.
    pub fn fill(&self, agent: &str) {
        let token = self.agent(agent);
        let (mut length, mut n) = (3_900_000, 0);
        while length > 0 {
            let plan = json!({"plan": "x".repeat(length)});
            let raise = json!({"key": format!("fill-{n}"), "agent": agent, "kind": "plan", "body": plan});
            match self.post("/api/asks", &token, raise).status {
                201 => n += 1,
                status => {
                    assert_eq!(status, 429);
                    length /= 2;
                }
            }
        }
    }

    pub fn answer(&self, ask: &Value, answer: Value) -> Reply {
        let call = json!({"answer": answer, "digest": ask["digest"]});
        self.post(&path_of(ask, "/answer"), &self.operator(), call)
    }

    pub fn open_asks(&self) -> Vec<Value> {
        let list = self.get("/api/asks?state=open", &self.operator());
        list.body["asks"].as_array().unwrap().clone()
    }

    /// The open ask, once there is one.
    pub fn open_ask(&self) -> Value {
        eventually("an ask", || self.open_asks().into_iter().next())
    }

    /// Answers the open ask, once there is one, and returns it as it was.
    #[track_caller]
    pub fn answer_next(&self, answer: Value) -> Value {
        let ask = self.open_ask();
        let recorded = self.answer(&ask, answer);
        assert_eq!(recorded.status, 200, "{}", recorded.body);
        ask
    }

    /// The ask once this holds.
    pub fn once(&self, ask: &Value, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || Some(self.ask(ask)).filter(|ask| holds(ask)))
    }

    /// Runs a command against this hub.
    pub fn aye(&self, arguments: &[&str]) -> Output {
        aye(&self.home).args(arguments).output().unwrap()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long a second lasts on the stand-in for Telegram.
pub const TELEGRAM_SECOND: Duration = Duration::from_millis(20);

/// The program itself, in a home of its own and with nothing of ours in its environment.
pub fn aye(home: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aye"));
    command.env("AYE_HOME", home).env("AYE_LOG", "error").env_remove("AYE_URL").env_remove("AYE_TOKEN");
    command.env_remove("AYE_DATABASE_URL");
    command.env("AYE_TEST_TELEGRAM_SECOND", format!("{}ms", TELEGRAM_SECOND.as_millis()));
    command
}

pub fn path_of(ask: &Value, rest: &str) -> String {
    format!("/api/asks/{}{rest}", ask["id"].as_str().unwrap())
}

pub fn yes_or_no() -> Value {
    json!({"questions": [{"question": "Go on?", "options": [{"label": "yes"}, {"label": "no"}]}]})
}

pub fn saying(label: &str) -> Value {
    json!({"answers": [{"selected": [label]}]})
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Value,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// One request on one connection; the reply is read to its end.
pub fn call_on<S: Read + Write>(
    stream: S,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Reply {
    try_call_on(stream, host, method, path, headers, body).unwrap()
}

pub fn try_call(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> io::Result<Reply> {
    let stream = TcpStream::connect(address)?;
    // A long poll may take 50 seconds to say nothing.
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    try_call_on(stream, address, method, path, headers, body)
}

/// An error means that no whole reply came.
pub fn try_call_on<S: Read + Write>(
    stream: S,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> io::Result<Reply> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head += &format!("Host: {host}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(body) = body {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    exchange(stream, format!("{head}\r\n").as_bytes(), body.unwrap_or_default(), method != "HEAD")
}

/// Sends bytes as they are and reads the reply to its end; a reply that is cut off is an error.
fn exchange<S: Read + Write>(mut stream: S, head: &[u8], body: &[u8], has_body: bool) -> io::Result<Reply> {
    stream.write_all(head)?;
    // The hub may refuse a body before it has read all of it, and close.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let cut_off = || io::Error::new(ErrorKind::UnexpectedEof, "no whole reply");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(cut_off)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let reply =
        Reply { status, head: head.to_owned(), body: serde_json::from_str(body).unwrap_or(Value::Null) };
    let length = reply.header("content-length").map_or(0, |length| length.parse::<usize>().unwrap());
    if has_body && body.len() < length { Err(cut_off()) } else { Ok(reply) }
}

pub fn websocket(
    address: &str,
    token: &str,
    query: &str,
) -> Result<WebSocket<TcpStream>, tungstenite::Error> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let uri = format!("ws://{address}/api/ws{query}").parse().unwrap();
    let request = ClientRequestBuilder::new(uri).with_header("Authorization", format!("Bearer {token}"));
    match tungstenite::client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(error)) => Err(error),
        Err(tungstenite::HandshakeError::Interrupted(_)) => Err(io::Error::from(ErrorKind::TimedOut).into()),
    }
}

pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// How a process ended; one that does not end is an error.
pub fn ended(child: &mut Child) -> ExitStatus {
    eventually("the process to end", || child.try_wait().unwrap())
}

/// What a command printed, as text.
pub fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a command said on standard error.
pub fn complained(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

/// The JSON that a command printed, and nothing else.
pub fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Where the agent was told to write its plan; only it is.
pub fn plan_file(model: &aye_testkit::model::Model) -> PathBuf {
    let request = eventually("the first request", || model.requests().first().cloned()).to_string();
    let end = request.find(".md using the Write tool").expect("where the plan is to be written") + 3;
    let start = request[..end].rfind("plan at ").unwrap() + "plan at ".len();
    PathBuf::from(&request[start..end])
}

/// A version that has no auto mode, and tells the model of every plan that somebody edited it.
pub fn is_older_claude() -> bool {
    let version = Command::new(claude()).arg("--version").output().unwrap();
    version.stdout.starts_with(b"2.1.197 ")
}
