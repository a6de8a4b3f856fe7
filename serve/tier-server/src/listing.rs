//! What tools ask about a server: `INFO`.

use std::fmt::Write;

use crate::shared::Shared;

/// The version of the protocol's commands that tools shall expect.
const LIKE_VERSION: &str = "7.2.0";

/// The text of `INFO`, all sections or one.
pub(crate) fn info(shared: &Shared, section: Option<&str>) -> String {
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
        ("Keyspace", vec![("db0", format!("keys={},expires=0,avg_ttl=0", store.len()))]),
    ];
    let is_wanted = |name: &str| {
        let words = [name, "all", "everything", "default"];
        section.is_none_or(|section| words.iter().any(|word| section.eq_ignore_ascii_case(word)))
    };
    let mut text = String::new();
    for (name, lines) in sections.into_iter().filter(|(name, _)| is_wanted(name)) {
        let _ = write!(text, "# {name}\r\n");
        for (name, value) in lines.into_iter().filter(|(name, _)| *name != "db0" || !store.is_empty()) {
            let _ = write!(text, "{name}:{value}\r\n");
        }
        text.push_str("\r\n");
    }
    text
}
