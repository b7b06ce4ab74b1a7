//! Addresses in allow rules: scheme, host and path are matched separately, so no star matches across them. An address
//! that programs could interpret in different ways is never covered.

use crate::pattern::Glob;
use http::Uri;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlPattern {
    scheme: String,
    /// `None` if the pattern does not pin down the host; it then covers nothing.
    authority: Option<Authority>,
    path: Path,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    host: Vec<Label>,
    port: Port,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Label {
    /// `*`: one label, or at the start of a host any number of labels.
    Any,
    Like(Glob),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    /// The default port of the scheme.
    Usual,
    Exactly(u16),
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Path {
    path: Option<Glob>,
    query: Option<Glob>,
}

/// This many labels at the end of a host must be literal: `*rust-lang.org` would cover `evilrust-lang.org`.
const OWNED_LABELS: usize = 2;

impl UrlPattern {
    /// `None` if the text is no address pattern; those begin with a scheme and `://`.
    pub fn new(written: &str) -> Option<Self> {
        let (scheme, rest) = written.split_once("://")?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        if !is_scheme {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        Some(Self { authority: Authority::new(authority), path: Path::new(rest), scheme })
    }

    pub fn matches(&self, address: &str) -> bool {
        let (Some(authority), Some(address)) = (&self.authority, Address::read(address)) else {
            return false;
        };
        address.scheme == self.scheme && authority.matches(&address) && self.path.matches(&address)
    }

    /// A warning about the pattern, if it covers more than it seems to.
    pub fn danger(&self) -> Option<String> {
        let Some(authority) = &self.authority else {
            return Some(
                "it covers no address: write the host out, or begin it with `*.`, as in `https://*.example.org/*`"
                    .to_owned(),
            );
        };
        let written_out = authority.host.iter().rev().take_while(|label| !label.has_star()).count();
        let any_host = written_out < authority.host.len() && written_out < OWNED_LABELS;
        any_host.then(|| "dangerous: its host covers addresses of anybody".to_owned())
    }
}

impl Authority {
    fn new(authority: &str) -> Option<Self> {
        let authority = authority.to_ascii_lowercase();
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((_, "")) => (authority.as_str(), None),
            Some((ip, port)) => (&authority[..ip.len() + 2], Some(port.strip_prefix(':')?)),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority.as_str(), None),
            },
        };
        let port = match port {
            None => Port::Usual,
            Some("*") => Port::Any,
            Some(port) => Port::Exactly(port.parse().ok()?),
        };
        if host.starts_with('[') {
            return Some(Self { host: vec![Label::Like(Glob::literal(host))], port });
        }
        let label = |label: &str| match label {
            "*" => Some(Label::Any),
            label if label.is_empty() || !label.bytes().all(|b| is_host(b) || b == b'*') => None,
            label => Glob::new(label).ok().map(Label::Like),
        };
        let host: Vec<Label> = host.split('.').map(label).collect::<Option<_>>()?;
        let owned = &host[host.len().saturating_sub(OWNED_LABELS)..];
        let unclear = owned.iter().any(|label| matches!(label, Label::Like(glob) if glob.has_star()));
        (!unclear).then_some(Self { host, port })
    }

    fn matches(&self, address: &Address) -> bool {
        let port = match self.port {
            Port::Any => true,
            Port::Exactly(port) => address.port == Some(port),
            Port::Usual => address.port == usual_port(&address.scheme),
        };
        let labels: Vec<&str> = match address.host.starts_with('[') {
            true => vec![address.host.as_str()],
            false => address.host.split('.').collect(),
        };
        let (first, rest) = match self.host.as_slice() {
            [Label::Any, rest @ ..] if labels.len() > rest.len() => {
                labels.split_at(labels.len() - rest.len())
            }
            _ => (&labels[..0], labels.as_slice()),
        };
        let pattern = if first.is_empty() { self.host.as_slice() } else { &self.host[1..] };
        port && first.iter().all(|label| Label::Any.matches(label))
            && pattern.len() == rest.len()
            && pattern.iter().zip(rest).all(|(pattern, label)| pattern.matches(label))
    }
}

impl Label {
    fn has_star(&self) -> bool {
        match self {
            Label::Any => true,
            Label::Like(glob) => glob.has_star(),
        }
    }

    /// A star does not match a label in another script, which may look like a Latin one.
    fn matches(&self, label: &str) -> bool {
        let fits = match self {
            Label::Any => true,
            Label::Like(glob) => glob.matches(label),
        };
        fits && !(self.has_star() && label.starts_with("xn--"))
    }
}

impl Path {
    fn new(written: &str) -> Self {
        let written = written.split_once('#').map_or(written, |(before, _)| before);
        let (path, query) = match written.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (written, None),
        };
        let glob = |text: &str| Glob::literal_or_new(text);
        Self { path: glob(if path.is_empty() { "/" } else { path }), query: query.and_then(glob) }
    }

    /// A query must match the pattern's query; if the pattern has none, its path must end with a star.
    fn matches(&self, address: &Address) -> bool {
        let Some(path) = &self.path else { return false };
        let query = match (&self.query, &address.query) {
            (_, None) => self.query.as_ref().is_none_or(Glob::matches_everything),
            (Some(glob), Some(query)) => glob.matches(query),
            (None, Some(_)) => path.ends_open(),
        };
        query && path.matches(&address.path)
    }
}

/// An address that all programs interpret alike.
struct Address {
    scheme: String,
    host: String,
    port: Option<u16>,
    path: String,
    query: Option<String>,
}

impl Address {
    fn read(text: &str) -> Option<Self> {
        // Browsers drop tabs and line breaks, and treat a backslash as a slash.
        if !text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\') {
            return None;
        }
        let uri: Uri = text.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let authority = uri.authority()?;
        let host = authority.host().to_ascii_lowercase();
        let port = match authority.port_u16() {
            Some(port) => Some(port),
            None => usual_port(&scheme),
        };
        // Only a host and a port: no user name, no password, no malformed port.
        let plain = authority.as_str().len()
            == host.len() + authority.port().map_or(0, |port| port.as_str().len() + 1);
        let is_name =
            !host.is_empty() && host.split('.').all(|label| !label.is_empty() && label.bytes().all(is_host));
        let is_ip6 = host.starts_with('[') && host.ends_with(']');
        let path = uri.path().to_owned();
        let query = uri.query().map(ToOwned::to_owned);
        (plain && (is_name || is_ip6) && is_plain_path(&path)).then_some(Self {
            scheme,
            host,
            port,
            path,
            query,
        })
    }
}

fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    }
}

fn is_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// No `..`, no encoded slash, and no brackets: curl expands `/a/{..}/b` to `/b`.
fn is_plain_path(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let hidden = path.contains(['{', '}', '[', ']'])
        || ["%2f", "%5c", "%25", "%00", "%0a", "%0d"].iter().any(|code| lower.contains(code));
    let dots = lower.replace("%2e", ".");
    !hidden && !dots.split('/').any(|name| matches!(name.split(';').next(), Some("." | "..")))
}

/// Whether a text looks like an address.
pub fn looks_like_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.trim_start().split_once(':') else { return false };
    let is_scheme =
        scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_web || (is_scheme && rest.starts_with(['/', '\\']))
}

/// Whether a field holds an address, by its name.
pub fn is_address_field(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["url", "uri", "href"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let url = UrlPattern::new(pattern).unwrap();
        for address in matching {
            assert!(url.matches(address), "{pattern:?} should cover {address:?}");
        }
        for address in others {
            assert!(!url.matches(address), "{pattern:?} should not cover {address:?}");
        }
    }

    #[test]
    fn a_star_in_the_host_stays_in_the_host_and_stands_for_whole_names() {
        check(
            "https://*.rust-lang.org/*",
            &[
                "https://doc.rust-lang.org/",
                "https://doc.rust-lang.org",
                "https://a.b.rust-lang.org/std/vec/?q=1#x",
                "HTTPS://DOC.Rust-Lang.org/std",
                "https://doc.rust-lang.org:443/std",
            ],
            &[
                "https://evil.example/.rust-lang.org/",
                "https://evil.example/x.rust-lang.org/",
                "https://evil.example?.rust-lang.org/",
                "https://evil.example#.rust-lang.org/",
                "https://evil.example\\.rust-lang.org/",
                "https://evil.example\\@doc.rust-lang.org/",
                "https://evil.example%2f.rust-lang.org/",
                "https://evil.example%00.rust-lang.org/",
                "https://doc.rust-lang.org@evil.example/",
                "https://doc.rust-lang.org:x@evil.example/",
                "https://user@doc.rust-lang.org/",
                "https://:pw@doc.rust-lang.org/",
                "https://@doc.rust-lang.org/",
                "https://rust-lang.org/",
                "https://evilrust-lang.org/",
                "https://.rust-lang.org/",
                "https://doc..rust-lang.org/",
                "https://doc.rust-lang.org./",
                "https://doc.rust-lang.org.evil.example/",
                "https://doc.rust-lang.org:8443/",
                "https://doc.rust-lang.org:/",
                "https://doc.rust-lang.org:443x/",
                "http://doc.rust-lang.org/",
                "httpsx://doc.rust-lang.org/",
                "ftp://doc.rust-lang.org/",
                "//doc.rust-lang.org/",
                "doc.rust-lang.org/",
                "https:doc.rust-lang.org/",
                "https:/doc.rust-lang.org/",
                "https:///doc.rust-lang.org/",
                " https://doc.rust-lang.org/",
                "https://doc.rust-lang.org/ ",
                "https://doc.rust-lang.org/\n",
                "https://d\toc.rust-lang.org/",
                "https://xn--dc-yka.rust-lang.org/",
                "https://dоc.rust-lang.org/",
                "https://doc。rust-lang.org/",
                "https://doc.rust-lang.org/a/../b",
                "https://doc.rust-lang.org/a/%2e%2E/b",
                "https://doc.rust-lang.org/a/.%2e/b",
                "https://doc.rust-lang.org/a%2fb",
                "https://doc.rust-lang.org/a%5cb",
                "https://doc.rust-lang.org/%252e%252e/",
                "https://doc.rust-lang.org/a/{..}/b",
                "https://doc.rust-lang.org/a/{.,x}./b",
                "https://doc.rust-lang.org/[1-3]",
                "",
            ],
        );
    }

    #[test]
    fn a_path_is_held_against_the_path_alone() {
        check(
            "https://docs.example/api/*",
            &["https://docs.example/api/x", "https://docs.example/api/x/y?z=1"],
            &["https://docs.example/", "https://docs.example/apix", "https://docs.example/?/api/x"],
        );
        check(
            "https://docs.example/*/end",
            &["https://docs.example/a/b/end"],
            &["https://docs.example/a?/end", "https://docs.example/a/end?x", "https://docs.example/a#/end"],
        );
        check(
            "https://docs.example",
            &["https://docs.example/", "https://docs.example"],
            &["https://docs.example/x"],
        );
        check(
            "https://docs.example/find?q=*",
            &["https://docs.example/find?q=a"],
            &["https://docs.example/find", "https://docs.example/find?x&q=a"],
        );
    }

    #[test]
    fn ports_and_hosts_are_those_that_are_written() {
        check(
            "http://localhost:8080/*",
            &["http://localhost:8080/x"],
            &["http://localhost/x", "http://localhost:80/"],
        );
        check(
            "http://localhost:*/*",
            &["http://localhost/x", "http://localhost:1/"],
            &["http://localhost.evil/x"],
        );
        check(
            "http://127.0.0.1/*",
            &["http://127.0.0.1/", "http://127.0.0.1:80/"],
            &["http://2130706433/", "http://0177.0.0.1/"],
        );
        check("http://[::1]:3000/*", &["http://[::1]:3000/x"], &["http://[::2]:3000/x", "http://[::1]/x"]);
        check(
            "https://api-*.example.org/*",
            &["https://api-1.example.org/"],
            &["https://api-1.x.example.org/", "https://x.example.org/"],
        );
        check(
            "https://a.*.example.org/*",
            &["https://a.b.example.org/"],
            &["https://a.example.org/", "https://a.b.c.example.org/"],
        );
        check("https://*/*", &["https://a.example/x"], &["http://a.example/x", "https://u@a.example/x"]);
    }

    #[test]
    fn a_host_that_is_not_clear_covers_nothing_and_says_so() {
        for pattern in [
            "https://*rust-lang.org/*",
            "https://docs.rs*",
            "https://rust-lang.*x/",
            "https://a@b/*",
            "https:///x",
            "https://ä.org/*",
        ] {
            let url = UrlPattern::new(pattern).unwrap();
            assert!(url.authority.is_none(), "{pattern}");
            assert!(url.danger().unwrap().starts_with("it covers no address"));
        }
        check("https://*rust-lang.org/*", &[], &["https://evilrust-lang.org/", "https://rust-lang.org/"]);
        for pattern in ["https://*/*", "https://*.org/*", "https://example.*/"] {
            assert!(
                UrlPattern::new(pattern).unwrap().danger().unwrap().starts_with("dangerous"),
                "{pattern}"
            );
        }
        assert_eq!(UrlPattern::new("https://*.example.org/*").unwrap().danger(), None);
        for other in ["*://x", "http*://x/", "/src/*", "*.org", "1http://x"] {
            assert_eq!(UrlPattern::new(other), None, "{other}");
        }
    }
}
