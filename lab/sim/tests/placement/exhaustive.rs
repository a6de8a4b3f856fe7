//! Small scope, all of it. Traces that differ only in the names of blocks are one trace: blocks are
//! numbered in the order in which they first come.

use pantler_steward::placement::{Order, Passing};

use crate::props::{Clients, Op, Pair};

fn extend(pair: &Pair, known: u32, blocks: u32, left: u32) -> u64 {
    if left == 0 {
        pair.check();
        return 1;
    }
    (0..blocks.min(known + 1))
        .map(|block| {
            let mut pair = pair.clone();
            pair.apply(Op::Reference(block));
            extend(&pair, known.max(block + 1), blocks, left - 1)
        })
        .sum()
}

#[test]
fn every_short_trace_of_one_client() {
    let mut traces = 0;
    for sizes in [&[1][..], &[1, 1], &[2, 1], &[1, 2], &[1, 1, 1], &[2, 1, 1]] {
        traces += extend(&Pair::new(sizes), 0, 5, 8);
    }
    // All ways to put 8 references into at most 5 groups, six times.
    assert_eq!(traces, 6 * 3_845);
}

fn extend_clients(pair: &Clients, known: u32, blocks: u32, left: u32) -> u64 {
    if left == 0 {
        pair.check();
        return 1;
    }
    let next = (0..2).flat_map(|client| (0..blocks.min(known + 1)).map(move |block| (client, block)));
    next.map(|(client, block)| {
        let mut pair = pair.clone();
        pair.reference(client, block);
        extend_clients(&pair, known.max(block + 1), blocks, left - 1)
    })
    .sum()
}

#[test]
fn every_short_trace_of_two_clients() {
    for order in [Order::Access, Order::Request] {
        for sizes in [&[1, 1][..], &[1, 2], &[1, 1, 1]] {
            extend_clients(&Clients::new(sizes, 2, order, Passing::None), 0, 4, 6);
        }
        for sizes in [&[2, 1][..], &[2, 2], &[3, 1, 1]] {
            extend_clients(&Clients::new(sizes, 2, order, Passing::Frames(1)), 0, 4, 6);
        }
    }
}
