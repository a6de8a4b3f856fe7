//! What a run counts.

/// Counters of one run since its start. Blocks are 4 KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SteerCounters {
    /// Events taken.
    pub events: u64,
    /// Events that the kernel lost because we were slow.
    pub events_lost: u64,
    /// References to blocks by the run's threads, hit or miss.
    pub references: u64,
    /// References to blocks that another program had brought in.
    pub foreign: u64,
    /// Blocks brought in by the run's threads and by our readahead: what was read from the device
    /// (or written anew).
    pub brought_in: u64,
    /// Blocks that our readahead brought in.
    pub read_ahead: u64,
    /// Those of them that access lists asked for.
    pub listed: u64,
    /// Access lists given up because what was read was not what they said.
    pub lists_discarded: u64,
    /// References that gave a block a place.
    pub admitted: u64,
    /// Blocks the steward gave up.
    pub drops: u64,
    /// Blocks that left the page cache for it.
    pub dropped: u64,
    /// Calls of `fadvise` for that.
    pub drop_calls: u64,
    /// Blocks with a refused drop.
    pub refused: u64,
    /// Blocks given up and used again before they were dropped.
    pub rescued: u64,
    /// Blocks of files that cannot be opened any more: left to the kernel.
    pub unreachable: u64,
    /// Blocks that the kernel or another program dropped.
    pub gone: u64,
    /// Blocks that other programs used too.
    pub shared: u64,
    /// Files found.
    pub resolved: u64,
    /// Open files with readahead that was taken over.
    pub taken_over: u64,
    /// Resynchronisations after lost events.
    pub resyncs: u64,
    /// Wrong beliefs corrected by them, in blocks.
    pub corrected: u64,
    /// Most blocks at once that the kernel had read ahead and that had no reference.
    pub ahead_peak: u64,
    /// Most blocks at once that were given up and not dropped yet.
    pub leaving_peak: u64,
    /// Most blocks at once in all.
    pub resident_peak: u64,
    /// Rounds of the reading thread.
    pub rounds: u64,
}

impl SteerCounters {
    /// References that needed no read from a device, per reference.
    pub fn hit_ratio(&self) -> f64 {
        if self.references == 0 {
            return 0.0;
        }
        1.0 - (self.brought_in.min(self.references) as f64 / self.references as f64)
    }

    /// All counters by name.
    pub fn named(&self) -> [(&'static str, u64); 25] {
        [
            ("events", self.events),
            ("events_lost", self.events_lost),
            ("references", self.references),
            ("foreign", self.foreign),
            ("brought_in", self.brought_in),
            ("read_ahead", self.read_ahead),
            ("listed", self.listed),
            ("lists_discarded", self.lists_discarded),
            ("admitted", self.admitted),
            ("drops", self.drops),
            ("dropped", self.dropped),
            ("drop_calls", self.drop_calls),
            ("drops_refused", self.refused),
            ("rescued", self.rescued),
            ("unreachable", self.unreachable),
            ("gone", self.gone),
            ("shared", self.shared),
            ("files_resolved", self.resolved),
            ("taken_over", self.taken_over),
            ("resyncs", self.resyncs),
            ("corrected", self.corrected),
            ("ahead_peak", self.ahead_peak),
            ("leaving_peak", self.leaving_peak),
            ("resident_peak", self.resident_peak),
            ("rounds", self.rounds),
        ]
    }
}
