//! Lower tiers of a mount: opening them, and the threads that serve them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pantler_control::Size;
use pantler_kernel::memory::Limit;
use pantler_origin::Origin;
use pantler_steward::placement::FRAMES_TOTAL_MAX;
use pantler_tier::{SSD_BLOCKS_MAX, Seal, SsdTier, Tier, TierError, TierPlace};

use crate::content::Shelf;
use crate::stems::Stems;
use crate::{MountError, MountOptions};

#[cfg(feature = "network")]
mod servers;

/// How long orders may take that wait when a mount ends.
const DRAIN: Duration = Duration::from_secs(2);
/// Buffers for blocks on their way to each tier, in bytes.
const WAITING_BYTES: u64 = 4 << 20;

/// What happens when a tier is not there at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TierMissing {
    /// Mounting fails.
    #[default]
    Fail,
    /// The mount goes without until it is.
    Without,
}

/// The lower tiers of a mount.
#[derive(Clone)]
pub struct TierOptions {
    /// Where each is, and its size in bytes, nearest first.
    pub places: Vec<(TierPlace, u64)>,
    /// How long an answer may take: what a reader waits for a tier that breaks.
    pub timeout: Duration,
    /// What happens when one is not there at the start.
    pub missing: TierMissing,
    /// The password of servers.
    pub password: Option<String>,
    /// Passwords of servers that have another.
    pub passwords: Vec<((String, u16), String)>,
    /// The authority that servers' certificates are checked with, in PEM.
    pub authority: Option<PathBuf>,
    /// What stands for the device of the origin in names, so that several machines share what they
    /// see of one origin.
    pub origin_name: Option<String>,
    /// How blocks are protected.
    pub seal: Seal,
    /// Most memory for what is known of blocks in tiers; what limits of memory leave beside the
    /// cache, where nothing is said.
    pub index_bytes_max: Option<u64>,
}

impl Default for TierOptions {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            timeout: Duration::from_millis(250),
            missing: TierMissing::Fail,
            password: None,
            passwords: Vec::new(),
            authority: None,
            origin_name: None,
            seal: Seal::Checksum,
            index_bytes_max: None,
        }
    }
}

impl TierOptions {
    /// Buffers that all tiers together take from the cache; none where there are no tiers.
    pub(crate) fn waiting_buffers(&self, cache_bytes: u64, block_bytes: usize) -> u32 {
        let bytes = (WAITING_BYTES * self.places.len() as u64).min(cache_bytes / 8);
        (bytes / block_bytes.max(1) as u64).max(self.places.len() as u64) as u32
    }
}

/// A tier that was opened, and whether it works.
type Opened = (Arc<dyn Tier>, bool);

pub(crate) fn open(options: &MountOptions) -> Result<Vec<Opened>, MountError> {
    let mut opened = Vec::new();
    check_frames(options)?;
    check_index(options, Limit::here().bytes)?;
    check_once(options)?;
    check_order(options)?;
    for (place, bytes) in &options.tiers.places {
        match open_one(options, place, *bytes) {
            Ok(one) => opened.push(one),
            // One on this machine is not taken up later.
            Err(MountError::Tier(error @ TierError::File { .. }))
                if options.tiers.missing == TierMissing::Without =>
            {
                tracing::warn!(%error, "going without it");
            }
            Err(error) => {
                unmake(&opened);
                return Err(error);
            }
        }
    }
    Ok(opened)
}

/// Nothing is left behind of tiers that are not used after all.
pub(crate) fn unmake(opened: &[Opened]) {
    opened.iter().rev().for_each(|(tier, _)| tier.unmake());
}

/// One that is named twice would take every block for two, and be asked for each twice.
fn check_once(options: &MountOptions) -> Result<(), MountError> {
    let places = &options.tiers.places;
    for (at, (place, _)) in places.iter().enumerate() {
        if let Some((before, _)) = places[..at].iter().find(|(before, _)| before.is_same(place)) {
            let text = format!("tier {place}: expected each tier once, and tier {before} is the same");
            return Err(MountError::Option(text));
        }
    }
    Ok(())
}

/// Tiers of this machine come first.
fn check_order(options: &MountOptions) -> Result<(), MountError> {
    let mut is_shared = false;
    for (place, _) in &options.tiers.places {
        let is_own = matches!(place, TierPlace::Ssd(_));
        if is_own && is_shared {
            let text = format!("tier {place}: expected tiers of this machine before those that others share");
            return Err(MountError::Option(text));
        }
        is_shared |= !is_own;
    }
    Ok(())
}

/// Placement numbers frames. Sizes that are too large are refused in the words of the option,
/// before anything is made.
fn check_frames(options: &MountOptions) -> Result<(), MountError> {
    let block_bytes = options.block_bytes.max(1) as u64;
    let mut left = FRAMES_TOTAL_MAX.saturating_sub(options.cache_bytes / block_bytes);
    for (place, bytes) in &options.tiers.places {
        let frames = bytes / block_bytes;
        let (typed, blocks) = (Size::new(*bytes), Size::new(block_bytes));
        let refused = |whose: &str, most: u64| {
            Err(MountError::Option(format!(
                "tier {place} of {typed}: {frames} blocks of {blocks}, but {whose} can have {most}; \
                 make it smaller, or blocks larger (--block-size)"
            )))
        };
        if matches!(place, TierPlace::Ssd(_)) && frames > SSD_BLOCKS_MAX {
            return refused("one on this machine", SSD_BLOCKS_MAX);
        }
        if frames > left {
            return refused("all tiers together", FRAMES_TOTAL_MAX);
        }
        left -= frames;
    }
    Ok(())
}

/// The index of blocks in tiers is kept in memory, beside the cache: that must be there before it
/// is needed.
fn check_index(options: &MountOptions, memory_bytes: u64) -> Result<(), MountError> {
    let block_bytes = options.block_bytes.max(1) as u64;
    let limit =
        options.tiers.index_bytes_max.unwrap_or_else(|| memory_bytes.saturating_sub(options.cache_bytes));
    let (mut tiers, mut own) = (Vec::new(), 0_u64);
    for (place, bytes) in &options.tiers.places {
        let frames = bytes / block_bytes;
        tiers.push(frames);
        own = own.saturating_add(place.index_bytes_max(frames));
        let needed = pantler_cache::tier_index_bytes_max(options.cache_bytes / block_bytes, &tiers);
        let needed = needed.saturating_add(own);
        if needed > limit {
            let typed = Size::new(*bytes);
            let (needed, limit) = (rounded(needed), Size::new(limit));
            let whose = match options.tiers.index_bytes_max {
                Some(_) => format!("--tier-index {limit}"),
                None => format!("the {limit} that there is beside the cache"),
            };
            return Err(MountError::Option(format!(
                "tier {place} of {typed}: what is known of its blocks takes up to {needed} of memory, more than \
                 {whose}; make it smaller, or blocks larger (--block-size)"
            )));
        }
    }
    Ok(())
}

/// As much in whole MiB, or a little more.
fn rounded(bytes: u64) -> Size {
    Size::new(bytes.div_ceil(1 << 20).saturating_mul(1 << 20))
}

fn open_one(options: &MountOptions, place: &TierPlace, bytes: u64) -> Result<Opened, MountError> {
    #[cfg(feature = "network")]
    if let TierPlace::Remote { .. } = place {
        return servers::open(options, place, bytes);
    }
    let TierPlace::Ssd(path) = place else {
        return Err(MountError::Option(format!("tier {place}: this build has no `network` feature")));
    };
    let TierOptions { timeout, seal, .. } = &options.tiers;
    let tier = SsdTier::open(path, bytes, options.block_bytes, seal.clone()).map_err(tier_error)?;
    Ok((Arc::new(tier.within(*timeout)), true))
}

fn tier_error(error: TierError) -> MountError {
    match error {
        TierError::Invalid(text) => MountError::Option(text),
        TierError::Space { path, bytes, free } => {
            let (path, typed, free) = (path.display(), Size::new(bytes), Size::new(free).rounded());
            MountError::Option(format!(
                "tier {path} of {typed}: the file system has {free} free; make it smaller"
            ))
        }
        error => MountError::Tier(error),
    }
}

/// How tiers call versions of files. `None` where there are no tiers.
pub(crate) fn stems(options: &MountOptions, origin: &Origin) -> Option<Stems> {
    let tiers = &options.tiers;
    let made = || {
        let name = tiers.origin_name.clone();
        Stems::new(&tiers.seal, name, origin.identity(), options.block_bytes as u32)
    };
    (!tiers.places.is_empty()).then(made)
}

/// Threads that serve tiers.
#[derive(Default)]
pub(crate) struct TierThreads {
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl TierThreads {
    /// One for each tier of the cache.
    pub(crate) fn start(&self, shelf: &Arc<Shelf>) -> std::io::Result<()> {
        for number in 0..shelf.cache.tiers() {
            let shelf = Arc::clone(shelf);
            let thread = std::thread::Builder::new().name(format!("pantler-tier-{}", number + 2));
            let thread = thread.spawn(move || shelf.cache.serve_tier(number))?;
            self.threads.lock().expect("no thread panics with threads").push(thread);
        }
        Ok(())
    }

    /// Ends them, after what waits if that does not take long. Else it is dropped: the origin has
    /// it.
    pub(crate) fn stop(&self, shelf: &Shelf) {
        let threads = std::mem::take(&mut *self.threads.lock().expect("no thread panics with threads"));
        if threads.is_empty() {
            return;
        }
        if shelf.cache.drain_tiers(DRAIN) {
            shelf.cache.stop_tiers();
        } else {
            tracing::info!("a tier is slow: what waits for it is dropped");
            shelf.cache.abandon_tiers();
        }
        for thread in threads {
            // It may have been ended by a panic of its own, which was reported where it happened.
            let _ = thread.join();
        }
        shelf.cache.close_tiers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_whose_blocks_cannot_be_known_is_refused_with_its_size_and_the_remedy() {
        let place = |text: &str| (TierPlace::Ssd(text.into()), 64 << 30);
        let options = |block_bytes, index_bytes_max| {
            let mut options = MountOptions { block_bytes, ..MountOptions::new("/", "/mnt") };
            options.tiers.places = vec![place("/a"), place("/b")];
            options.tiers.index_bytes_max = index_bytes_max;
            options
        };
        let refused = |options: &MountOptions, memory| check_index(options, memory).unwrap_err().to_string();
        assert!(check_index(&options(1 << 20, None), 1 << 30).is_ok());
        let error = refused(&options(1 << 16, None), 1 << 30);
        assert!(
            error.starts_with("tier ssd:/a of 64G: ") || error.starts_with("tier ssd:/b of 64G: "),
            "{error}"
        );
        assert!(
            error.contains("768M that there is beside the cache") && error.ends_with("(--block-size)"),
            "{error}"
        );
        let bound = refused(&options(1 << 16, Some(100 << 20)), 1 << 40);
        assert!(bound.contains("more than --tier-index 100M;") && bound.lines().count() == 1, "{bound}");
        assert!(check_index(&options(1 << 16, Some(4 << 30)), 1 << 20).is_ok(), "who says so has it");
    }
}
