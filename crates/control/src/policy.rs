//! Names of replacement policies, as they are written in hints and profiles.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A replacement policy by name (C2). Written in lower case everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PolicyName {
    /// Least recently used goes first. The default.
    #[default]
    Lru,
    /// Most recently used goes first: right for a file that is read from start to end again and again.
    Mru,
    /// First in, first out.
    Fifo,
    /// Second chance.
    Clock,
}

impl PolicyName {
    /// All policies, in the order in which messages list them.
    pub const ALL: [PolicyName; 4] = [PolicyName::Lru, PolicyName::Mru, PolicyName::Fifo, PolicyName::Clock];

    /// The name as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Mru => "mru",
            Self::Fifo => "fifo",
            Self::Clock => "clock",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A policy name nobody knows. Its text names the value and lists what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy {0:?}: expected lru, mru, fifo or clock")]
pub struct UnknownPolicy(pub String);

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|p| p.as_str() == text).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for policy in PolicyName::ALL {
            assert_eq!(policy.as_str().parse(), Ok(policy));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_list() {
        let error = "LRU".parse::<PolicyName>().unwrap_err().to_string();
        assert_eq!(error, "policy \"LRU\": expected lru, mru, fifo or clock");
    }
}
