//! A hub that other machines reach: by TLS of its own, or behind a proxy that speaks it.

use crate::support::browser::Browser;
use crate::support::{Reply, aye, call_on};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tungstenite::client::IntoClientRequest;

/// A hub on a free port, with what it printed.
struct Hub {
    home: PathBuf,
    scheme: String,
    address: String,
    link: String,
    child: Child,
}

impl Hub {
    fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut command = up(home, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line = || lines.next().expect("the hub ended before it listened").unwrap();
        let first = line();
        let (scheme, address) =
            first.strip_prefix("aye is listening on ").unwrap().split_once("://").unwrap();
        let (scheme, address) = (scheme.to_owned(), address.to_owned());
        let link = line().split_once("minutes): ").unwrap().1.to_owned();
        Self { home: home.to_owned(), scheme, address, link, child }
    }

    fn port(&self) -> &str {
        self.address.rsplit_once(':').unwrap().1
    }

    /// A token for the network; the one in `operator.token` is for the Unix socket.
    fn operator(&self) -> String {
        let made = aye(&self.home).args(["token", "create", "--role", "operator"]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(format!("127.0.0.1:{}", self.port())).unwrap()
    }

    fn plainly(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        call_on(self.connect(), &self.address, "GET", path, headers, None)
    }

    fn by_tls(&self, made: &Made, path: &str, headers: &[(&str, &str)]) -> Reply {
        call_on(made.wrap(self.connect()), &self.address, "GET", path, headers, None)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn up(home: &Path, arguments: &[&str]) -> Command {
    let mut command = aye(home);
    command.args(["up", "--no-open"]).args(arguments);
    command
}

fn refusal(home: &Path, arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = up(home, arguments).output().unwrap();
    assert_eq!(status.code(), Some(1));
    String::from_utf8(stderr).unwrap()
}

/// A certificate for loopback, in files.
struct Made {
    certified: CertifiedKey<KeyPair>,
    certificate: String,
    key: String,
}

impl Made {
    fn in_folder(folder: &Path) -> Self {
        let names = ["localhost", "127.0.0.1", "aye.example"].map(str::to_owned);
        let certified = generate_simple_self_signed(names).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let (certificate, key) = (path("cert.pem"), path("key.pem"));
        std::fs::write(&certificate, certified.cert.pem()).unwrap();
        std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
        Self { certified, certificate, key }
    }

    fn flags(&self) -> [&str; 4] {
        ["--tls-cert", &self.certificate, "--tls-key", &self.key]
    }

    fn wrap(&self, stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certified.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
    }
}

fn home() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    (dir, home)
}

fn public_at(home: &Path, url: &str) {
    std::fs::write(home.join("config.toml"), format!("[hub]\npublic_url = \"{url}\"\n")).unwrap();
}

#[test]
fn with_a_certificate_nothing_but_tls_is_spoken() {
    let (dir, home) = home();
    let made = Made::in_folder(dir.path());
    let hub = Hub::start(&home, &[&["--listen", "127.0.0.1:0"], &made.flags()[..]].concat());
    assert_eq!(hub.scheme, "https");
    assert!(hub.link.starts_with(&format!("https://{}/sign-in#", hub.address)), "{}", hub.link);

    let health = hub.by_tls(&made, "/api/health", &[]);
    assert_eq!((health.status, health.body["status"].as_str()), (200, Some("ok")));
    assert_eq!(hub.by_tls(&made, "/api/health", &[("Host", "evil.example")]).status, 403);

    let mut plain = hub.connect();
    plain.write_all(format!("GET /api/health HTTP/1.1\r\nHost: {}\r\n\r\n", hub.address).as_bytes()).unwrap();
    let mut reply = Vec::new();
    let _ = plain.read_to_end(&mut reply);
    assert!(!String::from_utf8_lossy(&reply).contains("HTTP/"), "{reply:?}");
}

#[test]
fn with_tls_the_cookie_is_secure_and_pages_come_by_https() {
    let (dir, home) = home();
    let made = Made::in_folder(dir.path());
    let hub = Hub::start(&home, &[&["--listen", "127.0.0.1:0"], &made.flags()[..]].concat());
    let call = |method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>| {
        call_on(made.wrap(hub.connect()), &hub.address, method, path, headers, body)
    };
    let origin = format!("https://{}", hub.address);
    let browser = Browser::sign_in(&hub.link, &origin, &call).unwrap_or_else(|reply| panic!("{reply:?}"));
    let cookie = browser.signed_in.header("set-cookie").unwrap();
    assert!(cookie.contains("; Secure") && cookie.contains("; HttpOnly"), "{cookie}");

    let session = &*browser.cookie;
    let page = &*browser.token(&call);
    let from = |origin: &str| {
        let headers = [("Cookie", session), ("Aye-Page", page), ("Origin", origin)];
        hub.by_tls(&made, "/api/asks", &headers).status
    };
    assert_eq!(from(&format!("https://{}", hub.address)), 200);
    assert_eq!(from(&format!("http://{}", hub.address)), 403);
    assert_eq!(from("https://evil.example"), 403);

    let mut request = format!("wss://{}/api/ws", hub.address).into_client_request().unwrap();
    let headers = [("Cookie", session.to_owned()), ("Aye-Page", page.to_owned()), ("Origin", origin)];
    for (name, value) in headers {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let (mut socket, _) = tungstenite::client(request, made.wrap(hub.connect())).unwrap();
    assert!(socket.read().unwrap().to_text().unwrap().contains("snapshot"));
}

#[test]
fn commands_reach_a_hub_by_tls_if_they_trust_its_certificate() {
    let (dir, home) = home();
    let made = Made::in_folder(dir.path());
    let hub = Hub::start(&home, &[&["--listen", "0.0.0.0:0"], &made.flags()[..]].concat());
    let elsewhere = dir.path().join("elsewhere");
    let list = |ca: Option<&str>| {
        let mut command = aye(&elsewhere);
        command.args(["list", "--json"]).env("AYE_TOKEN", hub.operator());
        command.env("AYE_URL", format!("https://localhost:{}", hub.port())).env_remove("AYE_CA_FILE");
        ca.map(|path| command.env("AYE_CA_FILE", path));
        command.output().unwrap()
    };
    let trusting = list(Some(&made.certificate));
    assert!(trusting.status.success(), "{trusting:?}");
    assert_eq!(
        String::from_utf8(trusting.stdout).unwrap().replace(char::is_whitespace, ""),
        r#"{"asks":[]}"#
    );
    let wary = String::from_utf8(list(None).stderr).unwrap();
    assert!(wary.contains("UnknownIssuer") && wary.contains("AYE_CA_FILE"), "{wary}");
    let wrong = String::from_utf8(list(Some(&made.key)).stderr).unwrap();
    assert!(wrong.contains("holds no certificate"), "{wrong}");
}

#[test]
fn other_machines_are_not_served_in_the_clear() {
    let (dir, home) = home();
    let said = refusal(&home, &["--listen", "0.0.0.0:0"]);
    assert!(said.contains("--tls-cert") && said.contains("--behind-proxy"), "{said}");
    assert!(refusal(&home, &["--listen", "[::]:0"]).contains("--tls-cert"));

    let made = Made::in_folder(dir.path());
    let missing = refusal(&home, &["--tls-cert", "/nowhere/cert.pem", "--tls-key", &made.key]);
    assert!(missing.contains("cannot read the certificate /nowhere/cert.pem"), "{missing}");
    let half = up(&home, &["--tls-cert", &made.certificate]).output().unwrap();
    assert_eq!(half.status.code(), Some(1));
    public_at(&home, "http://aye.example");
    assert!(refusal(&home, &made.flags()).contains("public_url says http://aye.example"));
    assert!(!home.join("aye.db").exists(), "what is refused changes nothing");
}

#[test]
fn behind_a_proxy_the_public_name_counts_and_what_a_proxy_adds_does_not() {
    let (_dir, home) = home();
    let proxied = ["--listen", "0.0.0.0:0", "--behind-proxy"];
    let said = refusal(&home, &proxied);
    assert!(said.contains("public_url") && said.contains("config.toml"), "{said}");
    public_at(&home, "https://aye.example/aye");
    assert!(refusal(&home, &proxied).contains("must look like"));

    public_at(&home, "https://aye.example");
    let hub = Hub::start(&home, &proxied);
    assert_eq!(hub.scheme, "http");
    assert!(hub.link.starts_with("https://aye.example/sign-in#"), "{}", hub.link);
    let health = |headers: &[(&str, &str)]| hub.plainly("/api/health", headers).status;
    assert_eq!(health(&[("Host", "aye.example")]), 200);
    assert_eq!(health(&[("Host", "evil.example")]), 403);
    assert_eq!(health(&[("Host", "evil.example"), ("X-Forwarded-Host", "aye.example")]), 403);
    assert_eq!(health(&[("Host", "aye.example"), ("X-Forwarded-Host", "evil.example")]), 200);

    let call = |method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>| {
        let proxied = [headers, &[("Host", "aye.example"), ("X-Forwarded-Proto", "http")]].concat();
        call_on(hub.connect(), &hub.address, method, path, &proxied, body)
    };
    let browser = Browser::sign_in(&hub.link, "https://aye.example", &call);
    let browser = browser.unwrap_or_else(|reply| panic!("{reply:?}"));
    let cookie = browser.signed_in.header("set-cookie").unwrap();
    assert!(cookie.contains("; Secure"), "{cookie}");
    let (session, page) = (&*browser.cookie, &*browser.token(&call));
    let from = |origin: &str| {
        let headers = [("Host", "aye.example"), ("Cookie", session), ("Aye-Page", page), ("Origin", origin)];
        hub.plainly("/api/asks", &headers).status
    };
    assert_eq!(from("https://aye.example"), 200);
    assert_eq!(from("http://aye.example"), 403);
    assert_eq!(from("https://evil.example"), 403);

    // Wrong tokens are counted by who connects, whoever they say they are.
    let wrong = |n: u8| {
        let from = format!("10.0.0.{n}");
        let headers =
            [("Host", "aye.example"), ("Authorization", "Bearer aye_x_y"), ("X-Forwarded-For", &*from)];
        hub.plainly("/api/asks", &headers).status
    };
    assert!((0..20).all(|n| wrong(n) == 401));
    assert_eq!(wrong(20), 429);
}

#[test]
fn a_service_file_is_written_for_what_would_run_and_starts_nothing() {
    let (dir, home) = home();
    let config = dir.path().join("config");
    let install = |arguments: &[&str]| {
        let arguments = [arguments, &["--install-service"]].concat();
        up(&home, &arguments).env("XDG_CONFIG_HOME", &config).env("HOME", dir.path()).output().unwrap()
    };
    assert!(!install(&["--listen", "0.0.0.0:7177"]).status.success());
    assert!(!config.exists());

    let done = install(&["--listen", "127.0.0.1:7188"]);
    assert!(done.status.success(), "{done:?}");
    assert!(!home.join("aye.db").exists());
    if cfg!(target_os = "linux") {
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(said.contains("systemctl --user enable --now aye"), "{said}");
        let unit = std::fs::read_to_string(config.join("systemd/user/aye.service")).unwrap();
        assert!(unit.contains(r#""up" "--no-open" "--listen" "127.0.0.1:7188""#), "{unit}");
        assert!(unit.contains(&format!("\"AYE_HOME={}\"", home.display())), "{unit}");
        let again = install(&["--listen", "127.0.0.1:7188"]);
        assert!(String::from_utf8(again.stdout).unwrap().contains("unchanged"));
    }
}
