//! A mount over lower tiers: the very same [`Steward`] that a mount drives, with tiers that do at
//! once what it says.
//!
//! LRU-SP and the hints of owners say which block leaves memory, ULC says where it goes, and both
//! are one decision of the steward. Here is the rest of a mount with one reader: a table of what
//! tiers hold. A test holds it against a cache over two disks, reference by reference, and without
//! owners in control against [`UlcAlone`](super::UlcAlone).

use std::collections::{HashMap, HashSet, VecDeque};

use pantler_steward::placement::{Passing, Retrieval, Sizes, Step, Tier};
use pantler_steward::tiers::{Hierarchy, WayDown};
use pantler_steward::{
    Access, Action, Block, FileId, Label, Options, OptionsError, OwnerId, Steward, Version,
};
use pantler_trace::Prepared;

use super::spec::ProtocolError;
use super::tally::{Ran, Tally};
use crate::allocation::{Called, Sharing};
use crate::control::{owner_id, owner_names};

/// A steward over lower tiers.
#[derive(Clone, Debug)]
pub struct Mounted {
    steward: Steward,
    sizes: Sizes,
    /// The tier that has each block that is in a lower one.
    held: HashMap<Label, Tier>,
    shared: HashSet<FileId>,
    now_us: u64,
    fetches: VecDeque<(Block, Option<Tier>)>,
}

impl Mounted {
    /// Over tiers of those sizes, memory first, of which some frames are for blocks that pass.
    /// `options` say the rest; their capacity is that of memory.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] where the options leave no frame.
    pub fn new(options: Options, sizes: &Sizes, passing: Passing) -> Result<Self, OptionsError> {
        let frames: Vec<u32> = sizes.iter().map(|(_, frames)| frames).collect();
        let hierarchy = Hierarchy { below: &frames[1..], own: frames.len() - 1, passing };
        Ok(Self {
            steward: Steward::with_tiers(Options { capacity: frames[0], ..options }, &hierarchy)?,
            sizes: sizes.clone(),
            held: HashMap::new(),
            shared: HashSet::new(),
            now_us: 0,
            fetches: VecDeque::new(),
        })
    }

    /// Hints and questions. What follows from them is appended to `done`.
    pub fn advise<R>(&mut self, advise: impl FnOnce(&mut Steward) -> R, done: &mut Vec<Action>) -> R {
        let result = advise(&mut self.steward);
        self.obey(done);
        result
    }

    /// The lower tier that has a block.
    pub fn held_in(&self, block: Block) -> Option<Tier> {
        self.held.get(&label(block)).copied()
    }

    /// One reference, with everything that follows from it, which is appended to `done`. Says which
    /// tier served it, `out` for the origin.
    pub fn reference(&mut self, owner: OwnerId, block: Block, done: &mut Vec<Action>) -> Tier {
        self.now_us += 1;
        self.steward.tell_tiers(self.now_us, WayDown::Open);
        if self.shared.insert(block.file) {
            self.steward.share(block.file, Some(version(block.file)));
        }
        let access = self.steward.access(owner, block);
        assert!(access != Access::Full, "nothing is pinned between references");
        self.obey(done);
        let mut served = Tier::NEAREST;
        while let Some((wanted, from)) = self.fetches.pop_front() {
            let found = self.retrieve(wanted, from, done);
            if wanted == block {
                served = found.unwrap_or(self.sizes.out());
            }
        }
        served
    }

    /// A block is read from the tier that has it, where it stays only if it is kept there.
    fn retrieve(&mut self, block: Block, from: Option<Tier>, done: &mut Vec<Action>) -> Option<Tier> {
        let sought = self.steward.seek(block)?;
        let found = self.held.get(&sought.label).copied();
        assert_eq!(found, from, "U1: {block} is where the steward believes it");
        if let Some(found) = found
            && sought.keep.is_some_and(|keep| keep < found)
        {
            self.held.remove(&sought.label);
        }
        self.steward.found(block, sought, found);
        self.obey(done);
        self.steward.fetched(block);
        self.obey(done);
        found
    }

    fn obey(&mut self, done: &mut Vec<Action>) {
        while let Some(action) = self.steward.poll() {
            match action {
                Action::Fetch { block, from, .. } => self.fetches.push_back((block, from)),
                Action::Drop { to: Some(to), .. } | Action::Put { to, .. } => {
                    self.held.insert(to.label, to.tier);
                }
                Action::Pass { label, from, .. } => {
                    assert_eq!(self.held.insert(label, from.below()), Some(from), "U3: what is passed on");
                }
                Action::Remove { label, from } if self.held.get(&label) == Some(&from) => {
                    self.held.remove(&label);
                }
                _ => {}
            }
            done.push(action);
        }
    }

    /// Recomputes every invariant, and panics with the number of one that fails.
    pub fn validate(&self) {
        self.steward.validate();
        for (tier, frames) in self.sizes.iter().skip(1) {
            let held = self.held.values().filter(|&&held| held == tier).count() as u32;
            assert!(held <= frames, "C1: {held} blocks in {tier:?}");
            assert_eq!(held, self.steward.blocks_in(tier), "U1: blocks believed in {tier:?}");
        }
    }
}

/// What a version of a file is called: its number.
fn version(file: FileId) -> Version {
    let mut version = [0; 20];
    version[..8].copy_from_slice(&file.0.to_le_bytes());
    Version(version)
}

fn label(block: Block) -> Label {
    Label { version: version(block.file), index: block.index }
}

/// What tallies count of a reference and what followed from it.
fn told(block: Block, served: Tier, out: Tier, done: &[Action], steps: &mut Vec<Step>) -> Retrieval {
    let mut keep = Tier::NEAREST;
    // Tallies do not look at blocks.
    let number = 0;
    for action in done {
        match *action {
            // Across each boundary, as the time of a transfer is counted.
            Action::Drop { to: Some(to), .. } => {
                let above = (1..to.tier.0).map(Tier);
                steps.extend(above.map(|from| Step::Demote { block: number, from }));
            }
            Action::Put { to, .. } if served == out => keep = to.tier,
            Action::Put { to, .. } if served == Tier::NEAREST => {
                steps.push(Step::Place { block: number, into: to.tier });
            }
            Action::Pass { from, .. } => steps.push(Step::Demote { block: number, from }),
            Action::Remove { label, from } if label != self::label(block) => {
                steps.push(Step::Drop { block: number, from });
            }
            _ => {}
        }
    }
    Retrieval { from: served, keep }
}

/// Runs a trace with owners that want what `sharing` says.
pub(super) fn run(
    trace: &Prepared,
    sharing: &Sharing,
    sizes: &Sizes,
    passing: Passing,
    warm_up: u64,
) -> Result<Ran, ProtocolError> {
    let mut mounted = Mounted::new(sharing.options(sizes.of(Tier::NEAREST)), sizes, passing)?;
    let unknown = mounted.advise(|steward| sharing.control.apply(trace, steward), &mut Vec::new())?;
    let called = Called::new(trace, sharing);
    let (mut tally, mut owners) = (Tally::default(), vec![Tally::default(); owner_names(trace).len()]);
    let (mut done, mut steps) = (Vec::new(), Vec::new());
    for (at, &id) in trace.requests().iter().enumerate() {
        let owner = trace.owners().map_or(0, |owners| owners[at].into());
        let block = called.block(id);
        done.clear();
        let served = mounted.reference(owner_id(owner), block, &mut done);
        if at as u64 >= warm_up {
            steps.clear();
            let retrieval = told(block, served, sizes.out(), &done, &mut steps);
            tally.count(retrieval, &steps, sizes.out());
            owners[owner].count(retrieval, &steps, sizes.out());
        }
    }
    let owners = match trace.owners() {
        Some(_) => owner_names(trace).iter().cloned().zip(owners).collect(),
        None => Vec::new(),
    };
    Ok(Ran { tally, owners, unknown })
}
