//! Names of replacement policies in messages and profiles: the steward's own words, as text.

use pantler_steward::PolicyName;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// For `#[serde(with = "crate::policy")]`.
pub(crate) fn serialize<S: Serializer>(policy: &PolicyName, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(policy.as_str())
}

/// For `#[serde(with = "crate::policy")]`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<PolicyName, D::Error> {
    String::deserialize(input)?.parse().map_err(D::Error::custom)
}
