//! An agent that is a server: it tells what happens as server-sent events, and is answered by POST. It asks to run what
//! the file `commands` in its folder has, a command a line, and then one question.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};

#[derive(Default)]
struct Agent {
    followers: Mutex<Vec<TcpStream>>,
    /// What it waits for, and the reply once there is one.
    asked: Mutex<HashMap<String, Option<Value>>>,
    replied: Condvar,
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    let agent = Arc::new(Agent::default());
    for stream in listener.incoming() {
        let agent = agent.clone();
        std::thread::spawn(move || agent.serve(stream.unwrap()));
    }
}

impl Agent {
    fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut request, mut header, mut length) = (String::new(), String::new(), 0);
        reader.read_line(&mut request).unwrap();
        while reader.read_line(&mut header).unwrap() > 2 {
            if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            header.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let path = request.split(' ').nth(1).unwrap();
        if path == "/event" {
            // Held while it is greeted: who was greeted misses nothing.
            let mut followers = self.followers.lock().unwrap();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
            return followers.push(stream);
        }
        let taken = match path.strip_prefix("/reply/") {
            Some(id) => self.reply(id, serde_json::from_slice(&body).unwrap()),
            None => {
                let agent = self.clone();
                std::thread::spawn(move || agent.turn());
                true
            }
        };
        let status = if taken { "200 OK" } else { "404 Not Found" };
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    }

    fn tell(&self, event: Value) {
        for follower in self.followers.lock().unwrap().iter_mut() {
            write!(follower, "data: {event}\n\n").unwrap();
        }
    }

    fn reply(&self, id: &str, reply: Value) -> bool {
        let mut asked = self.asked.lock().unwrap();
        let open = asked.get_mut(id).filter(|reply| reply.is_none());
        let taken = open.map(|open| *open = Some(reply)).is_some();
        self.replied.notify_all();
        taken
    }

    fn ask(&self, id: &str, event: Value) -> Value {
        self.asked.lock().unwrap().insert(id.to_owned(), None);
        self.tell(event);
        let waits = |asked: &mut HashMap<String, Option<Value>>| asked[id].is_none();
        self.replied.wait_while(self.asked.lock().unwrap(), waits).unwrap()[id].clone().unwrap()
    }

    fn turn(&self) {
        let commands = std::fs::read_to_string("commands").unwrap();
        for (n, command) in commands.lines().enumerate() {
            let id = format!("p{n}");
            let input = json!({"cmd": command});
            let reply =
                self.ask(&id, json!({"type": "permission", "id": id, "tool": "shell", "input": input}));
            let command = reply["input"]["cmd"].as_str().filter(|_| reply["allow"] == true);
            let ran =
                command.map(|command| Command::new("sh").args(["-c", command]).status().unwrap().success());
            self.tell(json!({"type": "done", "id": id, "ran": ran, "message": reply["message"]}));
        }
        let question = json!({"type": "question", "id": "q", "question": "Which?", "options": ["a", "b"]});
        let reply = self.ask("q", question);
        self.tell(
            json!({"type": "done", "id": "q", "answers": reply["answers"], "message": reply["message"]}),
        );
        self.tell(json!({"type": "text", "text": format!("You chose {}.", reply["answers"][0])}));
        self.tell(json!({"type": "idle"}));
    }
}
