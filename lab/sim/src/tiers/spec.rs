//! Which protocol, as people type it.

use std::fmt;
use std::str::FromStr;

use pantler_policy::{Spec, SpecError};
use pantler_steward::OptionsError;
use pantler_steward::placement::{Order, Passing, Sizes};

use super::independent::Independent;
use super::protocol::Protocol;
use super::ulc_clients::UlcClients;
use super::ulc_recency::UlcRecency;
use super::unified::{Insertion, Unified};
use crate::control::ControlError;

/// A protocol with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ProtocolSpec {
    /// Every tier on its own: `mq`, or `ind-` and the name of a policy.
    Independent {
        /// At the clients.
        near: Spec,
        /// At the tiers behind them.
        far: Spec,
    },
    /// One LRU order: `uni-lru` and its variants.
    Unified(Insertion),
    /// `ulc` and `ulc-request-order`.
    Ulc {
        /// How shared tiers order what they keep.
        order: Order,
        /// `:passing` or `:passing=FRAMES`.
        passing: Passing,
    },
    /// `ulc-recency`.
    UlcRecency,
}

/// Names for the help text: name, and what it is.
pub const PROTOCOLS: &[(&str, &str)] = &[
    ("ind-lru", "every tier on its own under LRU; ind-POLICY for any other policy, ind-arc among them"),
    ("mq", "LRU at the clients, Multi-Queue at the tiers behind; mq:KEY=VALUE as the policy takes them"),
    ("uni-lru", "one LRU order over all tiers; what leaves a tier is demoted"),
    ("uni-lru-keep", "uni-lru, but tier 2 keeps what a client read"),
    ("uni-lru-adapt", "uni-lru, entering tier 2 where hits in ghost lists say, in ten equal segments"),
    ("uni-lru-adapt-exp", "the same in segments of growing length"),
    ("ulc", "the client places each block by the distance between its accesses"),
    (
        "ulc:passing",
        "ulc as a mount runs it: a part of tier 1 is for blocks that pass; :passing=FRAMES for so many",
    ),
    ("ulc-request-order", "ulc with shared tiers that order by request, not by access"),
    ("ulc-recency", "ulc that gives age a share of tier 1 and of the last tier; one client"),
];

impl ProtocolSpec {
    /// The protocol over tiers of those sizes, for that many clients, 1 at least.
    pub fn build(&self, sizes: &Sizes, clients: u16) -> Result<Box<dyn Protocol + Send>, ProtocolError> {
        Ok(match *self {
            Self::Independent { near, far } => {
                Box::new(Independent::new(sizes, clients, near, far).ok_or(ProtocolError::Offline)?)
            }
            Self::Unified(insertion) => Box::new(Unified::new(sizes, clients, insertion)),
            Self::Ulc { order, passing } => {
                Box::new(UlcClients::with_passing(sizes, clients, order, passing))
            }
            Self::UlcRecency if clients > 1 => return Err(ProtocolError::OneClient),
            Self::UlcRecency => Box::new(UlcRecency::new(sizes.clone())),
        })
    }
}

impl FromStr for ProtocolSpec {
    type Err = ProtocolError;

    fn from_str(text: &str) -> Result<Self, ProtocolError> {
        let policy = |text: &str| text.parse::<Spec>().map_err(ProtocolError::Policy);
        match text {
            "uni-lru" => return Ok(Self::Unified(Insertion::Exclusive)),
            "uni-lru-keep" => return Ok(Self::Unified(Insertion::Keep)),
            "uni-lru-adapt" => return Ok(Self::Unified(Insertion::Adapt)),
            "uni-lru-adapt-exp" => return Ok(Self::Unified(Insertion::AdaptExponential)),
            "ulc-recency" => return Ok(Self::UlcRecency),
            _ => {}
        }
        let (name, parameter) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let orders = [("ulc", Order::Access), ("ulc-request-order", Order::Request)];
        if let Some((_, order)) = orders.into_iter().find(|(known, _)| *known == name) {
            let passing = parameter.map_or(Ok(Passing::None), passing)?;
            return Ok(Self::Ulc { order, passing });
        }
        if let Some(name) = text.strip_prefix("ind-") {
            let policy = policy(name)?;
            return Ok(Self::Independent { near: policy, far: policy });
        }
        if text == "mq" || text.starts_with("mq:") {
            return Ok(Self::Independent { near: policy("lru")?, far: policy(text)? });
        }
        Err(ProtocolError::Unknown(text.into()))
    }
}

impl fmt::Display for ProtocolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Independent { near, far } if near == far => f.pad(&format!("ind-{near}")),
            Self::Independent { far, .. } => f.pad(&far.to_string()),
            Self::Unified(Insertion::Exclusive) => f.pad("uni-lru"),
            Self::Unified(Insertion::Keep) => f.pad("uni-lru-keep"),
            Self::Unified(Insertion::Adapt) => f.pad("uni-lru-adapt"),
            Self::Unified(Insertion::AdaptExponential) => f.pad("uni-lru-adapt-exp"),
            Self::Ulc { order, passing } => {
                let name = if *order == Order::Access { "ulc" } else { "ulc-request-order" };
                match passing {
                    Passing::None => f.pad(name),
                    Passing::Share => f.pad(&format!("{name}:passing")),
                    Passing::Frames(frames) => f.pad(&format!("{name}:passing={frames}")),
                }
            }
            Self::UlcRecency => f.pad("ulc-recency"),
        }
    }
}

/// `passing`, or `passing=FRAMES`.
fn passing(parameter: &str) -> Result<Passing, ProtocolError> {
    let refuse = || ProtocolError::Parameter(parameter.into());
    match parameter.strip_prefix("passing").ok_or_else(refuse)? {
        "" => Ok(Passing::Share),
        frames => {
            let frames = frames.strip_prefix('=').and_then(|frames| frames.parse().ok());
            Ok(Passing::Frames(frames.ok_or_else(refuse)?))
        }
    }
}

/// Why there is no such protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// No protocol of that name.
    Unknown(String),
    /// ULC has no such parameter.
    Parameter(String),
    /// The policy of the tiers is none.
    Policy(SpecError),
    /// The policy of the tiers must know the future.
    Offline,
    /// The protocol is for one client.
    OneClient,
    /// A wish of an owner passes a bound.
    Control(ControlError),
    /// The steward refuses its options.
    Options(OptionsError),
}

impl From<ControlError> for ProtocolError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl From<OptionsError> for ProtocolError {
    fn from(error: OptionsError) -> Self {
        Self::Options(error)
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "no protocol {name:?}; there are")?;
                PROTOCOLS.iter().try_for_each(|(name, _)| write!(f, " {name}"))
            }
            Self::Parameter(given) => {
                write!(f, "parameter {given:?} of ulc: expected passing, or passing=FRAMES")
            }
            Self::Policy(error) => error.fmt(f),
            Self::Offline => f.write_str("a policy that must know the future runs no tiers"),
            Self::OneClient => f.write_str("ulc-recency is for one client; take ulc for several"),
            Self::Control(error) => error.fmt(f),
            Self::Options(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ProtocolError {}
