//! The user at the other end of a connection over loopback, by the kernel's table of connections.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The user of the socket that connected from `peer` to `own`, both on this machine and in this
/// network namespace. `None` if the kernel has no established connection of a process there: of one
/// that was closed the table says user 0.
pub fn of_peer(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
        .into_iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .find_map(|table| of_table(&table, peer, own))
}

/// The state of a connection that both ends have.
const ESTABLISHED: &str = "01";

fn of_table(table: &str, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let (peer, own) = (plain(peer), plain(own));
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, _, _, _, uid, _, inode, ..] = words[..] else { return None };
        let is_it = address(local) == Some(peer) && address(remote) == Some(own);
        (is_it && state == ESTABLISHED && inode != "0").then(|| uid.parse().ok())?
    })
}

/// An address of IPv4 within IPv6 as what it is.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// `0100007F:1F90`: words of the address as this machine stores them, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    for at in (0..digits.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(digits.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(plain(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_user_of_a_connection_is_told_while_it_lasts() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let own = server.local_addr().unwrap();
            assert_eq!(of_peer(peer, own), Some(rustix::process::geteuid().as_raw()), "{place}");
            let other = SocketAddr::new(peer.ip(), peer.port().wrapping_add(1));
            assert_eq!(of_peer(other, own), None);
            drop(client);
            assert_eq!(of_peer(peer, own), None, "a closed one is not taken for that of root");
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_other_states_and_other_ends_are_passed_over() {
        let line = |local: &str, remote: &str, state: &str, uid: u32, inode: u32| {
            format!(
                "  0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid} 0 {inode} 1\n"
            )
        };
        let (client, server) = ("0100007F:9C40", "0100007F:1F90");
        let [peer, own] = ["127.0.0.1:40000", "127.0.0.1:8080"].map(|text| text.parse().unwrap());
        let told = |lines: &[String]| of_table(&format!("head\n{}", lines.concat()), peer, own);
        assert_eq!(
            told(&[line(server, client, "01", 0, 5), line(client, server, "01", 1000, 6)]),
            Some(1000)
        );
        assert_eq!(told(&[line(client, server, "06", 0, 0)]), None);
        assert_eq!(told(&[line(client, server, "01", 0, 0)]), None);
        assert_eq!(told(&["nonsense\n".to_owned(), line("x", "y", "01", 0, 7)]), None);
        let mapped = |text: &str| format!("0000000000000000FFFF0000{text}");
        assert_eq!(told(&[line(&mapped(client), &mapped(server), "01", 1001, 6)]), Some(1001));
    }
}
