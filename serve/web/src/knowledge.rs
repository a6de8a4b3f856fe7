//! How the server knows what is cached of a file.

use prometheus_client::metrics::counter::Counter;
use std::sync::RwLock;

use crate::opened::{Below, Opened};
use crate::options::Order;
use crate::scheduler::Wish;

/// The ways to know what is cached, one for each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// The order is `fifo`: nothing is asked.
    Nothing,
    /// The steward of the mount below says it exactly.
    Steward,
    /// The kernel says it (`cachestat`). Where it may not tell us, a read that does not wait does.
    Kernel,
    /// The file system refuses reads that do not wait, and has no pages that the kernel could
    /// count: an overlay, NFS, FUSE. Every byte is read by a reader.
    Blind,
}

/// Finds the way for each file, and asks.
#[derive(Debug)]
pub(crate) struct Knower {
    order: Order,
    /// Questions to the kernel or a mount what is there.
    asked: Counter,
    /// Devices, and whether reads that do not wait work there: hardly ever more than one.
    devices: RwLock<Vec<(u64, bool)>>,
}

impl Knower {
    pub(crate) fn new(order: Order, asked: Counter) -> Self {
        Self { order, asked, devices: RwLock::default() }
    }

    /// How the server knows what is cached of this file.
    pub(crate) fn of(&self, file: &Opened) -> Knowledge {
        if self.order == Order::Fifo {
            Knowledge::Nothing
        } else if file.below() == Below::Mount {
            Knowledge::Steward
        } else if self.try_device(file) {
            Knowledge::Kernel
        } else {
            Knowledge::Blind
        }
    }

    /// Whether a request for a piece need not wait for the disk, as far as is known.
    pub(crate) fn is_cached(&self, knowledge: Knowledge, file: &Opened, wish: Wish) -> bool {
        match knowledge {
            Knowledge::Nothing | Knowledge::Blind => false,
            Knowledge::Steward => self.ask(file, wish) == Some(true),
            // Where the kernel does not tell, looking is the only way to know.
            Knowledge::Kernel => self.ask(file, wish).unwrap_or(true),
        }
    }

    /// Asks whether all of a piece is there, and counts it; `None` where that is not told.
    pub(crate) fn ask(&self, file: &Opened, wish: Wish) -> Option<bool> {
        self.asked.inc();
        file.holds(wish.start, wish.end)
    }

    /// Whether the kernel says it: tried once for each device.
    fn try_device(&self, file: &Opened) -> bool {
        let device = file.version.device;
        let known = self.devices.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, can_say)) = known.iter().find(|(other, _)| *other == device) {
            return *can_say;
        }
        drop(known);
        let can_say = file.can_say();
        self.devices.write().unwrap_or_else(std::sync::PoisonError::into_inner).push((device, can_say));
        can_say
    }
}
