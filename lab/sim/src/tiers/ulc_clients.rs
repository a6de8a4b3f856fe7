//! ULC with several clients: each with its own tier, in front of tiers that they share.
//!
//! ```text
//!   client 0: stack, tier 1 --\
//!   client 1: stack, tier 1 ----> tier 2 --> tier 3 --> origin
//!   client 2: stack, tier 1 --/    keep, demote go down; blocks, notices and fullness come back
//! ```
//!
//! Every message to a shared tier is answered at once, and notices come with answers. A client that
//! is not talking believes what it knows: that is the protocol, not a flaw of the simulation. With
//! one client this decides exactly as [`Ulc`] alone does.
//!
//! Tier 1 may have frames for blocks that pass ([`Passing`]), as a mount has. A block that passes
//! is read from there without asking; tiers are told only if it is kept nearer from then on.

use pantler_policy::Handle;
use pantler_steward::placement::{
    Client, Order, Passage, Passing, Retrieval, SharedTiers, Sizes, Step, Tier, Ulc,
};

use super::protocol::Protocol;

/// One client that has all tiers for itself, as a protocol: the twin of [`Mounted`](super::Mounted)
/// where no owner is in control.
#[derive(Clone, Debug)]
pub struct UlcAlone {
    /// The client.
    pub ulc: Ulc,
    passage: Passage<Handle>,
    now: u64,
}

impl UlcAlone {
    /// A client of tiers of those sizes, with frames of tier 1 for blocks that pass.
    pub fn with_passing(mut sizes: Sizes, passing: Passing) -> Self {
        let passage = passage(&mut sizes, passing);
        Self { ulc: Ulc::new(sizes), passage, now: 0 }
    }
}

impl Protocol for UlcAlone {
    #[inline]
    fn reference(&mut self, _: Client, block: Handle, steps: &mut Vec<Step>) -> Retrieval {
        self.now += 1;
        if self.passage.frames() == 0 {
            return self.ulc.reference(block, self.now, steps);
        }
        let passes = self.passage.holds(block);
        if self.passage.reference(block) {
            return Retrieval { from: OWN, keep: self.ulc.tier_of(block) };
        }
        let mut retrieval = self.ulc.reference(block, self.now, steps);
        if passes {
            put_from_passage(block, retrieval, steps);
        }
        self.passage.place(block, retrieval.keep > OWN);
        if passes {
            retrieval.from = OWN;
        }
        retrieval
    }

    fn validate(&self) {
        self.ulc.validate();
        validate_passage(&self.passage, &self.ulc);
    }
}

/// Takes the frames for blocks that pass out of tier 1.
fn passage(sizes: &mut Sizes, passing: Passing) -> Passage<Handle> {
    let passing = passing.frames(sizes.of(OWN));
    sizes.set(OWN, sizes.of(OWN) - passing);
    Passage::new(passing)
}

/// A block that passes is kept nearer from now on than it was, but not here.
fn put_from_passage(block: Handle, retrieval: Retrieval, steps: &mut Vec<Step>) {
    if retrieval.keep > OWN && retrieval.keep < retrieval.from {
        steps.push(Step::Place { block, into: retrieval.keep });
    }
}

fn validate_passage(passage: &Passage<Handle>, ulc: &Ulc) {
    passage.validate();
    assert!(passage.len() <= passage.frames() as usize, "Z2: {} blocks pass", passage.len());
    passage.iter().for_each(|block| assert!(ulc.tier_of(block) > OWN, "Z2: {block} is kept where it passes"));
}

/// Clients and their shared tiers.
#[derive(Clone, Debug)]
pub struct UlcClients {
    clients: Vec<Ulc>,
    /// Of each client.
    passages: Vec<Passage<Handle>>,
    shared: SharedTiers,
    now: u64,
}

/// Tier 1 belongs to each client alone.
const OWN: Tier = Tier::NEAREST;

impl UlcClients {
    /// That many clients, each with a first tier of the first size, of which some frames are for
    /// blocks that pass; the other tiers exist once.
    pub fn with_passing(sizes: &Sizes, clients: u16, order: Order, passing: Passing) -> Self {
        let mut sizes = sizes.clone();
        let passage = passage(&mut sizes, passing);
        Self {
            shared: SharedTiers::new(&sizes, OWN, clients, order),
            clients: vec![Ulc::with_own(sizes, OWN); usize::from(clients)],
            passages: vec![passage; usize::from(clients)],
            now: 0,
        }
    }

    /// One of the clients.
    pub fn client(&self, client: Client) -> &Ulc {
        &self.clients[client.index()]
    }

    /// What they share.
    pub fn shared(&self) -> &SharedTiers {
        &self.shared
    }

    /// What comes with an answer of the shared tiers.
    fn listen(&mut self, client: Client, steps: &mut Vec<Step>) {
        let listener = &mut self.clients[client.index()];
        while let Some(notice) = self.shared.notice(client) {
            listener.left(notice.block, notice.from, notice.to);
            steps.push(Step::Notice { client, block: notice.block });
        }
        self.shared.fullness().for_each(|(tier, full)| listener.set_full(tier, full));
    }
}

impl Protocol for UlcClients {
    fn reference(&mut self, client: Client, block: Handle, steps: &mut Vec<Step>) -> Retrieval {
        self.now += 1;
        let passage = &mut self.passages[client.index()];
        let passes = passage.holds(block);
        if passage.reference(block) {
            return Retrieval { from: OWN, keep: self.clients[client.index()].tier_of(block) };
        }
        let mut retrieval = self.clients[client.index()].plan(block);
        if passes {
            put_from_passage(block, retrieval, steps);
        }
        let told = if passes { retrieval.keep < retrieval.from } else { retrieval.from > OWN };
        if told {
            let answer = self.shared.request(client, block, retrieval.keep, self.now, steps);
            self.listen(client, steps);
            retrieval = Retrieval { from: answer.found, keep: answer.kept };
        }
        let before = steps.len();
        self.clients[client.index()].commit(block, retrieval.keep, self.now, steps);
        for at in before..steps.len() {
            if let Step::Demote { block, .. } = steps[at] {
                let asker = &self.clients[client.index()];
                let time = asker.time_of(block).expect("S1: a block that was just demoted is in the stack");
                self.shared.demote(client, block, time, steps);
                self.listen(client, steps);
            }
        }
        self.clients[client.index()].forget_surplus(steps);
        self.passages[client.index()].place(block, retrieval.keep > OWN);
        if passes {
            retrieval.from = OWN;
        }
        retrieval
    }

    fn validate(&self) {
        self.clients.iter().for_each(Ulc::validate);
        let passages = self.passages.iter().zip(&self.clients);
        passages.for_each(|(passage, client)| validate_passage(passage, client));
        self.shared.validate();
        // The beliefs of a client are true but for what it was not told yet.
        let out = self.clients[0].sizes().out();
        for (index, client) in self.clients.iter().enumerate() {
            let waiting = self.shared.waiting(Client(index as u16));
            for (block, tier, _) in client.iter().filter(|(_, tier, _)| *tier > OWN && *tier < out) {
                let told = waiting.iter().rfind(|notice| notice.block == block);
                let owned = self.shared.owner_of(block) == Some(Client(index as u16));
                let right = owned && self.shared.tier_of(block) == tier;
                assert!(right || told.is_some(), "G5: client {index} believes {block} in {tier:?}");
            }
        }
    }
}
