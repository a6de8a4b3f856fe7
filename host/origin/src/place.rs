//! Where an origin is, as it is typed: a directory, or an address of an object store.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strum::{Display, EnumString};

/// Where an origin is.
#[derive(Clone, derive_more::From)]
#[non_exhaustive]
pub enum Place {
    /// A directory of this machine.
    #[from(PathBuf, &Path, &PathBuf, String, &str, &String)]
    Directory(PathBuf),
    /// An object store, and how to deal with it.
    Store(StoreAddress, StoreOptions),
}

impl Place {
    /// As a path, or what looks like one.
    pub fn shown(&self) -> OsString {
        match self {
            Self::Directory(path) => path.clone().into_os_string(),
            Self::Store(address, _) => address.to_string().into(),
        }
    }

    /// Whether it is no directory.
    pub fn is_store(&self) -> bool {
        !matches!(self, Self::Directory(_))
    }
}

/// What speaks which protocol.
#[derive(Debug, Clone, Copy, Display, EnumString, PartialEq, Eq)]
#[strum(serialize_all = "lowercase")]
#[non_exhaustive]
pub enum Scheme {
    /// S3 and what is compatible.
    S3,
    /// Google Cloud Storage.
    #[strum(to_string = "gs")]
    Gcs,
    /// Azure Blob Storage.
    #[strum(to_string = "az")]
    Azure,
    /// Any server for HTTP; listing needs WebDAV.
    Http,
    /// The same over TLS.
    Https,
    /// The memory of this process: for tests.
    Memory,
}

/// The address of an object store. Never holds a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAddress {
    /// Which protocol.
    pub scheme: Scheme,
    /// Bucket, container, or host and port.
    pub bucket: String,
    /// What all keys begin with, without slashes at the ends.
    pub prefix: String,
}

const EXPECTED: &str = "expected a directory, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or http(s)://HOST/PATH";

impl StoreAddress {
    /// Reads what was typed; `None` when it is a path.
    ///
    /// # Errors
    /// One line that names what is wrong, without repeating what could be a credential.
    ///
    /// ```
    /// use pantler_origin::StoreAddress;
    /// assert_eq!(StoreAddress::parse("/data"), Ok(None));
    /// let address = StoreAddress::parse("s3://bucket/a/b/").unwrap().unwrap();
    /// assert_eq!((address.bucket.as_str(), address.prefix.as_str()), ("bucket", "a/b"));
    /// assert!(!StoreAddress::parse("https://me:s3cret@host/").unwrap_err().contains("s3cret"));
    /// ```
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        if text == "memory:" {
            return Ok(Some(Self { scheme: Scheme::Memory, bucket: String::new(), prefix: String::new() }));
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(None) };
        // A path with a slash before the colon.
        if scheme.contains('/') {
            return Ok(None);
        }
        let known = scheme.parse().ok().filter(|&known| known != Scheme::Memory);
        let scheme = known.ok_or_else(|| format!("origin scheme {scheme:?}: {EXPECTED}"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.contains('@') {
            return Err("a credential in the address of an origin: every user of this machine can see it; \
                        give it in a file (--origin-credentials) or in the environment"
                .to_owned());
        }
        if rest.contains(['?', '#']) {
            let bucket = bucket.split(['?', '#']).next().unwrap_or_default();
            return Err(format!("origin {scheme}://{bucket}: expected nothing after the path"));
        }
        let is_name = !bucket.is_empty() && !bucket.contains(|c: char| c.is_whitespace() || c.is_control());
        if !is_name {
            return Err(format!("origin {text:?}: {EXPECTED}"));
        }
        let prefix = prefix.trim_matches('/');
        if !prefix.is_empty() && prefix.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(format!("origin {text:?}: expected no empty part, `.` or `..` in the path"));
        }
        Ok(Some(Self { scheme, bucket: bucket.to_owned(), prefix: prefix.to_owned() }))
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, bucket, prefix } = self;
        match (scheme, prefix.is_empty()) {
            (Scheme::Memory, _) => write!(f, "memory:"),
            (_, true) => write!(f, "{scheme}://{bucket}"),
            (_, false) => write!(f, "{scheme}://{bucket}/{prefix}"),
        }
    }
}

/// How to deal with an object store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How long a reader may have to wait for one answer, repetitions included.
    pub timeout: Duration,
    /// How often a request is repeated that failed for a reason that may pass.
    pub retries: u32,
    /// How old what is known of names and versions may be.
    pub refresh: Duration,
    /// Added to, and stronger than, what the environment says.
    pub credentials: Credentials,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            retries: 5,
            refresh: Duration::from_secs(1),
            credentials: Credentials::default(),
        }
    }
}

/// Settings by the names that the tools of each store give them in the environment, such as
/// `AWS_SECRET_ACCESS_KEY`.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("{} settings", settings.len())]
pub struct Credentials {
    pub(crate) settings: Vec<(String, String)>,
}

impl Credentials {
    /// From lines of `NAME=VALUE`. Empty lines and those that begin with `#` mean nothing.
    ///
    /// # Errors
    /// The number of the line that is none of these; never its text.
    ///
    /// ```
    /// use pantler_origin::Credentials;
    /// assert!(Credentials::parse("# mine\nAWS_ACCESS_KEY_ID = me\n").is_ok());
    /// assert_eq!(Credentials::parse("x=1\ns3cret").unwrap_err(), "line 2: expected NAME=VALUE");
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut settings = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pair = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            let Some((name, value)) = pair.filter(|(name, _)| !name.is_empty()) else {
                return Err(format!("line {}: expected NAME=VALUE", number + 1));
            };
            settings.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self { settings })
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_both_ways() {
        for text in
            ["s3://b", "s3://b/a/b", "gs://b/x", "az://c", "http://h:81/p", "https://[::1]:2/p", "memory:"]
        {
            assert_eq!(StoreAddress::parse(text).unwrap().unwrap().to_string(), text);
        }
        for path in ["/data", "data", "./s3://b", "C:", "a:b"] {
            assert_eq!(StoreAddress::parse(path), Ok(None), "{path}");
        }
    }

    #[test]
    fn nonsense_is_refused_in_one_line() {
        let addresses = "ftp://host/ s3:// s3:///x s3://b/../x s3://b/a//b ://b gs://b#s3cret";
        for text in addresses.split(' ').chain(["http://h/?sig=s3cret", "http://u:s3cret@h/"]) {
            let error = StoreAddress::parse(text).unwrap_err();
            assert!(error.lines().count() == 1 && error.contains("expected") | error.contains("give it"));
            assert!(!error.contains("s3cret"), "{text}: {error}");
        }
    }
}
