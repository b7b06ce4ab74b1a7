use super::{MARKER, Service};
use anyhow::ensure;
use std::net::SocketAddr;

pub const ENABLE: &str = "systemctl --user daemon-reload && systemctl --user enable --now aye";
pub const ENABLE_WITH_SOCKET: &str =
    "systemctl --user daemon-reload && systemctl --user enable --now aye.socket aye";

/// Holds the port while the hub is down, so that no other user can listen there meanwhile.
pub fn socket_unit(addresses: &[SocketAddr]) -> String {
    let listen: String = addresses.iter().map(|address| format!("ListenStream={address}\n")).collect();
    format!(
        "# {MARKER}
[Unit]
Description=aye: its port, kept while the hub is down

[Socket]
{listen}BindIPv6Only=ipv6-only

[Install]
WantedBy=sockets.target
"
    )
}

pub fn unit(service: &Service) -> anyhow::Result<String> {
    ensure!(
        !service.program.contains(['"', '\'', '\\']),
        "systemd starts no program whose name has quotes or backslashes: move {} elsewhere",
        service.program
    );
    let words: Vec<_> =
        [&service.program].into_iter().chain(&service.arguments).map(|word| quote(word)).collect();
    // The colon: systemd puts no variables in.
    let command = format!(":{}", words.join(" "));
    let environment = match &service.home {
        Some(home) => format!("Environment={}\n", quote(&format!("AYE_HOME={home}"))),
        None => String::new(),
    };
    Ok(format!(
        "# {MARKER}
[Unit]
Description=aye: your coding agents ask, you answer
Wants=aye.socket
After=aye.socket

[Service]
ExecStart={command}
{environment}# The sign-in link is printed there, and a journal has other readers. `aye open` prints a new one.
StandardOutput=null
# Runs that the hub started outlive it.
KillMode=process
Restart=on-failure
RestartSec=2

[Install]
WantedBy=default.target
"
    ))
}

/// One word, whatever is in it.
fn quote(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' => quoted += "%%",
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::super::tests::{awkward, plain};
    use super::*;
    use std::process::Command;

    #[test]
    fn a_plain_unit_reads_plainly() {
        insta::assert_snapshot!(unit(&plain()).unwrap(), @r#"
        # Written by aye, and again whenever its service is installed: changes do not last.
        [Unit]
        Description=aye: your coding agents ask, you answer
        Wants=aye.socket
        After=aye.socket

        [Service]
        ExecStart=:"/usr/local/bin/aye" "up" "--no-open" "--listen" "127.0.0.1:7177"
        # The sign-in link is printed there, and a journal has other readers. `aye open` prints a new one.
        StandardOutput=null
        # Runs that the hub started outlive it.
        KillMode=process
        Restart=on-failure
        RestartSec=2

        [Install]
        WantedBy=default.target
        "#);
    }

    #[test]
    fn the_port_is_held_on_both_loopback_addresses() {
        let addresses = ["127.0.0.1:7177", "[::1]:7177"].map(|address| address.parse().unwrap());
        insta::assert_snapshot!(socket_unit(&addresses), @r"
        # Written by aye, and again whenever its service is installed: changes do not last.
        [Unit]
        Description=aye: its port, kept while the hub is down

        [Socket]
        ListenStream=127.0.0.1:7177
        ListenStream=[::1]:7177
        BindIPv6Only=ipv6-only

        [Install]
        WantedBy=sockets.target
        ");
    }

    #[test]
    fn whatever_stands_in_a_path_stays_one_word() {
        let unit = unit(&awkward()).unwrap();
        let awkward: Vec<_> = unit
            .lines()
            .filter(|line| line.starts_with("ExecStart=") || line.starts_with("Environment="))
            .collect();
        insta::assert_snapshot!(awkward.join("\n"), @r#"
        ExecStart=:"/opt/50%% off/$HOME/aye & <co>" "up" "--no-open" "--listen" "127.0.0.1:7177" "--tls-key" "/k 1/a\"b'c\\d/%%i.pem"
        Environment="AYE_HOME=/srv/a b/%%h \"$x\""
        "#);
    }

    #[test]
    fn a_program_that_systemd_would_not_start_is_refused() {
        for program in ["/o'k/aye", "/a\"b/aye", "/a\\b/aye"] {
            assert!(unit(&Service { program: program.into(), ..plain() }).is_err(), "{program}");
        }
    }

    /// What `systemd-analyze verify` says of a unit, where it is there to say something.
    fn verdict(dir: &std::path::Path, unit: &str) -> Option<String> {
        let path = dir.join("aye.service");
        std::fs::write(&path, unit).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--user", "--man=no"]).arg(&path).env("XDG_RUNTIME_DIR", dir);
        let said = verify.output().ok()?.stderr;
        Some(String::from_utf8_lossy(&said).lines().filter(|line| line.contains("aye")).collect())
    }

    #[test]
    fn systemd_accepts_the_unit() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("50% off $HOME & <co>");
        std::fs::create_dir(&odd).unwrap();
        let program = odd.join("aye");
        std::fs::copy("/bin/true", &program).unwrap();
        let unit = unit(&Service { program: program.to_str().unwrap().into(), ..awkward() }).unwrap();
        let Some(said) = verdict(dir.path(), &unit) else { return };
        assert_eq!(said, "");
        // It would have said something.
        assert_ne!(verdict(dir.path(), &unit.replace("%%", "x")), Some(String::new()));
    }
}
