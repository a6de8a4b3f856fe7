//! How much memory files can take here, and how many descriptors.

use std::fs;

/// Bytes that the page cache can take for this process, by the smallest limit above it. A first guess: verification adjusts it.
pub fn available() -> u64 {
    let whole = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kilobytes(&text, "MemAvailable:"));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = groups.lines().filter_map(limit).min();
    whole.into_iter().chain(limit).min().unwrap_or(1 << 30)
}

fn kilobytes(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The memory limit of a line of `/proc/self/cgroup`, where the hierarchies are mounted as usual.
fn limit(line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let file = match controllers {
        "" => format!("/sys/fs/cgroup{path}/memory.max"),
        "memory" => format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"),
        _ => return None,
    };
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Takes as many descriptors as this process may have: a connection and a file for each request.
pub fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        tracing::debug!("the limit of descriptors stays: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_memory() {
        assert!(available() > 1 << 20);
        assert_eq!(kilobytes("A: 1 kB\nMemAvailable:   20 kB\n", "MemAvailable:"), Some(20 << 10));
        assert_eq!(limit("5:cpu:/x"), None);
    }
}
