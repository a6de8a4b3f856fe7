//! Certificate and key from files.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

use crate::error::WebError;
use crate::options::Tls;

/// An acceptor that offers HTTP/2 and HTTP/1.1.
///
/// # Errors
/// The file that makes no sense.
pub fn acceptor(options: &Tls) -> Result<TlsAcceptor, WebError> {
    let fail =
        |what: &'static str, path: &Path, why: String| WebError::Tls { what, path: path.to_owned(), why };
    let path = &options.certificates;
    let certificates =
        CertificateDer::pem_file_iter(path).and_then(|found| found.collect::<Result<Vec<_>, _>>());
    let certificates = certificates.map_err(|error| fail("certificate", path, error.to_string()))?;
    if certificates.is_empty() {
        return Err(fail("certificate", path, "none in it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&options.key);
    let key = key.map_err(|error| fail("key", &options.key, error.to_string()))?;
    // Named, because a process may have several providers compiled in.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| fail("certificate", path, error.to_string()))?;
    let config = config.with_no_client_auth().with_single_cert(certificates, key);
    let mut config = config.map_err(|error| fail("key", &options.key, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
