//! Programs that read the same files again and again: cscope, dinero, glimpse.

use std::ops::RangeInclusive;

use pantler_steward::lists::Chunk;
use pantler_steward::{FileId, PolicyName};
use pantler_trace::generate::Draws;

use super::super::program::Program;
use super::super::scene::Scene;
use crate::hint::Hint;

/// Files of one folder with `blocks` blocks together, `each` of a size in this range.
fn files(
    scene: &mut Scene,
    blocks: u64,
    each: RangeInclusive<u64>,
    random: &mut Draws,
) -> Vec<(FileId, u64)> {
    let (least, most) = each.into_inner();
    let folder = scene.new_folder();
    let (mut left, mut files) = (blocks, Vec::new());
    while left > 0 {
        let size = (least + random.below(most - least + 1)).min(left);
        left -= size;
        files.push((scene.layout.file(folder, size), size));
    }
    files
}

/// Reads files in order, with a list of them.
fn read(program: &mut Program, files: &[(FileId, u64)], compute_ns: u64) {
    let chunks = files.iter().filter_map(|&(file, blocks)| Chunk::whole(file, blocks));
    program.hint(Hint::List(chunks.collect()));
    files.iter().for_each(|&(file, blocks)| program.read_file(file, blocks, compute_ns));
}

/// Reads the same files several times, with MRU and a list for each time.
fn again_and_again(scene: &mut Scene, name: &str, files: &[(FileId, u64)], times: u32, compute_ns: u64) {
    let mut program = Program::new(name);
    program.hint(Hint::Policy { priority: 0, policy: PolicyName::Mru });
    (0..times).for_each(|_| read(&mut program, files, compute_ns));
    scene.programs.push(program);
}

pub(super) fn cs1(scene: &mut Scene, seed: u64) {
    let database = files(scene, 1141, 1141..=1141, &mut Draws::new(seed));
    again_and_again(scene, "cs1", &database, 8, 2_600_000);
}

pub(super) fn cs2(scene: &mut Scene, seed: u64) {
    let sources = files(scene, 2946, 1..=4, &mut Draws::new(seed));
    again_and_again(scene, "cs2", &sources, 4, 6_000_000);
}

pub(super) fn cs3(scene: &mut Scene, seed: u64) {
    let sources = files(scene, 1728, 1..=4, &mut Draws::new(seed));
    again_and_again(scene, "cs3", &sources, 4, 4_300_000);
}

pub(super) fn din(scene: &mut Scene, seed: u64) {
    let trace = files(scene, 988, 988..=988, &mut Draws::new(seed));
    again_and_again(scene, "din", &trace, 9, 10_700_000);
}

/// Partitions of the articles that glimpse reads as a whole.
const PARTITIONS: usize = 100;

pub(super) fn gli(scene: &mut Scene, seed: u64) {
    const COMPUTE_NS: u64 = 2_000_000;
    let mut random = Draws::new(seed);
    let index = files(scene, 256, 64..=64, &mut random);
    let articles = files(scene, 5120, 1..=2, &mut random);
    let mut program = Program::new("gli");
    for &(file, _) in &index {
        program.hint(Hint::Priority { file, priority: 1 });
    }
    for priority in [1, 0] {
        program.hint(Hint::Policy { priority, policy: PolicyName::Mru });
    }
    for _ in 0..5 {
        // The index says which partitions are worth reading: 36 % of them.
        let wanted: Vec<bool> = (0..PARTITIONS).map(|_| random.below(100) < 36).collect();
        let size = articles.len().div_ceil(PARTITIONS);
        let partitions = articles.chunks(size).zip(&wanted).filter(|(_, wanted)| **wanted);
        let reads: Vec<(FileId, u64)> = partitions.flat_map(|(articles, _)| articles).copied().collect();
        read(&mut program, &index, COMPUTE_NS);
        read(&mut program, &reads, COMPUTE_NS);
    }
    scene.programs.push(program);
}
