//! A server as OpenCode's, which keeps to its protocol or breaks it as the file `script.json` in its folder says: a list
//! of steps, each `{"await": PATH}` for a call whose path begins so, `{"event": JSON}` for an event, `{"say": TEXT}` for
//! bytes among the events as they are, or `{"end": CODE}`. What it is told goes to `heard.jsonl`.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

struct Agent {
    heard: Mutex<(Vec<String>, File)>,
    hears: Condvar,
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let heard = Mutex::new((Vec::new(), File::create("heard.jsonl").unwrap()));
    let agent = Arc::new(Agent { heard, hears: Condvar::new() });
    println!("opencode server listening on http://{}", listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let agent = agent.clone();
        std::thread::spawn(move || agent.serve(stream.unwrap()));
    }
}

impl Agent {
    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let (mut request, mut header, mut length) = (String::new(), String::new(), 0);
            if reader.read_line(&mut request).unwrap_or_default() == 0 {
                return;
            }
            while reader.read_line(&mut header).unwrap() > 2 {
                if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                header.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let path = request.split(' ').nth(1).unwrap().to_owned();
            if path == "/event" {
                return self.play(stream);
            }
            let (status, reply) = match path.as_str() {
                "/config" => ("200 OK", json!({}).to_string()),
                "/session" => ("200 OK", json!({"id": "ses_1"}).to_string()),
                _ if path.ends_with("/prompt_async") => ("204 No Content", String::new()),
                _ => ("200 OK", "true".to_owned()),
            };
            self.hear(path, serde_json::from_slice(&body).unwrap_or_default());
            // A client that has ended meanwhile does not listen.
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", reply.len());
            if stream.write_all(format!("{head}{reply}").as_bytes()).is_err() {
                return;
            }
        }
    }

    fn hear(&self, path: String, body: Value) {
        let mut heard = self.heard.lock().unwrap();
        writeln!(heard.1, "{}", json!({"path": path, "body": body})).unwrap();
        heard.0.push(path);
        self.hears.notify_all();
    }

    fn play(&self, mut stream: TcpStream) {
        let script: Vec<Value> = serde_json::from_slice(&std::fs::read("script.json").unwrap()).unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
        let mut read = 0;
        for step in script {
            if let Some(begins) = step["await"].as_str() {
                let heard = self.heard.lock().unwrap();
                let next = |heard: &[String]| heard[read..].iter().position(|path| path.starts_with(begins));
                let heard = self.hears.wait_while(heard, |heard| next(&heard.0).is_none()).unwrap();
                let found = next(&heard.0).unwrap();
                read += found + 1;
            }
            let event = step.get("event").map(|event| format!("data: {event}\n\n"));
            if let Some(said) = step["say"].as_str().map(str::to_owned).or(event) {
                drop(stream.write_all(said.as_bytes()));
            }
            if let Some(code) = step["end"].as_i64() {
                std::process::exit(i32::try_from(code).unwrap());
            }
        }
        // To the end, so that the stream stays open.
        let open = self.heard.lock().unwrap();
        drop(self.hears.wait_while(open, |_| true));
    }
}
