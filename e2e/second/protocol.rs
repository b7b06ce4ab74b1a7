//! A second protocol, as small as one can be: the agent is a server, tells what happens as server-sent events, and is
//! answered by POST. It shows what an adapter has to fill in, and that nothing else is needed.

use aye::agents::driven::process::read_lines;
use aye::agents::driven::tools::{OwnTool, to_own, to_vocabulary};
use aye::agents::driven::{AgentProtocol, Asked, Meaning, Pipes, RunEvent, Turn, Writer, Written};
use aye::agents::lines::Line;
use aye::protocol::{Image, Resolution};
use aye_core::{Answer, Body, Kind, Permission, Receipt, Reply, Tool, Verdict};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const TOOLS: [OwnTool; 1] = [OwnTool { name: "shell", tool: Tool::Command, fields: &[("cmd", "command")] }];

#[derive(Default)]
pub struct Served;

/// A call of the agent's API.
pub struct Post {
    path: String,
    body: Value,
}

/// The agent's own name for the tool it wants to use; none for a question.
type OwnName = Option<String>;

pub struct Poster {
    address: String,
}

impl Writer<Post> for Poster {
    async fn write(&mut self, Post { path, body }: Post) -> io::Result<()> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        match reply.starts_with("HTTP/1.1 200") {
            true => Ok(()),
            false => Err(io::Error::other(format!("{path}: {reply}"))),
        }
    }
}

impl AgentProtocol for Served {
    type Input = Line;
    type Message = Post;
    type Request = OwnName;
    type Writer = Poster;

    const ENDS_WITH_INPUT: bool = false;

    fn arguments(&self) -> Vec<OsString> {
        Vec::new()
    }

    async fn connect(
        &mut self,
        pipes: Pipes,
        inputs: mpsc::Sender<Line>,
        tasks: &mut JoinSet<()>,
    ) -> anyhow::Result<Poster> {
        let (said, mut says) = mpsc::channel(1);
        tasks.spawn(read_lines(pipes.output, 1000, said));
        let Some(Line::Whole(address)) = says.recv().await else { anyhow::bail!("it names no address") };
        let address = String::from_utf8(address)?;
        let mut events = TcpStream::connect(&address).await?;
        events.write_all(b"GET /event HTTP/1.1\r\nhost: x\r\n\r\n").await?;
        // It follows from its first byte on, and nothing may happen before.
        events.readable().await?;
        tasks.spawn(read_lines(events, 1_000_000, inputs));
        Ok(Poster { address })
    }

    fn begin(&mut self) -> Vec<Post> {
        Vec::new()
    }

    fn prompt(&mut self, text: &str, _image: Option<&Image>) -> Vec<Post> {
        vec![Post { path: "/prompt".into(), body: json!({ "text": text }) }]
    }

    fn interrupt(&mut self) -> Vec<Meaning<Self>> {
        Vec::new()
    }

    fn read(&mut self, input: Line) -> Vec<Meaning<Self>> {
        let Line::Whole(line) = input else { return Vec::new() };
        let Some(event) = line.strip_prefix(b"data: ") else { return Vec::new() };
        let event: Value = serde_json::from_slice(event).unwrap();
        let id = event["id"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("permission") => {
                let (name, input) = (event["tool"].as_str().unwrap(), event["input"].as_object().unwrap());
                let (tool, input) = to_vocabulary(&TOOLS, "served", name, input.clone());
                let body = Permission::new(tool, input, None).map(Body::Permission);
                vec![asks(id, Some(name.to_owned()), body.map_err(|invalid| invalid.to_string()))]
            }
            Some("question") => {
                let options = event["options"].as_array().unwrap().iter();
                let options: Vec<_> = options.map(|label| json!({ "label": label })).collect();
                let body = json!({"questions": [{"question": event["question"], "options": options}]});
                vec![asks(
                    id,
                    None,
                    Body::decode(Kind::Question, body).map_err(|invalid| invalid.to_string()),
                )]
            }
            Some("done") => {
                let evidence = event.to_string();
                vec![Meaning::Shows { call: id, receipt: Receipt::Confirmed, evidence }]
            }
            Some("text") => {
                let text = event["text"].as_str().unwrap().to_owned();
                vec![Meaning::Tells(RunEvent::Said { id: "t".into(), text })]
            }
            Some("idle") => vec![Meaning::TurnEnded(Turn::default())],
            _ => Vec::new(),
        }
    }

    fn outcome(&mut self, id: &str, own: OwnName, body: &Body, resolution: &Resolution) -> Written<Post> {
        let message = resolution.outcome.message.clone();
        let reply = match (body, own, &resolution.outcome.answer) {
            (Body::Permission(asked), Some(name), Some(Answer::Permission(Verdict::Allow { input, .. }))) => {
                let input: Map<_, _> = input.clone().unwrap_or_else(|| asked.input.clone());
                json!({"allow": true, "input": to_own(&TOOLS, &name, &asked.tool, input)})
            }
            (_, _, Some(Answer::Question(Reply::Each { answers }))) => {
                let words: Vec<_> = answers.iter().map(|choice| choice.in_words()).collect();
                json!({ "answers": words })
            }
            _ => json!({"allow": false, "message": message}),
        };
        let message = Post { path: format!("/reply/{id}"), body: reply };
        Written { message, shown_by: Some(id.to_owned()) }
    }

    fn refusal(&mut self, id: &str, _own: &OwnName, why: &str) -> Post {
        self.fault(id, why)
    }

    fn fault(&mut self, id: &str, why: &str) -> Post {
        Post { path: format!("/reply/{id}"), body: json!({"allow": false, "message": why}) }
    }
}

fn asks(id: String, request: OwnName, body: Result<Body, String>) -> Meaning<Served> {
    let tool_use_id = Some(id.clone());
    let (sub_agent, cwd, can) = Default::default();
    Meaning::Asks(Asked { id, request, body, tool_use_id, sub_agent, cwd, can, outlives_turn: false })
}
