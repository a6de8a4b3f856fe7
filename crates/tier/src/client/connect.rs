//! Connecting, and finding out what is on the other side.

use std::sync::{Arc, Mutex};

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    PushInfo, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, Value, cmd,
};

use super::RemoteOptions;
use super::hear::Ears;
use crate::{PREFIX, Place};

/// Longest text of an error that is passed on.
const REASON_CHARS_MAX: usize = 200;

/// What is on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `pantler tier serve`, with so many bytes for blocks.
    Pantler { limit: u64 },
    /// Redis, Valkey, or what speaks like them.
    Redis,
}

#[derive(Clone)]
enum Link {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// A connection that works, as far as known.
#[derive(Clone)]
pub(super) struct Connected {
    link: Link,
    pub(super) kind: Kind,
}

impl Connected {
    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match self.link.clone() {
            Link::One(mut connection) => command.query_async(&mut connection).await,
            Link::Cluster(mut connection) => command.query_async(&mut connection).await,
        }
    }

    pub(super) fn describe(&self) -> String {
        match (self.kind, &self.link) {
            (Kind::Pantler { limit }, _) => format!("pantler tier serve with {limit} bytes"),
            (Kind::Redis, Link::One(_)) => "Redis protocol".to_owned(),
            (Kind::Redis, Link::Cluster(_)) => "Redis protocol, cluster".to_owned(),
        }
    }
}

/// An error as one short line.
pub(super) fn plain(error: &RedisError) -> String {
    let text = error.to_string();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
}

/// Connects; what the server says unasked goes to `ears` as from `line`.
pub(super) async fn connect(
    options: &RemoteOptions,
    ears: &Arc<Mutex<Ears>>,
    line: u64,
) -> Result<Connected, String> {
    let Place::Remote { nodes, tls, cluster, user } = &options.place else {
        return Err("expected a server".to_owned());
    };
    let hear = {
        let ears = Arc::clone(ears);
        move |said: PushInfo| -> Result<(), redis::aio::SendError> {
            ears.lock().expect("nobody panics while listening").hear(line, &said);
            Ok(())
        }
    };
    let mut settings =
        RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_skip_set_lib_name();
    if let Some(user) = user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &options.password {
        settings = settings.set_password(password);
    }
    let authority = match &options.authority {
        Some(path) if *tls => {
            Some(std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?)
        }
        _ => None,
    };
    if *tls {
        // Another part of the process may have chosen one already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let info = |(host, port): &(String, u16)| -> RedisResult<ConnectionInfo> {
        let (host, port) = (host.clone(), *port);
        let address = match tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        Ok(address.into_connection_info()?.set_redis_settings(settings.clone()))
    };
    let infos = nodes.iter().map(info).collect::<RedisResult<Vec<_>>>().map_err(|error| plain(&error))?;
    let link = match cluster {
        false => one(infos, authority, hear).await.map(Link::One),
        true => several(options, infos, authority, hear).await.map(Link::Cluster),
    };
    let mut connected = Connected { link: link.map_err(|error| plain(&error))?, kind: Kind::Redis };
    identify(&mut connected, &options.client).await?;
    Ok(connected)
}

async fn one(
    mut infos: Vec<ConnectionInfo>,
    authority: Option<Vec<u8>>,
    hear: impl redis::aio::AsyncPushSender,
) -> RedisResult<MultiplexedConnection> {
    let info = infos.remove(0);
    let client = match authority {
        Some(root) => {
            Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert: Some(root) })?
        }
        None => Client::open(info)?,
    };
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        // The limit on the whole of a request is ours.
        .set_response_timeout(None)
        .set_push_sender(hear);
    client.get_multiplexed_async_connection_with_config(&config).await
}

async fn several(
    options: &RemoteOptions,
    infos: Vec<ConnectionInfo>,
    authority: Option<Vec<u8>>,
    hear: impl redis::aio::AsyncPushSender,
) -> RedisResult<ClusterConnection> {
    let mut builder = ClusterClient::builder(infos)
        .use_protocol(ProtocolVersion::RESP3)
        .connection_timeout(options.timeout.max(super::CONNECT_TIMEOUT))
        .response_timeout(options.timeout)
        .retries(1)
        .push_sender(hear);
    if let Some(root) = authority {
        builder = builder.certs(TlsCertificates { client_tls: None, root_cert: Some(root) });
    }
    builder.build()?.get_async_connection().await
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

fn is_unknown_command(error: &RedisError) -> bool {
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
