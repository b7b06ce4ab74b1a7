//! TLS at both ends, by one provider and in its newest version alone.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read the {what} {}: {why}", .path.display())]
    Unreadable { what: &'static str, path: PathBuf, why: io::Error },
    #[error("{} holds no {what} in PEM form{}", .path.display(), hint(.what))]
    Empty { what: &'static str, path: PathBuf },
    #[error("the key {} does not belong to the certificate {}: name the two that were made together", .key.display(), .certificate.display())]
    OtherKey { certificate: PathBuf, key: PathBuf },
    #[error("the certificate {} cannot be used: {why}", .certificate.display())]
    Unusable { certificate: PathBuf, why: Error },
    #[error("TLS cannot be set up: {0}")]
    Setup(Error),
}

const CERTIFICATE: &str = "certificate";
const KEY: &str = "private key";

fn hint(what: &str) -> &'static str {
    if what == KEY { "; one with a passphrase cannot be used" } else { "" }
}

/// Reads a certificate chain and its key, and makes sure that they fit together. Whether the
/// certificate has expired is for those to judge who are shown it.
pub fn server(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates(certificate)?;
    let secret = PrivateKeyDer::from_pem_slice(&read(KEY, key)?)
        .map_err(|_| TlsError::Empty { what: KEY, path: key.to_owned() })?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = builder.map_err(TlsError::Setup)?.with_no_client_auth().with_single_cert(chain, secret);
    let mut config = config.map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            TlsError::OtherKey { certificate: certificate.to_owned(), key: key.to_owned() }
        }
        why => TlsError::Unusable { certificate: certificate.to_owned(), why },
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Trusts what this machine trusts, and the certificates in `extra`.
pub fn client(extra: Option<&Path>) -> Result<TlsConnector, TlsError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "some of this machine's certificates could not be read");
    }
    roots.add_parsable_certificates(found.certs);
    if let Some(path) = extra {
        for certificate in certificates(path)? {
            let unusable = |why| TlsError::Unusable { certificate: path.to_owned(), why };
            roots.add(certificate).map_err(unusable)?;
        }
    }
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = builder.map_err(TlsError::Setup)?.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(CERTIFICATE, path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) | Err(_) => Err(TlsError::Empty { what: CERTIFICATE, path: path.to_owned() }),
    }
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|why| TlsError::Unreadable { what, path: path.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::generate_simple_self_signed;

    /// What is said of two files, without the folder they are in.
    fn complaint(certificate: &str, key: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let made = generate_simple_self_signed(["aye.example".to_owned()]).unwrap();
        let other = generate_simple_self_signed(["aye.example".to_owned()]).unwrap();
        std::fs::write(path("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
        std::fs::write(path("other.pem"), other.signing_key.serialize_pem()).unwrap();
        std::fs::write(path("broken.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
        std::fs::write(
            path("nonsense.pem"),
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        .unwrap();
        let said = server(&path(certificate), &path(key)).err().map(|error| error.to_string());
        said.unwrap_or_default().replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn a_certificate_and_its_key_are_taken_and_everything_else_says_what_is_wrong() {
        assert_eq!(complaint("cert.pem", "key.pem"), "");
        let cases = [
            ("missing.pem", "key.pem"),
            ("cert.pem", "missing.pem"),
            ("key.pem", "cert.pem"),
            ("cert.pem", "cert.pem"),
            ("cert.pem", "other.pem"),
            ("broken.pem", "key.pem"),
            ("nonsense.pem", "key.pem"),
        ];
        let said: Vec<_> = cases.iter().map(|(certificate, key)| complaint(certificate, key)).collect();
        insta::assert_snapshot!(said.join("\n"), @r"
        cannot read the certificate missing.pem: No such file or directory (os error 2)
        cannot read the private key missing.pem: No such file or directory (os error 2)
        key.pem holds no certificate in PEM form
        cert.pem holds no private key in PEM form; one with a passphrase cannot be used
        the key other.pem does not belong to the certificate cert.pem: name the two that were made together
        broken.pem holds no certificate in PEM form
        the certificate nonsense.pem cannot be used: invalid peer certificate: BadEncoding
        ");
    }
}
