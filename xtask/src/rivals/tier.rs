//! Memory of a server between a program and its files.

use super::arms::Rival;

/// Where the server listens.
pub const PORT: u16 = 9397;
/// What of the budget is the mount's own memory, as a fraction; the server has the rest.
const OWN: (u64, u64) = (1, 4);
/// As the reader does with its files five times.
pub const EPOCHS: u32 = 5;

/// Shares of a budget: the mount's and the server's.
fn shares(budget: u64) -> (u64, u64) {
    let own = budget * OWN.0 / OWN.1 / 4096 * 4096;
    (own, budget - own)
}

/// Words of the server of a rival.
pub fn serving(rival: Rival, pantler: &str, budget: u64) -> Vec<String> {
    let (port, listen) = (PORT.to_string(), format!("127.0.0.1:{PORT}"));
    let (all, megabytes) = (budget.to_string(), (budget >> 20).to_string());
    let memory = shares(budget).1.to_string();
    let words = match rival {
        Rival::Redis => {
            let words = ["redis-server", "--port", &port, "--bind", "127.0.0.1", "--save", ""];
            [&words[..], &["--maxmemory", &all, "--maxmemory-policy", "allkeys-lru"]].concat()
        }
        Rival::Memcached => {
            vec!["memcached", "-p", &port, "-U", "0", "-l", "127.0.0.1", "-u", "root", "-m", &megabytes]
        }
        _ => vec![pantler, "tier", "serve", "--listen", &listen, "--memory", &memory],
    };
    words.into_iter().map(str::to_owned).collect()
}

/// Words for a mount of Pantler's that has the server below it: its own memory, and the tier.
pub fn mounting(budget: u64) -> [String; 4] {
    let (own, server) = shares(budget);
    ["--cache".to_owned(), own.to_string(), "--tier".to_owned(), format!("redis://127.0.0.1:{PORT},{server}")]
}

/// What the reader is told: which server to ask first, if it asks anything but its files.
pub fn script(rival: Rival) -> String {
    match rival {
        Rival::Redis | Rival::Memcached => format!("$READER aside {} {PORT} . {EPOCHS}", rival.name()),
        _ => format!("$READER epochs . {EPOCHS}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_and_server_share_the_budget() {
        let words = serving(Rival::Tier, "pantler", 4_096_000).join(" ");
        assert_eq!(words, "pantler tier serve --listen 127.0.0.1:9397 --memory 3072000");
        assert_eq!(mounting(4_096_000).join(" "), "--cache 1024000 --tier redis://127.0.0.1:9397,3072000");
    }
}
