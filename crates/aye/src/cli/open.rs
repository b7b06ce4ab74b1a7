use super::{Done, say};
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::calls;
use anyhow::{Context, ensure};
use clap::Args;
use qrcodegen::{QrCode, QrCodeEcc};
use std::net::IpAddr;
use std::process::ExitCode;

/// Print a sign-in link for one browser; it works once, for 15 minutes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye open                        then paste the link into a browser
  aye open --qr                   then point your phone's camera at it

Do not pass the link to a browser as an argument: other users can read command lines.")]
pub struct Open {
    /// Print the link as a QR code for your phone
    #[arg(long)]
    qr: bool,
}

impl Open {
    pub async fn run(self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        let url = client.call(&calls::SIGN_IN_LINK, "", &(), &(), Try::Once).await?.url;
        if self.qr {
            ensure!(
                reachable(&url),
                "a phone cannot sign in at {}: it needs https, under a name or address that it can reach. \
                 Name that as public_url under [hub] in config.toml, then try again",
                url.split("/sign-in").next().unwrap_or(&url)
            );
            say(&code(&url)?)?;
        }
        say(&format!("{url}\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Browsers sign only on secure pages, and loopback is the phone itself there.
fn reachable(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_local = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    host != "localhost" && !host.ends_with(".localhost") && !host.parse().is_ok_and(is_local)
}

/// Two rows of modules a line, black on white whatever the terminal's colours, with the margin that cameras need.
fn code(url: &str) -> anyhow::Result<String> {
    let code = QrCode::encode_text(url, QrCodeEcc::Low).context("the link is too long for a code")?;
    let (from, to) = (-2, code.size() + 2);
    let mut out = String::new();
    for y in (from..to).step_by(2) {
        out += "\x1b[30;107m";
        for x in from..to {
            out.push(match (code.get_module(x, y), code.get_module(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        out += "\x1b[0m\n";
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phone_reaches_https_under_a_name_of_its_own() {
        for url in ["https://aye.example/sign-in#a", "https://192.168.1.4:8443/", "https://[2001:db8::1]/"] {
            assert!(reachable(url), "{url}");
        }
        let nowhere = [
            "http://aye.example/",
            "https://localhost:4567/",
            "https://127.0.0.1/",
            "https://[::1]:1/",
            "https://0.0.0.0/",
            "https://aye.localhost/",
            "",
        ];
        for url in nowhere {
            assert!(!reachable(url), "{url}");
        }
    }

    #[test]
    fn the_code_is_square_and_framed_in_white() {
        let drawn = code("https://aye.example/sign-in#0123456789abcdef").unwrap();
        let lines: Vec<_> = drawn.lines().collect();
        let width = |line: &str| line.chars().count() - "\x1b[30;107m\x1b[0m".len();
        assert!(lines.iter().all(|line| width(line) == width(lines[0])));
        assert!(width(lines[0]).abs_diff(2 * lines.len()) <= 1);
        assert!(lines[0].starts_with("\x1b[30;107m  "));
    }
}
