//! Two programs on one mount over a tier, and in the simulator: what each is served from memory,
//! from the tier and from the origin is equal.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pantler_policy::Draws;
use serde_json::Value;

use crate::figure_11::with_passage;
use crate::place::Place;
use crate::stat_of;

const BLOCK: u64 = 64 << 10;
/// Of the mount, buffers of blocks on their way included.
const CACHE: u64 = 24 * BLOCK;
const TOLD: &str = "PANTLER_TEST_READS";
/// Blocks of each program's file: more than its part of tier 1, and of both tiers.
const BLOCKS: [u64; 2] = [30, 36];

/// Not a test: the program that reads, when the test starts it. Each line is a block.
#[test]
fn read_for_the_other_test() {
    let Some(path) = std::env::var_os(TOLD) else { return };
    let file = File::open(path).unwrap();
    println!("\nready");
    for line in std::io::stdin().lines() {
        let block: u64 = line.unwrap().parse().unwrap();
        let mut bytes = vec![0; BLOCK as usize];
        file.read_exact_at(&mut bytes, block * BLOCK).unwrap();
        assert!(bytes.iter().all(|byte| u64::from(*byte) == block), "block {block}");
        println!("read");
    }
}

/// A running program.
struct Reader {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Reader {
    fn new(path: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "owners::read_for_the_other_test", "--nocapture"]).env(TOLD, path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut reader = Self { child, to, from };
        reader.wait_for("ready");
        reader
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while line.trim() != word {
            line.clear();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the reader ended");
        }
    }

    fn read(&mut self, block: u64) {
        writeln!(self.to, "{block}").unwrap();
        self.wait_for("read");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Turns of the programs, each some blocks. One goes round its file; the other reads at random, and
/// the first blocks more often.
fn turns() -> Vec<(usize, Vec<u64>)> {
    let (mut draws, mut at) = (Draws::new(1), 0);
    let mut turn = |owner: usize| {
        let blocks = (0..4).map(|_| match owner {
            0 => {
                at += 1;
                at % BLOCKS[0]
            }
            _ => draws.below(BLOCKS[1]) * draws.below(8) / 7,
        });
        (owner, blocks.collect())
    };
    (0..160).map(|number| turn(number % 2)).collect()
}

/// Served from memory, from the tier and by the origin, by owner.
type Served = [[u64; 3]; 2];

/// The frames of both tiers beside it, those for blocks that pass included.
fn mounted(place: &Place, turns: &[(usize, Vec<u64>)]) -> (Served, [u64; 2]) {
    for (name, blocks) in ["one", "two"].into_iter().zip(BLOCKS) {
        let content = (0..blocks).flat_map(|block| vec![block as u8; BLOCK as usize]);
        fs::write(place.origin().join(name), content.collect::<Vec<u8>>()).unwrap();
    }
    let tier = format!("ssd:{},{}", place.folder.path().join("tier").display(), 26 * BLOCK);
    let cache = CACHE.to_string();
    place.mount(&["--cache", &cache, "--tier", &tier, "--lookahead", "none"]);
    let point = place.point().display().to_string();
    let mut readers = ["one", "two"].map(|name| Reader::new(&format!("{point}/{name}")));
    let pid = readers[0].child.id().to_string();
    place.ok(&["hint", "--on", &point, "--owner", &pid, "set-policy", "0", "mru"]);

    let stat = || stat_of(&mut place.command(&["stat", "--json", &point]));
    let count = |stat: &Value| {
        let tier = stat["tiers"][0]["hits"].as_u64().unwrap();
        let of = |name: &str| stat["totals"][name].as_u64().unwrap();
        [of("hits"), tier, of("misses") - tier]
    };
    let (mut served, mut before) = (Served::default(), count(&stat()));
    for (owner, blocks) in turns {
        blocks.iter().for_each(|block| readers[*owner].read(*block));
        let after = count(&stat());
        (0..3).for_each(|by| served[*owner][by] += after[by] - before[by]);
        before = after;
    }
    let last = stat();
    let kept = last["body"]["capacity_blocks"].as_u64().unwrap() as u32;
    let below = last["tiers"][0]["capacity_blocks"].as_u64().unwrap();
    explains_where_blocks_went(place, last["tiers"][0]["demotions"].as_u64().unwrap());
    place.umount();
    (served, [with_passage(kept).into(), below])
}

/// `explain` says of each block that went down that it did, and why others went nowhere.
fn explains_where_blocks_went(place: &Place, demotions: u64) {
    let told = ["one", "two"].map(|name| place.point().join(name).display().to_string()).map(|file| {
        let page = place.ok(&["explain", &file]);
        assert!(page.contains(" decisions by demoted\n"), "{page}");
        serde_json::from_str::<Value>(&place.ok(&["explain", "--json", &file])).unwrap()
    });
    let decisions = told.iter().flat_map(|story| story["decisions"].as_array().unwrap());
    let rules: Vec<&str> = decisions.map(|decision| decision["rule"].as_str().unwrap()).collect();
    let of = |name: &str| rules.iter().filter(|rule| **rule == name).count() as u64;
    assert_eq!(of("demoted"), demotions, "{rules:?}");
    assert!(of("passes") > 0, "{rules:?}");
}

fn simulated(place: &Place, turns: &[(usize, Vec<u64>)], frames: [u64; 2]) -> Served {
    let (trace, control) = (place.folder.path().join("trace.csv"), place.folder.path().join("control"));
    let names = ["one", "two"];
    let line = |owner: usize, block: &u64| format!("{0},{0},{block}\n", names[owner]);
    let lines = turns.iter().flat_map(|(owner, blocks)| blocks.iter().map(|block| line(*owner, block)));
    fs::write(&trace, format!("owner,file,block\n{}", lines.collect::<String>())).unwrap();
    fs::write(&control, "[one.policies]\n0 = \"mru\"\n").unwrap();
    let said = place.ok(&[
        "sim",
        "tiers",
        "--protocol",
        "ulc:passing",
        "--sizes",
        &format!("{},{}", frames[0], frames[1]),
        "--control",
        control.to_str().unwrap(),
        "--revocation",
        "default",
        "--json",
        trace.to_str().unwrap(),
    ]);
    let record: Value = serde_json::from_str(&said).unwrap();
    names.map(|name| {
        let owner = record["owners"].as_array().unwrap().iter().find(|owner| owner["owner"] == name);
        let owner = owner.unwrap_or_else(|| panic!("{name}: {said}"));
        let count =
            |ratio: &Value| (ratio.as_f64().unwrap() * owner["requests"].as_f64().unwrap()).round() as u64;
        [&owner["hit_ratios"][0], &owner["hit_ratios"][1], &owner["miss_ratio"]].map(count)
    })
}

#[test]
fn each_owner_of_a_mount_is_served_by_the_tiers_that_the_simulator_says() {
    let Some(place) = Place::new() else { return };
    let turns = turns();
    let (found, frames) = mounted(&place, &turns);
    let expected = simulated(&place, &turns, frames);
    println!("{frames:?} frames: memory, tier, origin by owner {found:?}");
    assert_eq!(found, expected, "frames {frames:?}");
    assert!(found.iter().flatten().all(|&count| count > 0), "{found:?}");
}
