//! A steward that finds names in tables decides as one that hashes them.

use pantler_steward::{
    Access, Action, Allocation, Block, FileId, Names, Options, OwnerId, PolicyName, Revocation, Steward,
};
use proptest::prelude::*;

const FILES: u64 = 4;
const OWNERS: u64 = 3;
const BLOCKS: u64 = 24;

#[derive(Clone, Copy, Debug)]
enum Op {
    Access(OwnerId, Block),
    Observed(OwnerId, Block),
    LookedAhead(Block),
    Gone(Block),
    Kept(Block),
    Forget(Block),
    ForgetFile(FileId),
    Exit(OwnerId),
    SetCapacity(u32),
    SetPriority(OwnerId, FileId, i32),
    SetPolicy(OwnerId, i32, PolicyName),
    SetTemporary(OwnerId, Block, i32),
}

/// Each index is one file's, which is what [`Names::Numbers`] promises.
fn block() -> impl Strategy<Value = Block> {
    (0..BLOCKS).prop_map(|index| Block::new(FileId(index % FILES), index))
}

fn op() -> impl Strategy<Value = Op> {
    let owner = || (1..=OWNERS).prop_map(OwnerId);
    let file = || (0..FILES).prop_map(FileId);
    // A sketch counts by the hash of names, whichever way these are found.
    let policy = || prop::sample::select(&PolicyName::ALL[..]);
    prop_oneof![
        20 => (owner(), block()).prop_map(|(owner, block)| Op::Observed(owner, block)),
        20 => (owner(), block()).prop_map(|(owner, block)| Op::Access(owner, block)),
        1 => block().prop_map(Op::LookedAhead),
        1 => block().prop_map(Op::Gone),
        1 => block().prop_map(Op::Kept),
        1 => block().prop_map(Op::Forget),
        1 => file().prop_map(Op::ForgetFile),
        1 => owner().prop_map(Op::Exit),
        1 => (2_u32..12).prop_map(Op::SetCapacity),
        2 => (owner(), file(), -1..2_i32).prop_map(|(owner, file, priority)| Op::SetPriority(owner, file, priority)),
        2 => (owner(), -1..2_i32, policy()).prop_map(|(owner, priority, policy)| Op::SetPolicy(owner, priority, policy)),
        2 => (owner(), block(), -1..2_i32).prop_map(|(owner, block, priority)| Op::SetTemporary(owner, block, priority)),
    ]
}

fn apply(steward: &mut Steward, op: Op) -> (Option<Access>, Vec<Action>) {
    let mut access = None;
    match op {
        Op::Access(owner, block) => {
            access = Some(steward.access(owner, block));
            steward.fetched(block);
        }
        Op::Observed(owner, block) => {
            // Decides nothing, wherever it is said.
            steward.expect(block);
            steward.expect_next(block);
            access = Some(steward.observed(owner, block));
        }
        Op::LookedAhead(block) => steward.looked_ahead(block),
        Op::Gone(block) => steward.gone(block),
        Op::Kept(block) => {
            steward.kept(block);
            steward.unpin(block);
        }
        Op::Forget(block) => steward.forget(block),
        Op::ForgetFile(file) => steward.forget_file(file),
        Op::Exit(owner) => steward.exit(owner),
        Op::SetCapacity(frames) => steward.set_capacity(frames).expect("some frames"),
        Op::SetPriority(owner, file, priority) => {
            steward.set_priority(owner, file, priority).expect("few files");
        }
        Op::SetPolicy(owner, priority, policy) => {
            steward.set_policy(owner, priority, policy).expect("few priorities");
        }
        Op::SetTemporary(owner, block, priority) => {
            let Block { file, index } = block;
            steward.set_temporary_priority(owner, file, index, index, priority).expect("few priorities");
        }
    }
    let actions = std::iter::from_fn(|| steward.poll()).collect();
    (access, actions)
}

proptest! {
    #[test]
    fn tables_decide_as_hashes(
        allocation in prop::sample::select(&Allocation::ALL[..]),
        waiting in 0_u32..2,
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let revocation = Revocation { needed: 0, share_percent: 10 };
        let options = Options { allocation, waiting, revocation, log: 8, ..Options::new(6) };
        let new = |names| Steward::new(Options { names, ..options.clone() }).expect("sane options");
        let (mut hashed, mut tables) = (new(Names::Any), new(Names::Numbers));
        for op in ops {
            prop_assert_eq!(apply(&mut hashed, op), apply(&mut tables, op), "{:?}", op);
            tables.validate();
            prop_assert_eq!(hashed.totals(), tables.totals());
            for owner in (1..=OWNERS).map(OwnerId) {
                prop_assert_eq!(hashed.owner_counters(owner), tables.owner_counters(owner));
            }
        }
        prop_assert!(hashed.decisions().eq(tables.decisions()));
    }
}
