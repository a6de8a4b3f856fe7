//! A run with a reading thread that gets a processor late: on a busy machine, or where the program
//! uses the only one. The rounds come late, and the program reads on.

use pantler_pagecache::Options;
use pantler_policy::PolicyName;
use pantler_sim::pagecache::{FaithfulHands, Kernel, Machine, Program};
use pantler_steward::OwnerId;

/// A database of 85 MiB, of which two thirds may stay.
const BLOCKS: u64 = 21_800;
const BUDGET: u64 = BLOCKS * 2 / 3;
const PASSES: u32 = 6;
/// What a program does for each page besides reading it.
const LOOKS_NS: u64 = 36_000;

/// In a group with such a limit on everything, or without one.
fn kernel(order: &str, limit: Option<u64>) -> Kernel {
    let order = order.parse().unwrap();
    let kernel = match limit {
        Some(limit) => Kernel::new(limit, order).unwrap().with_slab(1),
        None => Kernel::new(1 << 20, order).unwrap(),
    };
    let mut kernel = kernel.without_large_folios();
    kernel.add_file(BLOCKS);
    kernel
}

/// Reads the database from start to end, each time by another thread that opens it anew.
fn passes(pages: u64, mut act: impl FnMut(&mut dyn FnMut(&mut Kernel), u64)) {
    for thread in (0..PASSES).map(Program::Run) {
        act(&mut |kernel| kernel.open(thread, 0), 0);
        for first in (0..BLOCKS).step_by(pages as usize) {
            let last = (first + pages).min(BLOCKS) - 1;
            let read = &mut |kernel: &mut Kernel| {
                kernel.read(thread, 0, first, last);
            };
            act(read, (last + 1 - first) * LOOKS_NS);
        }
    }
}

/// The pages that a run reads by MRU while its reading thread rests `rest_ms` after each round.
fn steered(order: &str, limit: Option<u64>, pages: u64, rest_ms: u64) -> u64 {
    let options = Options { hits_are_watched: true, is_alone: true, ..Options::new(BUDGET as u32) };
    let mut machine = Machine::new(kernel(order, limit), &options, FaithfulHands, 1).unwrap();
    machine.tell(|steward| steward.set_policy(OwnerId(0), 0, PolicyName::Mru)).unwrap();
    machine.faults().rest_ns = rest_ms * 1_000_000;
    passes(pages, |act, time_ns| machine.act(time_ns, act));
    machine.kernel().device_reads()
}

/// For each way to read: the part of the kernel's reads that remains.
fn shares(limit: Option<u64>, rest_ms: u64) -> Vec<f64> {
    let mut shares = Vec::new();
    for (order, pages) in [("linux", 1), ("linux", 4), ("linux", 32), ("mglru", 1), ("mglru", 32)] {
        let mut alone = kernel(order, Some(BUDGET));
        passes(pages, |act, _| {
            act(&mut alone);
            alone.take_events();
        });
        let reads = steered(order, limit, pages, rest_ms);
        shares.push(reads as f64 / alone.device_reads() as f64);
    }
    println!("{rest_ms} ms late below {limit:?} pages: {shares:.2?}");
    shares
}

#[test]
fn without_a_limit_the_savings_do_not_depend_on_the_thread() {
    for rest_ms in [0, 10, 100, 1000] {
        assert!(shares(None, rest_ms).iter().all(|&share| share < 0.48), "{rest_ms} ms late");
    }
}

#[test]
fn below_a_limit_a_thread_that_is_late_costs_nothing() {
    for (rest_ms, most) in [(0, 0.48), (10, 0.48), (30, 0.5), (100, 0.6), (300, 1.0), (1000, 1.0)] {
        assert!(shares(Some(BUDGET), rest_ms).iter().all(|&share| share <= most), "{rest_ms} ms late");
    }
}
