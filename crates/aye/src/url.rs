//! Where a hub is reached: a scheme, a host, perhaps a port, and nothing else.

use hyper::http::uri::Authority;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;

/// Written the way browsers write an Origin: in lower case, without a port that goes without saying.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct HubUrl {
    tls: bool,
    /// An IPv6 address is in brackets.
    host: String,
    port: u16,
}

impl HubUrl {
    /// A well-known host on the usual port.
    pub fn https(host: &str) -> Self {
        Self { tls: true, host: host.to_owned(), port: default_port(true) }
    }

    pub fn is_tls(&self) -> bool {
        self.tls
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// What one connects to.
    pub fn address(&self) -> (&str, u16) {
        (self.host.trim_start_matches('[').trim_end_matches(']'), self.port)
    }

    /// As in a Host header.
    pub fn authority(&self) -> String {
        match self.port == default_port(self.tls) {
            true => self.host.clone(),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

impl fmt::Display for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority())
    }
}

impl TryFrom<String> for HubUrl {
    type Error = String;

    fn try_from(url: String) -> Result<Self, String> {
        let read = || {
            let (scheme, rest) = url.split_once("://")?;
            let tls = match scheme.to_ascii_lowercase().as_str() {
                "https" => true,
                "http" => false,
                _ => return None,
            };
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            let authority: Authority = rest.parse().ok().filter(|_| !rest.contains('@'))?;
            let host = authority.host().to_ascii_lowercase();
            let port = match rest.strip_prefix(authority.host())? {
                "" => default_port(tls),
                port => port.strip_prefix(':')?.parse().ok().filter(|port| *port != 0)?,
            };
            (!host.is_empty()).then_some(Self { tls, host, port })
        };
        let wrong = || format!("must look like http://127.0.0.1:7177 or https://aye.example, not {url:?}");
        read().ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_browsers_write_it() {
        for (given, written) in [
            ("https://aye.example", "https://aye.example"),
            ("HTTPS://Aye.Example:443/", "https://aye.example"),
            ("http://aye.example:80", "http://aye.example"),
            ("https://aye.example:8443", "https://aye.example:8443"),
            ("http://127.0.0.1:7177", "http://127.0.0.1:7177"),
            ("https://[::1]:7177", "https://[::1]:7177"),
        ] {
            assert_eq!(HubUrl::try_from(given.to_owned()).unwrap().to_string(), written);
        }
        let six = HubUrl::try_from("https://[::1]".to_owned()).unwrap();
        assert_eq!((six.address(), six.host()), (("::1", 443), "[::1]"));
    }

    #[test]
    fn what_is_more_or_less_than_an_address_is_refused() {
        for wrong in [
            "",
            "aye.example",
            "ftp://aye.example",
            "https://",
            "https:///",
            "https://aye.example/path",
            "https://aye.example?x=1",
            "https://aye.example#x",
            "https://user@aye.example",
            "https://aye.example:",
            "https://aye.example:0",
            "https://aye.example:99999",
            "https://aye.example:7177:7177",
            "https://aye example",
            "https://[::1",
            "https://a.example//",
        ] {
            assert!(HubUrl::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
