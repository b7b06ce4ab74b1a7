//! HTTP on loopback: one thread a connection, kept alive as clients like it.

use super::Fault;
use super::calls::{self, Reply};
use super::state::Shared;
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Longer than any call waits.
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// Ends with the test's process.
pub fn serve(listener: TcpListener, shared: Arc<Shared>) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = shared.clone();
            thread::spawn(move || converse(stream, &shared));
        }
    });
}

fn converse(stream: TcpStream, shared: &Shared) -> Option<()> {
    stream.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (path, kind, body) = request(&mut reader)?;
        if let Some(id) = path.strip_prefix(&format!("/file/bot{}/photos/", shared.token)) {
            let found = shared.state().files.get(id).cloned();
            let (status, bytes) = found.map_or((404, vec![]), |bytes| (200, bytes));
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", bytes.len());
            writer.write_all(head.as_bytes()).ok()?;
            writer.write_all(&bytes).ok()?;
            continue;
        }
        let (status, reply) = match answer(shared, &path, &kind, &body) {
            Answer::Reply((status, reply)) => (status, reply.to_string()),
            Answer::Html(status) => (status, "<html>Bad Gateway</html>".to_owned()),
            Answer::Close => return None,
            Answer::Hang => {
                // Until the client has had enough.
                shared.state().hanging += 1;
                let gone = reader.read_to_end(&mut Vec::new());
                shared.state().hanging -= 1;
                gone.ok()?;
                return None;
            }
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            reply.len()
        );
        writer.write_all(format!("{head}{reply}").as_bytes()).ok()?;
    }
}

enum Answer {
    Reply(Reply),
    Html(u16),
    Close,
    Hang,
}

fn answer(shared: &Shared, path: &str, kind: &str, body: &[u8]) -> Answer {
    let Some(method) = path.strip_prefix(&format!("/bot{}/", shared.token)) else {
        return Answer::Reply(calls::error(401, "Unauthorized"));
    };
    let body = match kind.strip_prefix("multipart/form-data; boundary=") {
        Some(boundary) => multipart(body, boundary),
        None => serde_json::from_slice(body).unwrap_or_default(),
    };
    let chat =
        body["chat_id"].as_i64().or_else(|| body["chat_id"].as_str().and_then(|chat| chat.parse().ok()));
    let fault = {
        let mut state = shared.state();
        state.calls.push(method.to_owned());
        state.fault(method)
    };
    match fault {
        None => Answer::Reply(calls::call(shared, method, &body)),
        Some(Fault::TooMany(seconds)) => {
            if let Some(chat) = chat {
                shared.state().hush(chat, seconds, shared.now());
            }
            Answer::Reply(calls::too_many(seconds))
        }
        Some(Fault::BadGateway) => Answer::Html(502),
        Some(Fault::CloseBefore) => Answer::Close,
        Some(Fault::CloseAfter) => {
            calls::call(shared, method, &body);
            Answer::Close
        }
        Some(Fault::HangBefore) => Answer::Hang,
        Some(Fault::HangAfter) => {
            calls::call(shared, method, &body);
            Answer::Hang
        }
        Some(Fault::Refuse(code, words)) => Answer::Reply(calls::error(code, &words)),
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut kind) = (0, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "content-type" => kind = value.trim().to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, kind, body))
}

/// Fields as strings; a file as its name and text.
fn multipart(body: &[u8], boundary: &str) -> Value {
    let text = String::from_utf8_lossy(body).into_owned();
    let mut fields = Map::new();
    for part in text.split(&format!("--{boundary}")) {
        let Some((head, content)) = part.split_once("\r\n\r\n") else { continue };
        let quoted = |name: &str| {
            let (_, rest) = head.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(value, _)| value.to_owned())
        };
        let content = content.strip_suffix("\r\n").unwrap_or(content);
        let Some(name) = quoted("; name") else { continue };
        let value = match quoted("filename") {
            Some(file) => json!({ "name": file, "text": content }),
            None => json!(content),
        };
        fields.insert(name, value);
    }
    Value::Object(fields)
}
