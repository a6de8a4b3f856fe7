//! How servers are spoken to.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, PushInfo,
    RedisConnectionInfo, RedisError, RedisResult, TlsCertificates,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::bound::{Account, Bounded, bytes_of};

/// How long one node may take to show that it is there. No reader waits for it.
pub(super) const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Name or address, and port.
pub(super) type Node = (String, u16);

/// How errors begin of a server that works, and does not write now.
pub(super) const REFUSALS: &[&str] = &["OOM", "MISCONF", "NOREPLICAS"];
/// The same, and of one that does not take this value, or none from us. To other requests, a proxy
/// without its server says such things, too.
pub(super) const REFUSALS_OF_VALUES: &[&str] = &["OOM", "MISCONF", "NOREPLICAS", "ERR", "NOPERM", "READONLY"];

/// Longest text of an error that is passed on.
const REASON_CHARS_MAX: usize = 200;
/// What is around news.
const PUSH_BYTES: u64 = 64;
/// An error as one short line.
pub(super) fn plain(error: &RedisError) -> String {
    one_line(&error.to_string())
}

/// Foreign text as one short line.
pub(super) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
}

/// How servers are spoken to: with which name and password, and over what.
#[derive(Clone)]
pub(super) struct Manner {
    settings: RedisConnectionInfo,
    tls: bool,
    authority: Option<Vec<u8>>,
}

impl Manner {
    pub(super) fn new(
        password: Option<&str>,
        authority: Option<&Path>,
        tls: bool,
        user: Option<&str>,
    ) -> Result<Self, String> {
        let mut settings =
            RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_skip_set_lib_name();
        if let Some(user) = user {
            settings = settings.set_username(user);
        }
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let authority = authority.filter(|_| tls).map(read).transpose()?;
        if tls {
            // Another part of the process may have chosen one already, which will do.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Self { settings, tls, authority })
    }

    fn info(&self, (host, port): &Node) -> RedisResult<ConnectionInfo> {
        let (host, port) = (host.clone(), *port);
        let address = match self.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        Ok(address.into_connection_info()?.set_redis_settings(self.settings.clone()))
    }

    /// A connection to look at a server by.
    pub(super) async fn dial(&self, node: &Node) -> RedisResult<Bounded> {
        self.one(node, |_| Ok::<_, redis::aio::SendError>(())).await
    }

    pub(super) async fn one(
        &self,
        node: &Node,
        hear: impl redis::aio::AsyncPushSender,
    ) -> RedisResult<Bounded> {
        let account = Arc::new(Account::default());
        let taken = Arc::clone(&account);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            // The limit on the whole of a request is ours.
            .set_response_timeout(None)
            .set_push_sender(move |said: PushInfo| {
                taken.taken(bytes_of(&said.data) + PUSH_BYTES);
                hear.send(said)
            });
        let (host, port) = node;
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        if !self.tls {
            return Bounded::new(&self.settings, stream, config, account).await;
        }
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::new(self.trust()?));
        let stream = connector.connect(name, stream).await?;
        Bounded::new(&self.settings, stream, config, account).await
    }

    /// The certificates that are believed.
    fn trust(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        match &self.authority {
            Some(text) => {
                for certificate in CertificateDer::pem_slice_iter(text) {
                    roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
    }

    /// All nodes of a cluster that answer.
    pub(super) async fn several<'a>(
        &self,
        nodes: impl Iterator<Item = &'a Node>,
        timeout: Duration,
        hear: impl redis::aio::AsyncPushSender,
    ) -> RedisResult<ClusterConnection> {
        let infos = nodes.map(|node| self.info(node)).collect::<RedisResult<Vec<_>>>()?;
        let mut builder = ClusterClient::builder(infos)
            .use_protocol(ProtocolVersion::RESP3)
            // While it looks for a node that is not there, nothing else goes on.
            .connection_timeout(LOOK_TIMEOUT)
            .response_timeout(timeout)
            .retries(1)
            .push_sender(hear);
        if let Some(root) = self.authority.clone() {
            builder = builder.certs(TlsCertificates { client_tls: None, root_cert: Some(root) });
        }
        builder.build()?.get_async_connection().await
    }
}
