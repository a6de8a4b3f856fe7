//! Which protocol, as people type it.

use std::fmt;
use std::str::FromStr;

use pantler_policy::{PolicyName, Spec, SpecError};
use pantler_steward::OptionsError;
use pantler_steward::placement::{Order, Passing, Sizes};

use super::independent::Independent;
use super::protocol::Protocol;
use super::ulc_clients::UlcClients;
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
        /// Whether a part of tier 1 is for blocks that pass.
        passing: Passing,
    },
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
    ("ulc:passing", "ulc as a mount runs it: a part of tier 1 is for blocks that pass"),
    ("ulc-request-order", "ulc with shared tiers that order by request, not by access"),
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
        })
    }
}

impl FromStr for ProtocolSpec {
    type Err = ProtocolError;

    fn from_str(text: &str) -> Result<Self, ProtocolError> {
        if let Some((_, found)) = NAMED.into_iter().find(|(name, _)| *name == text) {
            return Ok(found);
        }
        if let Some(name) = text.strip_prefix("ind-") {
            let policy: Spec = name.parse()?;
            return Ok(Self::Independent { near: policy, far: policy });
        }
        if text.split(':').next() == Some("mq") {
            return Ok(Self::Independent { near: PolicyName::Lru.spec(), far: text.parse()? });
        }
        Err(ProtocolError::Unknown(text.into()))
    }
}

impl fmt::Display for ProtocolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Independent { near, far } if near == far => write!(f, "ind-{near}"),
            Self::Independent { far, .. } => far.fmt(f),
            named => f.write_str(NAMED.iter().find(|(_, spec)| spec == named).map_or("", |(name, _)| name)),
        }
    }
}

/// Those that are one name.
const NAMED: [(&str, ProtocolSpec); 7] = [
    ("uni-lru", ProtocolSpec::Unified(Insertion::Exclusive)),
    ("uni-lru-keep", ProtocolSpec::Unified(Insertion::Keep)),
    ("uni-lru-adapt", ProtocolSpec::Unified(Insertion::Adapt)),
    ("uni-lru-adapt-exp", ProtocolSpec::Unified(Insertion::AdaptExponential)),
    ("ulc", ProtocolSpec::Ulc { order: Order::Access, passing: Passing::None }),
    ("ulc:passing", ProtocolSpec::Ulc { order: Order::Access, passing: Passing::Share }),
    ("ulc-request-order", ProtocolSpec::Ulc { order: Order::Request, passing: Passing::None }),
];

/// Why there is no such protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// No protocol of that name.
    #[error("no protocol {0:?}; there are {names}", names = PROTOCOLS.iter().map(|it| it.0).collect::<Vec<_>>().join(" "))]
    Unknown(String),
    /// The policy of the tiers is none.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// The policy of the tiers must know the future.
    #[error("a policy that must know the future runs no tiers")]
    Offline,
    /// A wish of an owner passes a bound.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The steward refuses its options.
    #[error(transparent)]
    Options(#[from] OptionsError),
}
