//! The table of calls: from it come the routes, their guards and their description.

use super::App;
use super::caller::authorize;
use super::json::{Reply, ok};
use crate::protocol::{Call, Failed};
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use aye_core::Role;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What a caller must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// Only that it is a process of the same user, on the Unix socket.
    SameUser,
    /// Only the cookie of a browser's session, to get the page token that other calls need beside it.
    Cookie,
    AnyToken,
    Role(Role),
}

impl From<Role> for Needs {
    fn from(role: Role) -> Self {
        Needs::Role(role)
    }
}

pub struct Table {
    app: App,
    router: Router<App>,
    schemas: SchemaGenerator,
    calls: Vec<Described>,
}

/// A call as it is described.
struct Described {
    method: Method,
    path: &'static str,
    about: &'static str,
    needs: Needs,
    query: Option<Value>,
    takes: Option<Value>,
    gives: Option<Value>,
    frames: Option<Value>,
}

/// The API described, as OpenAPI.
pub struct Description(pub Value);

impl Table {
    pub fn new(app: App) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
        });
        Self { app, router: Router::new(), schemas: settings.into_generator(), calls: Vec::new() }
    }

    pub fn add<Q: JsonSchema, B: JsonSchema, R: JsonSchema, H: Handler<T, App>, T: 'static>(
        &mut self,
        call: Call<Q, B, R>,
        needs: impl Into<Needs>,
        handler: H,
    ) {
        let Call { method, path, about, .. } = call;
        let needs = needs.into();
        let filter = match method {
            Method::GET => MethodFilter::GET,
            Method::POST => MethodFilter::POST,
            Method::PUT => MethodFilter::PUT,
            // There are no others.
            _ => MethodFilter::DELETE,
        };
        self.route(path, needs, on(filter, handler));
        let query = is_there(Q::json_schema(&mut self.schemas));
        let takes = is_there(self.schemas.subschema_for::<B>());
        let gives = is_there(self.schemas.subschema_for::<R>());
        self.calls.push(Described { method, path, about, needs, query, takes, gives, frames: None });
    }

    /// Without the types of a call, so that its guard is compiled once.
    fn route(&mut self, path: &str, needs: Needs, route: MethodRouter<App>) {
        let app = self.app.clone();
        let check = move |request: Request, next: Next| authorize(app.clone(), needs, request, next);
        let guarded = route.route_layer(middleware::from_fn(check));
        self.router = std::mem::take(&mut self.router).route(path, guarded);
    }

    /// What goes over the WebSocket that a call opens. OpenAPI does not cover WebSockets, so this is an extension (`x-`).
    pub fn add_frames<FromClient: JsonSchema, FromHub: JsonSchema, Results: JsonSchema>(
        &mut self,
        path: &str,
    ) {
        let from_hub = [self.schemas.subschema_for::<FromHub>(), self.schemas.subschema_for::<Results>()];
        let frames = json!({
            "fromClient": self.schemas.subschema_for::<FromClient>(),
            "fromHub": { "anyOf": from_hub },
        });
        for call in self.calls.iter_mut().filter(|call| call.path == path) {
            call.frames = Some(frames.clone());
        }
    }

    pub fn finish(mut self) -> (Router, Description) {
        let failed = self.schemas.subschema_for::<Failed>().to_value();
        let mut paths = Map::new();
        for call in &self.calls {
            let operations = paths.entry(call.path).or_insert_with(|| json!({}));
            operations[call.method.as_str().to_ascii_lowercase()] = describe(call, &failed);
        }
        let openapi = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "aye",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Every ask of every agent, in one place.",
            },
            "paths": paths,
            "components": {
                "schemas": self.schemas.take_definitions(true),
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            },
        });
        (self.router.with_state(self.app), Description(openapi))
    }
}

/// `()` means nothing.
fn is_there(schema: Schema) -> Option<Value> {
    Some(schema.to_value()).filter(|schema| schema["type"] != "null")
}

fn describe(call: &Described, failed: &Value) -> Value {
    let who = match call.needs {
        Needs::Nothing => "anybody".to_owned(),
        Needs::SameUser => "a process of the same user, on the Unix socket".to_owned(),
        Needs::Cookie => "the cookie of a browser's session".to_owned(),
        Needs::AnyToken => "any token".to_owned(),
        Needs::Role(role) => role.to_string(),
    };
    let content = |schema: &Value| json!({ "application/json": { "schema": schema } });
    let mut success = json!({ "description": "Done" });
    if let Some(schema) = &call.gives {
        success["content"] = content(schema);
    }
    let mut operation = json!({
        "summary": call.about,
        "description": format!("Who: {who}."),
        "responses": { "200": success, "default": { "description": "Not done", "content": content(failed) } },
    });
    if let Some(schema) = &call.takes {
        operation["requestBody"] = json!({ "required": true, "content": content(schema) });
    }
    if let Some(frames) = &call.frames {
        operation["x-websocket"] = frames.clone();
    }
    if matches!(call.needs, Needs::Role(_) | Needs::AnyToken) {
        operation["security"] = json!([{ "token": [] }]);
    }
    let named = call.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path =
        |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    let mut parameters: Vec<_> = named.map(in_path).collect();
    let query = call.query.as_ref().and_then(|query| query["properties"].as_object());
    for (name, schema) in query.into_iter().flatten() {
        parameters.push(json!({ "name": name, "in": "query", "required": false, "schema": schema }));
    }
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    operation
}

pub async fn openapi(Extension(description): Extension<Arc<Description>>) -> Reply<Value> {
    ok(description.0.clone())
}
