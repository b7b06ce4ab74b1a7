//! What OpenCode asks for, as an ask. Its request names a permission; what will happen is in the call that it is about.

use super::edit;
use crate::agents::driven::rpc::question as read_question;
use crate::agents::driven::tools::{OwnTool, RunContext, kept_by_hub, to_vocabulary};
use aye_core::{Body, Can, Permission, Questions, ScopeOffer, Tool};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

const TOOLS: [OwnTool; 8] = [
    OwnTool { name: "bash", tool: Tool::Command, fields: &[] },
    OwnTool { name: "write", tool: Tool::Write, fields: &[("filePath", "file_path")] },
    OwnTool {
        name: "edit",
        tool: Tool::Edit,
        fields: &[
            ("filePath", "file_path"),
            ("oldString", "old_string"),
            ("newString", "new_string"),
            ("replaceAll", "replace_all"),
        ],
    },
    OwnTool { name: "read", tool: Tool::Read, fields: &[("filePath", "file_path")] },
    OwnTool { name: "glob", tool: Tool::Glob, fields: &[] },
    OwnTool { name: "grep", tool: Tool::Grep, fields: &[("include", "glob")] },
    OwnTool { name: "list", tool: Tool::List, fields: &[] },
    OwnTool { name: "webfetch", tool: Tool::Fetch, fields: &[] },
];
/// Tools that change files; all of them ask for the same permission.
const CHANGES: [&str; 3] = ["write", "edit", "apply_patch"];
/// The tool by which models ask.
const QUESTION: &str = "question";
/// Asked for first where a call reaches outside of its folder, whatever it does there.
const OUTSIDE: &str = "external_directory";
/// Where a command runs, if not in the agent's folder.
const WORKDIR: &str = "workdir";

/// A tool and its input, as OpenCode tells of a call that has begun.
#[derive(Debug, Clone)]
pub struct ToolCall {
    pub tool: String,
    pub input: Map<String, Value>,
}

impl ToolCall {
    /// Where it works.
    pub fn cwd(&self, cwd: &Path) -> Option<PathBuf> {
        let workdir = self.input.get(WORKDIR).and_then(Value::as_str).filter(|_| self.tool == "bash")?;
        Some(cwd.join(workdir))
    }

    /// The beginning of what it does.
    pub fn in_words(&self) -> String {
        let says = ["command", "filePath", "url"].iter().find_map(|field| self.input.get(*field)?.as_str());
        aye_core::visible::one_line(says.unwrap_or_default()).chars().take(200).collect()
    }

    /// In the vocabulary of tools. A folder that is not the agent's stays in sight, and no rule allows what it does not
    /// know.
    pub fn in_vocabulary(&self, kind: &str, cwd: &Path) -> (String, Map<String, Value>) {
        let mut input = self.input.clone();
        if self.cwd(cwd).is_some_and(|own| own == cwd) {
            input.remove(WORKDIR);
        }
        to_vocabulary(&TOOLS, kind, &self.tool, input)
    }
}

/// What OpenCode takes of an answer to a permission.
pub fn can_permit() -> Can {
    Can {
        edit: false,
        why: Some("OpenCode runs what it asked for, and takes no other input".into()),
        ..Can::default()
    }
}

/// What it takes of an answer to questions.
pub fn can_answer(asked: &Result<Body, String>) -> Can {
    let (response, notes, reason) = (false, false, false);
    match asked {
        Ok(Body::Question(asked)) if leaves_plan(asked, None) => {
            let why = "OpenCode takes its plan for approved unless the answer is No";
            Can { skip: false, response, notes, reason, why: Some(why.into()), ..Can::default() }
        }
        _ => {
            let why = "OpenCode takes picks and words of your own for each question, and nothing else";
            Can { response, notes, reason, why: Some(why.into()), ..Can::default() }
        }
    }
}

/// How a plan is approved, and how it is not.
pub const YES: &str = "Yes";
pub const NO: &str = "No";

/// Whether this is the question that comes when OpenCode wants to leave plan mode.
pub fn leaves_plan(asked: &Questions, call: Option<&ToolCall>) -> bool {
    let [only] = asked.questions.as_slice() else { return false };
    let labels = only.options.iter().map(|offer| offer.label.as_str());
    call.is_none_or(|call| call.tool != QUESTION) && !only.free_text && labels.eq([YES, NO])
}

pub fn questions(asked: &Value) -> Result<Body, String> {
    let all = asked["questions"].as_array().ok_or("it has no questions")?;
    let read =
        |question: &Value| read_question(question, question["multiple"] == true, question["custom"] != false);
    let mut asked = Questions::new(all.iter().map(read).collect::<Result<_, _>>()?)?;
    if leaves_plan(&asked, None) {
        asked.questions[0].options[0].allows = true;
    }
    Ok(Body::Question(asked))
}

/// A permission, with the call that it is for, where OpenCode told of one.
pub fn permission(asked: &Value, call: Option<&ToolCall>, place: &RunContext) -> Result<Body, String> {
    let known = call.and_then(|call| understood(asked, call, place));
    let (tool, input) = known.unwrap_or_else(|| unclear(asked, call));
    let scopes = match Tool::named(&tool) {
        // Nobody knows what an unclear call will be the next time.
        Some(Tool::Unclear) => vec![ScopeOffer::once()],
        _ => {
            let elsewhere = call.and_then(|call| call.cwd(place.cwd));
            let cwd = elsewhere.as_deref().unwrap_or(place.cwd);
            kept_by_hub(place.kind, &tool, &input, cwd, place.places)
        }
    };
    Permission::new(tool, input, Some(scopes)).map(Body::Permission)
}

/// None where the request and the call do not say the same.
fn understood(asked: &Value, call: &ToolCall, place: &RunContext) -> Option<(String, Map<String, Value>)> {
    let (permission, metadata) = (asked["permission"].as_str()?, &asked["metadata"]);
    let is_change = permission == "edit" && CHANGES.contains(&call.tool.as_str());
    if permission != call.tool && permission != OUTSIDE && !is_change {
        return None;
    }
    let input = |field: &str| call.input.get(field).and_then(Value::as_str);
    match call.tool.as_str() {
        "bash" if metadata["command"].as_str() != input("command") => None,
        "webfetch" if metadata["url"].as_str() != input("url") => None,
        "write" if is_change && !edit::is_of_write(metadata, &call.input, place.cwd) => None,
        "edit" if is_change => {
            edit::of_diff(metadata, &call.input, place.cwd, || call.in_vocabulary(place.kind, place.cwd))
        }
        "apply_patch" if is_change => {
            let mut input = call.input.clone();
            input.insert("diff".into(), metadata["diff"].clone());
            Some((call.tool.clone(), input))
        }
        _ => Some(call.in_vocabulary(place.kind, place.cwd)),
    }
}

/// A person sees all there is.
fn unclear(asked: &Value, call: Option<&ToolCall>) -> (String, Map<String, Value>) {
    let empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    let fields = ["permission", "patterns", "metadata"].map(|field| (field.to_owned(), asked[field].clone()));
    let call = call.into_iter().flat_map(|call| {
        [("tool".to_owned(), call.tool.clone().into()), ("input".to_owned(), call.input.clone().into())]
    });
    let input = fields.into_iter().chain(call).filter(|(_, value)| !empty(value)).collect();
    (Tool::Unclear.name().to_owned(), input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(asked: Value, tool: &str, input: Value) -> (String, Value) {
        let Value::Object(input) = input else { panic!("{input}") };
        let call = ToolCall { tool: tool.into(), input };
        let places = aye_policy::OwnPlaces::default();
        let place = RunContext { kind: "opencode", cwd: Path::new("/src"), places: &places };
        let Ok(Body::Permission(body)) = permission(&asked, Some(&call), &place) else { panic!("{asked}") };
        (body.tool.to_string(), Value::Object(body.input))
    }

    #[test]
    fn rules_see_what_will_happen_whatever_the_permission_is_called() {
        let asks =
            |permission: &str, metadata: Value| json!({"permission": permission, "metadata": metadata});
        let command = json!({"command": "rm x"});
        let input = json!({"command": "rm x", "description": "d", "workdir": "/src"});
        let bash = ("Bash".to_owned(), json!({"command": "rm x", "description": "d"}));
        assert_eq!(shown(asks("bash", command.clone()), "bash", input.clone()), bash);
        assert_eq!(shown(asks("external_directory", command), "bash", input.clone()), bash);
        assert_eq!(shown(asks("bash", json!({"command": "ls"})), "bash", input).0, "Unclear");
        let elsewhere = json!({"command": "ls", "workdir": "/etc"});
        assert_eq!(
            shown(asks("bash", json!({"command": "ls"})), "bash", elsewhere.clone()),
            ("Bash".into(), elsewhere)
        );
        let file = json!({"filePath": "/no/such/file", "content": "x"});
        let write = ("Write".to_owned(), json!({"file_path": "/no/such/file", "content": "x"}));
        let diff = |line: &str| json!({"filepath": "/no/such/file", "diff": format!("\n@@ -0,0 +1,1 @@\n+{line}\n")});
        assert_eq!(shown(asks("edit", diff("x")), "write", file.clone()), write);
        assert_eq!(shown(asks("edit", diff("y")), "write", file.clone()).0, "Unclear");
        assert_eq!(shown(asks("doom_loop", json!({})), "write", file.clone()).0, "Unclear");
        assert_eq!(shown(asks("edit", json!({})), "read", file).0, "Unclear");
        let url = json!({"url": "http://x", "format": "text"});
        assert_eq!(
            shown(asks("webfetch", url.clone()), "webfetch", url.clone()),
            ("WebFetch".into(), url.clone())
        );
        // A tool by the name of one of ours is not ours.
        assert_eq!(shown(asks("Read", json!({})), "Read", url).0, "opencode:Read");
    }

    #[test]
    fn a_request_without_its_call_is_unclear_and_shows_all_there_is() {
        let asked = json!({"permission": "bash", "patterns": ["ls"], "metadata": {"command": "ls"}});
        let places = aye_policy::OwnPlaces::default();
        let place = RunContext { kind: "opencode", cwd: Path::new("/src"), places: &places };
        let Ok(Body::Permission(body)) = permission(&asked, None, &place) else { panic!() };
        assert_eq!((body.tool.to_string().as_str(), body.scopes.len()), ("Unclear", 1));
        assert_eq!(body.input["metadata"], json!({"command": "ls"}));
    }
}
