//! Names that a person gives: to an agent in place of the title it came with, and to a browser that is signed in.

use super::change::publish_agent;
use super::{Hub, Problem};
use crate::store::{AgentRow, Profile, Tx};
use aye_core::{Agent, AgentId, Invalid, Surface, Text};
use serde_json::{Value, json};
use std::collections::HashMap;

const AGENT: &str = "title";
const BROWSER: &str = "browser";
const LONGEST: usize = 200;

/// What a person called the agent, which counts for more than what its adapter calls it.
pub fn given_title(tx: &Tx, id: &AgentId) -> Result<Option<String>, Problem> {
    let given = tx.memory(Surface::Web, AGENT, id.as_str())?;
    Ok(given.and_then(|given| given["title"].as_str().map(str::to_owned)))
}

impl Hub {
    pub async fn rename_agent(&self, id: AgentId, title: Text, who: String) -> Result<Agent, Problem> {
        let title = short(title, "title")?;
        let now = self.inner.clock.now();
        let work = move |tx: &mut Tx| {
            let row = tx.agent(&id)?.ok_or(Problem::NoSuchAgent)?;
            tx.put_memory(Surface::Web, AGENT, id.as_str(), &json!({ "title": title }))?;
            let row = AgentRow { profile: Profile { title, ..row.profile }, ..row };
            tx.put_agent(&row)?;
            tx.audit(now, "agent.renamed", &who, Some(&id), None, json!({}))?;
            publish_agent(tx, &id)?;
            Ok(row.agent())
        };
        self.inner.store.write(work).await
    }

    pub async fn name_browser(&self, token: String, name: Text) -> Result<(), Problem> {
        let name = short(name, "label")?;
        let work =
            move |tx: &mut Tx| Ok(tx.put_memory(Surface::Web, BROWSER, &token, &json!({ "name": name }))?);
        self.inner.store.write(work).await
    }

    /// The names of browsers, by the id of their token.
    pub async fn browser_names(&self) -> Result<HashMap<String, String>, Problem> {
        let name = |(id, given): (String, Value)| Some((id, given["name"].as_str()?.to_owned()));
        Ok(self.recall(Surface::Web, BROWSER).await?.into_iter().filter_map(name).collect())
    }
}

fn short(name: Text, field: &'static str) -> Result<String, Problem> {
    let name = String::from(name);
    match name.len() {
        0..=LONGEST => Ok(name),
        _ => Err(Invalid::new(field, format!("may have at most {LONGEST} bytes")).into()),
    }
}
