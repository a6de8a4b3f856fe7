//! TLS of the server.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use pantler_tier::TierError;

/// From a certificate chain and a key in PEM files. The key must be readable by its owner only.
pub(crate) fn configure(certificates: &Path, key: &Path) -> Result<Arc<rustls::ServerConfig>, TierError> {
    let refuse =
        |path: &Path, why: &dyn std::fmt::Display| TierError::Invalid(format!("{}: {why}", path.display()));
    let chain = CertificateDer::pem_file_iter(certificates).map_err(|error| refuse(certificates, &error))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| refuse(certificates, &error))?;
    if chain.is_empty() {
        return Err(refuse(certificates, &"expected a certificate in PEM"));
    }
    let text = pantler_tier::read_key_file(key)?;
    let private = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| refuse(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(certificates, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| refuse(certificates, &error))?;
    Ok(Arc::new(config))
}
