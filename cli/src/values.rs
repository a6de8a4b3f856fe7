//! Values of options: what is understood, and which names are suggested.

use pantler_control::{
    ControlError, OwnerSelector, PRIORITY_MAX, PRIORITY_MIN, PolicyName, Profile, Size, SizeError,
};
use pantler_kernel::memory::Limit;
use pantler_policy::{Spec, SpecError};
use pantler_steward::{Allocation, Lookahead};
use pantler_trace::{Format, TraceError};
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;
use strum::VariantNames;

/// Allocations by name (docs/RULES.md, L).
pub fn allocation(text: &str) -> Result<Allocation, String> {
    let known = allocations();
    let listed = known.contains(&text).then(|| text.parse().ok()).flatten();
    listed.ok_or_else(|| format!("expected {}", known.join(", ")))
}

/// LRU-SP, and what it is compared with. Ablations are for the simulator.
pub fn allocations() -> Vec<&'static str> {
    [Allocation::LruSp, Allocation::GlobalLru].map(<&str>::from).into()
}

/// Policies that run without knowing the future.
pub fn policies() -> Vec<&'static str> {
    PolicyName::ALL.map(PolicyName::as_str).into()
}

pub fn lookaheads() -> Vec<&'static str> {
    [Lookahead::VARIANTS, &["auto"]].concat()
}

pub fn format(text: &str) -> Result<Format, String> {
    text.parse().map_err(|error: TraceError| error.to_string())
}

pub fn formats() -> Vec<&'static str> {
    Format::all().map(Format::as_str).collect()
}

pub fn owners() -> Vec<&'static str> {
    vec!["process", "cgroup", "user", "fixed:"]
}

pub fn profile_names() -> Vec<&'static str> {
    Profile::builtin_names().chain(["none"]).collect()
}

/// A policy by name alone.
pub fn policy(text: &str) -> Result<PolicyName, String> {
    let spec = online(text)?;
    spec.policy_name()
        .filter(|_| !text.contains(':'))
        .ok_or_else(|| "expected a name without parameters".to_owned())
}

/// A policy that can run without knowing the future.
pub fn online(text: &str) -> Result<Spec, String> {
    let spec: Spec = text.parse().map_err(|error| match error {
        // Its own list has those that know the future, too.
        SpecError::UnknownPolicy { name, .. } => {
            PolicyName::from_str(&name).map_or_else(|e| e.to_string(), |_| name)
        }
        error => error.to_string(),
    })?;
    match spec.policy_name() {
        Some(_) => Ok(spec),
        None => Err(format!("`{spec}` would have to know the future")),
    }
}

/// The same, as text in its usual form.
pub fn online_text(text: &str) -> Result<String, String> {
    online(text).map(|spec| spec.to_string())
}

pub fn whole<T: FromStr + PartialOrd + Display>(text: &str, allowed: RangeInclusive<T>) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("expected a whole number from {} to {}", allowed.start(), allowed.end()))
}

/// Seconds between two tables, with a fraction.
pub fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds from 0.1 to 86400".to_owned())
}

/// A size, or a share of the memory that this process may take.
pub fn memory(text: &str) -> Result<Size, SizeError> {
    Size::within(text, || Limit::here().bytes)
}

/// At least one.
pub fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number of at least 1".to_owned())
}

pub fn priority(text: &str) -> Result<i32, String> {
    whole(text, PRIORITY_MIN..=PRIORITY_MAX)
}

pub fn owner_by(text: &str) -> Result<String, String> {
    let known: Result<pantler_mount::OwnerBy, _> = text.parse();
    known.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub fn frames() -> Vec<&'static str> {
    vec!["own", "kernel", "auto"]
}

pub fn keeper(text: &str) -> Result<String, String> {
    let known: Result<pantler_mount::Keeper, _> = text.parse();
    known.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub fn lookahead(text: &str) -> Result<String, String> {
    if text == "auto" {
        return Ok(text.to_owned());
    }
    let known: Result<Lookahead, _> = text.parse();
    known.map(|_| text.to_owned()).map_err(|error| format!("{error}, or auto"))
}

pub fn block_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    let bytes = size.bytes();
    if bytes.is_power_of_two() && (4 << 10..=1 << 20).contains(&bytes) {
        return Ok(size);
    }
    Err("expected a power of two from 4K to 1M".to_owned())
}

pub fn owner_name(text: &str) -> Result<String, ControlError> {
    match text.parse()? {
        OwnerSelector::Name(name) => Ok(name),
        _ => Err(ControlError::invalid(format!("owner name {text:?}: expected a name, not a number"))),
    }
}
