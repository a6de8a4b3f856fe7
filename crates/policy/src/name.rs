//! Names of policies, as people type them.

use core::fmt;
use core::str::FromStr;

use alloc::string::String;

/// A policy by name: lower case, with hyphens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PolicyName {
    /// Least recently used: the default everywhere.
    #[default]
    Lru,
    /// Most recently used.
    Mru,
    /// First in, first out.
    Fifo,
    /// FIFO with a second chance.
    Clock,
}

impl PolicyName {
    /// All of them, in the order in which help texts list them.
    pub const ALL: [Self; 4] = [Self::Lru, Self::Mru, Self::Fifo, Self::Clock];

    /// The name as typed.
    pub const fn as_str(self) -> &'static str {
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
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.as_str() == name);
        found.ok_or_else(|| UnknownPolicy { name: name.into() })
    }
}

/// A name that is no policy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    name: String,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown policy `{}`, expected one of", self.name)?;
        for policy in PolicyName::ALL {
            write!(f, " {policy}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownPolicy {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_round_trip_and_strangers_are_told_what_exists() {
        for policy in PolicyName::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "LRU".parse::<PolicyName>().unwrap_err();
        assert_eq!(error.to_string(), "unknown policy `LRU`, expected one of lru mru fifo clock");
    }
}
