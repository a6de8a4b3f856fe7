//! L7 as its text says it: the same references once more in a cache in which no owner has control.

use pantler_steward::{Block, FileId, Lookahead, Options, OwnerId, Revocation};

use super::{Deed, Outcome, Twin, Whose, lists::Brought};

#[derive(Clone, Debug)]
pub struct NaiveShadow {
    cache: Twin,
    /// What owners without control met since counting began: in the cache, in the shadow.
    met: Vec<(Outcome, Outcome)>,
}

impl NaiveShadow {
    fn count(&self, of: impl Fn(&(Outcome, Outcome)) -> bool) -> u64 {
        self.met.iter().filter(|met| of(met)).count() as u64
    }

    fn missed(&self) -> u64 {
        self.count(|(real, _)| *real == Outcome::Miss)
    }

    fn without(&self) -> u64 {
        self.count(|(_, shadow)| *shadow == Outcome::Miss)
    }

    /// Misses more than the share allows, in hundredths.
    fn excess(&self, share_percent: u32) -> i64 {
        100 * self.missed() as i64 - i64::from(100 + share_percent) * self.without() as i64
    }
}

impl Twin {
    /// Nothing to see where no owner can harm another.
    pub(super) fn begin_shadow(&mut self) {
        if self.shadow.is_some() || self.owners.len() < 2 || self.options.revocation.needed == u32::MAX {
            return;
        }
        let options = Options {
            capacity: self.weighing_pages().max(self.whole()) as u32,
            waiting: 0,
            lookahead: Lookahead::None,
            revocation: Revocation::NEVER,
            ..self.options.clone()
        };
        self.shadow = Some(Box::new(NaiveShadow { cache: Twin::new(options), met: Vec::new() }));
    }

    /// Whether an earlier reference left the block in the cache. `None`: there is no shadow to
    /// compare with.
    pub(super) fn left(&self, block: Block) -> Option<bool> {
        self.shadow.as_ref()?;
        Some(self.cached.iter().any(|c| c.block == block && c.brought == Brought::Reference))
    }

    pub(super) fn compare(&mut self, owner: OwnerId, block: Block, left: bool) {
        let capacity = self.weighing_pages().max(self.whole()) as u32;
        let pages = self.pages_of(block);
        let limits = self.options.revocation;
        let oblivious = self.owners.iter().find(|o| o.id == owner);
        let oblivious = oblivious.is_none_or(|o| o.revoked || o.tally.overrules == 0);
        let shadow = self.shadow.as_mut().unwrap();
        if shadow.cache.weighing_pages() as u32 != capacity {
            shadow.cache.set_capacity(capacity);
        }
        let there = shadow.cache.observed(owner, block);
        if pages > 0 {
            shadow.cache.weigh(block, pages);
        }
        let frames = capacity / shadow.cache.whole() as u32;
        if oblivious {
            shadow.met.push((if left { Outcome::Hit } else { Outcome::Miss }, there));
        }
        let excess = shadow.excess(limits.share_percent);
        if excess <= 0 {
            shadow.met.clear();
        }
        if excess > 100 * (i64::from(limits.needed) + i64::from(frames)) {
            let (missed, without) = (shadow.missed(), shadow.without());
            shadow.met.clear();
            if let Some(worst) = self.worst() {
                self.owners.iter_mut().find(|o| o.id == worst).unwrap().revoked = true;
                self.count(Some(worst), |tally| tally.revocations += 1);
                self.deeds.push(Deed::Revoked(worst, missed, without));
            }
        }
        // Counted to the end, also when control is given up meanwhile.
        let controlled = self.owners.iter().any(|o| o.manager.is_some());
        if self.shadow.as_ref().unwrap().met.is_empty() && (self.owners.len() < 2 || !controlled) {
            self.shadow = None;
        }
    }

    /// The owner in control that holds more frames than of the shadow, by most.
    fn worst(&self) -> Option<OwnerId> {
        let shadow = self.shadow.as_ref().unwrap();
        let held = |cache: &Twin, owner| {
            let own = |whose| whose == Whose::Manager(owner) || whose == Whose::Common(Some(owner));
            cache.cached.iter().filter(|c| own(c.whose)).count() as i64
        };
        let mut worst: Option<(i64, OwnerId)> = None;
        for owner in self.owners.iter().filter(|o| o.manager.is_some() && !o.revoked) {
            let surplus = held(self, owner.id) - held(&shadow.cache, owner.id);
            let larger = worst.is_none_or(|(most, id)| surplus > most || surplus == most && owner.id < id);
            if surplus > 0 && larger {
                worst = Some((surplus, owner.id));
            }
        }
        worst.map(|(_, id)| id)
    }

    pub(super) fn gone_in_shadow(&mut self, block: Block) {
        if let Some(shadow) = &mut self.shadow {
            shadow.cache.gone(block);
        }
    }

    pub(super) fn forget_file_in_shadow(&mut self, file: FileId) {
        if let Some(shadow) = &mut self.shadow {
            shadow.cache.forget_file(file);
        }
    }

    pub(super) fn exit_in_shadow(&mut self, owner: OwnerId) {
        if let Some(shadow) = &mut self.shadow {
            shadow.cache.exit(owner);
        }
    }
}
