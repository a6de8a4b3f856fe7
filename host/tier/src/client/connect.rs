//! Connecting, and finding out what is on the other side.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    PushInfo, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, Value, cmd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::RemoteOptions;
use super::bound::{Account, Bounded, bytes_of};
use super::hear::Ears;
use super::shards::{LOOK_TIMEOUT, Node, Shards};
use crate::{Key, PREFIX, Place};

/// Longest text of an error that is passed on.
const REASON_CHARS_MAX: usize = 200;
/// What is around news.
const PUSH_BYTES: u64 = 64;
/// How soon a cluster is looked at again, and how seldom at last.
const WATCH_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// How errors begin of a server that works, and does not write now.
pub(super) const REFUSALS: &[&str] = &["OOM", "MISCONF", "NOREPLICAS"];
/// The same, and of one that does not take this value, or none from us. To other requests, a proxy
/// without its server says such things, too.
pub(super) const REFUSALS_OF_VALUES: &[&str] = &["OOM", "MISCONF", "NOREPLICAS", "ERR", "NOPERM", "READONLY"];

/// What is on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `pantler tier serve`, with `limit` bytes for blocks.
    Pantler { limit: u64 },
    /// Redis, Valkey, or what speaks like them.
    Redis,
}

#[derive(Clone)]
enum Link {
    One(Bounded),
    Cluster(ClusterConnection),
}

/// A connection that works, as far as known.
#[derive(Clone)]
pub(super) struct Connected {
    link: Link,
    pub(super) kind: Kind,
    /// As which line the ears know it.
    pub(super) line: u64,
    /// Of a cluster.
    pub(super) shards: Option<Arc<Shards>>,
    /// What should be set otherwise there.
    pub(super) advice: Option<String>,
}

impl Connected {
    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match &self.link {
            Link::One(connection) => connection.ask(command).await,
            Link::Cluster(connection) => command.query_async(&mut connection.clone()).await,
        }
    }

    pub(super) fn describe(&self) -> String {
        match (self.kind, &self.link) {
            (Kind::Pantler { limit }, _) => format!("pantler tier serve with {limit} bytes"),
            (Kind::Redis, Link::One(_)) => "Redis protocol".to_owned(),
            (Kind::Redis, Link::Cluster(_)) => "Redis protocol, cluster".to_owned(),
        }
    }

    /// Whether a node is there that would have that block (W4).
    pub(super) fn serves(&self, key: &Key) -> bool {
        self.shards.as_ref().is_none_or(|shards| shards.serve(&key.to_string()))
    }
}

/// An error as one short line.
pub(crate) fn plain(error: &RedisError) -> String {
    one_line(&error.to_string())
}

/// Foreign text as one short line.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
}

/// How servers are spoken to: with which name and password, and over what.
#[derive(Clone)]
pub(crate) struct Manner {
    settings: RedisConnectionInfo,
    tls: bool,
    authority: Option<Vec<u8>>,
}

impl Manner {
    pub(crate) fn new(
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
        let authority = match authority {
            Some(path) if tls => {
                Some(std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?)
            }
            _ => None,
        };
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

    fn certificates(&self) -> Option<TlsCertificates> {
        let root = self.authority.clone()?;
        Some(TlsCertificates { client_tls: None, root_cert: Some(root) })
    }

    /// A connection to look at a server by.
    pub(crate) async fn dial(&self, node: &Node) -> RedisResult<Bounded> {
        self.one(node, |_| Ok::<_, redis::aio::SendError>(())).await
    }

    async fn one(&self, node: &Node, hear: impl redis::aio::AsyncPushSender) -> RedisResult<Bounded> {
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
    async fn several(
        &self,
        shards: &Shards,
        timeout: Duration,
        hear: impl redis::aio::AsyncPushSender,
    ) -> RedisResult<ClusterConnection> {
        let infos = shards.up().map(|node| self.info(node)).collect::<RedisResult<Vec<_>>>()?;
        let mut builder = ClusterClient::builder(infos)
            .use_protocol(ProtocolVersion::RESP3)
            // While it looks for a node that is not there, nothing else goes on.
            .connection_timeout(LOOK_TIMEOUT)
            .response_timeout(timeout)
            .retries(1)
            .push_sender(hear);
        if let Some(certificates) = self.certificates() {
            builder = builder.certs(certificates);
        }
        builder.build()?.get_async_connection().await
    }
}

/// Connects; what the server says unasked goes to `ears` as from `line`. `known` are nodes beside
/// those that were given.
pub(super) async fn connect(
    options: &RemoteOptions,
    known: &[Node],
    ears: &Arc<Mutex<Ears>>,
    line: u64,
) -> Result<Connected, String> {
    let Place::Remote { nodes, tls, cluster, user } = &options.place else {
        return Err("expected a server".to_owned());
    };
    let hear = {
        let ears = Arc::clone(ears);
        move |said: PushInfo| -> Result<(), redis::aio::SendError> {
            ears.lock().expect("no thread panics while listening").hear(line, &said);
            Ok(())
        }
    };
    let manner =
        Manner::new(options.password.as_deref(), options.authority.as_deref(), *tls, user.as_deref())?;
    let said = |error: RedisError| plain(&error);
    let mut connected = match cluster {
        false => {
            let node = nodes.first().ok_or("expected a server")?;
            let link = Link::One(manner.one(node, hear).await.map_err(said)?);
            Connected { link, kind: Kind::Redis, line, shards: None, advice: None }
        }
        true => {
            let asked: Vec<Node> = nodes.iter().chain(known).cloned().collect();
            let shards = Shards::look(&manner, &asked).await?;
            let link = Link::Cluster(manner.several(&shards, options.timeout, hear).await.map_err(said)?);
            Connected { link, kind: Kind::Redis, line, shards: Some(Arc::new(shards)), advice: None }
        }
    };
    identify(&mut connected, &options.client).await?;
    if connected.kind == Kind::Redis {
        connected.advice = examine(&connected, &manner).await?;
    }
    if let Some(shards) = &connected.shards {
        tokio::spawn(watch(manner, Arc::clone(shards), Arc::downgrade(ears), line));
    }
    Ok(connected)
}

/// Looks at a cluster now and then. When it is not what it was, users of the connection are told
/// that it ended: the next one knows better, and hears what all nodes say.
async fn watch(manner: Manner, shards: Arc<Shards>, ears: Weak<Mutex<Ears>>, line: u64) {
    let nodes: Vec<Node> = shards.nodes().into_iter().cloned().collect();
    let mut pause = WATCH_PAUSES.0;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(WATCH_PAUSES.1);
        let looked = Shards::look(&manner, &nodes).await;
        let Some(ears) = ears.upgrade() else { return };
        let mut ears = ears.lock().expect("no thread panics while listening");
        if !ears.is_line(line) {
            return;
        }
        if looked.is_ok_and(|looked| looked != *shards) {
            return ears.disconnect();
        }
    }
}

/// Our own server knows a command that others do not. Others are asked to tell what changes.
async fn identify(connected: &mut Connected, client: &str) -> Result<(), String> {
    if let Link::One(_) = connected.link {
        let mut join = cmd("PANTLER.JOIN");
        join.arg(client);
        match connected.send(&join).await {
            Ok(answer) => {
                let limit = limit_of(&answer).ok_or("expected the answer of a tier server")?;
                connected.kind = Kind::Pantler { limit };
                return Ok(());
            }
            Err(error) if error.code() == Some("ERR") || is_unknown_command(&error) => {}
            Err(error) => return Err(plain(&error)),
        }
    }
    let mut track = cmd("CLIENT");
    track.arg("TRACKING").arg("ON").arg("BCAST").arg("PREFIX").arg(PREFIX).arg("NOLOOP");
    let tracked = match &connected.link {
        Link::One(_) => connected.send(&track).await,
        Link::Cluster(connection) => {
            let everywhere = RoutingInfo::MultiNode((
                MultipleNodeRoutingInfo::AllMasters,
                Some(ResponsePolicy::AllSucceeded),
            ));
            connection.clone().route_command(track, everywhere).await
        }
    };
    tracked.map(drop).map_err(|error| format!("it does not track changes: {}", plain(&error)))
}

/// Looks whether servers that are not ours can be a tier. What should be set otherwise there, where
/// they say so.
async fn examine(connected: &Connected, manner: &Manner) -> Result<Option<String>, String> {
    let shards = match (&connected.link, &connected.shards) {
        (Link::One(connection), _) => return examine_one(connection).await,
        (Link::Cluster(_), None) => return Ok(None),
        (Link::Cluster(_), Some(shards)) => shards,
    };
    let looked = join_all(shards.up().map(|node| async move {
        let look = async {
            match manner.dial(node).await {
                Ok(connection) => examine_one(&connection).await,
                Err(_) => Ok(None),
            }
        };
        // W4: a server that does not answer now has nothing of ours.
        let advice = tokio::time::timeout(LOOK_TIMEOUT, look).await.unwrap_or(Ok(None));
        let (host, port) = node;
        let named = |text: String| format!("{host}:{port}: {text}");
        advice.map(|advice| advice.map(named)).map_err(named)
    }));
    let advice: Vec<Option<String>> = looked.await.into_iter().collect::<Result<_, _>>()?;
    Ok(advice.into_iter().flatten().next())
}

async fn examine_one(connection: &Bounded) -> Result<Option<String>, String> {
    // A client that may not ask is not refused: the first block says it.
    let known = connection.ask(cmd("COMMAND").arg("INFO").arg("GETDEL")).await;
    if known.is_ok_and(|known| known == Value::Array(vec![Value::Nil])) {
        return Err("it has no GETDEL: expected Redis from 6.2 on, or Valkey".to_owned());
    }
    let memory = connection.ask(cmd("INFO").arg("memory")).await;
    let memory = memory.ok().and_then(|text| redis::from_redis_value::<String>(text).ok());
    Ok(memory.as_deref().and_then(advice))
}

/// What is wrong with how a server deals with memory, by its `INFO`.
fn advice(info: &str) -> Option<String> {
    let of =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let (limit, policy) = (of("maxmemory")?, of("maxmemory_policy")?);
    if limit == "0" {
        return Some(
            "it takes all memory of its machine: set maxmemory there, and maxmemory-policy allkeys-lru"
                .to_owned(),
        );
    }
    (!policy.starts_with("allkeys-")).then(|| {
        let policy = one_line(policy);
        format!("once full it keeps no new blocks (maxmemory-policy {policy}): set maxmemory-policy allkeys-lru there")
    })
}

pub(crate) fn is_unknown_command(error: &RedisError) -> bool {
    error.to_string().to_ascii_lowercase().contains("unknown command")
}

fn limit_of(answer: &Value) -> Option<u64> {
    let Value::Map(pairs) = answer else { return None };
    let limit = pairs.iter().find_map(|(name, value)| match (name, value) {
        (Value::BulkString(name), Value::Int(limit)) if name == b"limit" => Some(*limit),
        _ => None,
    });
    limit.and_then(|limit| u64::try_from(limit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_without_bounds_and_those_that_evict_nothing_are_talked_about() {
        let advice = |limit: &str, policy: &str| {
            advice(&format!(
                "# Memory\r\nused_memory:5\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n"
            ))
        };
        assert_eq!(advice("3145728", "allkeys-lru"), None);
        assert_eq!(advice("3145728", "allkeys-lfu"), None);
        assert!(advice("0", "allkeys-lru").unwrap().contains("set maxmemory there"));
        assert!(advice("3145728", "noeviction").unwrap().contains("noeviction"));
        let rude = advice("1", "volatile-\u{1b}[2J\u{7}lru").unwrap();
        assert!(!rude.contains(char::is_control), "{rude:?}");
        assert_eq!(super::advice("maxmemory:0\n"), None, "half an answer is none");
    }
}
