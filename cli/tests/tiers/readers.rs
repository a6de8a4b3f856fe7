//! Several readers at once on a mount over a tier, and in the simulator: what is demoted, and what
//! is read from the origin. The tier is an SSD, or our own server.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use pantler_policy::Draws;
use pantler_rig::{Ready, Server};
use serde_json::Value;

use crate::figure_11::with_passage;
use crate::place::Place;
use crate::stat_of;

const BLOCK: u64 = 64 << 10;
/// Of the mount. An eighth of it are buffers of blocks on their way: more than readers.
const CACHE: u64 = 160 * BLOCK;
const BELOW: u64 = 640;
/// Blocks of all readers together: more than tier 1 has, and fewer than both.
const BLOCKS: u64 = 512;
const PASSES: u64 = 5;
/// For each read of a round: a put that finds no buffer is dropped (B3), and the origin is in
/// memory. On a machine so busy that puts are dropped, the next.
const PAUSES: [Duration; 3] =
    [Duration::from_micros(200), Duration::from_micros(800), Duration::from_micros(3200)];
/// Share of references that may be dropped for the rest to be told.
const DROPPED: f64 = 0.002;
/// Shares of all references within which the mount does as the simulator.
const WITHIN: f64 = 0.02;

/// What readers read, each of a part of the file for itself.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// From its beginning to its end, again and again.
    Loop,
    /// At random, the first blocks more often.
    Random,
}

/// Rounds of one block for each reader, side by side.
fn rounds(readers: u64, pattern: Pattern) -> Vec<Vec<u64>> {
    let (part, mut draws) = (BLOCKS / readers, Draws::new(1));
    let mut block = |round: u64| match pattern {
        Pattern::Loop => round % part,
        Pattern::Random => draws.below(part) * draws.below(8) / 7,
    };
    let mut all = |round| (0..readers).map(|reader| reader * part + block(round)).collect();
    (0..PASSES * part).map(&mut all).collect()
}

/// Shares of all references.
#[derive(Debug)]
struct Cost {
    /// Found no room on its way down (B3).
    dropped: f64,
    demoted: f64,
    from_origin: f64,
}

/// Beside it the frames of both tiers, those for blocks that pass included.
fn mounted(place: &Place, tier: &str, rounds: &[Vec<u64>], pause: Duration) -> (Cost, [u64; 2]) {
    let cache = CACHE.to_string();
    let patient = ["--tier-timeout", "30000", "--lookahead", "none"];
    place.mount(&[&["--cache", &cache, "--tier", tier][..], &patient].concat());
    let (path, readers) = (place.point().join("data"), rounds[0].len());
    let barrier = Barrier::new(readers);
    std::thread::scope(|scope| {
        for reader in 0..readers {
            let (path, barrier) = (&path, &barrier);
            scope.spawn(move || {
                let (file, mut bytes) = (File::open(path).unwrap(), vec![0; BLOCK as usize]);
                for block in rounds.iter().map(|round| round[reader]) {
                    file.read_exact_at(&mut bytes, block * BLOCK).unwrap();
                    assert!(bytes.iter().all(|byte| *byte == block as u8), "block {block}");
                    std::thread::sleep(pause * readers as u32);
                    barrier.wait();
                }
            });
        }
    });
    let point = place.point().display().to_string();
    let stat = stat_of(&mut place.command(&["stat", "--json", &point]));
    place.umount();
    let count = |value: &Value| value.as_u64().unwrap();
    let (totals, tier) = (&stat["totals"], &stat["tiers"][0]);
    let share = |blocks: u64| blocks as f64 / (rounds.len() * readers) as f64;
    let cost = Cost {
        dropped: share(count(&tier["dropped"])),
        demoted: share(count(&tier["demotions"])),
        from_origin: share(count(&totals["misses"]) - count(&tier["hits"])),
    };
    let kept = count(&stat["body"]["capacity_blocks"]) as u32;
    (cost, [with_passage(kept).into(), count(&tier["capacity_blocks"])])
}

/// As [`mounted`], over a tier that begins with nothing.
fn mounted_over(place: &Place, below: &str, rounds: &[Vec<u64>], pause: Duration) -> (Cost, [u64; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let words = |port: u16, _: &Path| {
        let words = format!("tier serve --listen 127.0.0.1:{port} --memory 64M");
        words.split(' ').map(str::to_owned).collect()
    };
    let server = Server::start(env!("CARGO_BIN_EXE_pantler"), "", Ready::Listens, words).unwrap();
    let tier = match below {
        "ssd" => format!("ssd:{},{}", folder.path().join("tier").display(), BELOW * BLOCK),
        _ => format!("redis://{},{}", server.address(), BELOW * BLOCK),
    };
    mounted(place, &tier, rounds, pause)
}

/// Readers of a round in the same order each time.
fn simulated(place: &Place, rounds: &[Vec<u64>], frames: [u64; 2]) -> Cost {
    let trace = place.folder.path().join("trace.csv");
    let lines = rounds.iter().flatten().map(|block| format!("data,{block}\n"));
    fs::write(&trace, format!("file,block\n{}", lines.collect::<String>())).unwrap();
    let sizes = format!("{},{}", frames[0], frames[1]);
    let trace = trace.display().to_string();
    let said = place.ok(&["sim", "tiers", "--protocol", "ulc:passing", "--sizes", &sizes, "--json", &trace]);
    let record: Value = serde_json::from_str(&said).unwrap();
    Cost {
        dropped: 0.0,
        demoted: record["demotion_rates"][0].as_f64().unwrap(),
        from_origin: record["miss_ratio"].as_f64().unwrap(),
    }
}

#[test]
fn mounts_with_any_number_of_readers_do_as_the_simulator() {
    let Some(place) = Place::new() else { return };
    let content = (0..BLOCKS).flat_map(|block| vec![block as u8; BLOCK as usize]);
    fs::write(place.origin().join("data"), content.collect::<Vec<u8>>()).unwrap();
    for (readers, pattern) in [1, 8, 16]
        .into_iter()
        .flat_map(|readers| [Pattern::Loop, Pattern::Random].map(|pattern| (readers, pattern)))
    {
        let rounds = rounds(readers, pattern);
        for below in ["ssd", "server"] {
            let mut asked = PAUSES.into_iter().map(|pause| mounted_over(&place, below, &rounds, pause));
            let (cost, frames) = asked.find(|(cost, _)| cost.dropped <= DROPPED).expect("puts find room");
            let expected = simulated(&place, &rounds, frames);
            let told = format!("{readers} readers, {pattern:?}, {below}: {cost:?}, simulated {expected:?}");
            println!("{told}");
            assert!((cost.demoted - expected.demoted).abs() <= WITHIN, "{told}");
            assert!((cost.from_origin - expected.from_origin).abs() <= WITHIN, "{told}");
        }
    }
}
