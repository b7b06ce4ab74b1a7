//! Where the page is served. A passkey belongs to a host by name, so an address like 127.0.0.1 is none of these.

use crate::url::HubUrl;
use std::net::IpAddr;

/// A page's origin, and the relying party that it speaks for: its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    pub origin: String,
    pub rp: String,
}

impl Site {
    fn of(url: &HubUrl) -> Option<Self> {
        let is_address = url.address().0.parse::<IpAddr>().is_ok();
        (!is_address).then(|| Self { origin: url.to_string(), rp: url.host().to_owned() })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pages {
    /// The first is what links lead to.
    sites: Vec<Site>,
}

impl Pages {
    /// By the public name if there is one, and on this machine as `localhost`.
    pub fn of(public: Option<&HubUrl>, tls: bool, port: u16) -> Self {
        let scheme = if tls { "https" } else { "http" };
        let local = HubUrl::try_from(format!("{scheme}://localhost:{port}")).ok();
        let mut sites: Vec<Site> = public.into_iter().chain(&local).filter_map(Site::of).collect();
        sites.dedup();
        Self { sites }
    }

    pub fn first(&self) -> Option<&Site> {
        self.sites.first()
    }

    #[cfg(test)]
    pub fn sites(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter()
    }

    pub fn site(&self, origin: &str) -> Option<&Site> {
        self.sites.iter().find(|site| site.origin == origin)
    }

    pub fn contains(&self, site: &Site) -> bool {
        self.sites.contains(site)
    }
}
