//! From where a hub may be reached. An approval is code execution, so nothing but this machine talks to
//! it in the clear.

use crate::config::Config;
use crate::home::Home;
use crate::tls;
use crate::url::HubUrl;
use anyhow::{Context, ensure};
use clap::Args;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tokio_rustls::TlsAcceptor;

#[derive(Args)]
pub struct ListenArgs {
    /// Address to listen on; port 0 picks a free one. To be reachable from other machines it needs TLS or a proxy
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7177")]
    pub listen: SocketAddr,
    /// Certificate with its chain, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A proxy in front speaks TLS; needs public_url under [hub] in config.toml
    #[arg(long)]
    behind_proxy: bool,
}

/// How to listen, once it is clear that it may be done.
pub struct Checked {
    pub tls: Option<TlsAcceptor>,
    pub public: Option<HubUrl>,
}

impl ListenArgs {
    /// The file with the private key of the certificate.
    pub fn secret(&self) -> Option<PathBuf> {
        self.tls_key.clone()
    }

    pub fn check(&self, home: &Home) -> anyhow::Result<Checked> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(tls::server(certificate, key)?),
            (None, _) | (_, None) => None,
        };
        ensure!(
            self.listen.ip().is_loopback() || tls.is_some() || self.behind_proxy,
            "{} can be reached from other machines, and whoever listens there could answer for you. Add one of\n  \
             --tls-cert FILE --tls-key FILE   to speak TLS\n  \
             --behind-proxy                   if a proxy in front does\n\
             or listen on 127.0.0.1, and reach it from elsewhere through ssh -L.",
            self.listen.ip()
        );
        let public = self.public_url(home)?;
        if let Some(public) = public.as_ref().filter(|public| !public.is_tls()) {
            ensure!(tls.is_none(), "with --tls-cert the hub speaks https, and public_url says {public}");
            tracing::warn!(%public, "public_url is not https: whoever listens on the way can answer for you");
        }
        Ok(Checked { tls, public })
    }

    fn public_url(&self, home: &Home) -> anyhow::Result<Option<HubUrl>> {
        let file = home.config();
        // The hub itself tells of a broken file, and goes on without its policy.
        let (config, off) = Config::for_surfaces(&file);
        if !self.behind_proxy {
            return Ok(config.hub.public_url);
        }
        let missing = || {
            if let Some(off) = off.first() {
                return off.clone();
            }
            format!(
                "--behind-proxy needs the address that people use, to know its own name. In {}:\n  \
                 [hub]\n  public_url = \"https://aye.example\"",
                file.display()
            )
        };
        config.hub.public_url.with_context(missing).map(Some)
    }

    /// The same again, for whoever starts the hub later and from elsewhere.
    pub fn arguments(&self) -> anyhow::Result<Vec<String>> {
        let mut arguments = vec!["--listen".to_owned(), self.listen.to_string()];
        for (flag, path) in [("--tls-cert", &self.tls_cert), ("--tls-key", &self.tls_key)] {
            if let Some(path) = path {
                arguments.extend([flag.to_owned(), absolute(path)?]);
            }
        }
        if self.behind_proxy {
            arguments.push("--behind-proxy".to_owned());
        }
        Ok(arguments)
    }
}

fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path)?;
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not a readable name", path.display()))
}

impl Checked {
    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// What is printed first. Loopback goes by its name: a passkey belongs to a name, never to an address.
    pub fn address(&self, listening: SocketAddr) -> String {
        let (ip, scheme) = (listening.ip(), self.scheme());
        match ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST {
            true => format!("{scheme}://localhost:{}", listening.port()),
            false => format!("{scheme}://{listening}"),
        }
    }

    /// What sign-in links begin with.
    pub fn url(&self, mut listening: SocketAddr) -> String {
        if let Some(public) = &self.public {
            return public.to_string();
        }
        if listening.ip().is_unspecified() {
            tracing::warn!(
                "other machines know no name of this hub: set public_url under [hub] in config.toml"
            );
            // Nobody can go to "any address"; on this machine, loopback is one of them.
            listening.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        self.address(listening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(listening: &str, public: &str) -> String {
        let public = HubUrl::try_from(public.to_owned()).ok();
        Checked { tls: None, public }.url(listening.parse().unwrap())
    }

    #[test]
    fn links_lead_to_where_a_browser_gets() {
        assert_eq!(url("127.0.0.1:1", ""), "http://localhost:1");
        assert_eq!(url("[::1]:1", ""), "http://localhost:1");
        // Nothing but the address itself leads to these.
        assert_eq!(url("127.0.0.2:1", ""), "http://127.0.0.2:1");
        assert_eq!(url("10.0.0.1:1", ""), "http://10.0.0.1:1");
        assert_eq!(url("0.0.0.0:1", ""), "http://localhost:1");
        assert_eq!(url("[::]:1", ""), "http://localhost:1");
        assert_eq!(url("0.0.0.0:1", "https://aye.example"), "https://aye.example");
    }

    #[test]
    fn what_is_said_again_names_files_wherever_it_is_said() {
        let listen = ListenArgs {
            listen: "0.0.0.0:7177".parse().unwrap(),
            tls_cert: Some("/etc/aye/cert.pem".into()),
            tls_key: Some("key.pem".into()),
            behind_proxy: false,
        };
        let key = std::env::current_dir().unwrap().join("key.pem");
        let expected = [
            "--listen",
            "0.0.0.0:7177",
            "--tls-cert",
            "/etc/aye/cert.pem",
            "--tls-key",
            key.to_str().unwrap(),
        ];
        assert_eq!(listen.arguments().unwrap(), expected);
    }
}
