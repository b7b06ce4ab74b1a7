//! The commands, files and variables of `Dockerfile` and `compose.yaml`, as far as they can be tried without containers.

use crate::support::{Hub, aye, code, complained};
use aye_testkit::postgres::Cluster;
use std::path::{Path, PathBuf};
use std::process::Command;

fn read(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

/// The words of a line of the Dockerfile that ends in a JSON array.
fn words(dockerfile: &str, instruction: &str) -> Vec<String> {
    let line = dockerfile.lines().find(|line| line.starts_with(instruction)).expect("the instruction");
    serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap()
}

/// What follows this line of the file and is indented further.
fn below<'a>(text: &'a str, line: &str) -> Vec<&'a str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().skip_while(|found| *found != line);
    let first = lines.next().expect(line);
    lines.take_while(|found| found.is_empty() || indent(found) > indent(first)).collect()
}

/// The content of one of the files that compose makes.
fn content(compose: &str, name: &str) -> String {
    let (_, files) = compose.split_once("\nconfigs:\n").unwrap();
    let file = below(files, &format!("  {name}:")).join("\n");
    let lines = file.lines().skip(1).map(|line| line.strip_prefix("      ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

fn started(command: &[String], home: &Path, variables: &[(&str, &str)]) -> Command {
    let mut started = aye(home);
    // The port of the image may be taken here, and nothing but this machine is to reach it.
    let words = command.iter().map(|word| word.replace("0.0.0.0:7177", "127.0.0.1:0"));
    started.args(words).envs(variables.iter().copied());
    started
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn the_hubs_of_compose_start_with_its_files_and_are_healthy_while_they_work() {
    let (dockerfile, compose) = (read("Dockerfile"), read("compose.yaml"));
    let (command, check) = (words(&dockerfile, "CMD"), words(&dockerfile, "HEALTHCHECK"));
    assert_eq!((words(&dockerfile, "ENTRYPOINT"), check[0].as_str()), (vec!["aye".to_owned()], "aye"));
    let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("password"), "not asked for\n").unwrap();
    let config = content(&compose, "aye");
    let config = config.replace("/run/secrets/database.password", path("password").to_str().unwrap());
    let (keys, url) = (path("keys").display().to_string(), Cluster::shared().new_database());
    let variables = [("AYE_DATABASE_URL", url.as_str()), ("AYE_KEYS", keys.as_str())];
    let home = |name: &str| -> PathBuf {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(name).join("config.toml"), &config).unwrap();
        path(name)
    };
    let is_healthy = |home: &Path| started(&check[1..], home, &variables).output().unwrap();
    let mut hubs = ["hub-1", "hub-2"].map(|name| {
        let home = home(name);
        let hub = Hub::start_with(started(&command, &home, &variables), home.clone());
        assert_eq!(code(&is_healthy(&home)), Some(0), "{}", complained(&is_healthy(&home)));
        assert!(hub.link.starts_with("http://localhost:7177/"), "{}", hub.link);
        assert!(!home.join("chain.key").exists() && home.join("chain.head").exists());
        hub
    });
    // One of them is lost, and the other goes on.
    hubs[0].kill();
    assert_ne!(code(&is_healthy(&hubs[0].home)), Some(0));
    assert_eq!(code(&is_healthy(&hubs[1].home)), Some(0));
    for name in ["chain.key", "agent.key", "operator.token"] {
        assert!(path("keys").join(name).exists(), "{name}");
    }
}

#[test]
fn every_variable_and_file_in_them_is_documented() {
    let (compose, documented) = (read("compose.yaml"), read("docs/configuration.md"));
    let text = read("Dockerfile") + &compose;
    let names = text.split(|c: char| !c.is_ascii_uppercase() && c != '_');
    let names: Vec<_> = names.filter(|name| name.starts_with("AYE_")).collect();
    assert!(names.len() > 3);
    for name in names {
        assert!(documented.contains(&format!("| `{name}` |")), "{name}");
    }
    // Both hubs are behind the balancer, and it asks for their health under the name that they know.
    let balancer = content(&compose, "balancer");
    for words in ["reverse_proxy hub-1:7177 hub-2:7177", "health_uri /api/health", "Host localhost:7177"] {
        assert!(balancer.contains(words), "{balancer}");
    }
    assert!(content(&compose, "aye").contains("public_url = \"http://localhost:7177\""));
}
