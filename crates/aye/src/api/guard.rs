//! What every request must pass before anything else looks at it. Any web page may reach loopback:
//! a name that points here is not thereby ours, and a page from elsewhere may not speak through a
//! person's browser.

use super::App;
use super::caller::has_session_cookie;
use super::json::Failure;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, Ipv6Addr};

/// The names under which we may be called.
pub struct AllowedHosts {
    names: Vec<String>,
}

impl AllowedHosts {
    /// Loopback addresses and `localhost` always; others only by name.
    pub fn loopback_and(names: Vec<String>) -> Self {
        Self { names }
    }

    fn allows(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else {
            return false;
        };
        let address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            None => name.parse::<std::net::Ipv4Addr>().ok().map(IpAddr::V4),
        };
        address.is_some_and(|address| address.is_loopback())
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|allowed| name.eq_ignore_ascii_case(allowed))
    }
}

/// The host without its port; none if the port is not one.
fn without_port(host: &str) -> Option<&str> {
    let end = host.rfind(']').map_or(0, |bracket| bracket + 1);
    match host[end..].find(':') {
        None => Some(host),
        Some(colon) => host[end + colon + 1..].parse::<u16>().is_ok().then(|| &host[..end + colon]),
    }
}

pub async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    match check(&app.hosts, &app.url, request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

fn check(
    hosts: &AllowedHosts,
    url: &str,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Failure> {
    let forbidden = |why: &str| Failure::new(StatusCode::FORBIDDEN, why);
    let host = single(headers, &header::HOST)
        .ok_or_else(|| forbidden("the Host header is missing or stands twice"))?;
    if !hosts.allows(host) || uri.authority().is_some_and(|named| named.as_str() != host) {
        return Err(forbidden("this hub does not answer to that Host"));
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = single(headers, &header::ORIGIN).unwrap_or_default();
        let scheme = url.split("://").next().unwrap_or_default();
        if origin != url
            && origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")) != Some(host)
        {
            return Err(forbidden("pages from another origin may not call this hub"));
        }
    } else if has_session_cookie(headers) && !is_plain_read(method, headers) {
        return Err(forbidden("a request with a cookie must say its Origin"));
    }
    let has_body = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    if has_body && !is_json(headers) {
        let why = "send JSON, with the header Content-Type: application/json";
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Ok(())
}

/// Browsers leave Origin out of same-origin reads and of links typed by hand, and say so in a header
/// that no page can forge.
fn is_plain_read(method: &Method, headers: &HeaderMap) -> bool {
    let site = single(headers, &HeaderName::from_static("sec-fetch-site"));
    matches!(*method, Method::GET | Method::HEAD)
        && !headers.contains_key(header::UPGRADE)
        && matches!(site, Some("same-origin" | "none"))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = single(headers, &header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(host: &str) -> bool {
        AllowedHosts::loopback_and(vec!["aye.example".into()]).allows(host)
    }

    #[test]
    fn loopback_by_any_of_its_addresses_and_our_own_name_are_allowed() {
        for host in [
            "localhost",
            "LOCALHOST:7177",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.9.9.9:1",
            "[::1]",
            "[::1]:7177",
            "aye.example",
        ] {
            assert!(allows(host), "{host}");
        }
    }

    #[test]
    fn names_that_only_look_like_loopback_are_not() {
        for host in [
            "",
            "evil",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "127.0.0.1:7177.evil.com",
            "evil.com:7177",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "0.0.0.0",
            "[::]",
            "[::ffff:10.0.0.1]",
            "::1",
            "192.168.0.1",
            "localhost:99999",
            "localhost:",
            "localhost:7177:7177",
            "user@localhost",
            "[::1",
            "aye.example.evil",
            "[::1]x",
        ] {
            assert!(!allows(host), "{host}");
        }
    }
}
