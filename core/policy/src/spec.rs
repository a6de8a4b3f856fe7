//! What to simulate or run: a policy with its parameters, as people type it.
//!
//! ```text
//!   lru        2q:in=0.25,out=0.5        lru-3 (short for lru-k:k=3)       opt (also: min, belady)
//! ```

use core::fmt;
use core::str::FromStr;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{Key, PolicyName, Refused, Spec};

/// What happens to a policy of unknown type: see [`Spec::with`].
///
/// A visitor and not a trait object, so that the loop around the policy is compiled for each policy
/// apart.
pub trait Visitor {
    /// What the visit gives.
    type Output;

    /// The policy sees one reference after the other. It owns what it needs, so it may be kept.
    fn online<P: crate::Online + 'static>(self, policy: P) -> Self::Output;

    /// The policy must be told the future: see [`min`](mod@crate::min).
    fn offline(self, policy: Offline) -> Self::Output;
}

/// A policy that must know the future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offline {
    /// Belady's MIN for demand caches: each miss brings its block in.
    Min,
    /// MIN that may leave a block out that will be referenced later than all others.
    MinWithBypass,
}

/// One line of help: a policy, its parameters, and what it is.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The policy with its defaults.
    pub spec: Spec,
    /// The name as typed.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Its parameters.
    pub keys: &'static [Key],
}

impl Known {
    fn refuses(&self, key: &str, value: &str, refused: Refused) -> SpecError {
        let (policy, keys) = (self.name, self.keys.iter().map(|key| key.key).collect::<Vec<_>>().join(" "));
        let problem = match refused {
            Refused::Unknown if keys.is_empty() => {
                format!("policy `{policy}` has no parameters, `{key}` was given")
            }
            Refused::Unknown => {
                format!("policy `{policy}` has no parameter `{key}`, expected one of {keys}")
            }
            Refused::Value(range) => {
                format!("`{value}` is no value of `{key}` of policy `{policy}`: expected {range}")
            }
        };
        SpecError::Parameter { problem }
    }
}

/// Other names for the same.
const ALIASES: &[(&str, &str)] = &[("min", "opt"), ("belady", "opt"), ("min-bypass", "opt-bypass")];

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| *name);
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        // `lru-3` is LRU-K with K = 3.
        let name = match name.strip_prefix("lru-") {
            Some(k) if k.parse::<u32>().is_ok() => {
                pairs.push(("k", k));
                "lru-k"
            }
            _ => name,
        };
        for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
            let wrong =
                || SpecError::Parameter { problem: format!("`{pair}` is no parameter: expected key=value") };
            pairs.push(pair.split_once('=').ok_or_else(wrong)?);
        }
        let all = Self::all();
        let found = all.iter().find(|known| known.name == name);
        let known = found.ok_or_else(|| SpecError::unknown(name, all.iter().map(|known| known.name)))?;
        let mut spec = known.spec;
        for (key, value) in pairs {
            spec.set(key, value).map_err(|refused| known.refuses(key, value, refused))?;
        }
        Ok(spec)
    }
}

impl Spec {
    /// The same policy with that seed, if it draws; else the same.
    ///
    /// ```
    /// use pantler_policy::Spec;
    /// let seeded = |name: &str| name.parse::<Spec>().unwrap().seeded(7).to_string();
    /// assert_eq!([seeded("random"), seeded("lru")], ["random:seed=7", "lru"]);
    /// ```
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        // A policy that draws nothing lacks this parameter, and every number is a seed.
        let _ = self.set("seed", &seed.to_string());
        self
    }
}

impl fmt::Display for Spec {
    /// Parameters at their defaults are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Width and alignment hold for the whole, so the parts are put together first.
        let text = Shown(*self).to_string();
        // `lru-k:k=3,..` is shown as `lru-3:..`.
        let Some(rest) = text.strip_prefix("lru-k") else { return f.pad(&text) };
        let short = match rest.strip_prefix(":k=").map(|rest| rest.split_once(',').unwrap_or((rest, ""))) {
            Some((k, "")) => format!("lru-{k}"),
            Some((k, rest)) => format!("lru-{k}:{rest}"),
            None => format!("lru-2{rest}"),
        };
        f.pad(&short)
    }
}

struct Shown(Spec);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())?;
        let mut separator = ":";
        self.0.write_parameters(f, &mut |f| f.write_str(core::mem::replace(&mut separator, ",")))
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = SpecError;

    fn from_str(name: &str) -> Result<Self, SpecError> {
        let found = Self::ALL.into_iter().find(|policy| policy.as_str() == name);
        found.ok_or_else(|| SpecError::unknown(name, Self::ALL.iter().map(|policy| policy.as_str())))
    }
}

/// Why a text names no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// No policy has this name.
    UnknownPolicy {
        /// The name.
        name: String,
        /// Names that were possible, separated by spaces.
        known: String,
    },
    /// The policy does not take what stands behind its name.
    Parameter {
        /// What is wrong, and what would have been taken.
        problem: String,
    },
}

impl SpecError {
    fn unknown(name: &str, known: impl Iterator<Item = &'static str>) -> Self {
        Self::UnknownPolicy { name: name.into(), known: known.collect::<Vec<_>>().join(" ") }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy { name, known } => {
                write!(f, "unknown policy `{name}`, expected one of {known}")
            }
            Self::Parameter { problem } => f.write_str(problem),
        }
    }
}

impl core::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_round_trip_and_have_distinct_names() {
        let all = Spec::all();
        for known in &all {
            let text = known.spec.to_string();
            assert_eq!(text.parse(), Ok(known.spec), "{text}");
            assert_eq!(all.iter().filter(|other| other.name == known.name).count(), 1, "{text}");
            assert!(!known.summary.is_empty(), "{text}");
            for key in known.keys {
                let text = format!("{}:{}={}", known.name, key.key, key.default);
                assert_eq!(text.parse(), Ok(known.spec), "{text}");
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for policy in PolicyName::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }

    #[test]
    fn aliases_name_the_same() {
        for alias in ["min", "belady"] {
            assert_eq!(alias.parse(), "opt".parse::<Spec>());
        }
    }

    #[test]
    fn strangers_are_told_what_exists() {
        let error = |text: &str| text.parse::<Spec>().unwrap_err().to_string();
        assert!(error("LRU").starts_with("unknown policy `LRU`, expected one of "));
        let names = PolicyName::ALL.map(PolicyName::as_str).join(" ");
        let error_of_name = "LRU".parse::<PolicyName>().unwrap_err().to_string();
        assert_eq!(error_of_name, format!("unknown policy `LRU`, expected one of {names}"));
        assert_eq!(error("lru:x=1"), "policy `lru` has no parameters, `x` was given");
        assert_eq!(error("lru:x"), "`x` is no parameter: expected key=value");
    }
}
