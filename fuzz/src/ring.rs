//! Arbitrary bytes as what a program writes into its ring: into entries, and over all of it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use pantler_control::ring::{ENTRIES, ENTRY_WORDS, Entry, RingReader, WORDS, Words};
use pantler_control::{Hint, PolicyName};
use pantler_kernel::shared::SharedWords;

/// Arbitrary bytes as the words of a ring.
///
/// # Panics
///
/// If something is wrong.
pub fn words(bytes: &[u8]) {
    let word = |part: &[u8]| u64::from_le_bytes(part.try_into().expect("eight bytes"));
    let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
    for part in words.chunks_exact(ENTRY_WORDS) {
        let part: Words = part.try_into().expect("the words of an entry");
        if let Ok(entry) = Entry::decode(&part) {
            assert_eq!(entry.encode(), Some(part), "two encodings of one entry");
            assert!(entry.hint.check().is_ok() && entry.file.is_some() == entry.hint.path().is_some());
        }
    }
    let (shared, file) = SharedWords::create(c"fuzz", WORDS).expect("memory");
    let mut reader = RingReader::open(file.as_fd()).expect("a ring");
    let (mut taken, mut believed) = (0u64, true);
    for most in [0, 1, ENTRIES, usize::MAX] {
        for (place, word) in shared.iter().zip(&words) {
            place.store(*word, Ordering::Relaxed);
        }
        let head = words.first().copied().unwrap_or(0);
        let mut count = 0;
        let told = reader.take(most, |entry| {
            count += 1;
            let _ = Entry::decode(&entry);
        });
        assert_eq!(told.is_ok(), head.wrapping_sub(taken) <= ENTRIES as u64, "a lie is found out");
        assert!(count <= most.min(ENTRIES) && (told.is_ok() || count == 0));
        taken += count as u64;
        believed &= told.is_ok();
    }
    assert!(!believed || taken == words.first().copied().unwrap_or(0), "all that was written was taken");
}

/// Rings to begin with: a head, and entries.
pub fn rings() -> Vec<Vec<u8>> {
    let (path, policy) = (std::path::PathBuf::new(), PolicyName::Mru);
    let hints = [
        (Some(0), Hint::SetPriority { path: path.clone(), priority: -3 }),
        (None, Hint::SetPolicy { priority: 1, policy }),
        (Some(7), Hint::SetTemporaryPriority { path: path.clone(), first: 1, last: 9, priority: 2 }),
        (Some(255), Hint::DoneWith { path, first: 0, end: u64::MAX }),
    ];
    let entries: Vec<Words> =
        hints.into_iter().filter_map(|(file, hint)| Entry { time_ns: 5, file, hint }.encode()).collect();
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let ring = |head| bytes(&[&[head][..], &[0; 15], &entries.concat()].concat());
    // The end of a number that wraps, too.
    let mut samples: Vec<Vec<u8>> = [0, 4, 256, 257, u64::MAX].map(ring).into();
    samples.extend(entries.iter().map(|entry| bytes(entry)));
    samples
}
