//! Tests that `docs/configuration.md` lists every key with its type, default and an example, and nothing else.

use super::{Config, File};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/configuration.md");
const NOT_SET: &str = "not set";
const REQUIRED: &str = "required";

/// A key as the types have it. Its path is written like `policy.rules[].input.*`: `[]` for the entries of a list,
/// `*` for names that people choose.
#[derive(Debug, Clone, PartialEq)]
struct KnownKey {
    /// How the type column must begin; empty for texts, which have several names.
    kind: &'static str,
    values: Vec<String>,
    optional: bool,
    required: bool,
}

/// A row of the page.
struct Row<'a> {
    /// The TOML header of its section.
    header: &'a str,
    key: &'a str,
    kind: &'a str,
    default: &'a str,
    meaning: &'a str,
}

impl Row<'_> {
    fn path(&self) -> String {
        let list = if self.header.starts_with("[[") { "[]" } else { "" };
        let section = self.header.trim_matches(['[', ']']);
        let names = format!("{section}{list}.{}", self.key);
        let chosen = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase());
        names.split('.').map(|name| if chosen(name) { "*" } else { name }).collect::<Vec<_>>().join(".")
    }

    /// The file with this key set to its documented default, and without it.
    fn with_and_without(&self) -> (Result<File, toml::de::Error>, Result<File, toml::de::Error>) {
        let needed = if self.header == "[[policy.rules]]" { "action = \"ask\"\n" } else { "" };
        let base = format!("{}\n{needed}", self.header);
        (toml::from_str(&format!("{base}{} = {}\n", self.key, self.default)), toml::from_str(&base))
    }
}

fn rows() -> Vec<Row<'static>> {
    let mut header = "";
    let mut rows = vec![];
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            header = title.strip_prefix('`').and_then(|title| title.strip_suffix('`')).unwrap_or_default();
        }
        let cells: Vec<_> =
            line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect();
        if let ([key, kind, default, meaning], true) = (cells.as_slice(), line.starts_with("| `")) {
            rows.push(Row { header, key, kind, default, meaning });
        }
    }
    rows
}

struct Walk {
    definitions: Value,
    known: BTreeMap<String, KnownKey>,
    seen: BTreeSet<String>,
}

impl Walk {
    fn of_the_types() -> BTreeMap<String, KnownKey> {
        let schema = schemars::schema_for!(File).to_value();
        let definitions = schema["$defs"].clone();
        let mut walk = Self { definitions, known: BTreeMap::new(), seen: BTreeSet::new() };
        walk.visit("", &schema, false);
        walk.known
    }

    /// What a schema stands for: itself, what it refers to, or each of its alternatives.
    fn alternatives(&self, schema: &Value) -> Vec<Value> {
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            return self.alternatives(&self.definitions[name]);
        }
        let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        match choices.filter(|choices| choices.iter().all(|choice| choice["const"].is_null())) {
            Some(choices) => choices.iter().flat_map(|choice| self.alternatives(choice)).collect(),
            None => vec![schema.clone()],
        }
    }

    fn visit(&mut self, path: &str, schema: &Value, required: bool) {
        let is_null = |schema: &Value| schema["type"] == "null";
        let (nulls, others): (Vec<_>, Vec<_>) = self.alternatives(schema).into_iter().partition(is_null);
        for schema in others {
            let optional = !nulls.is_empty() || has_type(&schema, "null") || path.ends_with(".*");
            if let Some(fields) = schema["properties"].as_object() {
                self.fields(path, fields, &schema["required"]);
            } else if schema["additionalProperties"].is_object() {
                self.visit(&join(path, "*"), &schema["additionalProperties"], false);
            } else if has_type(&schema, "array") {
                let entries = self.alternatives(&schema["items"]);
                if entries.iter().any(|entry| entry["properties"].is_null()) {
                    self.add(path, "list", &schema, (optional, required));
                }
                for entry in entries.iter().filter(|entry| entry["properties"].is_object()) {
                    self.visit(&format!("{path}[]"), entry, false);
                }
            } else {
                self.add(path, kind(&schema), &schema, (optional, required));
            }
        }
    }

    /// A type that is used for several keys is listed under the first.
    fn fields(&mut self, path: &str, fields: &serde_json::Map<String, Value>, required: &Value) {
        let shape = fields.keys().cloned().collect::<Vec<_>>().join(" ");
        if !self.seen.insert(shape) {
            return;
        }
        let required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
        for (name, schema) in fields {
            self.visit(&join(path, name), schema, required(name));
        }
    }

    fn add(&mut self, path: &str, kind: &'static str, schema: &Value, (optional, required): (bool, bool)) {
        let choices = schema["oneOf"].as_array().into_iter().flatten().map(|choice| &choice["const"]);
        let values = schema["enum"].as_array().into_iter().flatten().chain(choices);
        let values = values.filter_map(|value| value.as_str().map(str::to_owned)).collect();
        self.known.insert(path.to_owned(), KnownKey { kind, values, optional, required });
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn has_type(schema: &Value, name: &str) -> bool {
    schema["type"] == name
        || schema["type"].as_array().is_some_and(|types| types.iter().any(|one| one == name))
}

fn kind(schema: &Value) -> &'static str {
    match () {
        () if schema["enum"].is_array() || schema["oneOf"].is_array() => "one of",
        () if has_type(schema, "boolean") => "true or false",
        () if has_type(schema, "integer") => "number",
        () if has_type(schema, "object") => "table",
        () => "",
    }
}

#[test]
fn the_page_documents_every_key_with_its_type_and_default_and_no_other() {
    let (known, rows) = (Walk::of_the_types(), rows());
    let paths: Vec<_> = rows.iter().map(Row::path).collect();
    let documented: BTreeSet<_> = paths.iter().cloned().collect();
    assert_eq!(documented.len(), rows.len(), "a key is documented twice");
    assert_eq!(documented, known.keys().cloned().collect());
    for (row, path) in rows.iter().zip(paths) {
        let key = &known[&path];
        assert!(row.kind.starts_with(key.kind), "{path}: the type is {:?}, not {:?}", key.kind, row.kind);
        for value in &key.values {
            let quoted = format!("\"{value}\"");
            assert!(
                row.meaning.contains(&quoted) || row.default == quoted,
                "{path} says nothing of {quoted}"
            );
        }
        match row.default {
            NOT_SET => assert!(key.optional, "{path} has a default"),
            REQUIRED => assert!(key.required, "{path} is not required"),
            default => {
                let (with, without) = row.with_and_without();
                assert_eq!(with.unwrap(), without.unwrap(), "{path}: {default} is not the default");
                assert!(!key.optional && !key.required, "{path} has no default");
            }
        }
    }
}

#[test]
fn every_example_of_the_page_works_and_every_key_has_one() {
    let mut used = BTreeSet::new();
    for example in PAGE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        Config::parse(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
        let table: Value = toml::from_str(example).unwrap();
        collect("", &table, &mut used);
    }
    let covers = |key: &str, path: &str| {
        let mut names = path.split('.');
        key.split('.').all(|name| names.next().is_some_and(|used| name == "*" || name == used))
    };
    for key in Walk::of_the_types().keys() {
        assert!(used.iter().any(|path| covers(key, path)), "no example has {key}");
    }
}

fn collect(path: &str, value: &Value, used: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect(&join(path, name), value, used))
        }
        Value::Array(entries) => entries.iter().for_each(|entry| match entry {
            Value::Object(_) => collect(&format!("{path}[]"), entry, used),
            _ => drop(used.insert(path.to_owned())),
        }),
        _ => drop(used.insert(path.to_owned())),
    }
}

#[test]
fn the_page_documents_every_environment_variable_of_ours_and_no_other() {
    let mut used = BTreeSet::new();
    variables(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut used);
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `AYE_")?.split('`').next());
    let documented: BTreeSet<_> = rows.map(|name| format!("AYE_{name}")).collect();
    assert_eq!(documented, used);
}

/// The names that are string literals in our sources.
fn variables(folder: &Path, used: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            variables(&path, used);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let texts = text.split("\"AYE_").skip(1).filter_map(|rest| rest.split('"').next());
            let is_name = |text: &&str| {
                !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            };
            let for_people = texts.filter(is_name).filter(|name| !name.starts_with("TEST_"));
            used.extend(for_people.map(|name| format!("AYE_{name}")));
        }
    }
}
