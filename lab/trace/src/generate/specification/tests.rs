//! What specifications mean, and what is said of those that mean nothing.

use super::*;

fn blocks(text: &str) -> Vec<u64> {
    let specification: Specification = text.parse().unwrap_or_else(|error| panic!("{error}"));
    specification.references().map(|reference| reference.block).collect()
}

#[test]
fn every_generator_gives_as_many_as_it_says() {
    let texts = [
        "zipf:ids=1000,requests=500",
        "zipf:ids=1000,requests=500,alpha=0.8,order=shuffled,seed=9,first=7",
        "uniform:ids=1_000,requests=500",
        "loop:ids=3,requests=500",
        "scan:ids=500,first=3",
        "two-pool:requests=500",
        "stack-distance:ids=100,requests=500",
        "phases:(loop:ids=10,requests=100),(scan:ids=150),repeat=2",
        "mix:a=(loop:ids=10,requests=100),b=(phases:(scan:ids=400)),burst=3",
        "mix:a=(loop:ids=10,requests=500),turns=round",
    ];
    for text in texts {
        let specification: Specification = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(specification.requests(), 500, "{text}");
        let references: Vec<Reference> = specification.references().collect();
        assert_eq!(references.len(), 500, "{text}");
        assert!(Specification::is_meant(text));
        specification.prepare().unwrap().validate();
    }
    assert!(!Specification::is_meant("C:trace") && !Specification::is_meant("zipf"));
}

#[test]
fn nothing_repeated_is_nothing_and_takes_no_time() {
    let empty = "phases:(phases:(scan:ids=0),repeat=4294967295),repeat=4294967295";
    for text in [empty.to_owned(), format!("mix:a=({empty}),b=(scan:ids=2)")] {
        let specification: Specification = text.parse().unwrap();
        assert_eq!(specification.references().count() as u64, specification.requests(), "{text}");
    }
}

/// A change here is a change of every trace that was written down as a text.
#[test]
fn traces_never_change() {
    assert_eq!(blocks("zipf:ids=1000000,requests=8"), ZIPF);
    assert_eq!(blocks("zipf:ids=1000000,requests=8,order=shuffled,alpha=0.8"), ZIPF_SHUFFLED);
    assert_eq!(blocks("uniform:ids=100,requests=8"), UNIFORM);
    assert_eq!(blocks("two-pool:requests=8"), TWO_POOL);
    assert_eq!(blocks("stack-distance:ids=1000,requests=8"), STACK);
    let mix: Specification = "mix:a=(scan:ids=4),b=(scan:ids=4)".parse().unwrap();
    let owners: Vec<u32> = mix.references().map(|reference| reference.owner).collect();
    assert_eq!(owners, MIX);
}

const ZIPF: [u64; 8] = [7, 20, 236_175, 20, 69_862, 201, 0, 529];
const ZIPF_SHUFFLED: [u64; 8] = [544_331, 40_513, 8_947, 420_255, 688_671, 892_319, 796_526, 702_515];
const UNIFORM: [u64; 8] = [81, 74, 10, 74, 18, 59, 98, 52];
const TWO_POOL: [u64; 8] = [81, 7_571, 10, 7_562, 18, 6_004, 98, 5_334];
const STACK: [u64; 8] = [1, 3, 471, 0, 248, 9, 9, 17];
const MIX: [u32; 8] = [1, 1, 0, 1, 0, 1, 0, 0];

#[test]
fn phases_and_mixes_are_made_of_their_parts() {
    assert_eq!(
        blocks("phases:(loop:ids=2,requests=3),(scan:ids=2,first=5),repeat=2"),
        [0, 1, 0, 5, 6, 0, 1, 0, 5, 6]
    );
    let mix: Specification =
        "mix:a=(scan:ids=3),b=(scan:ids=1),c=(scan:ids=3),turns=round,burst=2".parse().unwrap();
    let seen: Vec<(u32, u64)> = mix.references().map(|r| (r.owner, r.block)).collect();
    assert_eq!(seen, [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (0, 2), (2, 2)]);
    let trace = mix.prepare().unwrap();
    assert_eq!(trace.owner_names(), ["a", "b", "c"]);
    assert_eq!(trace.owners().unwrap(), [0, 0, 1, 2, 2, 0, 2]);
    assert_eq!((trace.distinct(), trace.block_of(2).file), (7, 1));
}

#[test]
fn what_means_nothing_is_told_with_what_would() {
    let bad = [
        ("zipf", "ids=NUMBER in it"),
        ("zipf:ids=5", "requests=NUMBER in it"),
        ("zipf:ids=0,requests=1", "ids from 1 to"),
        ("zipf:ids=-1,requests=1", "ids from 1 to"),
        ("zipf:ids=,requests=1", "ids from 1 to"),
        ("zipf:ids=5,requests=9999999999", "requests from 0 to"),
        ("zipf:ids=5,requests=1,alpha=-1", "alpha from 0 to 20"),
        ("zipf:ids=5,requests=1,alpha=nan", "alpha from 0 to 20"),
        ("zipf:ids=5,requests=1,colour=red", "one of first, alpha, ids, order, seed, requests"),
        ("zipf:ids=5,ids=6,requests=1", "each once"),
        ("zipf:ids=5,requests=1,order=random", "rank or shuffled"),
        ("zipf:5", "name=value"),
        ("lru:ids=5", "one of zipf, uniform"),
        ("phases:", "phases in parentheses"),
        ("phases:(scan:ids=1", "as many ( as )"),
        ("phases:(scan:ids=1))", "as many ( as )"),
        ("phases:(scan:ids=4000000000),repeat=4000000000", "at most 4294967295 requests"),
        ("phases:(mix:a=(scan:ids=1))", "none of them a mix"),
        ("mix:(scan:ids=1)", "a name of its own"),
        ("mix:a=(scan:ids=1),a=(scan:ids=1)", "a name of its own"),
        ("", "one of zipf"),
    ];
    for (text, expected) in bad {
        let message = text.parse::<Specification>().unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
    let deep = format!("{}scan:ids=1{}", "phases:(".repeat(12), ")".repeat(12));
    assert!(deep.parse::<Specification>().is_err());
}
