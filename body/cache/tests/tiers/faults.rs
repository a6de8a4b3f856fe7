//! Placement stays right through changes of names, failures, and blocks that leave while they come.

use pantler_rig::eventually;
use pantler_steward::Lookahead;

use super::*;

/// A tier that has nothing, and notes what it is asked for and given.
#[derive(Default)]
pub struct Notes {
    pub asked: Mutex<Vec<Key>>,
    pub given: Mutex<Vec<(Key, Duration)>>,
}

impl Tier for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn retrieve(&self, wanted: &[Wanted], _: &mut dyn FnMut(usize, &[u8])) -> Result<(), TierError> {
        self.asked.lock().unwrap().extend(wanted.iter().map(|one| one.key));
        Ok(())
    }

    fn put(&self, given: &[Given<'_>]) -> Result<(), TierError> {
        self.given.lock().unwrap().extend(given.iter().map(|one| (one.key, one.age)));
        Ok(())
    }

    fn remove(&self, _: &[Key]) -> Result<(), TierError> {
        Ok(())
    }

    fn news(&self) -> News {
        News::default()
    }

    fn is_own(&self) -> bool {
        false
    }

    fn frames(&self, _: usize) -> u32 {
        40
    }

    fn heal(&self) -> Result<(), TierError> {
        Ok(())
    }

    fn damaged(&self) -> u64 {
        0
    }
}

/// Done also where a test fails, so that no thread waits for ever.
struct Finally<F: FnMut()>(F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Their age was that of their last use under that name, for as long as they were used: the oldest
/// in tier 1 for good, beside which every other block looked young enough for it.
#[test]
fn what_is_kept_under_an_old_name_is_as_young_as_its_last_use() {
    let folder = tempfile::tempdir().unwrap();
    let cached = Cached::new(10, vec![ssd(folder.path(), 60)]);
    let origin = Origin::new();
    (1..=2).for_each(|file| cached.share(file, file));
    (0..4).for_each(|index| drop(cached.read(&origin, 1, index)));
    // We change the file, and what is in memory is kept in step.
    cached.cache.share(FileId(1), None);
    cached.share(1, 3);
    let pass = || {
        for index in 0..40 {
            cached.read(&origin, 2, index);
            cached.read(&origin, 1, index % 4);
        }
    };
    (0..4).for_each(|_| pass());
    let demotions = || cached.cache.tier_stats()[0].demotions;
    let before = demotions();
    pass();
    let moved = demotions() - before;
    assert!(moved <= 4, "{moved} of 40 blocks of a loop moved");
}

/// A frame that was given to another block while its bytes were in flight is asked for that one by
/// the thread that brings it.
#[test]
fn what_left_while_it_came_is_looked_for_by_nobody() {
    let notes = Arc::new(Notes::default());
    let cached = Cached::new(4, vec![Arc::clone(&notes) as _]);
    let origin = Origin::new();
    cached.share(1, 1);
    origin.bad.store(1, Ordering::SeqCst);
    origin.hold(0);
    std::thread::scope(|scope| {
        let _released = Finally(|| origin.release());
        // Reads both, and the first alone when that failed.
        scope.spawn(|| assert_eq!(cached.read_some(&origin, 1, 0, 2).unwrap(), content(1, 0)));
        eventually("the first waits", || origin.waiting.load(Ordering::SeqCst) == 1);
        cached.cache.void(FileId(1), 0, u64::MAX);
        scope.spawn(|| assert_eq!(cached.read_some(&origin, 1, 10, 4).unwrap(), content(1, 10)));
        eventually("the other waits", || origin.waiting.load(Ordering::SeqCst) == 2);
        origin.release();
    });
    let asked = notes.asked.lock().unwrap();
    let others: Vec<u64> = asked.iter().map(|key| key.index).filter(|index| *index >= 10).collect();
    assert_eq!(others, [10, 11, 12, 13]);
}

/// More blocks than fit, all in flight: the oldest gives way, whatever its file is called by then.
#[test]
fn who_gives_way_on_its_way_does_under_an_old_name_too() {
    let cached = Cached::new(4, vec![Arc::new(Notes::default())]);
    let origin = Origin::new();
    (1..=2).for_each(|file| cached.share(file, file));
    origin.hold(0);
    let waiting = |count| eventually("they wait", || origin.waiting.load(Ordering::SeqCst) == count);
    let references = || cached.cache.with_steward(|steward| steward.totals().hits + steward.totals().misses);
    std::thread::scope(|scope| {
        let _released = Finally(|| origin.release());
        let read = |file, index| {
            let before = references();
            let (cached, origin) = (&cached, &origin);
            scope.spawn(move || assert_eq!(cached.read_now(origin, file, index), content(1, index)));
            eventually("it is referenced", || references() > before);
        };
        (0..4).for_each(|index| read(1, index));
        // Tier 1 is full: this one passes.
        read(2, 4);
        waiting(5);
        // Once more, which is another reference after that of another block: now it is wanted in
        // tier 1.
        read(1, 0);
        cached.cache.share(FileId(1), None);
        read(2, 4);
        cached.cache.validate();
        origin.release();
    });
    cached.cache.validate();
}

/// A reader that waits for a prefetch has it placed. When it fails, its frame is free.
#[test]
fn a_prefetch_that_fails_takes_its_place_back() {
    let cached = Cached::choosing(12, Some(4), vec![Arc::new(Notes::default())], |options| {
        (options.lookahead, options.window) = (Lookahead::Obl, 4);
    });
    let origin = Origin::new();
    (1..=2).for_each(|file| cached.share(file, file));
    // Tier 1 is full: others pass.
    (0..20).for_each(|index| drop(cached.read(&origin, 2, 10 * index)));
    std::thread::scope(|scope| {
        let _ended = Finally(|| {
            cached.cache.stop_prefetches();
            origin.release();
        });
        scope.spawn(|| cached.cache.serve_prefetches());
        eventually("a worker", || cached.cache.prefetch_workers() == 1);
        origin.hold(1);
        cached.read_some(&origin, 1, 0, 1).unwrap();
        eventually("what is fetched ahead", || origin.waiting.load(Ordering::SeqCst) == 1);
        let reader = scope.spawn(|| cached.read_some(&origin, 1, 1, 1).unwrap_err());
        eventually("a reader waits for it", || cached.cache.activity().sleepers > 0);
        origin.fails.store(true, Ordering::SeqCst);
        origin.release();
        reader.join().unwrap();
    });
    cached.cache.validate();
}

/// They went down with the age of the mount.
#[test]
fn blocks_from_before_a_restart_are_as_old_as_they_are() {
    const HOUR: Duration = Duration::from_secs(3600);
    let folder = tempfile::tempdir().unwrap();
    let near = ssd(folder.path(), 20);
    let stem = Stem::new(None, BLOCK as u32, [&1u64.to_le_bytes()[..]]);
    for index in 0..20 {
        let (key, age) = (stem.block(index), HOUR * (20 - index as u32));
        near.put(&[Given { key, bytes: &[7; BLOCK], why: Put::Keep, age }]).unwrap();
    }
    near.close();
    drop(near);
    let notes = Arc::new(Notes::default());
    let cached = Cached::new(10, vec![ssd(folder.path(), 20), Arc::clone(&notes) as _]);
    cached.share(1, 1);
    let origin = Origin::new();
    (0..2).for_each(|_| (100..160).for_each(|index| drop(cached.read(&origin, 1, index))));
    let given = notes.given.lock().unwrap();
    let before: Vec<_> = given.iter().filter(|(key, _)| key.index < 20).collect();
    assert!(before.len() > 10, "{} went down", before.len());
    for (key, age) in before {
        let hours = 20 - key.index as u32;
        assert!(
            (HOUR * hours..HOUR * hours + HOUR / 2).contains(age),
            "{key} is {age:?} old, not {hours} hours"
        );
    }
    let young = given.iter().filter(|(key, _)| key.index >= 100).map(|(_, age)| *age).max();
    assert!(young.unwrap() < HOUR / 2, "{young:?}");
}
