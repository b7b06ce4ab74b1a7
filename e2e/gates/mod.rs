//! Who gets in, and who may do what: any web page may reach loopback, and what an agent starts may too.

mod browsers;
mod escapes;
mod inside;
mod neighbours;
mod revoked;
mod roles;
mod room;
mod sessions;
mod tokens;

use crate::support::Hub;

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// A browser that has signed in: its cookie, and its page's token.
fn signed_in(hub: &Hub) -> (String, String) {
    let browser = hub.browser();
    let token = hub.page_token(&browser);
    (browser.cookie, token)
}

/// What each of two ways in says to a request with these headers: a plain read, and an upgrade.
fn read_and_upgrade(hub: &Hub, headers: &[(&str, &str)]) -> (u16, u16) {
    let upgraded = hub.try_follow("", headers).map_or_else(|status| status, |_| 101);
    (hub.call("GET", "/api/asks", headers, None).status, upgraded)
}
