//! What every request must pass before anything else looks at it. Any web page can send requests to loopback: a
//! Host that resolves here need not be ours, and a page of another origin must not use a person's browser to call us.

use super::App;
use super::caller::has_session_cookie;
use super::json::Failure;
use crate::url::HubUrl;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The names under which we may be called: loopback always, else what we listen on and our public name.
#[derive(Debug, Default)]
pub struct AllowedHosts {
    /// Whether we speak TLS ourselves.
    tls: bool,
    address: Option<IpAddr>,
    public: Option<HubUrl>,
}

impl AllowedHosts {
    pub fn of(listen: SocketAddr, tls: bool, public: Option<HubUrl>) -> Self {
        // Nobody calls us by the unspecified address.
        let address = Some(listen.ip()).filter(|address| !address.is_unspecified());
        Self { tls, address, public }
    }

    fn allows(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else {
            return false;
        };
        let address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            None => name.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        };
        address.is_some_and(|address| address.is_loopback() || Some(address) == self.address)
            || name.eq_ignore_ascii_case("localhost")
            || self.public_at(name).is_some()
    }

    fn public_at(&self, name: &str) -> Option<&HubUrl> {
        self.public.as_ref().filter(|public| name.eq_ignore_ascii_case(public.host()))
    }

    /// A page is ours if it came from where the request goes, by the scheme that is spoken there: at the
    /// public name a proxy may speak TLS for us. A proxy may also put its own name for us into Host.
    pub fn allows_origin(&self, origin: &str, host: &str) -> bool {
        let ours = if self.tls { "https" } else { "http" };
        let scheme = without_port(host).and_then(|name| self.public_at(name)).map_or(ours, HubUrl::scheme);
        let from_public = self.public.as_ref().is_some_and(|public| origin == public.to_string());
        from_public || origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")) == Some(host)
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
    match check(&app.hosts, request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

fn check(hosts: &AllowedHosts, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
    let forbidden = |why: &str| Failure::new(StatusCode::FORBIDDEN, why);
    let host =
        single(headers, &header::HOST).ok_or_else(|| forbidden("the Host header is missing or repeated"))?;
    if !hosts.allows(host) || uri.authority().is_some_and(|named| named.as_str() != host) {
        return Err(forbidden("this hub does not answer to that Host"));
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = single(headers, &header::ORIGIN).unwrap_or_default();
        if !hosts.allows_origin(origin, host) {
            return Err(forbidden("pages from another origin may not call this hub"));
        }
    } else if has_session_cookie(headers) && !is_plain_read(method, headers) {
        return Err(forbidden("a request with a cookie must say its Origin"));
    }
    let has_body = matches!(*method, Method::POST | Method::PUT | Method::PATCH) && !is_empty(headers);
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

/// Requests without a body, such as an interrupt, need no Content-Type.
fn is_empty(headers: &HeaderMap) -> bool {
    let length = single(headers, &header::CONTENT_LENGTH);
    !headers.contains_key(header::TRANSFER_ENCODING) && length.is_none_or(|length| length == "0")
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

    fn at(listen: &str, tls: bool, public: &str) -> AllowedHosts {
        AllowedHosts::of(listen.parse().unwrap(), tls, HubUrl::try_from(public.to_owned()).ok())
    }

    fn allows(host: &str) -> bool {
        at("127.0.0.1:7177", false, "https://aye.example").allows(host)
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

    #[test]
    fn what_we_listen_on_is_a_name_of_ours_and_any_address_is_not() {
        let four = at("192.168.0.9:7177", true, "");
        assert!(four.allows("192.168.0.9:7177") && four.allows("192.168.0.9") && four.allows("localhost"));
        assert!(!four.allows("192.168.0.8:7177") && !four.allows("aye.example") && !four.allows("0.0.0.0"));
        let six = at("[fd00::9]:7177", true, "");
        assert!(six.allows("[fd00::9]:7177") && six.allows("[FD00:0::9]") && !six.allows("fd00::9"));
        assert!(!at("0.0.0.0:7177", true, "").allows("0.0.0.0:7177"));
        assert!(!at("[::]:7177", true, "").allows("[::]:7177"));
    }

    #[test]
    fn a_page_is_ours_only_by_the_scheme_that_is_spoken_there() {
        let plain = at("127.0.0.1:7177", false, "");
        assert!(plain.allows_origin("http://127.0.0.1:7177", "127.0.0.1:7177"));
        assert!(plain.allows_origin("http://localhost:7177", "localhost:7177"));
        for origin in ["https://127.0.0.1:7177", "http://127.0.0.1:1", "http://evil", "null", "", "http://"] {
            assert!(!plain.allows_origin(origin, "127.0.0.1:7177"), "{origin}");
        }
        let tls = at("10.0.0.1:7177", true, "");
        assert!(tls.allows_origin("https://10.0.0.1:7177", "10.0.0.1:7177"));
        assert!(!tls.allows_origin("http://10.0.0.1:7177", "10.0.0.1:7177"));
    }

    #[test]
    fn behind_a_proxy_the_public_name_has_the_public_scheme() {
        let proxied = at("10.0.0.1:7177", false, "https://aye.example");
        assert!(proxied.allows_origin("https://aye.example", "aye.example"));
        // Some proxies put their own name for us into Host.
        assert!(proxied.allows_origin("https://aye.example", "10.0.0.1:7177"));
        assert!(proxied.allows_origin("http://10.0.0.1:7177", "10.0.0.1:7177"));
        assert!(!proxied.allows_origin("http://aye.example", "aye.example"));
        assert!(!proxied.allows_origin("https://aye.example.evil", "aye.example"));
    }
}
