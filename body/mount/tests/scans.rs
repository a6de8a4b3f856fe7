//! Scans as users make them: a file larger than memory, read twice over a tier with the options
//! that a mount has by itself, counted at the origin.

mod common;

use std::fs;
use std::io::{self, IoSliceMut, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Fixture, cannot_mount, pattern};
use pantler_mount::{Interpose, Lookahead, MountOptions};
use pantler_origin::Source;
use pantler_tier::TierPlace;

const BLOCK: u64 = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes that were read of the origin.
struct Counted {
    source: Arc<dyn Source>,
    bytes: Arc<AtomicU64>,
}

impl Source for Counted {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let count = self.source.read_at(offset, buffers)?;
        self.bytes.fetch_add(count as u64, Ordering::SeqCst);
        Ok(count)
    }
}

/// Bytes of the origin that two passes over a file of `bytes` bytes read, blocks that all tiers
/// hold, and what was dropped.
fn two_passes(
    bytes: u64,
    cache: u64,
    tier: u64,
    lookahead: Lookahead,
) -> ([u64; 2], u64, pantler_control::TierStat) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&read);
    let interpose: Interpose =
        Arc::new(move |source| Arc::new(Counted { source, bytes: Arc::clone(&counted) }));
    let fixture = Fixture::with(|options| {
        let mut plain = MountOptions::new(options.origin.clone(), options.mountpoint.clone());
        (plain.cache_bytes, plain.lookahead) = (cache, lookahead);
        // However busy the disk is.
        plain.tiers.timeout = PATIENCE;
        plain.tiers.places = vec![(TierPlace::Ssd(folder.path().join("tier")), tier)];
        plain.interpose = Some(interpose);
        *options = plain;
    });
    let content = pattern(bytes as usize, 1);
    fs::write(fixture.origin.join("f"), &content).unwrap();
    let passes = [(), ()].map(|()| {
        let before = read.load(Ordering::SeqCst);
        let mut file = fs::File::open(fixture.mnt.join("f")).unwrap();
        let mut piece = vec![0; 128 << 10];
        for expected in content.chunks(piece.len()) {
            let piece = &mut piece[..expected.len()];
            file.read_exact(piece).unwrap();
            assert!(piece == expected);
        }
        assert!(fixture.mounted().drain_tiers(PATIENCE));
        read.load(Ordering::SeqCst) - before
    });
    let stat = fixture.mounted().tiers().remove(0);
    assert_eq!(stat.damaged + stat.failures, 0, "{stat:?}");
    let held = u64::from(fixture.mounted().counters().capacity_blocks) + stat.capacity_blocks;
    println!(
        "{bytes} bytes, {cache} + {tier}, {lookahead:?}: passes read {passes:?}; tiers hold {held} blocks; {stat:?}"
    );
    (passes, held, stat)
}

#[test]
fn a_second_scan_reads_from_the_origin_what_no_tier_could_hold() {
    if cannot_mount() {
        return;
    }
    // What is looked ahead comes in bursts, and what finds no buffer on its way down is dropped (B3
    // of the cache): each such block may have to be read again.
    let plain = MountOptions::new("/", "/nowhere").lookahead;
    for lookahead in [plain, Lookahead::None] {
        for (bytes, cache, tier) in [(32 << 20, 8 << 20, 16 << 20), (96 << 20, 16 << 20, 64 << 20)] {
            let (passes, held, stat) = two_passes(bytes, cache, tier, lookahead);
            // What waits, looked ahead, has up to an eighth of tier 1.
            let waiting = if lookahead == Lookahead::None { 0 } else { (held - stat.capacity_blocks) / 8 };
            let (most, dropped) = (bytes - (held - waiting) * BLOCK, stat.dropped);
            println!("  at most {most}, {dropped} dropped");
            assert!(passes[1] <= most + dropped * BLOCK, "{passes:?}, {most}");
            // What is there already is not put there again.
            let put = stat.placements + stat.demotions;
            assert!(put <= stat.capacity_blocks + stat.capacity_blocks / 8 + dropped, "{stat:?}");
        }
    }
}
