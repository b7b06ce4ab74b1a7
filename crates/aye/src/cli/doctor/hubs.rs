//! The hubs that share a server's database, and whether they have in common what they must.

use super::Finding;
use crate::home::Home;
use crate::store::{self, Fingerprints, HubRow};
use std::collections::BTreeSet;

/// A hub that has not been there for longer is gone: it says so every few seconds.
const THERE: u64 = 15;

/// One of the fingerprints.
type Of = fn(&Fingerprints) -> &Option<String>;

/// None where the database is a file, which one hub has for itself.
pub fn look(home: &Home) -> Option<Finding> {
    let database = match store::open_to_look(home) {
        Ok(database) => database?,
        // Told with the trail.
        Err(_) => return None,
    };
    if !database.is_on_server() {
        return None;
    }
    Some(match database.hubs() {
        Ok(hubs) => compare(&hubs, &Fingerprints::of(home)),
        Err(error) => Finding::wrong("hubs", error.to_string(), "start a hub of this version: aye up"),
    })
}

fn compare(hubs: &[HubRow], own: &Fingerprints) -> Finding {
    let hubs: Vec<_> = hubs.iter().filter(|hub| hub.seen <= THERE).collect();
    if hubs.is_empty() {
        return Finding::wrong("hubs", "none is there", "aye up");
    }
    let lines = hubs.iter().map(|hub| {
        let HubRow { host, pid, version, seen, .. } = hub;
        format!("{host}, process {pid}, version {version}, seen {seen} s ago")
    });
    let mut lines: Vec<_> = lines.collect();
    let secrets: [(&str, Of); 3] = [
        ("chain.key", |of| &of.chain_key),
        ("agent.key", |of| &of.agent_key),
        ("operator.token", |of| &of.operator_token),
    ];
    let differs = |of: &Of| {
        let all = hubs.iter().map(|hub| &hub.fingerprints).chain([own]);
        all.map(of).collect::<BTreeSet<_>>().len() > 1
    };
    let different: Vec<_> = secrets.iter().filter(|(_, of)| differs(of)).map(|(name, _)| *name).collect();
    let config: Of = |of| &of.config;
    let versions: BTreeSet<_> = hubs.iter().map(|hub| &hub.version).collect();
    let mut mend = Vec::new();
    if !different.is_empty() {
        lines.push(format!("{} differ between the hubs and this AYE_HOME", different.join(", ")));
        mend.push("copy them from one AYE_HOME to all others, and restart the hubs there");
    }
    if differs(&config) {
        lines.push("config.toml differs between the hubs and this AYE_HOME: which rules decide depends on who is asked".into());
        mend.push("make config.toml the same everywhere; it takes effect when you save it");
    }
    // A hub may run without Telegram, but all that use it must have the same bot.
    let bots =
        hubs.iter().map(|hub| &hub.fingerprints).chain([own]).filter_map(|of| of.telegram_token.as_ref());
    if bots.collect::<BTreeSet<_>>().len() > 1 {
        lines.push("telegram.token differs between the hubs and this AYE_HOME: which bot people talk to depends on the hub".into());
        mend.push("copy the token of the bot from one AYE_HOME to all others");
    }
    if versions.len() > 1 {
        lines.push("they are not of the same version".into());
        mend.push("upgrade the others, one after the other");
    }
    let indent = format!("\n{:13}", "");
    Finding {
        about: "hubs",
        fine: different.is_empty(),
        notable: !mend.is_empty(),
        found: lines.join(&indent),
        mend: (!mend.is_empty()).then(|| mend.join(&indent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(host: &str, seen: u64, of: &Fingerprints) -> HubRow {
        HubRow { host: host.into(), pid: 7, version: "1.0.0".into(), seen, fingerprints: of.clone() }
    }

    fn of(agent: &str, config: &str) -> Fingerprints {
        let some = |text: &str| Some(text.to_owned());
        Fingerprints {
            chain_key: some("k"),
            agent_key: some(agent),
            operator_token: some("t"),
            telegram_token: some("b"),
            config: some(config),
        }
    }

    #[test]
    fn hubs_that_have_the_same_are_fine_and_those_that_are_gone_do_not_count() {
        let all = [hub("a", 1, &of("x", "c")), hub("b", 0, &of("x", "c")), hub("gone", 60, &of("y", "d"))];
        let found = compare(&all, &of("x", "c"));
        assert!(found.fine && !found.notable);
        assert_eq!(
            found.found,
            "a, process 7, version 1.0.0, seen 1 s ago\n             b, process 7, version 1.0.0, seen 0 s ago"
        );
        assert!(!compare(&all[2..], &of("x", "c")).fine);
    }

    #[test]
    fn a_secret_that_differs_is_wrong_and_another_config_or_version_is_worth_knowing() {
        let same = hub("a", 1, &of("x", "c"));
        let secret = compare(&[same.clone(), hub("b", 1, &of("y", "c"))], &of("x", "c"));
        assert!(!secret.fine && secret.found.contains("agent.key differ between"), "{}", secret.found);
        // One that only this home has is found as well.
        assert!(!compare(std::slice::from_ref(&same), &of("z", "c")).fine);
        let config = compare(&[same.clone(), hub("b", 1, &of("x", "d"))], &of("x", "c"));
        assert!(config.fine && config.notable && config.found.contains("config.toml differs between"));
        let mut other_bot = of("x", "c");
        other_bot.telegram_token = Some("other".to_owned());
        let bots = compare(&[same.clone(), hub("b", 1, &other_bot)], &of("x", "c"));
        assert!(bots.fine && bots.found.contains("telegram.token differs between"), "{}", bots.found);
        let none = Fingerprints { telegram_token: None, ..of("x", "c") };
        assert!(!compare(&[same.clone(), hub("b", 1, &none)], &of("x", "c")).notable);
        let newer = HubRow { version: "1.1.0".into(), ..hub("b", 1, &of("x", "c")) };
        let versions = compare(&[same, newer], &of("x", "c"));
        assert!(versions.fine && versions.found.contains("not of the same version"));
    }
}
