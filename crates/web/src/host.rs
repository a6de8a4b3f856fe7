//! By which names the page for who runs the server may be asked for. A browser that was told that some name is our address
//! (DNS rebinding) would show the page to whoever owns that name, who would be its origin: it says the name as `Host`. Pure.

use hyper::http::uri::Authority;
use std::net::{IpAddr, SocketAddr};

/// Whether a host, with or without a port, means us: the address at which the connection came in, this machine as it
/// calls itself within, or one of `names`. Ports say nothing: whoever forwards one may have taken another.
pub fn is_ours(host: &str, came_in: SocketAddr, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let name = host.strip_suffix('.').unwrap_or(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if let Ok(address) = bare.parse::<IpAddr>() {
        let address = address.to_canonical();
        let is_named =
            |name: &String| name.parse().is_ok_and(|named: IpAddr| named.to_canonical() == address);
        return address.is_loopback() || address == came_in.ip().to_canonical() || names.iter().any(is_named);
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
        let names = ["stats.example.org".to_owned(), "192.0.2.7".to_owned()];
        let is = |host| is_ours(host, "10.1.2.3:9090".parse().unwrap(), &names);
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
        ] {
            assert!(is(host), "{host}");
        }
        for host in [
            "",
            "x",
            "evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "10.1.2.4",
            "0.0.0.0",
            "127.0.0.1.evil.example",
            "evil@localhost",
            "localhost@evil.example",
            "stats.example.org.evil.example",
            "[::2]",
            "a b",
            "http://localhost",
        ] {
            assert!(!is(host), "{host}");
        }
        assert!(is_ours("10.1.2.3", "[::ffff:10.1.2.3]:9090".parse().unwrap(), &[]), "both at one socket");
    }
}
