//! A plan that an agent wants to be approved. Gemini CLI names only the file that holds it.

use super::calls::texts;
use aye_policy::OwnPlaces;
use rustix::fs::{Mode, OFlags};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A longer plan is not read.
const LONGEST_PLAN: u64 = 256 * 1024;

/// A plan as a person is shown it, and the file that it was read from.
#[derive(Debug, PartialEq)]
pub struct Plan {
    pub text: String,
    file: Option<PathBuf>,
}

impl Plan {
    /// The plan, if the call asks for the approval of one; or why it cannot be shown.
    pub fn of(kind: &str, call: &Value, cwd: &Path, places: &OwnPlaces) -> Option<Result<Self, String>> {
        let inline = |text: Option<&str>| {
            let text = text.ok_or("it shows no plan")?.to_owned();
            Ok(Self { text, file: None })
        };
        match kind {
            "qwen" if call["_meta"]["toolName"] == "exit_plan_mode" => {
                Some(inline(call["rawInput"]["plan"].as_str()))
            }
            "kimi" if call["title"] == "ExitPlanMode" => Some(inline(texts(call).next())),
            "gemini" if call["toolCallId"].as_str()?.starts_with("exit_plan_mode__") => {
                let title = call["title"].as_str().unwrap_or_default();
                let named = title.strip_prefix("Requesting plan approval for: ").map(PathBuf::from);
                let file = named.ok_or_else(|| "it does not say where its plan is".to_owned());
                Some(file.and_then(|file| Ok(Self { text: read(&file, cwd, places)?, file: Some(file) })))
            }
            _ => None,
        }
    }

    /// Whether the file still holds what was shown.
    pub fn is_as_shown(&self, cwd: &Path, places: &OwnPlaces) -> bool {
        let file = self.file.as_ref();
        file.is_none_or(|file| read(file, cwd, places).is_ok_and(|text| text == self.text))
    }
}

/// The agent names the file, so nothing but a text of its own may be read this way and shown: no link, no device, and
/// nothing of ours.
fn read(path: &Path, cwd: &Path, places: &OwnPlaces) -> Result<String, String> {
    let cannot = |why: &str| format!("its plan in {} cannot be shown: {why}", path.display());
    if !path.is_absolute() || path.extension().is_none_or(|extension| extension != "md") {
        return Err(cannot("it is not a Markdown file with its whole path"));
    }
    let real = path.canonicalize().map_err(|error| cannot(&error.to_string()))?;
    let names = |path: &Path| Map::from_iter([("path".to_owned(), path.to_string_lossy().into())]);
    if [path, &real].into_iter().any(|path| places.is_named(&cwd.to_string_lossy(), &names(path))) {
        return Err(cannot("it belongs to aye"));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| cannot(&error.to_string()))?);
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(cannot("it is not a file"));
    }
    let mut text = String::new();
    let read = file.take(LONGEST_PLAN + 1).read_to_string(&mut text);
    read.map_err(|error| cannot(&error.to_string()))?;
    match text.len() as u64 > LONGEST_PLAN {
        true => Err(cannot("it is too long")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(call: &Value, own: &Path) -> Option<Result<Plan, String>> {
        let places = OwnPlaces::new(&[own.to_str().unwrap()], None);
        Plan::of("gemini", call, Path::new("/src"), &places)
    }

    fn call(path: &Path) -> Value {
        let title = format!("Requesting plan approval for: {}", path.display());
        json!({"toolCallId": "exit_plan_mode__1", "title": title})
    }

    #[test]
    fn a_plan_is_read_from_its_file_and_no_longer_counts_once_that_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (file, own) = (folder.path().join("plan.md"), folder.path().join("own"));
        std::fs::write(&file, "1. x").unwrap();
        let plan = of(&call(&file), &own).unwrap().unwrap();
        let places = OwnPlaces::new(&[], None);
        assert_eq!((plan.text.as_str(), plan.is_as_shown(Path::new("/src"), &places)), ("1. x", true));
        std::fs::write(&file, "2. y").unwrap();
        assert!(!plan.is_as_shown(Path::new("/src"), &places));
        std::fs::remove_file(&file).unwrap();
        assert!(!plan.is_as_shown(Path::new("/src"), &places));
    }

    #[test]
    fn plans_that_are_told_whole_need_no_file() {
        let plan = |kind: &str, call: Value| {
            let plan = Plan::of(kind, &call, Path::new("/src"), &OwnPlaces::new(&[], None));
            plan.map(|plan| plan.map(|plan| plan.text))
        };
        let text = json!([{"type": "content", "content": {"type": "text", "text": "1. x"}}]);
        assert_eq!(plan("kimi", json!({"title": "ExitPlanMode", "content": text})), Some(Ok("1. x".into())));
        let qwen = |raw: Value| json!({"_meta": {"toolName": "exit_plan_mode"}, "rawInput": raw});
        assert_eq!(plan("qwen", qwen(json!({"plan": "1. x"}))), Some(Ok("1. x".into())));
        // It is still no permission that a rule could allow.
        assert!(plan("qwen", qwen(json!({}))).unwrap().is_err());
        assert_eq!(plan("other", json!({"title": "ExitPlanMode", "content": text})), None);
    }

    #[test]
    fn no_other_file_is_read_this_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("own")).unwrap();
        for file in ["own/secret.md", "plan.md", "secret.txt"] {
            std::fs::write(path(file), "x").unwrap();
        }
        std::fs::create_dir(path("folder.md")).unwrap();
        std::fs::write(path("long.md"), "x".repeat(300_000)).unwrap();
        std::fs::write(path("binary.md"), [0xff, 0xfe]).unwrap();
        std::os::unix::fs::symlink(path("secret.txt"), path("link.md")).unwrap();
        std::os::unix::fs::symlink(path("own"), path("way")).unwrap();
        let refused = |name: &str| of(&call(&path(name)), &path("own")).unwrap().unwrap_err();
        for (name, why) in [
            ("own/secret.md", "belongs to aye"),
            ("way/secret.md", "belongs to aye"),
            ("secret.txt", "Markdown"),
            ("link.md", "cannot be shown"),
            ("folder.md", "not a file"),
            ("long.md", "too long"),
            ("binary.md", "cannot be shown"),
            ("missing.md", "cannot be shown"),
        ] {
            assert!(refused(name).contains(why), "{name}: {}", refused(name));
        }
        let relative =
            json!({"toolCallId": "exit_plan_mode__1", "title": "Requesting plan approval for: plan.md"});
        assert!(of(&relative, &path("own")).unwrap().is_err());
        let other = json!({"toolCallId": "read_file__1", "title": call(&path("plan.md"))["title"]});
        assert_eq!(of(&other, &path("own")), None);
    }
}
