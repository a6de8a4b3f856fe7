//! What is typed for a tier: `ssd:PATH,SIZE`, `redis://HOST:PORT,SIZE`.
//!
//! | scheme | what |
//! | --- | --- |
//! | `ssd:` | a directory or file of this machine |
//! | `redis://`, `rediss://` | Redis, Valkey or `pantler tier serve`; the second over TLS |
//! | `redis-cluster://`, `rediss-cluster://` | a cluster, by one or several of its nodes: `HOST:PORT+HOST:PORT` |

use std::fmt;
use std::path::PathBuf;

/// Where a tier is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
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

/// A place, and the size that is typed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSpec {
    /// Where.
    pub place: Place,
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
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(format!("tier {:?}: {EXPECTED}", shown(text)));
        };
        let (place, size) = match rest.rsplit_once(',') {
            Some((place, size)) if !size.is_empty() => (place, size.to_owned()),
            _ => return Err(format!("tier {:?}: {EXPECTED}", shown(text))),
        };
        if scheme == "ssd" {
            if place.is_empty() {
                return Err(format!("tier {:?}: {EXPECTED}", shown(text)));
            }
            return Ok(Self { place: Place::Ssd(place.into()), size });
        }
        let (tls, cluster) = match scheme {
            "redis" => (false, false),
            "rediss" => (true, false),
            "redis-cluster" => (false, true),
            "rediss-cluster" => (true, true),
            _ => return Err(format!("tier scheme {scheme:?}: {EXPECTED}")),
        };
        let Some(authority) = place.strip_prefix("//") else {
            return Err(format!("tier {:?}: {EXPECTED}", shown(text)));
        };
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
        match nodes {
            Some(nodes) if cluster || nodes.len() == 1 => {
                Ok(Self { place: Place::Remote { nodes, tls, cluster, user }, size })
            }
            _ => Err(format!("tier {:?}: {EXPECTED}", shown(text))),
        }
    }
}

/// What was typed, without what may be a secret: nothing stands behind a host.
fn shown(text: &str) -> String {
    let hidden = hide(text);
    let start = hidden.find("//").map_or(0, |at| at + 2).max(hidden.find('@').unwrap_or(0));
    match hidden[start..].find(['/', '?', '#']).filter(|_| !text.starts_with("ssd:")) {
        Some(at) => format!("{}...", &hidden[..=start + at]),
        None => hidden,
    }
}

/// Text that may hold a password, as far as it may be shown.
pub(crate) fn hide(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, after)) => format!("...@{after}"),
        None => text.to_owned(),
    }
}

pub(crate) fn node(text: &str) -> Option<(String, u16)> {
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

impl fmt::Display for Place {
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
