//! Misses on generated traces, counted once and kept: so that the suite means something without the
//! traces of others.
//!
//! Figures were taken when `tests/references.rs` and the twins of the policies agreed with the
//! code. A change here is a change of what a policy does, and wants a reason.

use pantler_policy::Spec;
use pantler_sim::{Watch, simulate};
use pantler_steward::{Block, FileId, SampledLru};
use pantler_trace::Prepared;
use pantler_trace::generate::Specification;

/// Traces by what they try.
const TRACES: [&str; 3] = [
    "zipf:alpha=0.9,ids=2000,requests=40000,order=shuffled,seed=5",
    "phases:(loop:ids=300,requests=3000),(scan:ids=2000),(uniform:ids=250,requests=5000,seed=2),repeat=3",
    "two-pool:requests=40000,small=100,large=10000,seed=3",
];
const FRAMES: [u32; 2] = [40, 200];

/// Policies, and their misses by trace and size.
const GOLDEN: &[(&str, [u64; 6])] = &[
    ("clock", [28791, 19316, 27543, 18114, 36149, 23811]),
    ("clock-set", [30006, 20350, 27525, 18116, 36401, 26467]),
    ("fifo", [30982, 21883, 27520, 17984, 36495, 28027]),
    ("gclock", [28158, 18679, 27549, 17963, 36118, 21742]),
    ("lifo", [30523, 20195, 26385, 11473, 36044, 23867]),
    ("lru", [29415, 19874, 27546, 18173, 36309, 25260]),
    ("mru", [38660, 35283, 27129, 12788, 39825, 39133]),
    ("random", [31056, 21900, 27544, 14896, 36475, 27979]),
    ("sfifo", [30106, 20477, 27493, 18123, 36387, 26526]),
    ("sieve", [24217, 16613, 26686, 13746, 32812, 19953]),
    ("slru", [24743, 16730, 26878, 14694, 33067, 19959]),
    ("two-handed-clock", [30203, 20570, 27499, 18066, 36402, 26639]),
    ("2q-simple", [25101, 16908, 26951, 14862, 33443, 19960]),
    ("lfu", [24129, 16789, 26521, 13368, 32732, 19953]),
    ("lfu-aged", [25565, 16728, 27581, 13306, 34073, 19958]),
    ("lfu-perfect", [23249, 15283, 26646, 13409, 32232, 19957]),
    ("mfu", [32966, 27385, 27547, 18785, 36644, 30837]),
    ("arc", [24894, 17047, 27375, 18004, 32765, 19962]),
    ("car", [24661, 16848, 27177, 17857, 32659, 19956]),
    ("clock-pro", [24560, 16822, 26393, 12017, 32453, 19954]),
    ("lirs", [25461, 17256, 26456, 11881, 32572, 19940]),
    ("lru-k", [25397, 17130, 27621, 17739, 32485, 19952]),
    ("mq", [24367, 16126, 26963, 14293, 32325, 19966]),
    ("s3-fifo", [24243, 16470, 26388, 14962, 32679, 19965]),
    ("2q", [25379, 17415, 26946, 15665, 33482, 20077]),
    ("auto", [24299, 16470, 26385, 12389, 32823, 19965]),
    ("linux", [27046, 18484, 27144, 15724, 34417, 20940]),
    ("w-tinylfu", [24300, 16045, 26642, 12122, 32580, 19903]),
    ("eelru", [29531, 19895, 27532, 13146, 36232, 25275]),
    ("lrfu", [23564, 16942, 26519, 13408, 32301, 19958]),
    ("mglru", [25863, 18013, 27443, 15689, 34216, 20141]),
    ("memcached", [26271, 17916, 27193, 16371, 34882, 21674]),
    ("redis-lfu", [27626, 17899, 27594, 13751, 35466, 20378]),
    ("redis-lru", [30006, 20045, 27540, 17687, 36350, 25678]),
    ("opt", [20417, 11658, 21444, 9461, 25630, 17563]),
    ("opt-bypass", [20305, 11637, 21367, 9428, 25470, 17550]),
];

fn prepared(text: &str) -> Prepared {
    let specification: Specification = text.parse().unwrap();
    specification.prepare().unwrap()
}

#[test]
fn misses_are_those_of_before() {
    let traces = TRACES.map(prepared);
    let mut found = Vec::new();
    for known in Spec::all() {
        let misses = traces.iter().flat_map(|trace| {
            FRAMES
                .map(|frames| simulate(trace, known.spec, frames, 0, &Watch::default()).unwrap().total.misses)
        });
        found.push((known.name, misses.collect::<Vec<u64>>()));
    }
    let shown = |(name, misses): &(&str, Vec<u64>)| format!("    ({name:?}, {misses:?}),\n");
    let all: String = found.iter().map(shown).collect();
    let is_golden = |name: &str| GOLDEN.iter().any(|(known, _)| *known == name);
    for (name, expected) in GOLDEN {
        let (_, misses) = found.iter().find(|(found, _)| found == name).unwrap();
        assert_eq!(misses, expected, "{name}; all figures are\n{all}");
    }
    let missing: Vec<&str> = found.iter().map(|(name, _)| *name).filter(|name| !is_golden(name)).collect();
    assert!(missing.is_empty(), "{missing:?} have no figures; all are\n{all}");
}

/// The estimate that runs end with: within 3 % of what the simulator counts, also where one block
/// in 16 is looked at.
#[test]
fn a_sampled_lru_estimates_what_lru_misses() {
    let traces = [
        "zipf:alpha=0.9,ids=200000,requests=1000000,order=shuffled,seed=5",
        "phases:(loop:ids=33000,requests=100000),(scan:ids=90000),(uniform:ids=40000,requests=90000,seed=2),repeat=2",
        "two-pool:requests=500000,small=2000,large=200000,seed=3",
    ];
    for trace in traces {
        let prepared = prepared(trace);
        for (frames, one_in) in [(512, 1), (8192, 16), (32_768, 64)] {
            let exact = simulate(&prepared, "lru".parse().unwrap(), frames, 0, &Watch::default()).unwrap();
            for seed in 0..4 {
                let mut lru = SampledLru::new(frames, seed);
                for &id in prepared.requests() {
                    lru.reference(Block::new(FileId(0), id.into()));
                }
                assert_eq!(lru.one_in(), one_in);
                let (estimate, exact) = (lru.misses(), exact.total.misses);
                assert!(
                    estimate.abs_diff(exact) * 100 <= exact * 3,
                    "{trace} {frames} {seed}: {estimate} of {exact}"
                );
                assert!(one_in > 1 || estimate == exact);
            }
        }
    }
}
