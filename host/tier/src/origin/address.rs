//! What is typed for a tier server as origin: `tier://HOST:PORT/PATH`.

use std::fmt;

use crate::files::check_path;
use crate::spec::{hide, is_same_node, node};

/// Where a server is that reads an origin. Never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginAddress {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Over TLS.
    pub tls: bool,
    /// User name, where the server wants one.
    pub user: Option<String>,
    /// A directory below the origin of the server, without slashes at the ends.
    pub prefix: String,
}

const EXPECTED: &str = "expected tier://HOST:PORT or tier://HOST:PORT/PATH, over TLS tiers://";

impl OriginAddress {
    /// Reads what was typed; `None` when it is something else.
    ///
    /// # Errors
    /// One line that names what is wrong, without repeating a password.
    ///
    /// ```
    /// use pantler_tier::OriginAddress;
    /// let address = OriginAddress::parse("tier://host:7070/a/b").unwrap().unwrap();
    /// assert_eq!((address.port, address.prefix.as_str()), (7070, "a/b"));
    /// assert_eq!(OriginAddress::parse("/data"), Ok(None));
    /// assert!(!OriginAddress::parse("tier://:s3cret@host").unwrap_err().contains("s3cret"));
    /// ```
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(None) };
        let tls = match scheme {
            "tier" => false,
            "tiers" => true,
            "redis" | "rediss" | "redis-cluster" | "rediss-cluster" => {
                return Err(format!(
                    "origin {}: Redis has no files; a `pantler tier serve` with --origin is tier://HOST:PORT",
                    hide(text)
                ));
            }
            _ => return Ok(None),
        };
        let refuse = || format!("origin {}: {EXPECTED}", hide(text));
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((user, _)) if user.contains(':') => {
                return Err(
                    "a password in the address of an origin: every user of this machine can see it; \
                            give it in a file (--tier-password-file) or in PANTLER_TIER_PASSWORD"
                        .to_owned(),
                );
            }
            Some((user, host)) => (Some(user.to_owned()), host),
        };
        if authority.contains(['?', '#']) || host.contains(['+', ',']) {
            return Err(refuse());
        }
        let (host, port) = node(host).ok_or_else(refuse)?;
        let prefix = prefix.trim_matches('/').to_owned();
        if check_path(prefix.as_bytes()).is_err() {
            return Err(format!("origin {}: expected no empty part, `.` or `..` in the path", hide(text)));
        }
        Ok(Some(Self { host, port, tls, user, prefix }))
    }

    /// Whether it is on that server.
    pub fn is_at(&self, server: &(String, u16)) -> bool {
        is_same_node(&(self.host.clone(), self.port), server)
    }
}

impl fmt::Display for OriginAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, tls, prefix, .. } = self;
        let (scheme, slash) = (if *tls { "tiers" } else { "tier" }, if prefix.is_empty() { "" } else { "/" });
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        match host.contains(':') {
            true => write!(f, "{scheme}://{user}[{host}]:{port}{slash}{prefix}"),
            false => write!(f, "{scheme}://{user}{host}:{port}{slash}{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_understood() {
        for (text, shown) in [
            ("tier://host:7070", "tier://host:7070"),
            ("tier://host", "tier://host:6379"),
            ("tier://host:1/", "tier://host:1"),
            ("tiers://[::1]:7/a/b/", "tiers://[::1]:7/a/b"),
            ("tier://me@host:1/a b", "tier://me@host:1/a b"),
        ] {
            let address = OriginAddress::parse(text).unwrap().unwrap();
            assert_eq!(address.to_string(), shown, "{text}");
            assert_eq!(OriginAddress::parse(shown), Ok(Some(address)), "both ways");
        }
        for other in ["/data", "data", "s3://b", "./tier:x", "tier:x", "C:"] {
            assert_eq!(OriginAddress::parse(other), Ok(None), "{other}");
        }
    }

    #[test]
    fn nonsense_is_refused_in_one_line_without_passwords() {
        for text in [
            "tier://",
            "tier:///x",
            "tier://host:0",
            "tier://host:99999",
            "tier://host:x",
            "tier://a b:1",
            "tier://host:1/../x",
            "tier://host:1/a//b",
            "tier://a:1+b:2",
            "tier://host:1,64G",
            "tier://host?x=s3cret@h",
            "tier://me:s3cret@host",
            "tiers://:s3cret@host/x",
            "redis://:s3cret@host",
            "redis://host:7070",
        ] {
            let error = OriginAddress::parse(text).unwrap_err();
            assert!(error.lines().count() == 1 && !error.contains("s3cret"), "{text}: {error}");
        }
    }
}
