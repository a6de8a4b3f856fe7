//! What the server keeps: blocks by key, ordered by last use, at most `limit` bytes (rules U5 and
//! U6).
//!
//! ```text
//!   oldest  [c 5] [d 6] [e 8] [a 12] [f 13]  youngest      one order for all clients
//!            ^ goes first; its owner is told with the next answer
//! ```
//!
//! A block that a client asks to be kept is the youngest. A demoted block comes with its age, and
//! stands where that says. The order is [`Ages`], which the simulator's shared tiers have, too. The
//! pure part of `pantler tier serve`: no I/O and no clock; times arrive as numbers.
//!
//! R1  `used` is the sum of the charges of all entries, and at most `limit` between calls.
//! R2  Every entry is in `ages` under its slot, and nothing else is.
//! R3  An owner has at most [`NOTICES_MAX`] notices waiting, and all owners together have at most
//!     [`notices_bytes`] of them, which is memory beside `limit`; beyond, an owner is told that it
//!     does not know.
//! R4  `blocks` of an owner counts its entries.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use bytes::Bytes;
use hashbrown::{HashMap, HashTable};
use pantler_steward::placement::{Ages, Arrival, Standing};
use pantler_tier::wire::ENTRY_BYTES;
use slab::Slab;

/// Notices that wait for an owner that does not talk.
pub const NOTICES_MAX: usize = 16_384;
/// What a waiting notice is charged with beside its key.
const NOTICE_BYTES: u64 = 48;
/// Bytes that notices of all owners together may always take.
const NOTICES_BYTES_MIN: u64 = 64 << 10;
/// Share of the limit that they may take where that is more: one part in this many.
const NOTICES_SHARE: u64 = 64;
/// Blocks that came out of order and are looked at for those of one owner: other clients wait
/// meanwhile.
pub const LOOKED_MAX: usize = 1 << 19;
/// Owners that are known. More share none.
pub const OWNERS_MAX: usize = 4096;

/// The owner of a block: a number for the name that a client gave itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(u32);

/// The owner of blocks that come by the common commands.
pub const NOBODY: Owner = Owner(u32::MAX);

impl Owner {
    /// As [`Ages`] numbers owners: from [`NOBODY`] on.
    fn number(self) -> u32 {
        self.0.wrapping_add(1)
    }

    fn of(number: u32) -> Self {
        Self(number.wrapping_sub(1))
    }
}

#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    value: Bytes,
    /// Bytes of the buffer that the value is in.
    buffer_bytes: u32,
}

impl Entry {
    fn charge(&self) -> u64 {
        charge(&self.key, self.buffer_bytes as usize)
    }
}

/// Memory that a key, and a value in a buffer of `buffer_bytes`, are charged with.
pub fn charge(key: &[u8], buffer_bytes: usize) -> u64 {
    // The allocator hands out multiples of 16 bytes.
    (key.len().next_multiple_of(16) + buffer_bytes.next_multiple_of(16)) as u64 + ENTRY_BYTES
}

/// Memory that notices of all owners together may take, beside the limit of a store.
pub fn notices_bytes(limit: u64) -> u64 {
    (limit / NOTICES_SHARE).max(NOTICES_BYTES_MIN)
}

fn charge_of_notice(key: &[u8]) -> u64 {
    key.len().next_multiple_of(16) as u64 + NOTICE_BYTES
}

#[derive(Debug, Default)]
struct Client {
    name: Box<str>,
    notices: VecDeque<Box<[u8]>>,
    /// More left than fits in `notices`.
    lost: bool,
    blocks: u64,
    connections: u32,
}

/// What an owner is told with an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// Its blocks that left, or are another's now, in order.
    pub gone: Vec<Box<[u8]>>,
    /// There were more than could be remembered.
    pub unknown: bool,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks asked for that were there.
    pub hits: u64,
    /// Blocks asked for that were not.
    pub misses: u64,
    /// Blocks put for having been referenced, or by common commands.
    pub kept: u64,
    /// Blocks put for having left another tier.
    pub demoted: u64,
    /// Blocks that left because others came.
    pub evicted: u64,
    /// Blocks that were too large.
    pub refused: u64,
    /// Notices that owners were told.
    pub notices: u64,
}

/// The blocks of a server.
#[derive(Debug)]
pub struct Store {
    limit: u64,
    used: u64,
    /// The charge of what was put last: with blocks of one size, what another one takes.
    unit: u64,
    /// Slots by the hash of their key, which is in the entry alone.
    table: HashTable<u32>,
    seed: foldhash::quality::RandomState,
    slots: Slab<Entry>,
    ages: Ages,
    clients: Vec<Client>,
    names: HashMap<Box<str>, Owner, foldhash::quality::RandomState>,
    /// Charges of all notices that wait.
    notices: u64,
    counts: Counts,
}

impl Store {
    /// An empty store of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            used: 0,
            unit: 0,
            table: HashTable::new(),
            seed: foldhash::quality::RandomState::default(),
            slots: Slab::new(),
            ages: Ages::default(),
            clients: Vec::new(),
            names: HashMap::default(),
            notices: 0,
            counts: Counts::default(),
        }
    }

    /// A client connects under a name; the same name is the same owner. [`NOBODY`] where there are
    /// too many.
    pub fn join(&mut self, name: &str) -> Owner {
        if let Some(&owner) = self.names.get(name) {
            self.clients[owner.0 as usize].connections += 1;
            return owner;
        }
        let owner = if self.clients.len() < OWNERS_MAX {
            self.clients.push(Client::default());
            Owner(self.clients.len() as u32 - 1)
        } else {
            // One that has nothing and is not here can be forgotten.
            let idle = self.clients.iter().position(|client| client.connections == 0 && client.blocks == 0);
            let Some(idle) = idle else { return NOBODY };
            let Client { name, notices, .. } = std::mem::take(&mut self.clients[idle]);
            self.names.remove(&name);
            self.notices -= notices.iter().map(|key| charge_of_notice(key)).sum::<u64>();
            Owner(idle as u32)
        };
        self.clients[owner.0 as usize] = Client { name: name.into(), connections: 1, ..Client::default() };
        self.names.insert(name.into(), owner);
        owner
    }

    /// A connection of that owner ended.
    pub fn leave(&mut self, owner: Owner) {
        if let Some(client) = self.clients.get_mut(owner.0 as usize) {
            client.connections = client.connections.saturating_sub(1);
        }
    }

    /// The common command: the client becomes no owner, and the block the youngest.
    pub fn get(&mut self, key: &[u8], now: u64) -> Option<Bytes> {
        let slot = self.look(key)?;
        self.touch(slot, now);
        self.value(slot)
    }

    /// The block, unchanged in every respect.
    pub fn read(&mut self, key: &[u8]) -> Option<Bytes> {
        let slot = self.look(key)?;
        self.value(slot)
    }

    /// The asker keeps the block nearer: it leaves if it is the asker's, and stays for its owner
    /// else (U6).
    pub fn take(&mut self, key: &[u8], asker: Owner) -> Option<Bytes> {
        let slot = self.look(key)?;
        if self.ages.take(slot, asker.number()) {
            return self.clear(slot, asker).map(|entry| entry.value);
        }
        self.value(slot)
    }

    /// The block stays here for the asker, as the youngest; its former owner is told.
    pub fn keep(&mut self, key: &[u8], asker: Owner, now: u64) -> Option<Bytes> {
        let slot = self.look(key)?;
        self.enter(slot, asker, now, Arrival::Kept);
        self.value(slot)
    }

    /// Puts a block, last used at `time`, for its new owner. Its value keeps all of a buffer of
    /// `buffer_bytes`. A demoted block that is here already keeps the later time. What is too much
    /// leaves, the oldest first: that may be the block itself. Says whether it could ever fit.
    pub fn put(
        &mut self,
        key: &[u8],
        value: Bytes,
        buffer_bytes: usize,
        asker: Owner,
        time: u64,
        demoted: bool,
    ) -> bool {
        let charge = charge(key, buffer_bytes);
        let existing = self.find(key);
        let (true, Ok(buffer_bytes)) = (charge <= self.limit, u32::try_from(buffer_bytes)) else {
            self.counts.refused += 1;
            if let Some(slot) = existing {
                self.delete_slot(slot, asker);
            }
            return false;
        };
        self.unit = charge;
        self.used += charge;
        let slot = match existing {
            Some(slot) => {
                self.replace(slot, value, buffer_bytes);
                slot
            }
            None => self.insert(Entry { key: key.into(), value, buffer_bytes }),
        };
        let arrival = if demoted { Arrival::Demoted } else { Arrival::Kept };
        self.enter(slot, asker, time, arrival);
        match arrival {
            Arrival::Demoted => self.counts.demoted += 1,
            Arrival::Kept => self.counts.kept += 1,
        }
        self.trim();
        true
    }

    /// Removes a block. Says whether it was there.
    pub fn delete(&mut self, key: &[u8], asker: Owner) -> bool {
        let slot = self.find(key);
        slot.is_some_and(|slot| self.delete_slot(slot, asker))
    }

    /// Removes a block if it is the asker's. Says whether it was.
    pub fn give_up(&mut self, key: &[u8], asker: Owner) -> bool {
        let Some(slot) = self.find(key) else { return false };
        self.ages.take(slot, asker.number()) && self.clear(slot, asker).is_some()
    }

    /// Removes everything. Owners do not learn which blocks, but that they do not know.
    pub fn flush(&mut self) {
        self.table = HashTable::new();
        self.slots = Slab::new();
        self.ages = Ages::default();
        self.used = 0;
        for client in self.clients.iter_mut().filter(|client| client.blocks > 0) {
            client.blocks = 0;
            let told = std::mem::take(&mut client.notices);
            self.notices -= told.iter().map(|key| charge_of_notice(key)).sum::<u64>();
            client.lost = true;
        }
    }

    /// Bytes of a value, without using it.
    pub fn length(&self, key: &[u8]) -> Option<usize> {
        let slot = self.find(key)?;
        self.entry(slot).map(|entry| entry.value.len())
    }

    /// When a block was last used, and its owner.
    pub fn standing(&self, key: &[u8]) -> Option<(u64, Owner)> {
        let slot = self.find(key)?;
        self.ages.standing(slot).map(|at| (at.time, Owner::of(at.owner)))
    }

    /// What an owner was not told yet. [`NOBODY`] is told nothing.
    pub fn notices(&mut self, owner: Owner) -> Notices {
        let Some(client) = self.clients.get_mut(owner.0 as usize) else { return Notices::default() };
        if client.notices.is_empty() && !client.lost {
            return Notices::default();
        }
        let gone: Vec<Box<[u8]>> = std::mem::take(&mut client.notices).into();
        self.counts.notices += gone.len() as u64;
        self.notices -= gone.iter().map(|key| charge_of_notice(key)).sum::<u64>();
        Notices { gone, unknown: std::mem::take(&mut client.lost) }
    }

    /// Whether another block like the last one would make one leave.
    pub fn is_full(&self) -> bool {
        self.used + self.unit > self.limit
    }

    /// Keys of one owner from the oldest on: its `most` youngest. Of those that came out of order
    /// only the ones among the [`LOOKED_MAX`] youngest of all owners.
    pub fn keys_of(&self, owner: Owner, most: usize) -> Vec<&[u8]> {
        if self.clients.get(owner.0 as usize).is_none_or(|client| client.blocks == 0) {
            return Vec::new();
        }
        let slots = self.ages.youngest_of(owner.number(), most, LOOKED_MAX);
        slots.into_iter().filter_map(|slot| Some(&*self.entry(slot)?.key)).collect()
    }

    /// Blocks here.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes charged.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Most bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Owners by name, with their blocks and connections.
    pub fn owners(&self) -> impl Iterator<Item = (&str, u64, u32)> {
        self.clients.iter().map(|client| (&*client.name, client.blocks, client.connections))
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        let is_it = |slot: &u32| self.entry(*slot).is_some_and(|entry| *entry.key == *key);
        self.table.find(self.seed.hash_one(key), is_it).copied()
    }

    fn look(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find(key);
        match slot {
            Some(_) => self.counts.hits += 1,
            None => self.counts.misses += 1,
        }
        slot
    }

    fn entry(&self, slot: u32) -> Option<&Entry> {
        self.slots.get(slot as usize)
    }

    fn value(&self, slot: u32) -> Option<Bytes> {
        self.entry(slot).map(|entry| entry.value.clone())
    }

    /// The block becomes the youngest of its owner's.
    fn touch(&mut self, slot: u32, now: u64) {
        if let Some(at) = self.ages.standing(slot).filter(|at| at.time < now) {
            self.enter(slot, Owner::of(at.owner), now, Arrival::Kept);
        }
    }

    /// The entry stands for `asker` from now on; a former owner is told (U5).
    fn enter(&mut self, slot: u32, asker: Owner, time: u64, arrival: Arrival) {
        let before = self.ages.standing(slot);
        let former = self.ages.enter(slot, asker.number(), time, arrival);
        if before.is_none() || former.is_some() {
            self.count(asker, true);
        }
        if let Some(former) = former.map(Owner::of) {
            self.count(former, false);
            if let Some(key) = self.entry(slot).map(|entry| entry.key.clone()) {
                self.tell(former, key);
            }
        }
    }

    /// Another value under the same key.
    fn replace(&mut self, slot: u32, value: Bytes, buffer_bytes: u32) {
        if let Some(entry) = self.slots.get_mut(slot as usize) {
            self.used -= entry.charge();
            (entry.value, entry.buffer_bytes) = (value, buffer_bytes);
        }
    }

    fn insert(&mut self, entry: Entry) -> u32 {
        let hash = self.seed.hash_one(&*entry.key);
        let slot = self.slots.insert(entry) as u32;
        let (slots, seed) = (&self.slots, &self.seed);
        self.table.insert_unique(hash, slot, |&slot| seed.hash_one(&*slots[slot as usize].key));
        slot
    }

    /// Removes an entry. Its owner is told if that is not the asker.
    fn delete_slot(&mut self, slot: u32, asker: Owner) -> bool {
        let Some(Standing { owner, .. }) = self.ages.remove(slot) else { return false };
        let (owner, entry) = (Owner::of(owner), self.clear(slot, Owner::of(owner)));
        if let Some(entry) = entry.filter(|_| owner != asker) {
            self.tell(owner, entry.key);
        }
        true
    }

    /// Removes an entry that `ages` has no more.
    fn clear(&mut self, slot: u32, owner: Owner) -> Option<Entry> {
        let entry = self.slots.try_remove(slot as usize)?;
        if let Ok(place) = self.table.find_entry(self.seed.hash_one(&*entry.key), |&other| other == slot) {
            place.remove();
        }
        self.used -= entry.charge();
        self.count(owner, false);
        Some(entry)
    }

    fn trim(&mut self) {
        while self.used > self.limit {
            let Some(slot) = self.ages.oldest() else { return };
            let Some(Standing { owner, .. }) = self.ages.remove(slot) else { return };
            if let Some(entry) = self.clear(slot, Owner::of(owner)) {
                self.counts.evicted += 1;
                self.tell(Owner::of(owner), entry.key);
            }
        }
    }

    fn tell(&mut self, owner: Owner, key: Box<[u8]>) {
        let Some(client) = self.clients.get_mut(owner.0 as usize) else { return };
        let charge = charge_of_notice(&key);
        if client.notices.len() < NOTICES_MAX && self.notices + charge <= notices_bytes(self.limit) {
            self.notices += charge;
            client.notices.push_back(key);
        } else {
            client.lost = true;
        }
    }

    fn count(&mut self, owner: Owner, more: bool) {
        if let Some(client) = self.clients.get_mut(owner.0 as usize) {
            client.blocks = if more { client.blocks + 1 } else { client.blocks.saturating_sub(1) };
        }
    }

    /// Checks R1 to R4, and panics with the number of what does not hold. For tests and fuzzing.
    pub fn validate(&self) {
        let entries = || self.slots.iter().map(|(slot, entry)| (slot as u32, entry));
        assert_eq!(entries().map(|(_, entry)| entry.charge()).sum::<u64>(), self.used, "R1: used");
        assert!(self.used <= self.limit, "R1: {} of {} bytes", self.used, self.limit);
        assert_eq!(entries().count(), self.table.len(), "R2: table");
        self.ages.validate();
        assert_eq!(self.ages.len() as usize, self.table.len(), "R2: order");
        for (slot, entry) in entries() {
            assert_eq!(self.find(&entry.key), Some(slot), "R2: slot {slot}");
            assert!(self.ages.standing(slot).is_some(), "R2: order of slot {slot}");
        }
        let notices = self.clients.iter().flat_map(|client| &client.notices);
        assert_eq!(notices.map(|key| charge_of_notice(key)).sum::<u64>(), self.notices, "R3: bytes");
        assert!(self.notices <= notices_bytes(self.limit), "R3: {} bytes", self.notices);
        for (number, client) in (0..).zip(&self.clients) {
            assert!(client.notices.len() <= NOTICES_MAX, "R3: owner {number}");
            let is_own = |at: &Standing| Owner::of(at.owner) == Owner(number);
            let blocks =
                entries().filter(|(slot, _)| self.ages.standing(*slot).is_some_and(|at| is_own(&at)));
            let blocks = blocks.count() as u64;
            assert_eq!(blocks, client.blocks, "R4: owner {number}");
        }
    }
}
