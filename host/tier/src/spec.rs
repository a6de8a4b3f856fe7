//! What is typed for a tier: `ssd:PATH,SIZE`, `redis://HOST:PORT,SIZE`.
//!
//! | scheme | what |
//! | --- | --- |
//! | `ssd:` | a directory or file of this machine |
//! | `redis://`, `rediss://` | Redis, Valkey or `pantler tier serve`; the second over TLS |
//! | `redis-cluster://`, `rediss-cluster://` | a cluster, by some nodes: `HOST:PORT+HOST:PORT` |

use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::Key;
use crate::ssd::{SSD_INDEX_BYTES_MAX, file_in};

/// Keys that one client believes its own on Redis.
pub(crate) const OWNED_MAX: usize = 1 << 22;
/// The most that one of them takes: the table has up to 16 places for 7.
const OWNED_BYTES_MAX: u64 = 80;
const _: () = assert!((size_of::<Key>() + 1) as u64 * 16 / 7 <= OWNED_BYTES_MAX);

/// Where a tier is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TierPlace {
    /// In a directory or file of this machine.
    Ssd(PathBuf),
    /// On a server, or a cluster of them.
    Remote {
        /// Nodes by name or address, and port.
        nodes: Vec<(String, u16)>,
        /// Over TLS.
        tls: bool,
        /// A cluster, of which these are some nodes.
        cluster: bool,
        /// User name, where the server wants one.
        user: Option<String>,
    },
}

impl TierPlace {
    /// Whether both lead to one tier, as far as names tell: a file by whatever path, a server by
    /// whatever scheme and user. No address is looked up.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ssd(one), Self::Ssd(other)) => {
                let (one, other) = (real(&file_in(one)), real(&file_in(other)));
                let number = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
                one == other || number(&one).is_some_and(|found| Some(found) == number(&other))
            }
            (Self::Remote { nodes, .. }, Self::Remote { nodes: others, .. }) => {
                nodes.iter().any(|node| others.iter().any(|other| is_same_node(node, other)))
            }
            _ => false,
        }
    }

    /// Reads `HOST:PORT`; the port has to be there.
    pub fn server(text: &str) -> Option<(String, u16)> {
        let (_, port) = text.rsplit_once(':')?;
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        if is_port && !text.contains(['/', '@', '+']) { node(text) } else { None }
    }

    /// Most memory that is taken here by what a tier of `frames` blocks knows of them itself.
    pub fn index_bytes_max(&self, frames: u64) -> u64 {
        match self {
            Self::Ssd(_) => frames.saturating_mul(SSD_INDEX_BYTES_MAX),
            Self::Remote { .. } => frames.min(OWNED_MAX as u64) * OWNED_BYTES_MAX,
        }
    }

    /// Whether it is on that server, or has it for a node.
    pub fn is_at(&self, server: &(String, u16)) -> bool {
        match self {
            Self::Ssd(_) => false,
            Self::Remote { nodes, .. } => nodes.iter().any(|node| is_same_node(node, server)),
        }
    }
}

/// A path without links, as far as it leads anywhere.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    let Some((part, mut real)) = there else { return path };
    for name in path.strip_prefix(part).unwrap_or(Path::new("")).components() {
        match name {
            Component::ParentDir => drop(real.pop()),
            name => real.push(name),
        }
    }
    real
}

/// Names of machines have no case, and addresses several ways to be written.
fn is_same_node((host, port): &(String, u16), (other, at): &(String, u16)) -> bool {
    let plain = |host: &str| {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let host = if host == "localhost" { "127.0.0.1".to_owned() } else { host };
        host.parse::<IpAddr>().map_or(host, |address| address.to_canonical().to_string())
    };
    port == at && plain(host) == plain(other)
}

/// A place, and the size that is typed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSpec {
    /// Where.
    pub place: TierPlace,
    /// The size as typed: everything after the last comma.
    pub size: String,
}

const PORT: u16 = 6379;
const EXPECTED: &str = "expected ssd:PATH,SIZE or redis://HOST:PORT,SIZE";

impl TierSpec {
    /// Reads what was typed. What is wrong is said without repeating a password.
    ///
    /// # Errors
    /// One line that names what is wrong.
    ///
    /// ```
    /// use pantler_tier::TierSpec;
    /// assert!(TierSpec::parse("ssd:/var/cache/pantler,8G").is_ok());
    /// let refused = TierSpec::parse("redis://:s3cret@host,64G").unwrap_err();
    /// assert!(refused.contains("password") && !refused.contains("s3cret"));
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused = || format!("tier {:?}: {EXPECTED}", shown(text));
        let (scheme, rest) = text.split_once(':').ok_or_else(refused)?;
        let (place, size) = rest.rsplit_once(',').filter(|(_, size)| !size.is_empty()).ok_or_else(refused)?;
        let size = size.to_owned();
        if scheme == "ssd" {
            let path = Some(place).filter(|path| !path.is_empty()).ok_or_else(refused)?;
            return Ok(Self { place: TierPlace::Ssd(path.into()), size });
        }
        let (tls, cluster) = match scheme {
            "redis" => (false, false),
            "rediss" => (true, false),
            "redis-cluster" => (false, true),
            "rediss-cluster" => (true, true),
            _ => return Err(format!("tier scheme {scheme:?}: {EXPECTED}")),
        };
        let authority = place.strip_prefix("//").ok_or_else(refused)?;
        let (user, hosts) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((user, _)) if user.contains(':') => {
                return Err("a password in the address of a tier: every user of this machine can see it; \
                            give it in a file (--tier-password-file) or in PANTLER_TIER_PASSWORD"
                    .to_owned());
            }
            Some((user, hosts)) => (Some(user.to_owned()), hosts),
        };
        let hosts = hosts.trim_end_matches('/');
        if hosts.contains(['/', '?', '#']) {
            return Err(format!("tier {:?}: expected nothing after HOST:PORT but the size", shown(text)));
        }
        let nodes = hosts.split('+').map(node).collect::<Option<Vec<_>>>();
        let nodes = nodes.filter(|nodes| cluster || nodes.len() == 1).ok_or_else(refused)?;
        Ok(Self { place: TierPlace::Remote { nodes, tls, cluster, user }, size })
    }
}

/// What was typed, without what may be a secret: nothing stands behind a host.
fn shown(text: &str) -> String {
    // A password stands before the `@`.
    let hidden = text.rsplit_once('@').map_or(text.to_owned(), |(_, after)| format!("...@{after}"));
    let start = hidden.find("//").map_or(0, |at| at + 2).max(hidden.find('@').unwrap_or(0));
    match hidden[start..].find(['/', '?', '#']).filter(|_| !text.starts_with("ssd:")) {
        Some(at) => format!("{}...", &hidden[..=start + at]),
        None => hidden,
    }
}

fn node(text: &str) -> Option<(String, u16)> {
    // [::1]:6379
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':').map_or_else(|| port.is_empty().then_some(""), Some)?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = if port.is_empty() { PORT } else { port.parse().ok().filter(|port| *port > 0)? };
    let is_name = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control());
    is_name.then(|| (host.to_owned(), port))
}

impl fmt::Display for TierPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssd(path) => write!(f, "ssd:{}", path.display()),
            Self::Remote { nodes, tls, cluster, .. } => {
                let (tls, cluster) = (if *tls { "s" } else { "" }, if *cluster { "-cluster" } else { "" });
                let nodes = nodes.iter().map(|(host, port)| match host.contains(':') {
                    true => format!("[{host}]:{port}"),
                    false => format!("{host}:{port}"),
                });
                write!(f, "redis{tls}{cluster}://{}", nodes.collect::<Vec<_>>().join("+"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_understood() {
        let cases = [
            ("ssd:/var/cache/pantler,8G", "ssd:/var/cache/pantler", "8G"),
            ("ssd:/a,b,8G", "ssd:/a,b", "8G"),
            ("redis://host:1,64G", "redis://host:1", "64G"),
            ("redis://host,64G", "redis://host:6379", "64G"),
            ("redis://me@host,64G", "redis://host:6379", "64G"),
            ("rediss://[::1]:7,1M", "rediss://[::1]:7", "1M"),
            ("redis-cluster://a:1+b:2,1M", "redis-cluster://a:1+b:2", "1M"),
        ];
        for (text, place, size) in cases {
            let spec = TierSpec::parse(text).unwrap();
            assert_eq!((spec.place.to_string().as_str(), spec.size.as_str()), (place, size), "{text}");
        }
    }

    #[test]
    fn one_tier_by_two_names_is_the_same() {
        let same = |one: &str, other: &str| {
            let place = |text: &str| TierSpec::parse(&format!("{text},1G")).unwrap().place;
            let (one, other) = (place(one), place(other));
            assert_eq!(one.is_same(&other), other.is_same(&one));
            one.is_same(&other)
        };
        for (one, other) in [
            ("redis://host", "redis://me@HOST.:6379"),
            ("redis://host:1", "rediss://host:1"),
            ("redis://127.0.0.1:7", "redis://[::ffff:127.0.0.1]:7"),
            ("redis://localhost:7", "redis://127.0.0.1:7"),
            ("redis://[::1]:7", "redis://[0:0::1]:7"),
            ("redis-cluster://a:1+b:2", "redis-cluster://c:3+b:2"),
            ("redis-cluster://a:1+b:2", "redis://a:1"),
        ] {
            assert!(same(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("redis://host:1", "redis://host:2"),
            ("redis://host:1", "redis://hosts:1"),
            ("redis-cluster://a:1+b:2", "redis-cluster://a:2+b:1"),
            ("redis://host", "ssd:/host"),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| format!("ssd:{}/{path}", folder.path().display());
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("a"), folder.path().join("link")).unwrap();
        assert!(same(&at("a"), &at("link")) && same(&at("a/new"), &at("link/other/../new/.")));
        assert!(!same(&at("a"), &at("b")) && !same(&at("a"), &at("a/new")));
        std::fs::write(folder.path().join("a/pantler.tier"), "").unwrap();
        assert!(same(&at("a"), &at("link/pantler.tier")));
        std::fs::hard_link(folder.path().join("a/pantler.tier"), folder.path().join("f")).unwrap();
        assert!(same(&at("a"), &at("f")));
    }

    #[test]
    fn a_server_has_a_port_that_is_typed() {
        assert_eq!(TierPlace::server("host:7"), Some(("host".to_owned(), 7)));
        assert_eq!(TierPlace::server("[::1]:7"), Some(("::1".to_owned(), 7)));
        for text in " host :7 host: host:0 /a:7 u@host:7 a:1+b:2 ::1 host:7x host:70000".split(' ') {
            assert_eq!(TierPlace::server(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_refused_says_why_in_one_line_without_passwords() {
        let cases = [
            "",
            "x",
            "ssd:",
            "ssd:/a",
            "ssd:,8G",
            "redis:host,8G",
            "redis://,8G",
            "redis://host",
            "redis://host,",
            "redis://a+b,1M",
            "redis://host:0,1M",
            "redis://host:99999,1M",
            "redis://host/3,1M",
            "nfs://host,1M",
            "redis://user:s3cret@host,1M",
            "redis://:s3cret@host,1M",
            "redis://:s3cret@host",
            "ftp://u:s3cret@host,1M",
            "redis://h?password=s3cret,1M",
            "redis://h?password=s3cret",
            "redis://h/s3cret,1M",
            "redis:h?password=s3cret,1M",
            "redis://u@h#s3cret,1M",
            "redis://a b,1M",
        ];
        for text in cases {
            let error = TierSpec::parse(text).unwrap_err();
            assert!(error.lines().count() == 1 && !error.contains("s3cret"), "{text}: {error}");
        }
    }
}
