//! Owners that lost control (L7), as a body remembers and tells them.

use std::collections::VecDeque;

use pantler_steward::{Notice, OwnerId};

use crate::RevocationStat;

/// Revocations that are remembered; older ones are forgotten, and only counted.
const REVOCATIONS_MAX: usize = 64;

/// The last revocations of a body. The log of the host has each, and so have the counters of the
/// body.
#[derive(Debug, Default)]
pub struct Revocations {
    last: VecDeque<(OwnerId, RevocationStat)>,
    count: u64,
}

impl Revocations {
    /// Takes in what the steward said of an owner.
    pub fn note(&mut self, id: OwnerId, notice: Notice, owner: String, uid: Option<u32>) {
        let Notice::Revoked { missed, without } = notice else { return };
        tracing::warn!(owner, missed, without, "lost control: programs beside it missed too much");
        if self.last.len() == REVOCATIONS_MAX {
            self.last.pop_front();
        }
        let number = self.count;
        self.last.push_back((id, RevocationStat { number, owner, uid, missed, without, granted: false }));
        self.count += 1;
    }

    /// An owner was granted control.
    pub fn grant(&mut self, id: OwnerId) {
        for (_, one) in self.last.iter_mut().filter(|(owner, _)| *owner == id) {
            tracing::info!(owner = one.owner, "granted control");
            one.granted = true;
        }
    }

    /// Oldest first.
    pub fn stats(&self) -> Vec<RevocationStat> {
        self.last.iter().map(|(_, stat)| stat.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_and_numbered() {
        let mut revocations = Revocations::default();
        for owner in 0..=REVOCATIONS_MAX as u64 {
            let notice = Notice::Revoked { missed: 10, without: 9 };
            revocations.note(OwnerId(owner), notice, format!("o{owner}"), None);
        }
        revocations.grant(OwnerId(1));
        let stats = revocations.stats();
        assert_eq!((stats.len(), stats[0].number, &*stats[0].owner), (REVOCATIONS_MAX, 1, "o1"));
        assert!(stats[0].granted && stats[1..].iter().all(|stat| !stat.granted));
    }
}
