//! The names by which the administrator's page may be requested. A browser that was told that some
//! name is our address (DNS rebinding) would show the page to the owner of that name: its request
//! has the name as `Host`. An address belongs to no other owner, and a proxy may have another one
//! than ours. Pure.

use hyper::http::uri::Authority;
use std::net::IpAddr;

/// Whether a host, with or without a port, may mean us: any address, this machine as it calls
/// itself within, or one of `names`.
pub fn is_ours(host: &str, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    // Text after an address in brackets is taken for a part of it.
    let rest = authority.as_str().strip_prefix(host).unwrap_or_default();
    if !rest.is_empty() && !rest.starts_with(':') {
        return false;
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if bare.parse::<IpAddr>().is_ok() {
        return true;
    }
    let is = |other: &str| name.eq_ignore_ascii_case(other.strip_suffix('.').unwrap_or(other));
    let is_local = is("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    is_local || names.iter().any(|name| is(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_means_us_is_ours() {
        let names = ["stats.example.org".to_owned()];
        let is = |host| is_ours(host, &names);
        for host in [
            "localhost",
            "LOCALHOST:9090",
            "localhost.",
            "page.localhost:80",
            "127.0.0.1:1234",
            "127.8.8.8",
            "[::1]:9090",
            "10.1.2.3",
            "10.1.2.3:9090",
            "[::ffff:10.1.2.3]:9090",
            "stats.example.org:9090",
            "Stats.Example.Org.",
            "192.0.2.7",
            "0.0.0.0:9090",
            "[::2]",
        ] {
            assert!(is(host), "{host}");
        }
        for host in [
            "",
            "x",
            "evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "127.0.0.1.evil.example",
            "evil@localhost",
            "localhost@evil.example",
            "stats.example.org.evil.example",
            "[::2].evil.example",
            "a b",
            "http://localhost",
        ] {
            assert!(!is(host), "{host}");
        }
    }
}
