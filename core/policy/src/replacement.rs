//! All policies, by name: the one list where a policy is entered.

use core::fmt;

use alloc::vec;
use alloc::vec::Vec;

use crate::spec::{Known, Offline, Visitor};
use crate::{Handle, Links, Online, Parameters, Policy, Refused};

/// Offline policies are not in the list below: they do not implement [`Policy`].
const OFFLINE: [(Spec, &str, &str); 2] = [
    (Spec::Opt, "opt", "MIN, Belady's offline optimum: the block whose next reference is furthest"),
    (Spec::OptBypass, "opt-bypass", "MIN that may leave a block out of the cache"),
];

impl Default for PolicyName {
    /// LRU: the default everywhere.
    fn default() -> Self {
        Self::Lru
    }
}

/// Makes an enum of policies a policy: each verb goes to the one that is held.
macro_rules! delegate {
    ($enum:ident { $($name:ident),+ }) => {
        impl Policy for $enum {
            #[inline]
            fn hit(&mut self, links: &mut Links, handle: Handle) {
                match self { $( Self::$name(policy) => policy.hit(links, handle), )+ }
            }

            #[inline]
            fn miss(&mut self, links: &mut Links, handle: Handle) {
                match self { $( Self::$name(policy) => policy.miss(links, handle), )+ }
            }

            #[inline]
            fn insert(&mut self, links: &mut Links, handle: Handle) {
                match self { $( Self::$name(policy) => policy.insert(links, handle), )+ }
            }

            fn place(&mut self, links: &mut Links, handle: Handle) {
                match self { $( Self::$name(policy) => policy.place(links, handle), )+ }
            }

            fn places_backwards(&self) -> bool {
                match self { $( Self::$name(policy) => policy.places_backwards(), )+ }
            }

            #[inline]
            fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
                match self { $( Self::$name(policy) => policy.evict(links, pinned), )+ }
            }

            fn remove(&mut self, links: &mut Links, handle: Handle) {
                match self { $( Self::$name(policy) => policy.remove(links, handle), )+ }
            }

            fn len(&self) -> u32 {
                match self { $( Self::$name(policy) => policy.len(), )+ }
            }

            fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
                match self { $( Self::$name(policy) => policy.is_ghost(links, handle), )+ }
            }

            fn forgotten(&mut self) -> Option<Handle> {
                match self { $( Self::$name(policy) => policy.forgotten(), )+ }
            }

            fn resize(&mut self, links: &mut Links, frames: u32) {
                match self { $( Self::$name(policy) => policy.resize(links, frames), )+ }
            }

            fn reserve(&mut self, handles: u32) {
                match self { $( Self::$name(policy) => policy.reserve(handles), )+ }
            }

            fn identify(&mut self, handle: Handle, identity: u32) {
                match self { $( Self::$name(policy) => policy.identify(handle, identity), )+ }
            }

            #[inline]
            fn prefetch(&self, links: &Links, handle: Handle) {
                match self { $( Self::$name(policy) => policy.prefetch(links, handle), )+ }
            }

            fn validate(&self, links: &Links) {
                match self { $( Self::$name(policy) => policy.validate(links), )+ }
            }
        }
    };
}
pub(crate) use delegate;

macro_rules! policies {
    ($($name:ident: $policy:ty,)+) => {
        /// A policy with its parameters: what `--policy` takes.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Spec {
            $(
                #[doc = concat!("See [`", stringify!($name), "`](", stringify!($policy), ").")]
                $name(<$policy as Online>::Parameters),
            )+
            /// See [`min`](mod@crate::min).
            Opt,
            /// See [`min`](mod@crate::min).
            OptBypass,
        }

        impl Spec {
            /// All of them with their defaults, in the order in which help texts list them.
            pub fn all() -> Vec<Known> {
                let mut all = vec![
                    $( Known {
                        spec: Spec::$name(Default::default()),
                        name: <$policy as Online>::NAME,
                        summary: <$policy as Online>::SUMMARY,
                        keys: <<$policy as Online>::Parameters as Parameters>::KEYS,
                    }, )+
                ];
                all.extend(OFFLINE.map(|(spec, name, summary)| Known { spec, name, summary, keys: &[] }));
                all
            }

            /// The name without parameters.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => <$policy as Online>::NAME, )+
                    Self::Opt => OFFLINE[0].1,
                    Self::OptBypass => OFFLINE[1].1,
                }
            }

            /// The same, typed. `None` for offline policies.
            pub fn policy_name(&self) -> Option<PolicyName> {
                match self {
                    $( Self::$name(_) => Some(PolicyName::$name), )+
                    Self::Opt | Self::OptBypass => None,
                }
            }

            /// Shows the visitor an empty policy for a cache of `frames` frames.
            pub fn with<V: Visitor>(&self, frames: u32, visitor: V) -> V::Output {
                match *self {
                    $( Self::$name(parameters) => {
                        visitor.online(<$policy as Online>::new(frames, parameters))
                    } )+
                    Self::Opt => visitor.offline(Offline::Min),
                    Self::OptBypass => visitor.offline(Offline::MinWithBypass),
                }
            }

            pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Refused> {
                match self {
                    $( Self::$name(parameters) => parameters.set(key, value), )+
                    Self::Opt | Self::OptBypass => Err(Refused::Unknown),
                }
            }

            pub(crate) fn write_parameters(
                &self,
                f: &mut fmt::Formatter<'_>,
                separate: &mut dyn FnMut(&mut fmt::Formatter<'_>) -> fmt::Result,
            ) -> fmt::Result {
                match self {
                    $( Self::$name(parameters) => parameters.write(f, separate), )+
                    Self::Opt | Self::OptBypass => Ok(()),
                }
            }
        }

        /// An online policy by name, with its default parameters: what the doors to a running cache
        /// take.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum PolicyName {
            $(
                #[doc = concat!("See [`", stringify!($name), "`](", stringify!($policy), ").")]
                $name,
            )+
        }

        impl PolicyName {
            /// All of them, in the order in which help texts list them.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];

            /// The name as typed: lower case, with hyphens.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$name => <$policy as Online>::NAME, )+ }
            }

            /// The policy with its default parameters.
            pub fn spec(self) -> Spec {
                match self { $( Self::$name => Spec::$name(Default::default()), )+ }
            }
        }

        /// Any online policy. A loop around [`Spec::with`] is faster: it is compiled for each
        /// policy apart.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        #[allow(clippy::large_enum_variant, reason = "one per cache")]
        pub enum Replacement {
            $(
                #[doc = concat!("See [`", stringify!($name), "`](", stringify!($policy), ").")]
                $name($policy),
            )+
        }

        impl Replacement {
            /// An empty policy for a cache of `frames` frames. `None` for offline policies.
            pub fn new(spec: Spec, frames: u32) -> Option<Self> {
                match spec {
                    $( Spec::$name(parameters) => {
                        Some(Self::$name(<$policy as Online>::new(frames, parameters)))
                    } )+
                    Spec::Opt | Spec::OptBypass => None,
                }
            }
        }

        delegate!(Replacement { $($name),+ });
    };
}

impl Replacement {
    /// The policy that this one follows now, if it is one that follows others.
    pub fn followed(&self) -> Option<PolicyName> {
        match self {
            Self::Auto(auto) => Some(auto.followed()),
            _ => None,
        }
    }
}

// One line per policy: a new one is entered here, in lib.rs and in tests/twins/main.rs.
policies! {
    // Lists and rings.
    Clock: crate::Clock,
    ClockSet: crate::ClockSet,
    Fifo: crate::Fifo,
    Gclock: crate::Gclock,
    Lifo: crate::Lifo,
    Lru: crate::Lru,
    Mru: crate::Mru,
    Random: crate::Random,
    SegmentedFifo: crate::SegmentedFifo,
    Sieve: crate::Sieve,
    Slru: crate::Slru,
    TwoHandedClock: crate::TwoHandedClock,
    TwoQSimple: crate::TwoQSimple,

    // Frequencies.
    Lfu: crate::Lfu,
    LfuAged: crate::LfuAged,
    LfuPerfect: crate::LfuPerfect,
    Mfu: crate::Mfu,

    // Ghosts.
    Arc: crate::Arc,
    Car: crate::Car,
    ClockPro: crate::ClockPro,
    Eelru: crate::Eelru,
    Lirs: crate::Lirs,
    Lrfu: crate::Lrfu,
    LruK: crate::LruK,
    Mq: crate::Mq,
    S3Fifo: crate::S3Fifo,
    TwoQ: crate::TwoQ,

    // Sketches, samples, kernels.
    Auto: crate::Auto,
    Linux: crate::Linux,
    Memcached: crate::Memcached,
    Mglru: crate::Mglru,
    RedisLfu: crate::RedisLfu,
    RedisLru: crate::RedisLru,
    WTinyLfu: crate::WTinyLfu,
}
