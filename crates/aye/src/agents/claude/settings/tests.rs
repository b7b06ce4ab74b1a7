use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

fn command() -> HookCommand {
    HookCommand { program: "/opt/it's here/aye".into(), home: Some("/home/ä b".into()) }
}

fn line() -> String {
    command().line().unwrap()
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn the_line_for_the_shell_is_one_program_whatever_its_name() {
    assert_eq!(line(), r"AYE_HOME='/home/ä b' exec '/opt/it'\''s here/aye' hook");
    assert_eq!(HookCommand::read(&line()), Some(command()));
    let plain = HookCommand { program: "/usr/bin/aye".into(), home: None };
    assert_eq!(HookCommand::read(&plain.line().unwrap()), Some(plain.clone()));
    assert_eq!(HookCommand::read("/usr/bin/aye hook"), Some(plain));
    for others in [
        "",
        "aye",
        "/usr/bin/aye list",
        "/usr/bin/cleanup hook",
        "'aye hook",
        "x; exec 'aye' hook",
        "aye hook; rm",
    ] {
        assert_eq!(HookCommand::read(others), None, "{others}");
    }
}

/// The shell's own reading of the line, with a program that says how it was called.
#[test]
fn a_real_shell_runs_exactly_that() {
    let dir = tempfile::Builder::new().prefix("it's $HOME \"x\" `y` \\ ").tempdir().unwrap();
    let program = dir.path().join("aye");
    fs::write(&program, "#!/bin/sh\nprintf '%s|%s|%s' \"$AYE_HOME\" \"$#\" \"$1\"").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let home = dir.path().to_str().unwrap().to_owned();
    let line = HookCommand { program, home: Some(home.clone()) }.line().unwrap();
    let said = std::process::Command::new("/bin/sh").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), format!("{home}|1|hook"), "{said:?}");
}

#[test]
fn adding_twice_is_adding_once_and_removing_leaves_what_was_there() {
    let theirs = json!({"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": []}]});
    let mut hooks = object(theirs.clone());
    add(&mut hooks, &line()).unwrap();
    let once = hooks.clone();
    assert_eq!(hooks["Stop"][0], theirs["Stop"][0]);
    assert_eq!(hooks["Stop"][1]["hooks"][0]["command"], line());
    assert_eq!(hooks["PermissionRequest"][0]["hooks"][0]["timeout"], 604_800);
    assert_eq!(missing(&installed(&hooks), &command()), [""; 0]);
    add(&mut hooks, &line()).unwrap();
    assert_eq!(hooks, once);
    remove(&mut hooks).unwrap();
    assert_eq!(Value::Object(hooks), theirs);
}

#[test]
fn a_newer_program_takes_the_place_of_an_older_one() {
    let mut hooks = Map::new();
    add(&mut hooks, "exec '/old/aye' hook").unwrap();
    hooks["Stop"]
        .as_array_mut()
        .unwrap()
        .push(json!({"hooks": [{"command": "mine"}, {"command": "/older/aye hook"}]}));
    add(&mut hooks, &line()).unwrap();
    let found = installed(&hooks);
    assert_eq!(found.len(), EVENTS.len());
    assert!(found.iter().all(|(_, found)| *found == command()), "{found:?}");
    assert_eq!(hooks["Stop"][0]["hooks"], json!([{"command": "mine"}]));
}

#[test]
fn hooks_of_a_wrong_shape_are_refused() {
    for wrong in
        [json!({"Stop": {}}), json!({"Other": null}), json!({"Stop": [1]}), json!({"Stop": [{"hooks": {}}]})]
    {
        let mut hooks = object(wrong.clone());
        assert!(add(&mut hooks, &line()).is_err(), "{wrong}");
        assert!(remove(&mut hooks).is_err(), "{wrong}");
        assert_eq!(Value::Object(hooks), wrong);
    }
}

fn args(given: &[&str]) -> anyhow::Result<Vec<String>> {
    let given = given.iter().map(OsString::from).collect();
    Ok(arguments(given, &line())?.into_iter().map(|argument| argument.into_string().unwrap()).collect())
}

#[test]
fn our_hooks_come_first_and_every_other_argument_stays() {
    let made = args(&["mcp", "list", "--", "--settings", "x"]).unwrap();
    assert_eq!(made[0], "--settings");
    let settings: Value = serde_json::from_str(&made[1]).unwrap();
    assert_eq!(missing(&installed(settings["hooks"].as_object().unwrap()), &command()), [""; 0]);
    assert_eq!(made[2..], ["mcp", "list", "--", "--settings", "x"]);
}

#[test]
fn the_last_settings_of_the_person_are_kept_beside_ours() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.json");
    fs::write(&file, r#"{"model": "x", "hooks": {"Stop": [{"hooks": [{"command": "mine"}]}]}}"#).unwrap();
    let file = file.to_str().unwrap();
    for given in [
        vec!["--settings", "{}", "-p", "--settings", file],
        vec!["--settings={}", &format!("--settings={file}")],
    ] {
        let made = args(&given).unwrap();
        let last = made.last().unwrap().trim_start_matches("--settings=");
        let settings: Value = serde_json::from_str(last).unwrap();
        assert_eq!(settings["model"], "x");
        assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0]["command"], "mine");
        assert_eq!(missing(&installed(settings["hooks"].as_object().unwrap()), &command()), [""; 0]);
        assert_eq!(made.len(), given.len());
    }
    for wrong in ["none.json", "{", "{\"hooks\": []}", "[]"] {
        assert!(args(&["--settings", wrong]).is_err(), "{wrong}");
    }
    assert_eq!(args(&["--settings"]).unwrap(), ["--settings"]);
}

struct Folder {
    dir: tempfile::TempDir,
    file: SettingsFile,
}

impl Folder {
    fn with(text: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        if let Some(text) = text {
            fs::write(&path, text).unwrap();
        }
        Self { file: SettingsFile::at(path), dir }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file.path()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[track_caller]
    fn refuses(&self, because: &str) {
        let before = fs::read(self.file.path()).ok();
        for refused in [self.file.install(&command()), self.file.remove()] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(because), "{error}");
        }
        assert_eq!(fs::read(self.file.path()).ok(), before);
        assert!(!self.names().iter().any(|name| name.contains("new") || name.contains("backup")));
    }
}

#[test]
fn a_file_is_made_where_there_is_none() {
    let folder = Folder::with(None);
    let nested = SettingsFile::at(folder.dir.path().join("a/b/settings.json"));
    assert_eq!(nested.remove().unwrap(), FileChange::Unchanged);
    assert_eq!(nested.install(&command()).unwrap(), FileChange::Changed { backup: None });
    assert_eq!(missing(&nested.installed().unwrap(), &command()), [""; 0]);
    assert_eq!(nested.install(&command()).unwrap(), FileChange::Unchanged);
}

#[test]
fn a_file_keeps_everything_else_and_a_copy_of_what_it_was() {
    let text = "{\n    \"model\": \"x\",\n    \"n\": 1.50\n}";
    let folder = Folder::with(Some(text));
    fs::set_permissions(folder.file.path(), fs::Permissions::from_mode(0o640)).unwrap();
    let FileChange::Changed { backup: Some(backup) } = folder.file.install(&command()).unwrap() else {
        panic!()
    };
    assert_eq!(fs::read_to_string(&backup).unwrap(), text);
    assert!(
        folder.text().starts_with(
            "{\n    \"model\": \"x\",\n    \"n\": 1.50,\n    \"hooks\": {\n        \"Permission"
        )
    );
    assert_eq!(fs::metadata(folder.file.path()).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(folder.file.install(&command()).unwrap(), FileChange::Unchanged);
    assert_eq!(fs::read_to_string(&backup).unwrap(), text);
    folder.file.remove().unwrap();
    assert_eq!(folder.text(), text);
    assert_eq!(folder.names(), ["settings.json", "settings.json.aye-backup"]);
}

#[test]
fn hooks_of_the_person_are_put_back_as_they_were_written() {
    let own = "{\"hooks\": {\"Stop\": [], \"PreToolUse\":[{ \"matcher\":\"Bash\",\n\"hooks\":[{\"type\":\"command\",\"command\":\"x\"}] }]}, \"a\": 1}";
    for text in [own, "{\"hooks\": {}}", "{\"hooks\": {\"Stop\": [{\"hooks\": []}]}}\n"] {
        let folder = Folder::with(Some(text));
        folder.file.install(&command()).unwrap();
        folder.file.remove().unwrap();
        assert_eq!(folder.text(), text);
        // What changed elsewhere meanwhile stays.
        folder.file.install(&command()).unwrap();
        fs::write(folder.file.path(), folder.text().replacen('{', "{\"new\": 2,", 1)).unwrap();
        folder.file.remove().unwrap();
        assert_eq!(folder.text(), text.replacen('{', "{\"new\": 2,", 1));
        // A hook that was added meanwhile stays, too.
        fs::write(folder.file.path(), text).unwrap();
        folder.file.install(&command()).unwrap();
        let with = folder.text().replacen("\"Stop\": [", "\"Mine\": [], \"Stop\": [", 1);
        fs::write(folder.file.path(), with).unwrap();
        folder.file.remove().unwrap();
        assert!(folder.text().contains("\"Mine\": []"), "{}", folder.text());
    }
}

#[test]
fn a_link_stays_a_link_and_its_target_is_changed() {
    let folder = Folder::with(None);
    let target = folder.dir.path().join("dotfiles.json");
    fs::write(&target, "{}").unwrap();
    symlink("dotfiles.json", folder.file.path()).unwrap();
    folder.file.install(&command()).unwrap();
    assert!(fs::symlink_metadata(folder.file.path()).unwrap().is_symlink());
    assert!(fs::read_to_string(&target).unwrap().contains("PermissionRequest"));
}

#[test]
fn what_cannot_be_changed_safely_is_left_as_it_is() {
    Folder::with(Some("{\"a\": 1,}")).refuses("not JSON");
    Folder::with(Some("[1]")).refuses("not JSON");
    Folder::with(Some("{\"hooks\": 1}")).refuses("not an object");
    Folder::with(Some("{\"hooks\": {\"Stop\": 1}}")).refuses("hooks.Stop is not a list");
    let dangling = Folder::with(None);
    symlink("nowhere.json", dangling.file.path()).unwrap();
    dangling.refuses("leads nowhere");
    let hooks = json!({"hooks": {"Stop": [{"hooks": [{"command": "/old/aye hook"}]}]}}).to_string();
    let read_only = Folder::with(Some(&hooks));
    fs::set_permissions(read_only.file.path(), fs::Permissions::from_mode(0o444)).unwrap();
    read_only.refuses("read-only");
    let folder = Folder::with(None);
    fs::create_dir(folder.file.path()).unwrap();
    folder.refuses("cannot read");
}
