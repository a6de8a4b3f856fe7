//! Disks in virtual time: how long a read takes, and which is served next.
//!
//! ```text
//!   arm    time = seek(distance) + rotation + blocks × transfer        seek ~ root of the distance
//!          ahead and near: read through what lies between, if that is faster
//!          where the last read ended: the transfer only
//!   fixed  time = latency, with a number of reads at once
//! ```
//!
//! A disk has a queue of its own, served as reads came: the scheduler has sorted them. What is
//! served is not interrupted.
//!
//! Seeks take `min + (max − min) · √(distance / size)`; of two random places √distance is 8/15 on
//! average, so that gives the average that data sheets name. Every read that has to seek waits half
//! a turn.

use std::collections::VecDeque;
use std::str::FromStr;

/// How a disk serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskModel {
    /// One arm.
    Arm {
        /// Blocks of the disk: the longest seek.
        blocks: u64,
        /// The shortest seek.
        seek_min_ns: u64,
        /// The longest.
        seek_max_ns: u64,
        /// Half a turn.
        rotation_ns: u64,
        /// Reading one block.
        transfer_ns: u64,
    },
    /// The same time for every read, of any number of blocks.
    Fixed {
        /// That time.
        latency_ns: u64,
        /// Reads served at once, at least 1.
        parallel: u32,
    },
}

/// Disks by name, and what they are: docs/decisions/0115-disks-and-times-by-name.md.
pub const DISKS: [(&str, &str, DiskModel); 5] = [
    ("rz56", "the ACFS paper's first, 8 KB blocks", DiskModel::arm(81_176, 16_000_000, 8_300_000, 4_370_000)),
    ("rz26", "its second", DiskModel::arm(128_174, 10_500_000, 5_540_000, 2_480_000)),
    ("hdd", "a hard disk of today, 64 KB blocks", DiskModel::arm(61_035_156, 8_500_000, 4_170_000, 330_000)),
    ("ssd", "a flash disk: 32 reads at once", DiskModel::Fixed { latency_ns: 100_000, parallel: 32 }),
    ("figure-1", "of the paper's figure 1", DiskModel::Fixed { latency_ns: 4_000_000, parallel: 1 }),
];

impl DiskModel {
    /// An arm with an average seek, times in nanoseconds.
    pub const fn arm(blocks: u64, seek_average_ns: u64, rotation_ns: u64, transfer_ns: u64) -> Self {
        let seek_min_ns = seek_average_ns / 4;
        let seek_max_ns = seek_min_ns + (seek_average_ns - seek_min_ns) * 15 / 8;
        Self::Arm { blocks, seek_min_ns, seek_max_ns, rotation_ns, transfer_ns }
    }

    /// Blocks of the disk, as far as that matters.
    pub const fn blocks(&self) -> u64 {
        match self {
            Self::Arm { blocks, .. } => *blocks,
            Self::Fixed { .. } => 0,
        }
    }

    /// Time to read `count` blocks at `position` when the last read ended at `head`.
    pub fn service_ns(&self, head: u64, position: u64, count: u32) -> u64 {
        match *self {
            Self::Fixed { latency_ns, .. } => latency_ns,
            Self::Arm { blocks, seek_min_ns, seek_max_ns, rotation_ns, transfer_ns } => {
                let transfer = u64::from(count).saturating_mul(transfer_ns);
                let distance = position.abs_diff(head);
                if distance == 0 {
                    return transfer;
                }
                // √(distance / size) in steps of 2⁻¹⁶.
                let share = (u128::from(distance) << 32) / u128::from(blocks.max(distance).max(1));
                let root = (share as u64).isqrt();
                let seek = seek_min_ns + (((seek_max_ns - seek_min_ns) * root) >> 16);
                let reach = seek + rotation_ns;
                let through = if position > head { distance.saturating_mul(transfer_ns) } else { u64::MAX };
                reach.min(through).saturating_add(transfer)
            }
        }
    }

    fn parallel(&self) -> u32 {
        match self {
            Self::Arm { .. } => 1,
            Self::Fixed { parallel, .. } => (*parallel).max(1),
        }
    }
}

impl FromStr for DiskModel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        DISKS.into_iter().find(|(name, ..)| *name == text).map(|(_, _, model)| model).ok_or(())
    }
}

/// A read that a disk was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) tag: u64,
    pub(super) position: u64,
    pub(super) count: u32,
}

/// A disk at work.
#[derive(Debug)]
pub(super) struct Disk {
    model: DiskModel,
    /// Where the last read ended.
    head: u64,
    queue: VecDeque<Read>,
    serving: u32,
}

impl Disk {
    pub(super) fn new(model: DiskModel) -> Self {
        Self { model, head: 0, queue: VecDeque::new(), serving: 0 }
    }

    pub(super) fn submit(&mut self, read: Read) {
        self.queue.push_back(read);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.serving > 0
    }

    /// Begins to serve a read, if one waits and the disk can. Returns its tag, and how long that
    /// takes.
    pub(super) fn start(&mut self) -> Option<(u64, u64)> {
        if self.serving >= self.model.parallel() {
            return None;
        }
        let read = self.queue.pop_front()?;
        self.serving += 1;
        let took = self.model.service_ns(self.head, read.position, read.count);
        self.head = read.position.saturating_add(u64::from(read.count));
        Some((read.tag, took))
    }

    /// A read has been served.
    pub(super) fn served(&mut self) {
        self.serving -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RZ56: DiskModel = DiskModel::arm(81_176, 16_000_000, 8_300_000, 4_370_000);

    #[test]
    fn an_arm_seeks_turns_and_reads() {
        assert_eq!("rz56".parse(), Ok(RZ56));
        // Where it stands: the transfer only; two blocks ahead it reads through.
        assert_eq!(RZ56.service_ns(100, 100, 3), 3 * 4_370_000);
        assert_eq!(RZ56.service_ns(100, 102, 1), 3 * 4_370_000);
        // The whole way: the longest seek, 26.5 ms.
        assert_eq!(RZ56.service_ns(0, 81_176, 0), 26_500_000 + 8_300_000);
        // Of random places the average is what the data sheet says.
        let mut random = pantler_trace::generate::Draws::new(1);
        let (mut head, mut sum) = (0, 0);
        for _ in 0..20_000 {
            let position = random.below(81_176);
            sum += RZ56.service_ns(head, position, 0);
            head = position;
        }
        let average = sum / 20_000 - 8_300_000;
        assert!(average.abs_diff(16_000_000) < 200_000, "{average} ns");
    }

    #[test]
    fn names_mean_disks_or_are_refused() {
        for (name, _, model) in DISKS {
            assert_eq!(name.parse(), Ok(model));
        }
        assert!("rz65".parse::<DiskModel>().is_err());
    }

    #[test]
    fn the_queue_is_served_in_order() {
        let order = |model: &str| {
            let mut disk = Disk::new(model.parse().unwrap());
            for position in [50, 10, 70, 60] {
                disk.submit(Read { tag: position, position, count: 1 });
            }
            let mut order = Vec::new();
            while let Some((tag, _)) = disk.start() {
                order.push(tag);
                assert!(disk.is_busy());
                disk.served();
            }
            order
        };
        assert_eq!(order("rz56"), [50, 10, 70, 60]);
        let mut flash = Disk::new(DiskModel::Fixed { latency_ns: 5, parallel: 2 });
        for tag in 0..3 {
            flash.submit(Read { tag, position: 0, count: 1 });
        }
        assert_eq!([flash.start(), flash.start(), flash.start()], [Some((0, 5)), Some((1, 5)), None]);
    }
}
