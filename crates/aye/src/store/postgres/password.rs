//! The password of the database, if its URL has none: from a file of its own, `PGPASSWORD`, or the password file that all
//! programs of PostgreSQL share (`~/.pgpass`).

use super::address::database;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

pub fn find(
    config: &Config,
    file: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, String> {
    if let Some(file) = file {
        let read = std::fs::read_to_string(file);
        let read =
            read.map_err(|why| format!("its password cannot be read from {}: {why}", file.display()))?;
        return Ok(Some(read.trim_end_matches(['\r', '\n']).to_owned()));
    }
    if let Some(password) = variable("PGPASSWORD") {
        return Ok(Some(password));
    }
    let shared = variable("PGPASSFILE").map(PathBuf::from);
    let shared = shared.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".pgpass")));
    shared.map_or(Ok(None), |shared| in_shared_file(&shared, config))
}

fn in_shared_file(path: &Path, config: &Config) -> Result<Option<String>, String> {
    let unreadable = |why| format!("the password file {} cannot be read: {why}", path.display());
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found.map_err(unreadable)?,
    };
    // As all programs of PostgreSQL do.
    if found.permissions().mode() & 0o077 != 0 {
        return Err(format!(
            "the password file {} can be read by others, so it is not used: chmod 600 {0}",
            path.display()
        ));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    Ok(text.lines().find_map(|line| entry(line, config)))
}

/// The password of a line `host:port:database:user:password`, if it is for this database.
fn entry(line: &str, config: &Config) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let [host, port, name, user, password] = fields(line)?;
    let fits = |field: &str, value: &str| field == "*" || field == value;
    let is_for = |(i, known): (usize, &Host)| {
        let known = match known {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        };
        let ports = config.get_ports();
        let known_port = ports.get(i).or(ports.first()).copied().unwrap_or(5432);
        fits(&host, &known) && fits(&port, &known_port.to_string())
    };
    let is_for_it = config.get_hosts().iter().enumerate().any(is_for)
        && fits(&name, database(config))
        && fits(&user, config.get_user().unwrap_or_default());
    is_for_it.then_some(password)
}

/// A colon or a backslash in a field has a backslash before it. The last field ends with the line.
fn fields(line: &str) -> Option<[String; 5]> {
    let mut fields: [String; 5] = Default::default();
    let (mut at, mut chars) = (0, line.chars());
    while let Some(c) = chars.next() {
        match c {
            ':' if at < 4 => at += 1,
            '\\' => fields[at].push(chars.next().unwrap_or('\\')),
            c => fields[at].push(c),
        }
    }
    (at == 4).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::str::FromStr;

    const SHARED: &str = "\
        # every program of PostgreSQL reads this\n\
        broken\n\
        db.example:5432:other:aye:of another database\n\
        db.example:6432:*:aye:of another port\n\
        db.example:5432:aye:aye:se\\:cr\\\\et:s\n\
        /run/postgresql:*:aye:*:of the socket\n\
        *:*:*:ann:of ann\n";

    fn found(url: &str, shared: &str) -> Option<String> {
        let config = Config::from_str(url).unwrap();
        shared.lines().find_map(|line| entry(line, &config))
    }

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let found = |url| found(url, SHARED);
        assert_eq!(found("postgres://aye@db.example/aye").as_deref(), Some("se:cr\\et:s"));
        assert_eq!(found("postgres://aye@db.example:6432/aye").as_deref(), Some("of another port"));
        assert_eq!(
            found("postgres://aye@a.example,db.example/other").as_deref(),
            Some("of another database")
        );
        assert_eq!(found("postgres:///aye?host=/run/postgresql&user=bob").as_deref(), Some("of the socket"));
        assert_eq!(found("postgres://ann@elsewhere/x").as_deref(), Some("of ann"));
        assert_eq!(found("postgres://aye@elsewhere/aye"), None);
    }

    #[test]
    fn a_file_of_its_own_comes_before_the_variable_and_that_before_the_shared_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("own"), "from its file\n").unwrap();
        std::fs::write(path(".pgpass"), "*:*:*:*:from the shared file\n").unwrap();
        std::fs::set_permissions(path(".pgpass"), Permissions::from_mode(0o600)).unwrap();
        let config = Config::from_str("postgres://aye@db.example/aye").unwrap();
        let home = dir.path().to_str().unwrap().to_owned();
        let named = path(".pgpass").to_str().unwrap().to_owned();
        let with = |file: Option<&Path>, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            find(&config, file, &variable)
        };
        let say = |words: &str| Ok(Some(words.to_owned()));
        let (variable, in_home) = (("PGPASSWORD", "from the variable"), ("HOME", home.as_str()));
        assert_eq!(with(Some(&path("own")), &[variable, in_home]), say("from its file"));
        assert_eq!(with(None, &[variable, in_home]), say("from the variable"));
        assert_eq!(with(None, &[in_home]), say("from the shared file"));
        assert_eq!(with(None, &[("PGPASSFILE", &named)]), say("from the shared file"));
        assert_eq!(with(None, &[("PGPASSFILE", "/nowhere"), in_home]), Ok(None));
        assert_eq!(with(None, &[]), Ok(None));
        let missing = with(Some(&path("missing")), &[]).unwrap_err();
        assert!(missing.starts_with("its password cannot be read from "), "{missing}");
        std::fs::set_permissions(path(".pgpass"), Permissions::from_mode(0o640)).unwrap();
        let refused = with(None, &[in_home]).unwrap_err();
        assert!(refused.contains("can be read by others, so it is not used: chmod 600 "), "{refused}");
    }
}
