//! Programs: owners without control that run the same have one manager, which outlives them.

use pantler_steward::{Action, Block, FileId, Options, OwnerId, PolicyName, Steward};

const PROGRAM: OwnerId = OwnerId(1000);

fn steward(frames: u32) -> Steward {
    let common_policy = PolicyName::Auto.spec();
    Steward::new(Options { common_policy, ..Options::new(frames) }).expect("online")
}

/// A reference that is served at once. Says whether the block was fetched.
fn read(steward: &mut Steward, owner: OwnerId, block: Block) -> bool {
    steward.access(owner, block);
    let mut fetched = false;
    while let Some(action) = steward.poll() {
        if let Action::Fetch { block, .. } = action {
            steward.fetched(block);
            fetched = true;
        }
    }
    fetched
}

fn number(from: &mut u64) -> u64 {
    *from = from.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *from >> 33
}

#[test]
fn what_one_process_taught_is_there_for_the_next() {
    let (mut steward, mut misses) = (steward(600), 0);
    for process in 1..=20 {
        let owner = OwnerId(process);
        steward.join_program(owner, PROGRAM);
        for index in 0..900 {
            misses += u32::from(read(&mut steward, owner, Block::new(FileId(1), index)));
        }
        // Something else, which reads each block once, under the common owner.
        for index in 0..300 {
            read(&mut steward, OwnerId(999), Block::new(FileId(1 + process), index));
        }
        steward.exit(owner);
    }
    steward.validate();
    assert!(misses < 20 * 900 * 9 / 10, "LRU misses all 18,000, this {misses}");
    steward.join_program(OwnerId(21), PROGRAM);
    let cyclic = steward.followed_for(OwnerId(21));
    assert_ne!(cyclic, PolicyName::Lru, "of its program");
    assert_eq!(steward.followed_for(PROGRAM), cyclic);
    assert_ne!(steward.followed_for(OwnerId(999)), cyclic, "of the common owner");
}

#[test]
fn blocks_of_two_processes_are_the_program_s_and_of_two_programs_the_common_owner_s() {
    let mut steward = steward(8);
    let block = Block::new(FileId(1), 1);
    let other = OwnerId(1001);
    for (owner, program) in [(1, PROGRAM), (2, PROGRAM), (3, other)] {
        steward.join_program(OwnerId(owner), program);
    }
    assert_eq!((steward.programs(), steward.managers(), steward.owners().count()), (2, 0, 4));
    let owner = |steward: &Steward| steward.explain(block).expect("cached").owner;
    read(&mut steward, OwnerId(1), block);
    assert_eq!(owner(&steward), Some(OwnerId(1)));
    read(&mut steward, OwnerId(2), block);
    assert_eq!(owner(&steward), Some(PROGRAM));
    let shown: Vec<_> = steward.programs_with_blocks().map(|stat| (stat.id, stat.counters.blocks)).collect();
    assert_eq!(shown, [(Some(PROGRAM), 1)]);
    assert!(steward.is_program(PROGRAM) && !steward.is_program(OwnerId(1)));
    read(&mut steward, OwnerId(3), block);
    assert_eq!(owner(&steward), None);
    steward.validate();
    assert!(steward.set_policy(PROGRAM, 0, PolicyName::Mru).is_err(), "a program gives no hints");
}

#[test]
fn programs_keep_the_invariants_whatever_happens() {
    let mut seed = 7;
    let mut steward = steward(24);
    for _ in 0..20_000 {
        let (what, owner) = (number(&mut seed) % 40, OwnerId(1 + number(&mut seed) % 6));
        let program = OwnerId(1000 + number(&mut seed) % 3);
        match what {
            0 => steward.exit(owner),
            1 => steward.exit(program),
            2..=4 => steward.join_program(owner, program),
            5 => drop(steward.set_policy(owner, 0, PolicyName::Mru)),
            6 => drop(steward.set_priority(owner, FileId(number(&mut seed) % 3), 1)),
            7 => steward.release_control(owner),
            8 => steward.forget_file(FileId(number(&mut seed) % 3)),
            9 => steward.join_program(program, owner),
            _ => {
                let block = Block::new(FileId(number(&mut seed) % 3), number(&mut seed) % 20);
                read(&mut steward, owner, block);
            }
        }
        steward.validate();
    }
}
