//! What hubs that share a database must have in common, as far as it is in files: shown to each other without showing the
//! files. A fingerprint is a MAC with the key of the trail, which every hub of a database has.

use crate::home::Home;
use aye_core::digest::sha256_hex;
use aye_core::trail::ChainKey;
use std::path::Path;

const LENGTH: usize = 16;

/// None for a file that is not there or cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprints {
    pub chain_key: Option<String>,
    pub agent_key: Option<String>,
    pub operator_token: Option<String>,
    /// None where Telegram is off.
    pub telegram_token: Option<String>,
    pub config: Option<String>,
}

impl Fingerprints {
    pub fn of(home: &Home) -> Self {
        let Some(file) = home.chain_key().ok().flatten() else { return Self::default() };
        Self {
            chain_key: Some(file.key.id()),
            agent_key: of_file(&file.key, "agent.key", &home.agent_key_file()),
            operator_token: of_file(&file.key, "operator.token", &home.operator_token()),
            telegram_token: of_telegram(&file.key, home),
            config: of_config(&file.key, home),
        }
    }
}

/// A file that is not there says as much as an empty one.
pub fn of_config(key: &ChainKey, home: &Home) -> Option<String> {
    let digest = crate::config::digest_of(&home.config()).ok()?;
    Some(of_digest(key, "config.toml", &digest))
}

fn of_telegram(key: &ChainKey, home: &Home) -> Option<String> {
    let (config, _) = crate::config::Config::for_surfaces(&home.config());
    let file = home.path().join(config.telegram?.token_file);
    of_file(key, "telegram.token", &file)
}

fn of_file(key: &ChainKey, name: &str, path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(of_digest(key, name, &sha256_hex(bytes.trim_ascii())))
}

fn of_digest(key: &ChainKey, name: &str, digest: &str) -> String {
    key.tag("fingerprint of a file", &format!("{name} {digest}"))[..LENGTH].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::{ChainKeyFile, RowMarks};

    #[test]
    fn the_same_files_have_the_same_fingerprints_and_others_have_others() {
        let home = |key: u8, token: &str, config: &str| {
            let dir = tempfile::tempdir().unwrap();
            let home = Home::at(dir.path());
            let key = ChainKeyFile {
                key: ChainKey::new([key; 32]),
                line: 1,
                after: "x".into(),
                marks: RowMarks::Standing,
            };
            home.write_chain_key(&key).unwrap();
            home.write_operator_token(token).unwrap();
            std::fs::write(home.config(), config).unwrap();
            Fingerprints::of(&home)
        };
        let one = home(1, "aye_x", "[policy]");
        assert_eq!(one, home(1, "aye_x", "[policy]"));
        assert_eq!(one.agent_key, None);
        let other = home(1, "aye_y", "");
        assert_eq!(one.chain_key, other.chain_key);
        assert_ne!(one.operator_token, other.operator_token);
        assert_ne!(one.config, other.config);
        assert_eq!(one.telegram_token, None);
        // With another key, nobody can tell what the file held.
        assert_ne!(one.operator_token, home(2, "aye_x", "").operator_token);
        assert_eq!(Fingerprints::of(&Home::at("/nowhere")), Fingerprints::default());
    }
}
