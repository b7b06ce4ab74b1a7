//! The table of calls: from it come the routes, their guards and their description.

use super::App;
use super::caller::authorize;
use super::json::{Reply, ok};
use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use aye_core::Role;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What a caller must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// Only that it is a process of the same user, on the Unix socket.
    SameUser,
    /// Only the cookie of a browser's session, to ask for what counts beside it.
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
    calls: Vec<Call>,
}

struct Call {
    method: &'static str,
    path: &'static str,
    needs: Needs,
    about: &'static str,
    takes: Option<Value>,
    gives: Option<Value>,
}

/// The call just added, to say what it takes and gives.
pub struct Added<'a> {
    schemas: &'a mut SchemaGenerator,
    call: Option<&'a mut Call>,
}

impl Added<'_> {
    pub fn takes<T: JsonSchema>(mut self) -> Self {
        let schema = self.schemas.subschema_for::<T>().to_value();
        if let Some(call) = &mut self.call {
            call.takes = Some(schema);
        }
        self
    }

    pub fn gives<T: JsonSchema>(mut self) -> Self {
        let schema = self.schemas.subschema_for::<T>().to_value();
        if let Some(call) = &mut self.call {
            call.gives = Some(schema);
        }
        self
    }
}

/// The API described, as OpenAPI.
pub struct Description(pub Value);

macro_rules! methods {
    ($($name:ident $filter:ident $text:literal;)*) => {
        $(pub fn $name<H: Handler<T, App>, T: 'static>(
            &mut self,
            path: &'static str,
            needs: impl Into<Needs>,
            handler: H,
            about: &'static str,
        ) -> Added<'_> {
            self.add($text, path, needs.into(), on(MethodFilter::$filter, handler), about)
        })*
    };
}

impl Table {
    pub fn new(app: App) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
        });
        Self { app, router: Router::new(), schemas: settings.into_generator(), calls: Vec::new() }
    }

    methods! {
        get GET "get";
        post POST "post";
        put PUT "put";
        delete DELETE "delete";
    }

    fn add(
        &mut self,
        method: &'static str,
        path: &'static str,
        needs: Needs,
        handler: MethodRouter<App>,
        about: &'static str,
    ) -> Added<'_> {
        let app = self.app.clone();
        let check = move |request: Request, next: Next| authorize(app.clone(), needs, request, next);
        let guarded = handler.route_layer(middleware::from_fn(check));
        self.router = std::mem::take(&mut self.router).route(path, guarded);
        self.calls.push(Call { method, path, needs, about, takes: None, gives: None });
        Added { schemas: &mut self.schemas, call: self.calls.last_mut() }
    }

    pub fn finish(mut self) -> (Router, Description) {
        let mut paths = Map::new();
        for call in &self.calls {
            let operations = paths.entry(call.path).or_insert_with(|| json!({}));
            operations[call.method] = describe(call);
        }
        let openapi = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "aye",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Every ask of every agent, in one place. Errors are {\"error\", \"field\"?, \"ask\"?}.",
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

fn describe(call: &Call) -> Value {
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
        "responses": { "200": success, "default": { "description": "Not done; the body says why" } },
    });
    if let Some(schema) = &call.takes {
        operation["requestBody"] = json!({ "required": true, "content": content(schema) });
    }
    if matches!(call.needs, Needs::Role(_) | Needs::AnyToken) {
        operation["security"] = json!([{ "token": [] }]);
    }
    let parameters: Vec<_> = call
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    operation
}

pub async fn openapi(Extension(description): Extension<Arc<Description>>) -> Reply<Value> {
    ok(description.0.clone())
}
