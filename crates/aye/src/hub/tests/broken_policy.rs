//! A `config.toml` that cannot be used, by accident or because somebody broke it on purpose.

use super::passkeys::{EVERY_ALLOW, allow, unproven};
use super::policy::{RULES, decision};
use super::*;
use crate::webauthn::Pages;
use std::path::Path;

type Break = (&'static str, fn(&Path));

/// Every way to leave the hub without the file.
const BREAKS: [Break; 7] = [
    ("no TOML", |file| std::fs::write(file, "[policy").unwrap()),
    ("an unknown key", |file| std::fs::write(file, "[policy]\nprof = \"passkey\"").unwrap()),
    ("an unknown kind of proof", |file| std::fs::write(file, "[policy]\nproof = \"passky\"").unwrap()),
    ("no text", |file| std::fs::write(file, b"[policy]\n# \xff").unwrap()),
    ("a folder", |file| {
        std::fs::remove_file(file).unwrap();
        std::fs::create_dir(file).unwrap();
    }),
    ("a device that never ends", |file| {
        std::fs::remove_file(file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", file).unwrap();
    }),
    ("gone", |file| std::fs::remove_file(file).unwrap()),
];

impl Desk {
    fn config(&self) -> std::path::PathBuf {
        self.dir.path().join("config.toml")
    }

    async fn restart_with(&mut self, broken: fn(&Path)) {
        broken(&self.config());
        self.crash_and_restart().await;
        self.hub.serves_pages(Pages::of(None, false, 7177));
    }

    fn meanwhile(&self) -> String {
        let notices = self.hub.notices();
        assert_eq!(notices.len(), 1);
        notices[0]["meanwhile"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_file_that_is_broken_when_the_hub_starts_takes_no_passkey_away() {
    for (what, broken) in BREAKS {
        let strict = RULES.replace("[policy]", "[policy]\n    proof = \"passkey\"");
        let (mut desk, mut key) = Desk::with_passkey(&strict).await;
        assert_eq!(decision(&desk.run("0", "cargo test").await), "allow", "{what}");
        desk.restart_with(broken).await;
        assert!(desk.meanwhile().contains("takes a passkey"), "{what}");
        // Nothing is allowed by a rule, and by a person only with the passkey.
        let ask = desk.run("1", "cargo test").await;
        assert_eq!(decision(&ask), "open", "{what}");
        unproven(desk.decide(&ask, allow()).await, "passkey");
        assert_eq!(decision(&desk.allow_by(&mut key, &ask).await.unwrap()), "allow");
        // Once more broken, it stays so; and a file that can be read counts again.
        desk.crash_and_restart().await;
        assert!(desk.meanwhile().contains("takes a passkey"), "{what}");
        if desk.config().is_dir() {
            std::fs::remove_dir(desk.config()).unwrap();
        } else if desk.config().is_symlink() {
            std::fs::remove_file(desk.config()).unwrap();
        }
        desk.rewrite("").await;
        assert_eq!(desk.hub.notices(), Vec::<Value>::new(), "{what}");
        let ask = desk.run("2", "cargo test").await;
        assert_eq!(decision(&desk.decide(&ask, allow()).await.unwrap()), "allow");
    }
}

#[tokio::test]
async fn what_was_asked_for_last_time_counts_also_where_no_passkey_is_registered_yet() {
    for (what, broken) in BREAKS {
        let mut desk = Desk::with_policy(EVERY_ALLOW).await;
        desk.restart_with(broken).await;
        let ask = desk.run("1", "make").await;
        unproven(desk.decide(&ask, allow()).await, "none is registered");
        assert_eq!(decision(&desk.decide(&ask, denial("no")).await.unwrap()), "deny", "{what}");
    }
}

#[tokio::test]
async fn who_never_asked_for_a_passkey_is_not_locked_out_by_a_broken_file() {
    for (what, broken) in BREAKS {
        let mut desk = Desk::with_policy(RULES).await;
        desk.restart_with(broken).await;
        let ask = desk.run("1", "cargo test").await;
        assert_eq!(decision(&ask), "open", "{what}");
        assert_eq!(decision(&desk.decide(&ask, allow()).await.unwrap()), "allow", "{what}");
    }
}

#[tokio::test]
async fn a_file_that_breaks_or_goes_while_the_hub_runs_leaves_the_policy_as_it_was() {
    for (what, broken) in BREAKS {
        let (desk, _) = Desk::with_passkey(EVERY_ALLOW).await;
        broken(&desk.config());
        desk.hub.reload_policy().await.unwrap();
        assert_eq!(desk.meanwhile(), "The last working policy stays in force.", "{what}");
        let ask = desk.run("1", "make").await;
        unproven(desk.decide(&ask, allow()).await, "passkey");
    }
}

#[tokio::test]
async fn a_file_that_can_be_read_again_counts_though_nobody_wrote_it() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::with_policy("").await;
    let file = desk.config();
    let before = crate::config::Stamp::of(&file);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
    assert!(crate::config::Stamp::of(&file) != before);
}
