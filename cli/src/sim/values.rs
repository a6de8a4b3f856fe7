//! Values of the words of `pantler sim`, for all its commands.

use pantler_policy::{Spec, SpecError};
use pantler_sim::tiers::PROTOCOLS;
use pantler_sim::{Control, Sharing, WarmUp};
use pantler_steward::{Allocation, Lookahead, PolicyName, Revocation};
use pantler_trace::perhaps;
use std::path::Path;
use std::str::FromStr;
use strum::VariantNames;

use crate::failure::Usage;

pub fn policies() -> Vec<&'static str> {
    Spec::all().iter().map(|known| known.name).chain(["help"]).collect()
}

pub fn protocols() -> Vec<&'static str> {
    PROTOCOLS.iter().map(|(name, _)| *name).chain(["help"]).collect()
}

/// The parts of a list. A comma before `key=value` continues the part before it:
/// `2q:in=0.25,out=0.5,lru`.
pub fn split(text: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for part in text.split(',') {
        let continues = part.split_once('=').is_some_and(|(key, _)| !key.contains(':'));
        match texts.last_mut() {
            Some(last) if continues => *last += &format!(",{part}"),
            _ => texts.push(part.to_owned()),
        }
    }
    texts
}

pub fn policy(text: &str) -> Result<Spec, Usage> {
    text.parse().map_err(|error| match error {
        SpecError::UnknownPolicy { name, .. } => {
            unknown("policy", &name, policies(), "--policy help lists all")
        }
        error => Usage::new(error),
    })
}

/// A value by its name, which is one of some.
pub fn named<T: FromStr>(what: &str, name: &str, all: &[&str]) -> Result<T, Usage> {
    let expected = format!("expected one of {}", all.join(", "));
    name.parse().map_err(|_| unknown(what, name, all.iter().copied(), &expected))
}

pub fn lookahead(name: &str) -> Result<Lookahead, Usage> {
    named("lookahead", name, Lookahead::VARIANTS)
}

/// How owners share a cache.
pub fn sharing(
    allocation: &str,
    common_policy: Option<PolicyName>,
    control: Control,
) -> Result<Sharing, Usage> {
    let known = named("allocation", allocation, Allocation::VARIANTS)?;
    let common_policy = common_policy.unwrap_or_default();
    let sharing = Sharing { common_policy, control, ..Sharing::new(known) };
    if sharing.is_policy_idle() {
        let common = sharing.common_policy.as_str();
        return Err(Usage(format!("common policy {common:?}: {}", Sharing::IDLE_POLICY)));
    }
    Ok(sharing)
}

/// Wishes of owners, from a file if there is one.
pub fn control(path: Option<&Path>) -> Result<Control, Usage> {
    let Some(path) = path else { return Ok(Control::default()) };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Usage(format!("control {name:?}: {error}")))?;
    Control::parse(&name, &text).map_err(Usage::new)
}

pub fn revocation(text: &str) -> Result<Revocation, Usage> {
    match text {
        "never" => return Ok(Revocation::NEVER),
        "default" => return Ok(Revocation::default()),
        _ => {}
    }
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[needed, share_percent]) => Ok(Revocation { needed, share_percent }),
        _ => Err(Usage(format!("revocation {text:?}: expected never, default, or NEEDED,PERCENT"))),
    }
}

/// References, or a share above 0 and at most 1 of them, as a percentage or a fraction.
pub fn warm_up(text: &str) -> Result<WarmUp, Usage> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(|percent: f64| percent / 100.0),
        None => text.parse().ok().filter(|_| text.contains('.')),
    };
    let share = share.filter(|share| *share > 0.0 && *share <= 1.0).map(WarmUp::Share);
    let found = share.or_else(|| text.parse().ok().map(WarmUp::Count));
    found.ok_or_else(|| {
        Usage(format!("warm-up {text:?}: expected references such as 10000, or a share such as 10%"))
    })
}

pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>, all: &str) -> Usage {
    Usage(format!("unknown {what} {name:?}{}: {all}", perhaps(name, known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_counts() {
        assert_eq!(warm_up("10").unwrap(), WarmUp::Count(10));
        for (text, share) in [("10%", 0.1), ("0.1", 0.1), ("0.25", 0.25)] {
            assert_eq!(warm_up(text).unwrap(), WarmUp::Share(share));
        }
        for bad in ["", "x", "101%", "-1", "1.5"] {
            assert!(warm_up(bad).is_err(), "{bad}");
        }
    }
}
