//! Descriptors that read past the page cache, a bounded number for all open files.
//!
//! P1  At most [`bound`] of them are open beside those that a read under way uses: to make one more
//!     closes the oldest.
//! P2  None outlives the open file that it is for.

use lru::LruCache;
use rustix::io::Errno;
use std::fs::File;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};

/// One of this number of descriptors of the process is for these, within [`BOUNDS`].
const ONE_OF: u64 = 16;
const BOUNDS: (u64, u64) = (8, 1024);

/// All that are open, by address; the oldest makes room.
static OPEN: LazyLock<Mutex<LruCache<usize, Arc<File>>>> =
    LazyLock::new(|| Mutex::new(LruCache::new(bound())));

/// The one of an open file: made at the first read, and again at the first read after it was closed
/// for others.
#[derive(Debug, Default)]
pub(super) struct PastCache(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Closed,
    /// The file system has none.
    Absent,
    In(Weak<File>),
}

impl PastCache {
    /// The descriptor; `open` makes it. `None` where the file system lacks that, or descriptors are
    /// used up.
    pub(super) fn get(&self, open: impl FnOnce() -> rustix::io::Result<File>) -> Option<Arc<File>> {
        let mut state = lock(&self.0);
        match &*state {
            State::Absent => return None,
            State::In(file) => {
                if let Some(file) = file.upgrade() {
                    return Some(file);
                }
            }
            State::Closed => {}
        }
        match open() {
            Ok(file) => {
                let file = Arc::new(file);
                // No other has its address while this knows it.
                let closed = lock(&OPEN).push(Arc::as_ptr(&file) as usize, Arc::clone(&file));
                drop(closed);
                *state = State::In(Arc::downgrade(&file));
                Some(file)
            }
            Err(Errno::MFILE | Errno::NFILE) => None,
            Err(_) => {
                *state = State::Absent;
                None
            }
        }
    }
}

impl Drop for PastCache {
    fn drop(&mut self) {
        let State::In(file) = &*lock(&self.0) else { return };
        let closed = lock(&OPEN).pop(&(file.as_ptr() as usize));
        drop(closed);
    }
}

fn bound() -> NonZeroUsize {
    let limit = pantler_kernel::limits::descriptors() as u64;
    let bound = (limit / ONE_OF).clamp(BOUNDS.0, BOUNDS.1) as usize;
    NonZeroUsize::new(bound).expect("the bounds are above 0")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while one is opened")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_open_files_have_a_bounded_number_and_read_all_the_same() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = |number: usize| folder.path().join(number.to_string());
        let one = |number: usize| {
            std::fs::write(path(number), number.to_string()).unwrap();
            PastCache::default()
        };
        let (bound, count) = (bound().get(), bound().get() + 20);
        let files: Vec<PastCache> = (0..count).map(one).collect();
        let read = |number: usize| {
            let file = files[number].get(|| Ok(File::open(path(number)).unwrap())).unwrap();
            assert_eq!(std::io::read_to_string(&*file).unwrap(), number.to_string());
        };
        (0..count).for_each(read);
        let are_open = |files: &[PastCache]| {
            let is_open =
                |file: &&PastCache| matches!(&*lock(&file.0), State::In(file) if file.strong_count() > 0);
            files.iter().filter(is_open).count()
        };
        assert!(are_open(&files) <= bound, "P1");
        // The first ones were closed for the last ones, and are opened again.
        (0..20).for_each(read);
        assert!(are_open(&files) <= bound, "P1");
        // P2.
        let weak: Vec<Weak<File>> = files
            .iter()
            .filter_map(|file| match &*lock(&file.0) {
                State::In(file) => Some(file.clone()),
                _ => None,
            })
            .collect();
        drop(files);
        assert!(weak.iter().all(|file| file.strong_count() == 0));
    }

    #[test]
    fn without_descriptors_it_is_tried_again_and_without_support_it_is_not() {
        let file = PastCache::default();
        assert!(file.get(|| Err(Errno::MFILE)).is_none());
        let folder = tempfile::tempdir_in(".").unwrap();
        std::fs::write(folder.path().join("f"), "x").unwrap();
        assert!(file.get(|| Ok(File::open(folder.path().join("f")).unwrap())).is_some());
        let other = PastCache::default();
        assert!(other.get(|| Err(Errno::INVAL)).is_none());
        assert!(other.get(|| panic!("asked twice")).is_none());
    }
}
