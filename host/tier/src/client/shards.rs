//! Which node of a cluster has which keys, and which of them answer.
//!
//! The crate `redis` routes requests and follows redirections. It treats a node that does not
//! answer as a failure of each request, though, after having tried it again; what is found out here
//! keeps such requests from being made.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use redis::cluster_routing::Slot;
use redis::{RedisResult, Value, cmd};

use super::manner::{LOOK_TIMEOUT, Manner, Node, REFUSALS, plain};

/// What a cluster looks like at some moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shards {
    of_slot: HashMap<Slot, Node>,
    /// Nodes with slots that do not answer.
    down: HashSet<Node>,
}

impl Shards {
    /// Asks all nodes given, takes the word of the first that answers, and looks whether those that
    /// it names are there.
    pub(super) async fn look(manner: &Manner, given: &[Node]) -> Result<Self, String> {
        let told = join_all(given.iter().map(|node| async move {
            let ask = async { manner.dial(node).await?.ask(cmd("CLUSTER").arg("SLOTS")).await };
            let answer = tokio::time::timeout(LOOK_TIMEOUT, ask).await;
            (node, answer)
        }));
        let mut reason = "no node was given".to_owned();
        for (node, answer) in told.await {
            match answer {
                Ok(Ok(answer)) => match read(&answer, &node.0) {
                    Some(of_slot) if !of_slot.is_empty() => return Ok(Self::of(manner, of_slot).await),
                    _ => reason = "expected a cluster with slots".to_owned(),
                },
                Ok(Err(error)) => reason = plain(&error),
                Err(_) => reason = format!("no answer within {} ms", LOOK_TIMEOUT.as_millis()),
            }
        }
        Err(reason)
    }

    async fn of(manner: &Manner, of_slot: HashMap<Slot, Node>) -> Self {
        let nodes: HashSet<&Node> = of_slot.values().collect();
        let looked = join_all(nodes.into_iter().map(|node| async move {
            let ping = async { manner.dial(node).await?.ask(&cmd("PING")).await };
            let answer: Result<RedisResult<Value>, _> = tokio::time::timeout(LOOK_TIMEOUT, ping).await;
            let is_up = match answer {
                Ok(Ok(_)) => true,
                // W6: Redis that cannot save says so to PING, too.
                Ok(Err(error)) => error.code().is_some_and(|word| REFUSALS.contains(&word)),
                Err(_) => false,
            };
            (!is_up).then(|| node.clone())
        }));
        let down = looked.await.into_iter().flatten().collect();
        Self { of_slot, down }
    }

    /// Whether the node with the key answers. Keys of slots without a node are nowhere.
    pub(super) fn serve(&self, key: &str) -> bool {
        self.of_slot.get(&Slot::for_key(key)).is_some_and(|node| !self.down.contains(node))
    }

    pub(super) fn nodes(&self) -> HashSet<&Node> {
        self.of_slot.values().collect()
    }

    pub(super) fn up(&self) -> impl Iterator<Item = &Node> {
        self.nodes().into_iter().filter(|node| !self.down.contains(*node))
    }

    pub(super) fn down(&self) -> impl Iterator<Item = &Node> {
        self.down.iter()
    }
}

/// Understands `CLUSTER SLOTS`: `[first, last, [host, port, ...], replicas ...]` for each range.
fn read(answer: &Value, asked: &str) -> Option<HashMap<Slot, Node>> {
    let Value::Array(ranges) = answer else { return None };
    let mut of_slot = HashMap::new();
    for range in ranges {
        let Value::Array(parts) = range else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else {
            return None;
        };
        let Some(node) = master_of(master, asked) else { continue };
        let slots = u16::try_from(*first).ok()?..=u16::try_from(*last).ok()?;
        of_slot.extend(slots.filter_map(Slot::new).map(|slot| (slot, node.clone())));
    }
    Some(of_slot)
}

fn master_of(parts: &[Value], asked: &str) -> Option<Node> {
    let [host, Value::Int(port), ..] = parts else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    // Without a name it is the one that was asked; `?` is an unknown one.
    let host = if host.is_empty() { asked } else { host };
    (host != "?").then_some((host.to_owned(), u16::try_from(*port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn keys_of_nodes_that_are_down_or_of_nobody_are_not_served() {
        let slots = Value::Array(vec![
            range(0, 8191, text("a"), 1),
            range(8192, 12287, Value::Nil, 2),
            range(12288, 12300, text("?"), 3),
        ]);
        let of_slot = read(&slots, "asked").unwrap();
        assert_eq!(of_slot.len(), 12288);
        let mut shards = Shards { of_slot, down: HashSet::new() };
        // Slots from the specification of clusters: 12182 and 12739.
        assert!(shards.serve("foo") && !shards.serve("123456789"));
        shards.down.insert(("asked".to_owned(), 2));
        assert!(!shards.serve("foo"));
    }

    #[test]
    fn strange_answers_are_no_cluster() {
        let strange = [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(1)])]),
            Value::Array(vec![range(-5, 3, text("a"), 1)]),
            Value::Array(vec![range(0, 70_000, text("a"), 1)]),
        ];
        for answer in strange {
            assert_eq!(read(&answer, "asked"), None, "{answer:?}");
        }
        let port = Value::Array(vec![range(0, 3, text("a"), 70_000)]);
        assert_eq!(read(&port, "asked"), Some(HashMap::new()));
        let beyond = Value::Array(vec![range(16_000, 65_535, text("a"), 1)]);
        assert_eq!(read(&beyond, "asked").map(|slots| slots.len()), Some(384));
    }
}
