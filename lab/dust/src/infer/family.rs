//! Families of hypotheses: a policy, the parameters that are tried, and the range in which they are
//! refined.
//!
//! The grid is what the screening tries; between its values a local search goes on
//! ([`refine`](super::refine)). A value that is not on the grid is a worse enemy than noise, so the
//! grid is coarse but spans what people use.

use std::sync::OnceLock;

use pantler_policy::Spec;

/// Accesses in a second of Redis's clock, which knows no finer time: Dust keeps to it, and the
/// hypotheses count on it.
pub const REDIS_PACE: u32 = 40;
const PACE: f64 = REDIS_PACE as f64;

/// The same of memcached.
pub const MEMCACHED_PACE: u32 = 200;

/// How a parameter moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In equal steps.
    Linear,
    /// In equal factors.
    Logarithmic,
    /// In whole numbers.
    Whole,
    /// In whole numbers, in equal factors.
    WholeLogarithmic,
}

impl Scale {
    /// Whether values are whole numbers.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::WholeLogarithmic)
    }
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// As typed in a policy's name.
    pub key: &'static str,
    /// Least value.
    pub low: f64,
    /// Greatest value.
    pub high: f64,
    /// How it moves.
    pub scale: Scale,
    /// Values that the screening tries.
    pub grid: &'static [f64],
}

/// A policy and what is tried of it.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The policy's name, as the simulator takes it.
    pub name: &'static str,
    /// Its parameters, in the order of a leaf's values.
    pub axes: &'static [Axis],
    /// Whether it draws random numbers from a parameter `seed`.
    pub draws: bool,
    /// Whether it refuses newcomers when it is full, so that no block is ever replaced.
    pub refuses: bool,
}

const fn share(key: &'static str, low: f64, high: f64, grid: &'static [f64]) -> Axis {
    Axis { key, low, high, scale: Scale::Linear, grid }
}

const fn factor(key: &'static str, low: f64, high: f64, grid: &'static [f64]) -> Axis {
    Axis { key, low, high, scale: Scale::Logarithmic, grid }
}

const fn whole(key: &'static str, low: f64, high: f64, grid: &'static [f64]) -> Axis {
    Axis { key, low, high, scale: Scale::Whole, grid }
}

const fn family(name: &'static str, axes: &'static [Axis]) -> Family {
    Family { name, axes, draws: false, refuses: false }
}

/// Families with parameters that are tried, in the order of their simplicity. All other policies
/// are hypotheses with their defaults.
const FAMILIES: &[Family] = &[
    family("gclock", &[whole("max", 2.0, 12.0, &[2.0, 3.0, 7.0])]),
    family("two-handed-clock", &[share("spread", 0.02, 0.98, &[0.25, 0.5])]),
    family("sfifo", &[share("secondary", 0.02, 0.98, &[0.1, 0.2, 0.3, 0.4])]),
    family("slru", &[share("protected", 0.05, 0.95, &[0.5, 0.66, 0.8])]),
    family("2q-simple", &[share("a1", 0.02, 0.9, &[0.25, 0.5])]),
    family("lfu-aged", &[factor("every", 1.0, 12.0, &[1.0, 3.0, 10.0])]),
    family("lru-k", &[whole("k", 2.0, 4.0, &[2.0, 3.0]), whole("correlated", 0.0, 200.0, &[0.0, 20.0])]),
    family("lrfu", &[factor("lambda", 1e-4, 0.3, &[0.001, 0.006, 0.02, 0.06])]),
    family("redis-lru", &[whole("samples", 2.0, 16.0, &[3.0, 5.0, 10.0])]),
    family("redis-lfu", &[whole("samples", 3.0, 16.0, &[5.0])]),
    family("linux", &[whole("ratio", 0.0, 8.0, &[0.0, 2.0]), whole("demote", 1.0, 8.0, &[1.0, 3.0])]),
    family("mglru", &[whole("rework", 0.0, 1.0, &[0.0, 1.0])]),
    family("lirs", &[share("cold", 0.0, 0.4, &[0.01, 0.05, 0.1])]),
    family("mq", &[factor("life", 0.3, 20.0, &[2.0, 5.0])]),
    family("w-tinylfu", &[share("window", 0.0, 0.6, &[0.01, 0.05, 0.2])]),
    family("2q", &[share("in", 0.02, 0.9, &[0.15, 0.25, 0.35, 0.5]), share("out", 0.1, 2.0, &[0.5, 1.0])]),
    family(
        "s3-fifo",
        &[
            share("small", 0.02, 0.5, &[0.05, 0.1, 0.2]),
            whole("threshold", 1.0, 3.0, &[1.0, 2.0]),
            share("ghosts", 0.05, 2.0, &[0.9]),
        ],
    ),
];

/// Linux with statistics that are not made fresh: references between two looks at them. Apart from
/// the family above, so that fresh ones are not charged for a parameter more.
const STALE_LINUX: Family = family(
    "linux",
    &[
        whole("ratio", 0.0, 8.0, &[0.0]),
        Axis {
            key: "stale",
            low: 2.0,
            high: 65_536.0,
            scale: Scale::WholeLogarithmic,
            grid: &[16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0],
        },
    ],
);

/// A cache without a policy: the name is Redis's (`maxmemory-policy noeviction`).
const NO_EVICTION: Family = Family { refuses: true, ..family("noeviction", &[]) };

/// Redis as Dust treats it: a number of accesses in each second of its clock, and no minute long
/// enough for counts to fall.
const REDIS_AT_PACE: [Family; 2] = [
    Family {
        name: "redis-lru",
        axes: &[whole("samples", 2.0, 16.0, &[3.0, 5.0, 10.0]), whole("tick", PACE, PACE, &[PACE])],
        draws: true,
        refuses: false,
    },
    Family {
        name: "redis-lfu",
        axes: &[whole("samples", 3.0, 16.0, &[5.0, 10.0]), share("decay", 0.0, 0.0, &[0.0])],
        draws: true,
        refuses: false,
    },
];

/// memcached as Dust treats it.
const MEMCACHED_AT_PACE: Family = family(
    "memcached",
    &[
        share("hot", 0.05, 0.6, &[0.2]),
        share("warm", 0.1, 0.8, &[0.4]),
        whole("tick", MEMCACHED_PACE as f64, MEMCACHED_PACE as f64, &[MEMCACHED_PACE as f64]),
    ],
);

/// Whether a policy can be found. `auto` does as another as long as that one is ahead: what is
/// found is the other.
fn is_candidate(spec: Spec) -> bool {
    !matches!(spec, Spec::Opt | Spec::OptBypass | Spec::Auto(_))
}

impl Family {
    /// All families with memcached's clock slowed down: see
    /// [`MemcachedTarget`](crate::targets::MemcachedTarget).
    pub fn at_pace_of_memcached() -> Vec<&'static Self> {
        let others = Self::not_of_redis().into_iter().filter(|family| family.name != MEMCACHED_AT_PACE.name);
        others.chain([&MEMCACHED_AT_PACE]).collect()
    }

    /// All families but those of single systems: a policy that draws few samples is nearly anything
    /// between `random` and `lru`.
    pub fn not_of_redis() -> Vec<&'static Self> {
        Self::all().iter().filter(|family| !family.name.starts_with("redis-")).collect()
    }

    /// All families with Redis's clock slowed down: see
    /// [`RedisTarget`](crate::targets::RedisTarget).
    pub fn at_pace_of_redis() -> Vec<&'static Self> {
        Self::not_of_redis().into_iter().chain(&REDIS_AT_PACE).collect()
    }

    /// All families, one for each policy that can be found, those without parameters
    /// first: of two that explain the same, the first is reported.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Family>> = OnceLock::new();
        ALL.get_or_init(|| {
            let known = Spec::all();
            let online = known.iter().filter(|known| is_candidate(known.spec));
            let families = online.map(|known| {
                let listed = FAMILIES.iter().find(|family| family.name == known.name).copied();
                let draws = known.keys.iter().any(|key| key.key == "seed");
                Family { draws, ..listed.unwrap_or(family(known.name, &[])) }
            });
            let mut families: Vec<Family> = families.chain([NO_EVICTION, STALE_LINUX]).collect();
            families.sort_by_key(|family| family.axes.len());
            families
        })
    }

    /// The family of a policy, the one with the fewest parameters if there are two.
    pub fn of(spec: &Spec) -> Option<&'static Self> {
        Self::all().iter().find(|family| family.name == spec.name())
    }

    /// Whether it counts blocks by a hash of their names, which is unknown outside: each hash has
    /// other collisions, so what it does is a matter of shares, though equal runs end
    /// equally.
    pub fn hashes(&self) -> bool {
        self.name == "w-tinylfu"
    }

    /// Whether one simulation says not all of what it may do.
    pub fn varies(&self) -> bool {
        self.draws || self.hashes()
    }

    /// All combinations of the grid's values.
    pub fn leaves(&self) -> Vec<Vec<f64>> {
        let mut leaves = vec![Vec::new()];
        for axis in self.axes {
            leaves = leaves
                .iter()
                .flat_map(|leaf| axis.grid.iter().map(|&value| [leaf.as_slice(), &[value]].concat()))
                .collect();
        }
        leaves
    }

    /// The policy with these values, and this seed if it draws. `None` for values it does not take.
    pub fn spec(&self, values: &[f64], seed: u64) -> Option<Spec> {
        if self.refuses {
            // It is never asked for a victim, so any policy will do.
            return "fifo".parse().ok();
        }
        let mut text = format!("{}:", self.name);
        for (axis, value) in self.axes.iter().zip(values) {
            text += &match axis.scale {
                scale if scale.is_whole() => format!("{}={},", axis.key, value.round()),
                _ => format!("{}={},", axis.key, (value * 1e6).round() / 1e6),
            };
        }
        if self.draws {
            text += &format!("seed={seed}");
        }
        text.parse().ok()
    }
}

impl Axis {
    /// A value moved by `step` quarters of the range (or whole numbers), kept inside it.
    pub fn moved(&self, value: f64, step: f64) -> f64 {
        let moved = match self.scale {
            Scale::Linear => value + step * (self.high - self.low) / 4.0,
            Scale::Logarithmic => value * (self.high / self.low).powf(step / 4.0),
            Scale::Whole => (value + (step * (self.high - self.low) / 4.0)).round(),
            Scale::WholeLogarithmic => (value * (self.high / self.low).powf(step / 4.0)).round(),
        };
        let moved = if self.scale.is_whole() && moved == value { value + step.signum() } else { moved };
        moved.clamp(self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leaf_is_a_policy() {
        for family in Family::all() {
            for leaf in family.leaves() {
                let spec = family.spec(&leaf, 3);
                let name = if family.refuses { "fifo" } else { family.name };
                assert!(spec.is_some_and(|spec| spec.name() == name), "{} {leaf:?}", family.name);
            }
        }
    }

    /// LRFU's own default was outside its grid, and a mount with `--policy lrfu` unknown.
    #[test]
    fn the_defaults_of_all_policies_lie_within_the_grid() {
        let mut seen = 0;
        for known in Spec::all() {
            let families = Family::all().iter().filter(|family| family.name == known.name);
            let outside = families.clone().find_map(|family| {
                let axis = family.axes.iter().filter(|axis| axis.key != "stale").find(|axis| {
                    let key = known.keys.iter().find(|key| key.key == axis.key).expect("a parameter");
                    let default: f64 = key.default.parse().expect("a number");
                    let bound = |pick: fn(f64, f64) -> f64| axis.grid.iter().copied().reduce(pick);
                    !(bound(f64::min) <= Some(default) && Some(default) <= bound(f64::max))
                });
                axis.map(|axis| axis.key)
            });
            assert_eq!(outside, None, "{}", known.name);
            let is_candidate = is_candidate(known.spec);
            assert_eq!(families.count() > 0, is_candidate, "{}", known.name);
            seen += usize::from(is_candidate);
        }
        assert!(seen > 30, "{seen} policies");
    }

    #[test]
    fn values_move_inside_their_range() {
        let axis = Axis { key: "k", low: 1.0, high: 4.0, scale: Scale::Whole, grid: &[2.0] };
        assert_eq!([axis.moved(2.0, 0.1), axis.moved(2.0, -0.1), axis.moved(4.0, 1.0)], [3.0, 1.0, 4.0]);
        let axis = Axis { key: "k", low: 1.0, high: 16.0, scale: Scale::Logarithmic, grid: &[2.0] };
        assert_eq!(axis.moved(2.0, 1.0), 4.0);
        let axis = Axis { scale: Scale::WholeLogarithmic, ..axis };
        assert_eq!([axis.moved(5.0, 1.0), axis.moved(5.0, 0.01), axis.moved(5.0, 9.0)], [10.0, 6.0, 16.0]);
    }
}
