//! One call of the API.

use aye_core::{AskView, Proof};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// A call with the types of its query, its body and its reply; `()` where there is none. An empty reply is read as
/// JSON's null.
pub struct Call<Query = (), Body = (), Reply = ()> {
    pub method: Method,
    /// With `{id}` for the ask, agent or token that it is about.
    pub path: &'static str,
    pub about: &'static str,
    types: PhantomData<fn(Query, Body) -> Reply>,
}

impl<Query, Body, Reply> Call<Query, Body, Reply> {
    const fn new(method: Method, path: &'static str, about: &'static str) -> Self {
        Self { method, path, about, types: PhantomData }
    }

    pub const fn get(path: &'static str, about: &'static str) -> Self {
        Self::new(Method::GET, path, about)
    }

    pub const fn post(path: &'static str, about: &'static str) -> Self {
        Self::new(Method::POST, path, about)
    }

    pub const fn put(path: &'static str, about: &'static str) -> Self {
        Self::new(Method::PUT, path, about)
    }

    pub const fn delete(path: &'static str, about: &'static str) -> Self {
        Self::new(Method::DELETE, path, about)
    }

    /// The path with the id in it; ids have only characters that are allowed there.
    pub fn at(&self, id: &str) -> String {
        self.path.replace("{id}", id)
    }
}

impl<Query: Serialize, Body, Reply> Call<Query, Body, Reply> {
    pub fn path_with(&self, id: &str, query: &Query) -> String {
        match serde_urlencoded::to_string(query).unwrap_or_default() {
            query if query.is_empty() => self.at(id),
            query => format!("{}?{query}", self.at(id)),
        }
    }
}

/// Why a call was not carried out: the body of every reply that is no success.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Failed")]
#[serde(bound(deserialize = "A: Deserialize<'de>"))]
pub struct Failed<A = AskView> {
    pub error: String,
    /// What in the call is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The ask as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Box<A>>,
    /// What allowing it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The address of the page where that can be used.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// What keeps the hub from doing anything for anybody, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The database cannot be reached. The hub goes on by itself once it can.
    DatabaseAway,
    /// The database is behind what this hub has seen, so that it neither reads nor writes.
    DatabaseBehind,
}

impl<A> Failed<A> {
    pub fn new(error: impl Into<String>) -> Self {
        Self { error: error.into(), field: None, ask: None, proof: None, page: None, reason: None }
    }
}
