//! The desk: which request is served next, and what is read for which.

use super::*;
use crate::feed::Feed;
use crate::opened::Below;
use crate::path::Names;
use crate::pulse::Pulse;
use crate::root::{Found, Root};
use crate::scheduler::{Lengths, Work};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A request that has not looked yet.
const FIRST: Waited = Waited { since: Duration::ZERO, misses: 0 };

/// A folder where Cargo keeps what tests write: a file system in memory has no pages to ask about.
fn folder_on_disk() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    let folder = program.ancestors().nth(3).expect("target/debug/deps").join("tmp");
    std::fs::create_dir_all(&folder).unwrap();
    tempfile::tempdir_in(folder).unwrap()
}

/// A folder, and a desk over it.
struct Place {
    folder: tempfile::TempDir,
    root: Root,
    desk: Arc<Desk>,
    readers: Vec<JoinHandle<()>>,
}

impl Place {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let folder = folder_on_disk();
        let mut options = Options::new(folder.path(), "127.0.0.1:0".parse().unwrap());
        change(&mut options);
        let root = Root::open(folder.path()).unwrap();
        let (desk, readers) = Desk::open(&options, Arc::default()).unwrap();
        Self { folder, root, desk, readers }
    }

    /// One whose folder has a file `f` of 5000 bytes, with a wish for all of it.
    fn with_file(order: Order, disk_reads: u32) -> (Self, Arc<Opened>, Wish) {
        let place = Self::new(|options| (options.order, options.disk_reads) = (order, disk_reads));
        std::fs::write(place.folder.path().join("f"), [7; 5000]).unwrap();
        let file = place.open("f");
        let wish = Wish { file: file.version, start: 0, end: 5000 };
        (place, file, wish)
    }

    fn open(&self, name: &str) -> Arc<Opened> {
        let names = Names { joined: name.into(), is_directory: false };
        let Ok(Found::File(file)) = self.root.open_waiting(&names, Duration::from_secs(60)) else {
            panic!("no file `{name}`")
        };
        Arc::new(file)
    }

    fn lengths(&self) -> Lengths {
        self.desk.lock().queues.scheduler.lengths()
    }

    /// All of a file, as a client gets it.
    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.get_open(&self.open(name))
    }

    /// All of an open file.
    fn get_open(&self, file: &Arc<Opened>) -> io::Result<Vec<u8>> {
        let range = 0..file.size();
        all_of(Feed::new(self.desk.clone(), file.clone(), Arc::new(Pulse::new()), range))
    }
}

fn all_of(mut feed: Feed) -> io::Result<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut all = Vec::new();
    while let Some(bytes) = runtime.block_on(std::future::poll_fn(|context| feed.poll_next(context)))? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.desk.close();
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
    }
}

/// A request arrives, and has to wait.
fn wait(state: &mut State, now: Duration, wish: Wish, is_known: bool) -> Ticket {
    match state.queues.scheduler.arrive(now, wish, is_known) {
        Arrival::Wait(ticket) => ticket,
        Arrival::Turn => panic!("a turn"),
    }
}

/// Panics under the lock, as a fault of ours would.
fn poison(desk: &Arc<Desk>) {
    let poisoning = catch_unwind(AssertUnwindSafe(|| {
        let mut state = desk.lock();
        // Half done: K1 no longer holds.
        state.queues.lose_waiters();
        panic!("a fault that this test wants");
    }));
    assert!(poisoning.is_err());
}

#[test]
fn a_panic_under_the_lock_is_the_end_of_those_who_wait_and_of_nobody_else() {
    for order in Order::ALL {
        let (place, file, wish) = Place::with_file(order, 1);
        assert_eq!(place.get("f").unwrap(), [7; 5000], "{order:?}");
        // One has a turn, one waits: in order for the turn, else for a read that no reader has been
        // sent on.
        let (turn, mut waiting) = {
            let mut state = place.desk.lock();
            let now = place.desk.start.elapsed();
            assert_eq!(state.queues.scheduler.arrive(now, wish, true), Arrival::Turn);
            let turn = Turn { desk: Some(place.desk.clone()), age: state.queues.age() };
            let ticket = wait(&mut state, now, wish, false);
            (turn, place.desk.enqueue(&mut state, ticket, &file, Waited { since: now, misses: 0 }))
        };
        poison(&place.desk);
        assert!(waiting.notice.try_recv().is_err(), "nobody has told it yet");
        assert_eq!(place.get("f").unwrap(), [7; 5000], "{order:?}: the server goes on");
        assert!(
            matches!(waiting.notice.try_recv(), Err(oneshot::error::TryRecvError::Closed)),
            "{order:?}: it is not kept waiting"
        );
        // What comes back from before changes nothing.
        drop((turn, waiting));
        assert_eq!(place.get("f").unwrap(), [7; 5000], "{order:?}: once more");
        let state = place.desk.lock();
        state.queues.scheduler.validate();
        assert_eq!(
            (state.queues.age(), state.queues.scheduler.lengths()),
            (1, Lengths::default()),
            "{order:?}"
        );
        assert_eq!(place.desk.metrics.faults.get(), 1);
    }
}

#[test]
fn a_turn_of_before_gives_its_bytes_and_is_not_given_back() {
    let (place, file, wish) = Place::with_file(Order::Fifo, 1);
    assert_eq!(place.get("f").unwrap(), [7; 5000]);
    let turn = {
        let mut state = place.desk.lock();
        assert_eq!(state.queues.scheduler.arrive(Duration::ZERO, wish, true), Arrival::Turn);
        Turn { desk: Some(place.desk.clone()), age: state.queues.age() }
    };
    poison(&place.desk);
    match place.desk.take_turn(turn, &file, wish, FIRST, false) {
        Ok(Reply::Bytes(bytes)) => assert_eq!(bytes[..], [7; 5000]),
        Ok(Reply::Wait(_)) => panic!("a turn that is not counted waits for a read"),
        // The machine took the page back meanwhile.
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ResourceBusy),
    }
    assert_eq!(place.lengths(), Lengths::default());
    assert_eq!(place.get("f").unwrap(), [7; 5000]);
}

#[test]
fn a_reader_that_panics_refuses_those_who_wait_and_reads_on() {
    // One reader: without it there would be no reads.
    let (place, file, wish) = Place::with_file(Order::Truth, 1);
    for _ in 0..3 {
        let mut state = place.desk.lock();
        // No request can ask for this, and a reader that reads it panics.
        let ticket = wait(&mut state, Duration::ZERO, Wish { start: 9, end: 5, ..wish }, false);
        let mut waiting = place.desk.enqueue(&mut state, ticket, &file, FIRST);
        place.desk.finish(Vec::new(), state);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let told = runtime.block_on(&mut waiting.notice);
        assert!(matches!(told, Ok(Notice::Failed(io::ErrorKind::Other))), "{told:?}");
        assert_eq!(place.get("f").unwrap(), [7; 5000]);
    }
}

#[test]
fn a_file_that_was_cut_before_it_was_read_has_changed() {
    for order in Order::ALL {
        let place = Place::new(|options| options.order = order);
        let path = place.folder.path().join("f");
        std::fs::write(&path, [7; 5000]).unwrap();
        let file = place.open("f");
        std::fs::File::create(&path).unwrap();
        let error = place.get_open(&file).unwrap_err();
        assert_eq!(error.kind(), crate::feed::CHANGED, "{order:?}: it is to be opened anew");
    }
}

fn opened(file: std::fs::File) -> Arc<Opened> {
    let attributes = pantler_origin::Attributes::of(std::os::fd::AsFd::as_fd(&file)).unwrap();
    let look = pantler_origin::Look { version: attributes.version(), settled: true };
    let validators =
        crate::conditions::Validators { etag: String::new(), modified: Some(std::time::UNIX_EPOCH) };
    Arc::new(Opened::new(file.into(), (look, attributes.links), validators, Below::PageCache))
}

/// A file in memory: its file system cannot say what of it is there.
fn blind_file(bytes: &[u8]) -> Arc<Opened> {
    use std::io::Write;
    let descriptor = rustix::fs::memfd_create("blind", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(descriptor);
    file.write_all(bytes).unwrap();
    opened(file)
}

#[test]
fn where_nothing_says_what_is_cached_all_is_read() {
    for order in Order::ALL {
        let place = Place::new(|options| options.order = order);
        let bytes: Vec<u8> = (0..700_000).map(|at| (at / 7) as u8).collect();
        let files = [blind_file(&bytes), blind_file(&bytes[..5000])];
        for round in 0..30 {
            let file = files[round % 2].clone();
            let expected = &bytes[..file.size() as usize];
            assert!(place.get_open(&file).unwrap() == expected, "{order:?}");
        }
        assert!(place.desk.metrics.reads() >= 30, "{order:?}");
    }
}

/// A file where this program lies: there pages can be asked about and dropped. What lies in memory
/// alone has none.
fn file_on_disk(bytes: &[u8]) -> (tempfile::TempDir, Arc<Opened>) {
    let folder = folder_on_disk();
    std::fs::write(folder.path().join("f"), bytes).unwrap();
    let file = std::fs::File::open(folder.path().join("f")).unwrap();
    file.sync_all().unwrap();
    (folder, opened(file))
}

/// Takes a file out of the page cache.
fn forget(file: &Opened) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Takes all but the first bytes of it out of the page cache.
fn leave_the_first(folder: &tempfile::TempDir, file: &Opened, bytes: usize) {
    forget(file);
    // Not more than is asked for comes back.
    let part = std::fs::File::open(folder.path().join("f")).unwrap();
    rustix::fs::fadvise(&part, 0, None, rustix::fs::Advice::Random).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&part, &mut vec![0; bytes], 0).unwrap();
}

/// A hundred requests for one piece once held a hundred copies of its beginning: by the time they
/// came, the read for the first of them had brought it into the cache.
#[test]
fn requests_for_what_is_being_read_share_its_bytes() {
    let place = Place::new(|_| ());
    let (_folder, file) = file_on_disk(&[7; 5000]);
    // It is all cached, as behind a read that is about to end.
    assert!(place.get_open(&file).unwrap() == [7; 5000]);
    let wish = Wish { file: file.version, start: 0, end: 5000 };
    let (mut first, id) = {
        let mut state = place.desk.lock();
        let ticket = wait(&mut state, Duration::ZERO, wish, false);
        let first = place.desk.enqueue(&mut state, ticket, &file, FIRST);
        let Some(Work::Read { id, .. }) = state.queues.scheduler.next() else { panic!("no read") };
        (first, id)
    };
    let part = Wish { start: 100, ..wish };
    let Ok(Reply::Wait(mut second)) = place.desk.ask(&file, part) else { panic!("a copy of its own") };
    let chunks = Arc::new(vec![Bytes::from_static(&[7; 5000])]);
    place.desk.end_read(place.desk.lock(), id, &Ok(Notice::Bytes(0, chunks.clone())));
    for waiting in [&mut first, &mut second] {
        let Ok(Notice::Bytes(0, shared)) = waiting.notice.try_recv() else { panic!("no bytes") };
        assert!(Arc::ptr_eq(&shared, &chunks));
    }
    assert!(matches!(place.desk.ask(&file, part), Ok(Reply::Bytes(..))), "nothing is being read");
}

#[test]
fn a_part_of_a_file_is_not_taken_for_all_of_it() {
    let (folder, opened) = file_on_disk(&[7; 200_000]);
    let place = Place::new(|_| ());
    assert!(place.get_open(&opened).unwrap() == [7; 200_000]);
    for _ in 0..50 {
        leave_the_first(&folder, &opened, 8192);
        let held =
            pantler_kernel::pages::cached_bytes(std::os::fd::AsFd::as_fd(&*opened), 0, 200_000).unwrap();
        let before = place.desk.metrics.reads();
        assert!(place.get_open(&opened).unwrap() == [7; 200_000]);
        // Pages that another program looks at just now are not dropped: then once more.
        if (1..100_000).contains(&held) {
            assert_eq!(place.desk.metrics.reads(), before + 1);
            return;
        }
    }
    panic!("it never left");
}

#[test]
fn a_panic_while_turns_are_given_out_holds_nobody_up() {
    let (place, file, wish) = Place::with_file(Order::Fifo, 2);
    let (ended, end) = std::sync::mpsc::channel();
    let desk = place.desk.clone();
    std::thread::spawn(move || {
        let panicking = catch_unwind(AssertUnwindSafe(|| {
            let mut state = desk.lock();
            for _ in 0..2 {
                assert_eq!(state.queues.scheduler.arrive(Duration::ZERO, wish, true), Arrival::Turn);
            }
            for is_known in [true, false] {
                let ticket = wait(&mut state, Duration::ZERO, wish, true);
                if is_known {
                    std::mem::forget(desk.enqueue(&mut state, ticket, &file, FIRST));
                }
            }
            (0..2).for_each(|_| state.queues.scheduler.leave());
            // The first is told of its turn; the second breaks K1.
            desk.finish(Vec::new(), state);
        }));
        ended.send(panicking.is_err()).unwrap();
    });
    assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(true), "it hangs");
    assert_eq!(place.get("f").unwrap(), [7; 5000]);
}

#[test]
fn who_looks_in_vain_goes_on_waiting_since_it_began_to() {
    let place = Place::new(|_| ());
    let (_folder, file) = file_on_disk(&[7; 5000]);
    let wish = Wish::first(file.version, 0, 5000);
    let since = Duration::from_nanos(7);
    // It was told that its bytes were read, but they have left again; unless the disk is faster
    // than this loop.
    let found = (0..1000).find_map(|_| {
        forget(&file);
        match place.desk.look_on(&file, wish, Some(Waited { since, misses: 1 }), false).unwrap() {
            Reply::Wait(waiting) => Some(waiting.since),
            Reply::Bytes(..) => None,
        }
    });
    assert_eq!(found, Some(since), "its age counts for the cap");
}
