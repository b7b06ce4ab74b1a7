//! Claude Code's permission modes, as it names them in its lines, to its hooks and in its transcripts.

use crate::config::ProtocolName;
use aye_core::AsksFor;

/// `default` under the name that newer versions show people.
const MANUAL: &str = "manual";

/// The words for a mode below the prompt of its terminal.
const SHOWN: [(&str, &str); 6] = [
    ("manual mode on", MANUAL),
    ("accept edits on", "acceptEdits"),
    ("plan mode on", "plan"),
    ("auto mode on", "auto"),
    ("bypass permissions on", "bypassPermissions"),
    ("don't ask on", "dontAsk"),
];
/// The last lines of the screen, among which that is.
const FOOTER: usize = 4;

/// The mode that the terminal shows; none where it shows none, as below a dialog.
pub fn mode_on(screen: &str) -> Option<&'static str> {
    let lines = screen.lines().rev().filter(|line| !line.trim().is_empty()).take(FOOTER);
    let mut shown = lines.filter_map(|line| {
        let words = line.trim_start().strip_prefix(['⏵', '⏸'])?.trim_start_matches(['⏵', '⏸', ' ']);
        SHOWN.iter().find(|(shown, _)| words.starts_with(shown)).map(|(_, mode)| *mode)
    });
    shown.next()
}

/// Returns how much Claude Code asks for in the mode of this name.
pub fn asks_in(mode: &str) -> AsksFor {
    match mode {
        MANUAL => AsksFor::Everything,
        mode => ProtocolName::ClaudeCode.asks_in(mode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_known_by_its_name_and_by_the_words_on_the_screen() {
        assert_eq!(asks_in("default"), AsksFor::Everything);
        assert_eq!(asks_in("manual"), AsksFor::Everything);
        assert_eq!(asks_in("auto"), AsksFor::Some);
        assert_eq!(asks_in("bypassPermissions"), AsksFor::Nothing);
        assert_eq!(asks_in("fromNextYear"), AsksFor::Unknown);
        // As 2.1.327 shows them.
        let shown = |line: &str| mode_on(&format!("❯ hi\n────\n❯\n────\n  {line}\n\n"));
        assert_eq!(shown("⏵⏵ auto mode on (shift+tab to cycle) · ← for agents"), Some("auto"));
        assert_eq!(shown("⏸ manual mode on · ? for shortcuts"), Some("manual"));
        assert_eq!(shown("⏵⏵ bypass permissions on (shift+tab to cycle)"), Some("bypassPermissions"));
        assert_eq!(shown("? for shortcuts"), None);
        assert_eq!(shown("bypass permissions on"), None);
    }
}
