//! How far an agent's word for its folder goes. Rules and grants that are bound to a folder follow what the system
//! tells of the agent's process; where it tells nothing, they follow the first folder the agent named and no later one.

use super::alive::AskingProcesses;
use crate::processes::folder_of;
use crate::store::Profile;
use aye_policy::Folder;

/// The folder an agent is in, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFolder {
    /// None if the agent's word does not fit what is known.
    folder: Option<String>,
    /// Where its process works, as the system itself tells.
    seen: Option<String>,
}

impl AgentFolder {
    /// `told` is the folder that was named with an ask.
    pub fn of(agent: &Profile, told: Option<&str>, processes: &AskingProcesses) -> Self {
        let seen = agent.process.and_then(|process| folder_of_process(process, processes));
        let folder = seen.clone().unwrap_or_else(|| agent.first_cwd.clone());
        let fits = told.is_none_or(|told| told == agent.cwd) && is_within(&agent.cwd, &folder);
        Self { folder: fits.then_some(folder), seen }
    }

    /// Whether `/proc` confirms the folder the agent reported.
    pub fn is_checked(&self) -> bool {
        self.folder.is_some() && self.seen.is_some()
    }

    pub fn folder(&self) -> Folder<'_> {
        self.folder.as_deref().map_or(Folder::Disputed, Folder::Known)
    }

    /// The folders that relative names may start from.
    pub fn bases(&self, agent: &Profile) -> Vec<String> {
        let mut bases = vec![if agent.cwd.is_empty() { "/".to_owned() } else { agent.cwd.clone() }];
        let known = self.seen.iter().chain(&self.folder).filter(|folder| !folder.is_empty());
        bases.extend(known.cloned());
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
            assert_eq!(of(&profile(elsewhere, "/src/web"), None).folder(), Folder::Disputed);
        }
    }

    #[test]
    fn a_folder_named_with_an_ask_must_be_the_one_that_is_registered() {
        let agent = profile("/src/web", "/src/web");
        assert_eq!(of(&agent, Some("/src/web")).folder(), Folder::Known("/src/web"));
        assert_eq!(of(&agent, Some("/src/web/sub")).folder(), Folder::Disputed);
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
        assert_eq!((at("/work").folder(), at("/work").is_checked()), (Folder::Disputed, false));
        // The same number under another start is another process.
        let gone = Profile { process: Some((me, 1)), ..profile("/work", "/work") };
        assert!(!of(&gone, None).is_checked());
    }
}
