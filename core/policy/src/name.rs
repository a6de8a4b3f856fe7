//! Names of policies, as people type them.

use core::fmt;
use core::str::FromStr;

use alloc::string::String;

use crate::{PolicyName, Spec};

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

impl From<PolicyName> for Spec {
    fn from(name: PolicyName) -> Spec {
        name.spec()
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
        let names = PolicyName::ALL.map(PolicyName::as_str).join(" ");
        assert_eq!(error.to_string(), alloc::format!("unknown policy `LRU`, expected one of {names}"));
    }
}
