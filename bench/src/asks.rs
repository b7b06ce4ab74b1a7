//! Asks as agents raise them, and the answers people give.

use crate::http::{Line, Target};
use crate::hub::Hub;
use anyhow::Context;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

/// An ask that waits for its answer.
#[derive(Debug, Clone)]
pub struct Open {
    pub id: String,
    pub digest: String,
    pub agent: usize,
    pub question: bool,
}

impl Open {
    pub fn answer_path(&self) -> String {
        format!("/api/asks/{}/answer", self.id)
    }

    pub fn answer(&self) -> String {
        let answer = if self.question {
            r#"{"answers":[{"selected":["SQLite"]}]}"#
        } else {
            r#"{"decision":"allow","scope":"once"}"#
        };
        format!(r#"{{"answer":{answer},"digest":"{}"}}"#, self.digest)
    }
}

/// Every third ask is a question, the others ask for a permission, about as long as they are in life.
pub fn body(n: usize) -> (bool, Value) {
    if n.is_multiple_of(3) {
        let options = json!([
            {"label": "SQLite", "description": "One file beside the program, nothing to run and nothing to configure"},
            {"label": "PostgreSQL", "description": "A server of its own, where several programs share the work"},
            {"label": "Neither", "description": "Keep everything in memory and write it out at the end"},
        ]);
        let question = format!("Which database should part {n} of the service use?");
        (
            true,
            json!({"questions": [{"question": question, "header": "Database", "options": options, "free_text": true}]}),
        )
    } else {
        let command =
            format!("cargo test --package service-{n} --locked -- --nocapture && git status --short");
        let input = json!({"command": command, "description": "Run the tests and look at what changed"});
        (false, json!({"tool": "Bash", "input": input, "scopes": [{"scope": "once"}]}))
    }
}

/// Agents with a token each.
#[derive(Clone)]
pub struct Agents {
    prefix: String,
    tokens: Arc<Vec<String>>,
    raised: Arc<AtomicUsize>,
}

impl Agents {
    pub async fn introduce(hub: &Hub, prefix: &str, count: usize) -> anyhow::Result<Self> {
        let name = |i: usize| format!("{prefix}-{i}");
        let (target, operator) = (Target::Tcp(hub.address.clone()), hub.operator.clone());
        let names: Vec<_> = (0..count).map(name).collect();
        let tokens = at_once(
            64,
            names,
            move || Line::new(target.clone()),
            move |mut line, agent: String| {
                let operator = operator.clone();
                async move {
                    let new = json!({"role": "agent", "agent": agent}).to_string();
                    let reply = line.post("/api/tokens", &operator, &new).await?.expect(201)?;
                    Ok((line, reply.field("token")?.to_owned()))
                }
            },
        );
        let tokens = Arc::new(tokens.await.context("tokens for the agents")?);
        Ok(Self { prefix: prefix.to_owned(), tokens, raised: Arc::default() })
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn token(&self, agent: usize) -> &str {
        &self.tokens[agent]
    }

    pub async fn raise(&self, line: &mut Line, agent: usize) -> anyhow::Result<Open> {
        let n = self.raised.fetch_add(1, Ordering::Relaxed);
        let (question, body) = body(n);
        let kind = if question { "question" } else { "permission" };
        let raise = json!({
            "key": format!("{}/{n}", self.prefix), "agent": format!("{}-{agent}", self.prefix),
            "kind": kind, "body": body,
        });
        let reply = line.post("/api/asks", self.token(agent), &raise.to_string()).await?.expect(201)?;
        Ok(Open {
            id: reply.field("id")?.to_owned(),
            digest: reply.field("digest")?.to_owned(),
            agent,
            question,
        })
    }

    /// So many open asks, spread over the agents.
    pub async fn raise_many(&self, hub: &Hub, count: usize) -> anyhow::Result<Vec<Open>> {
        let target = Target::Tcp(hub.address.clone());
        let this = self.clone();
        let agents: Vec<_> = (0..count).map(|i| i % self.len()).collect();
        let raised = at_once(
            64,
            agents,
            move || Line::new(target.clone()),
            move |mut line, agent| {
                let this = this.clone();
                async move {
                    let open = this.raise(&mut line, agent).await?;
                    Ok((line, open))
                }
            },
        );
        raised.await.context("raising asks")
    }
}

/// Does `work` for every item on a few lines at once; results come as they are done.
pub async fn at_once<I, T, F>(
    lines: usize,
    items: Vec<I>,
    mut line: impl FnMut() -> Line,
    work: impl Fn(Line, I) -> F + Clone + Send + 'static,
) -> anyhow::Result<Vec<T>>
where
    I: Send + 'static,
    T: Send + 'static,
    F: Future<Output = anyhow::Result<(Line, T)>> + Send,
{
    let mut shares: Vec<Vec<(usize, I)>> = (0..lines).map(|_| Vec::new()).collect();
    let count = items.len();
    for (i, item) in items.into_iter().enumerate() {
        shares[i % lines].push((i, item));
    }
    let mut tasks = JoinSet::new();
    for share in shares {
        let (mut line, work) = (line(), work.clone());
        tasks.spawn(async move {
            let mut done = Vec::with_capacity(share.len());
            for (i, item) in share {
                let (kept, result) = work(line, item).await?;
                line = kept;
                done.push((i, result));
            }
            anyhow::Ok(done)
        });
    }
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    while let Some(done) = tasks.join_next().await {
        for (i, result) in done?? {
            results[i] = Some(result);
        }
    }
    Ok(results.into_iter().flatten().collect())
}
