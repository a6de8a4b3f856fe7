//! How the server knows what is cached of a file.

use std::sync::RwLock;

use crate::opened::Opened;
use crate::options::Order;
use crate::scheduler::Wish;
use crate::store::Store;

/// The ways to know what is cached, one for each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// The order is `fifo`: nothing is asked.
    Nothing,
    /// A steward says it exactly: that of our own cache, or that of the mount below.
    Steward,
    /// The kernel says it (`cachestat`). Where it may not tell us, a read that does not wait does.
    Kernel,
    /// The file system refuses reads that do not wait, and has no pages that the kernel could
    /// count: an overlay, NFS, FUSE. Every byte is read by a reader.
    Blind,
}

impl Knowledge {
    /// Whether a request for a piece need not wait for the disk, as far as is known.
    pub(crate) fn is_cached(self, store: &Store, file: &Opened, wish: Wish) -> bool {
        match self {
            Self::Nothing | Self::Blind => false,
            Self::Steward => store.holds(file, wish) == Some(true),
            // Where the kernel does not tell, looking is the only way to know.
            Self::Kernel => store.holds(file, wish).unwrap_or(true),
        }
    }
}

/// Finds the way for each file.
#[derive(Debug)]
pub(crate) struct Knower {
    order: Order,
    /// Devices, and whether reads that do not wait work there: hardly ever more than one.
    devices: RwLock<Vec<(u64, bool)>>,
}

impl Knower {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, devices: RwLock::default() }
    }

    /// How the server knows what is cached of this file.
    pub(crate) fn of(&self, store: &Store, file: &Opened) -> Knowledge {
        if self.order == Order::Fifo {
            Knowledge::Nothing
        } else if store.has_steward(file) {
            Knowledge::Steward
        } else if self.can_say(file) {
            Knowledge::Kernel
        } else {
            Knowledge::Blind
        }
    }

    /// Tries it once for each device.
    fn can_say(&self, file: &Opened) -> bool {
        let device = file.version.device;
        let known = self.devices.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, can_say)) = known.iter().find(|(other, _)| *other == device) {
            return *can_say;
        }
        drop(known);
        let can_say = file.can_say(0);
        self.devices.write().unwrap_or_else(std::sync::PoisonError::into_inner).push((device, can_say));
        can_say
    }
}
