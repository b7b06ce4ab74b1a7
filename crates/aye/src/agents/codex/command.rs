//! The command line that Codex wants to run, taken apart: it tells an argument list, quoted for a shell, which is
//! nearly always a shell and its script. Rules must see the script.

/// Shells that rules understand.
const SHELLS: [&str; 4] = ["bash", "sh", "dash", "zsh"];
/// Where systems keep them. A shell from anywhere else may be any program.
const PLACES: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];
/// How a script is handed over, with or without the person's profile.
const OPTIONS: [&str; 2] = ["-lc", "-c"];

/// The script that a shell is to run; none where the line is anything else, or may be read in another way.
pub fn script(line: &str) -> Option<String> {
    let words = shlex::split(line)?;
    let again = shlex::try_join(words.iter().map(String::as_str)).ok()?;
    let [shell, option, script] = words.try_into().ok()?;
    let (place, name) = shell.rsplit_once('/')?;
    let known = PLACES.contains(&place) && SHELLS.contains(&name) && OPTIONS.contains(&option.as_str());
    (again == line && known).then_some(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_what_the_shell_gets_byte_for_byte() {
        for (line, expected) in [
            ("/bin/bash -lc 'touch a'", "touch a"),
            ("/bin/bash -lc ls", "ls"),
            (r#"/bin/bash -lc "touch a; echo it's""#, "touch a; echo it's"),
            ("/usr/bin/sh -c 'cat <<EOF\n$x \"y\"\nEOF'", "cat <<EOF\n$x \"y\"\nEOF"),
            ("/bin/zsh -lc 'a && b'", "a && b"),
        ] {
            assert_eq!(script(line).as_deref(), Some(expected), "{line}");
        }
        for awkward in ["", " ", "'", "it's \"both\"", "\\", "a\nb", "$(x) `y` !z", "é\u{202e}", "\\'\"'"] {
            let line = shlex::try_join(["/bin/bash", "-lc", awkward]).unwrap();
            assert_eq!(script(&line).as_deref(), Some(awkward), "{line}");
        }
    }

    #[test]
    fn whatever_else_it_is_stays_whole() {
        for line in [
            "",
            "ls -l",
            "/bin/bash -lc",
            "/bin/bash -lc 'a' b",
            "/bin/bash -ic a",
            "/bin/bash -lc 'a",
            "/bin/bash  -lc a",
            "/bin/bash -lc a; rm -rf b",
            "/bin/bash -lc $(rm)",
            "/bin/bash -lc 'a' # b",
            "bash -lc a",
            "./bash -lc a",
            "/tmp/bin/bash -lc a",
            "/bin/../tmp/bash -lc a",
            "/usr/bin/fish -c a",
            "/usr/bin/env bash",
        ] {
            assert_eq!(script(line), None, "{line}");
        }
    }
}
