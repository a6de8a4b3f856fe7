//! Programs that read all over a file: a selection by an index, and a sort.

use std::collections::HashMap;

use pantler_steward::lists::Chunk;
use pantler_steward::{Block, PolicyName};
use pantler_trace::generate::Permutation;

use super::super::program::Program;
use super::super::scene::Scene;
use crate::hint::Hint;

/// Tuples of the relation.
const TUPLES: u64 = 200_000;
const RELATION_BLOCKS: u64 = 4096;
const INDEX_BLOCKS: u64 = 640;
/// Blocks of the index above its leaves, read first.
const INNER_BLOCKS: u64 = 3;

/// Tuples with keys from `low` on, in order of their keys, which are spread at random.
fn selection(scene: &mut Scene, name: &str, low: u64, tuples: u64, seed: u64) {
    const COMPUTE_NS: u64 = 4_000_000;
    let folder = scene.new_folder();
    let index = scene.layout.file(folder, INDEX_BLOCKS);
    let relation = scene.layout.file(folder, RELATION_BLOCKS);
    let spread = Permutation::new(TUPLES, seed);
    let keys_per_leaf = TUPLES.div_ceil(INDEX_BLOCKS - INNER_BLOCKS);
    let mut reads = Vec::new();
    let mut leaf = None;
    for key in low..low + tuples {
        let wanted = INNER_BLOCKS + key / keys_per_leaf;
        if leaf.replace(wanted) != Some(wanted) {
            reads.push(Block::new(index, wanted));
        }
        reads.push(Block::new(relation, spread.at(key) * RELATION_BLOCKS / TUPLES));
    }
    let mut program = Program::new(name);
    (0..INNER_BLOCKS).for_each(|block| program.read(Block::new(index, block), COMPUTE_NS));
    program.hint(Hint::Priority { file: index, priority: 1 });
    let chunk = |block: &Block| Chunk { file: block.file, first: block.index, last: block.index };
    program.hint(Hint::List(reads.iter().map(chunk).collect()));
    let mut left: HashMap<Block, u32> = HashMap::new();
    reads.iter().for_each(|block| *left.entry(*block).or_default() += 1);
    for block in reads {
        program.read(block, COMPUTE_NS);
        let left = left.get_mut(&block).expect("it was counted");
        *left -= 1;
        // What will be read again is kept until then.
        if *left > 0 && block.file == relation {
            let (first, last) = (block.index, block.index);
            program.hint(Hint::Temporary { file: relation, first, last, priority: 1 });
        }
    }
    scene.programs.push(program);
}

pub(super) fn pse1(scene: &mut Scene, seed: u64) {
    selection(scene, "pse1", 0, 2000, seed);
}

pub(super) fn pse2(scene: &mut Scene, seed: u64) {
    selection(scene, "pse2", 186_660, 4000, seed);
}

/// Reads its input, then merges: eight temporary files side by side, each from start to end, until
/// one is left.
pub(super) fn sort(scene: &mut Scene, _: u64) {
    const COMPUTE_NS: u64 = 10_000_000;
    const INPUT_BLOCKS: u64 = 2125;
    const WAYS: usize = 8;
    // 512 chunks of about 4 blocks: three merges.
    const CHUNKS: u64 = 512;
    let folder = scene.new_folder();
    let input = scene.layout.file(folder, INPUT_BLOCKS);
    let mut program = Program::new("sort");
    program.hint(Hint::Policy { priority: -1, policy: PolicyName::Mru });
    program.hint(Hint::Policy { priority: 0, policy: PolicyName::Mru });
    program.hint(Hint::Priority { file: input, priority: -1 });
    program.hint(Hint::List(Chunk::whole(input, INPUT_BLOCKS).into_iter().collect()));
    program.read_file(input, INPUT_BLOCKS, COMPUTE_NS);
    let share = |at: u64, of: u64| (at + 1) * INPUT_BLOCKS / of - at * INPUT_BLOCKS / of;
    let mut chunks = CHUNKS;
    while chunks > 1 {
        let files: Vec<_> =
            (0..chunks).map(|at| (scene.layout.file(folder, share(at, chunks)), share(at, chunks))).collect();
        for merged in files.chunks(WAYS) {
            let longest = merged.iter().map(|&(_, blocks)| blocks).max().unwrap_or(0);
            for index in 0..longest {
                for &(file, _) in merged.iter().filter(|&&(_, blocks)| index < blocks) {
                    program.read(Block::new(file, index), COMPUTE_NS);
                    // Each block is read once.
                    program.hint(Hint::Temporary { file, first: index, last: index, priority: -1 });
                }
            }
        }
        chunks /= WAYS as u64;
    }
    scene.programs.push(program);
}
