//! What a run counts.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one run since its start. Blocks are pages.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct SteerCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl SteerCounters {
            /// All counters by name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Events taken.
    events,
    /// Events that the kernel lost because we were slow.
    events_lost,
    /// References to blocks by the run's threads, hit or miss.
    references,
    /// References to blocks that another program had brought in.
    foreign,
    /// Those of them to mapped pages, such as those of libraries. Pages around one that is mapped
    /// count if they are in no memory, too.
    foreign_mapped,
    /// Blocks brought in by the run's threads and by our readahead: what was read from the device
    /// (or written anew).
    brought_in,
    /// Blocks that our readahead brought in.
    read_ahead,
    /// Those of them that access lists asked for.
    listed,
    /// Access lists given up because what was read was not what they said.
    lists_discarded,
    /// Calls of `posix_fadvise` and `readahead` by the run's programs that were heeded.
    advised,
    /// References that gave a block a place.
    admitted,
    /// Blocks the steward gave up.
    drops,
    /// Blocks that left the page cache for it.
    dropped,
    /// Calls of `fadvise` for that.
    drop_calls,
    /// Blocks with a refused drop.
    drops_refused,
    /// Blocks given up and used again before they were dropped.
    rescued,
    /// Blocks of files that cannot be opened any more: left to the kernel.
    unreachable,
    /// Blocks that the kernel or another program dropped.
    gone,
    /// Blocks that other programs used too.
    shared,
    /// Files found.
    files_resolved,
    /// Open files with readahead that was taken over.
    taken_over,
    /// Times that all beliefs were checked: after lost events, and where events come again.
    resyncs,
    /// Wrong beliefs corrected by them, in blocks.
    corrected,
    /// Most blocks at once that the kernel had read ahead and that had no reference.
    ahead_peak,
    /// Most blocks at once that were given up and not dropped yet.
    leaving_peak,
    /// Most blocks at once in all.
    resident_peak,
    /// Rounds of the reading thread.
    rounds,
}

impl SteerCounters {
    /// References that needed no read from a device, per reference.
    pub fn hit_ratio(&self) -> f64 {
        if self.references == 0 {
            return 0.0;
        }
        1.0 - (self.brought_in.min(self.references) as f64 / self.references as f64)
    }
}
