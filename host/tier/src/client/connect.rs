//! Connecting, and finding out what is on the other side.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
use redis::{Cmd, PushInfo, RedisError, RedisResult, Value, cmd};

use super::RemoteOptions;
use super::bound::Bounded;
use super::hear::Ears;
use super::manner::{Manner, Node, one_line, plain};
use super::shards::Shards;
use crate::{Key, PREFIX, TierPlace};

/// How soon a cluster is looked at again, and how seldom at last.
const WATCH_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

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

/// Connects; what the server says unasked goes to `ears` as from `line`. `known` are nodes beside
/// those that were given.
pub(super) async fn connect(
    options: &RemoteOptions,
    known: &[Node],
    ears: &Arc<Mutex<Ears>>,
    line: u64,
) -> Result<Connected, String> {
    let TierPlace::Remote { nodes, tls, cluster, user } = &options.place else {
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
    let (link, shards) = match cluster {
        false => {
            let node = nodes.first().ok_or("expected a server")?;
            (Link::One(manner.one(node, hear).await.map_err(said)?), None)
        }
        true => {
            let asked: Vec<Node> = nodes.iter().chain(known).cloned().collect();
            let shards = Shards::look(&manner, &asked).await?;
            let link = Link::Cluster(manner.several(shards.up(), options.timeout, hear).await.map_err(said)?);
            (link, Some(Arc::new(shards)))
        }
    };
    let mut connected = Connected { link, kind: Kind::Redis, line, shards, advice: None };
    identify(&mut connected, &options.client).await?;
    if connected.kind == Kind::Redis {
        connected.advice = examine(&connected).await?;
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

/// Looks whether a server that is not ours can be a tier. What should be set otherwise there, where
/// it says so.
async fn examine(connected: &Connected) -> Result<Option<String>, String> {
    // A client that may not ask is not refused: the first block says it.
    let known = connected.send(cmd("COMMAND").arg("INFO").arg("GETDEL")).await;
    if known.is_ok_and(|known| known == Value::Array(vec![Value::Nil])) {
        return Err("it has no GETDEL: expected Redis from 6.2 on, or Valkey".to_owned());
    }
    // Of a cluster each node answers.
    let texts = match connected.send(cmd("INFO").arg("memory")).await {
        Ok(Value::Map(nodes)) => nodes.into_iter().map(|(_, text)| text).collect(),
        answer => Vec::from_iter(answer),
    };
    let texts = texts.into_iter().filter_map(|text| redis::from_redis_value::<String>(text).ok());
    Ok(texts.filter_map(|text| advice(&text)).next())
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
