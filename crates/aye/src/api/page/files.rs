//! The page's files, which are part of the program. Their names carry a hash of their content, all but that
//! of the page itself, so browsers keep them forever and still never show an old one.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

pub struct File {
    name: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

#[cfg(feature = "web")]
include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Without the page there is still something to say to a browser.
#[cfg(not(feature = "web"))]
static FILES: &[File] = &[File { name: "index.html", plain: include_bytes!("placeholder.html"), gzip: &[] }];

/// Everything is loaded from here, and nothing in the page may be written as code.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
     require-trusted-types-for 'script'; trusted-types svelte-trusted-html";
const FOR_EVER: &str = "public, max-age=31536000, immutable";

pub fn file(name: &str, asked: &HeaderMap) -> Option<Response> {
    let file = FILES.iter().find(|file| file.name == name)?;
    let compressed = !file.gzip.is_empty() && takes_gzip(asked);
    let mut response = if compressed { file.gzip } else { file.plain }.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind(name)));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    match name {
        "index.html" => {
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY))
        }
        _ => headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(FOR_EVER)),
    };
    Some(response)
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    let values = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| coding.trim() == "gzip")
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
