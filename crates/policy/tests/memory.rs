//! What a hostile command costs. The only test of its file, so that nothing else runs in its process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use aye_policy::Script;

/// The most memory this process ever had in use.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_huge_command_costs_little_more_memory_than_its_text() {
    let texts: Vec<String> = ["a;", "a\n", "a|", "a b ", "sudo ", "`", "$(", "bash -c '"]
        .map(|unit| unit.repeat(3_800_000 / unit.len()))
        .into();
    // Each wrapper may begin its command at several places, and all of those commands have the long word.
    let nested = ["sudo --a ", "git --a git ", "docker exec a "]
        .map(|unit| format!("{}{}", unit.repeat(40), "y".repeat(100_000)));
    let texts = [texts, nested.into()].concat();
    let before = peak_kib();
    for text in &texts {
        drop(Script::read(text));
    }
    let grown = peak_kib() - before;
    assert!(grown < 200 * 1024, "it took {grown} KiB more");
}
