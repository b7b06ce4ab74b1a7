//! How far an agent's word for its folder goes. Rules and grants that are bound to a folder follow what the system
//! tells of the agent's process; where it tells nothing, they follow the first folder the agent named and no later one.

use super::alive::AskingProcesses;
use crate::processes::folder_of;
use crate::store::Profile;
use aye_policy::Folder;

/// The folder an agent is in, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFolder {
    /// Where its process works, or else the first folder that it named.
    known: String,
    /// Whether `known` was read from the system.
    is_seen: bool,
    /// Every folder that it may be in, if its word does not fit what is known.
    disputed: Option<Vec<String>>,
}

impl AgentFolder {
    /// `told` is the folder that was named with an ask.
    pub fn of(agent: &Profile, told: Option<&str>, processes: &AskingProcesses) -> Self {
        let seen = agent.process.and_then(|process| folder_of_process(process, processes));
        let is_seen = seen.is_some();
        let known = seen.unwrap_or_else(|| agent.first_cwd.clone());
        let fits = told.is_none_or(|told| told == agent.cwd) && is_within(&agent.cwd, &known);
        let disputed = || {
            let named = [agent.cwd.as_str(), agent.first_cwd.as_str(), known.as_str()];
            let mut folders: Vec<String> = named.into_iter().chain(told).map(str::to_owned).collect();
            folders.retain(|folder| !folder.is_empty());
            folders.sort();
            folders.dedup();
            folders
        };
        Self { disputed: (!fits).then(disputed), known, is_seen }
    }

    /// Whether `/proc` confirms the folder the agent reported.
    pub fn is_checked(&self) -> bool {
        self.disputed.is_none() && self.is_seen
    }

    pub fn folder(&self) -> Folder<'_> {
        self.disputed.as_deref().map_or(Folder::Known(&self.known), Folder::Disputed)
    }

    /// The folders that relative names may start from.
    pub fn bases(&self, agent: &Profile) -> Vec<String> {
        let mut bases = vec![if agent.cwd.is_empty() { "/".to_owned() } else { agent.cwd.clone() }];
        let others = self.disputed.iter().flatten().chain([&self.known]);
        bases.extend(others.filter(|folder| !folder.is_empty()).cloned());
        bases.sort();
        bases.dedup();
        bases
    }
}

/// Of this very process, not of another that got its number: whoever is alive afterwards had it before.
fn folder_of_process(process: (u32, u64), processes: &AskingProcesses) -> Option<String> {
    let folder = folder_of(process.0)?;
    processes.is_alive(process).then(|| folder.to_string_lossy().into_owned())
}

/// An agent goes to folders below its own, and its process stays.
fn is_within(cwd: &str, folder: &str) -> bool {
    let below = cwd.strip_prefix(folder.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
    cwd == folder || below.is_some_and(|below| below.split('/').all(|name| !matches!(name, "" | "." | "..")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::AgentRow;
    use aye_core::AgentId;
    use jiff::Timestamp;

    fn profile(cwd: &str, first_cwd: &str) -> Profile {
        let row = AgentRow::unannounced(AgentId::try_from("a").unwrap(), Timestamp::UNIX_EPOCH);
        Profile { cwd: cwd.into(), first_cwd: first_cwd.into(), ..row.profile }
    }

    fn of(agent: &Profile, told: Option<&str>) -> AgentFolder {
        AgentFolder::of(agent, told, &AskingProcesses::default())
    }

    #[test]
    fn without_a_process_the_first_word_counts_and_no_later_one() {
        let told = of(&profile("/src/web", "/src/web"), None);
        assert_eq!((told.folder(), told.is_checked()), (Folder::Known("/src/web"), false));
        assert_eq!(of(&profile("/src/web/sub", "/src/web"), None).folder(), Folder::Known("/src/web"));
        for elsewhere in ["/work", "/src", "/src/webs", "/src/web/../../work", "/src/web//x", ""] {
            let told = of(&profile(elsewhere, "/src/web"), None);
            let Folder::Disputed(folders) = told.folder() else { panic!("{elsewhere}: {told:?}") };
            assert!(folders.contains(&"/src/web".to_owned()), "{elsewhere}: {folders:?}");
        }
    }

    #[test]
    fn a_folder_named_with_an_ask_must_be_the_one_that_is_registered() {
        let agent = profile("/src/web", "/src/web");
        assert_eq!(of(&agent, Some("/src/web")).folder(), Folder::Known("/src/web"));
        let folders = ["/src/web".to_owned(), "/src/web/sub".to_owned()];
        assert_eq!(of(&agent, Some("/src/web/sub")).folder(), Folder::Disputed(&folders));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn where_its_process_works_counts_more_than_any_word() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let here = here.to_str().unwrap();
        let me = std::process::id();
        let process = super::super::this_process(me);
        let at = |cwd: &str| of(&Profile { process, ..profile(cwd, cwd) }, None);
        assert_eq!((at(here).folder(), at(here).is_checked()), (Folder::Known(here), true));
        assert_eq!(at(&format!("{here}/below")).folder(), Folder::Known(here));
        let mut folders = [here.to_owned(), "/work".to_owned()];
        folders.sort();
        assert_eq!((at("/work").folder(), at("/work").is_checked()), (Folder::Disputed(&folders), false));
        for nothing in ["", "/tmp/..", "prod/.."] {
            let told = at(nothing);
            let Folder::Disputed(folders) = told.folder() else { panic!("{nothing}: {told:?}") };
            assert!(folders.contains(&here.to_owned()), "{nothing}: {folders:?}");
        }
        // The same number under another start is another process.
        let gone = Profile { process: Some((me, 1)), ..profile("/work", "/work") };
        assert!(!of(&gone, None).is_checked());
    }
}
