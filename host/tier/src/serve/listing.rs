//! What tools ask about a server: `INFO`, and which keys fit a pattern.

use std::fmt::Write;

use super::Shared;

/// The version of the protocol's commands that tools shall expect.
const LIKE_VERSION: &str = "7.2.0";

/// The text of `INFO`, all sections or one.
pub(super) fn info(shared: &Shared, section: Option<&str>) -> String {
    let (store, counts) = (&shared.store, shared.store.counts());
    let sections = [
        (
            "Server",
            vec![
                ("redis_version", LIKE_VERSION.to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("server_name", "pantler".to_owned()),
                ("pantler_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("process_id", std::process::id().to_string()),
                ("tcp_port", shared.port.to_string()),
                ("uptime_in_seconds", shared.started.elapsed().as_secs().to_string()),
            ],
        ),
        (
            "Clients",
            vec![
                ("connected_clients", shared.connected.to_string()),
                ("maxclients", shared.clients_max.to_string()),
                ("tracking_clients", shared.trackers.to_string()),
            ],
        ),
        (
            "Memory",
            vec![
                ("used_memory", store.used().to_string()),
                ("maxmemory", store.limit().to_string()),
                ("maxmemory_policy", "allkeys-lru".to_owned()),
                ("pantler_memory_limit", shared.memory_bytes.to_string()),
                ("pantler_connections_memory", shared.held_bytes.to_string()),
            ],
        ),
        ("Persistence", vec![("loading", "0".to_owned())]),
        (
            "Stats",
            vec![
                ("total_connections_received", shared.connections.to_string()),
                ("total_commands_processed", shared.commands.to_string()),
                ("keyspace_hits", counts.hits.to_string()),
                ("keyspace_misses", counts.misses.to_string()),
                ("evicted_keys", counts.evicted.to_string()),
                ("pantler_kept", counts.kept.to_string()),
                ("pantler_demoted", counts.demoted.to_string()),
                ("pantler_refused", counts.refused.to_string()),
                ("pantler_notices", counts.notices.to_string()),
                ("pantler_malformed", shared.malformed.to_string()),
                ("pantler_hung_up", shared.hung_up.to_string()),
            ],
        ),
        ("Replication", vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        ("Cluster", vec![("cluster_enabled", "0".to_owned())]),
        ("Keyspace", vec![("db0", format!("keys={},expires=0,avg_ttl=0", store.len()))]),
    ];
    let mut text = String::new();
    for (name, lines) in sections {
        let wanted = section.is_none_or(|section| {
            section.eq_ignore_ascii_case(name) || ["all", "everything", "default"].contains(&section)
        });
        if !wanted {
            continue;
        }
        let _ = write!(text, "# {name}\r\n");
        for (name, value) in lines.into_iter().filter(|(name, _)| *name != "db0" || !store.is_empty()) {
            let _ = write!(text, "{name}:{value}\r\n");
        }
        text.push_str("\r\n");
    }
    text
}

/// Whether a text fits a pattern of letters and stars. Others of the signs that Redis knows stand
/// for themselves.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut parts = pattern.split(|&byte| byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(part) = last.replace(part).filter(|part: &&[u8]| !part.is_empty()) {
            let Some(at) = rest.windows(part.len()).position(|window| window == part) else { return false };
            rest = &rest[at + part.len()..];
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text) in
            [("*", ""), ("a*", "abc"), ("*c", "abc"), ("a*c*e", "abcde"), ("a", "a"), ("**", "x")]
        {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", "ab"), ("a*b", "ac"), ("a*c*e", "abcd"), ("ab*b", "ab")] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }
}
