//! The desk: who is served next, and what is read for whom.

use super::*;
use crate::feed::Feed;
use crate::options::StoreKind;
use crate::pulse::Pulse;
use crate::range::Span;

/// A folder, and a desk over it.
struct Place {
    folder: tempfile::TempDir,
    desk: Arc<Desk>,
    readers: Vec<JoinHandle<()>>,
}

impl Place {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(folder.path(), "127.0.0.1:0".parse().unwrap());
        change(&mut options);
        let root = Arc::new(Root::open(folder.path()).unwrap());
        let (desk, readers) = Desk::open(&options, root, Arc::default()).unwrap();
        Self { folder, desk, readers }
    }

    fn open(&self, name: &str) -> Arc<Opened> {
        let names = Names { joined: name.into(), is_directory: false };
        let Ok(Found::File(file)) = self.desk.root.open_waiting(&names, Duration::from_secs(60)) else {
            panic!("no file `{name}`")
        };
        file
    }

    fn number(&self, file: &Opened) -> u64 {
        self.desk.introduce(file, || b"f".to_vec(), Span { start: 0, end: 0 }).0
    }

    /// All of a file, as a client gets it.
    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.open(name);
        let span = Span { start: 0, end: file.size() };
        all_of(Feed::new(self.desk.clone(), file, Arc::new(Pulse::new()), || name.into(), span))
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

#[test]
fn a_file_never_gets_the_bytes_of_one_that_was_forgotten() {
    for store in [StoreKind::Files, StoreKind::Cache(8 << 20)] {
        let place = Place::new(|options| options.store = store);
        place.desk.lock().belief.forget_after(2);
        for at in 0..20u8 {
            let name = format!("f{at}");
            std::fs::write(place.folder.path().join(&name), [at; 5000]).unwrap();
            // Stamps that could come again keep a file out of the cache.
            let settled = Instant::now() + Duration::from_secs(20);
            while place.open(&name).validators.etag.starts_with("W/") && Instant::now() < settled {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(place.get(&name).unwrap() == [at; 5000], "{store:?}: {name}");
            assert!(place.get(&name).unwrap() == [at; 5000], "{store:?}: {name} again");
        }
    }
}

/// Panics under the lock, as a fault of ours would.
fn poison(desk: &Arc<Desk>) {
    let poisoning = catch_unwind(AssertUnwindSafe(|| {
        desk.with(|inner, _| {
            // Half done: K1 no longer holds.
            inner.waiters.clear();
            panic!("a fault that this test wants");
        });
    }));
    assert!(poisoning.is_err());
}

#[test]
fn a_panic_under_the_lock_is_the_end_of_those_who_wait_and_of_nobody_else() {
    for order in Order::ALL {
        let place = Place::new(|options| (options.order, options.disk_reads) = (order, 1));
        std::fs::write(place.folder.path().join("f"), [7; 5000]).unwrap();
        assert_eq!(place.get("f").unwrap(), [7; 5000], "{order:?}");
        let file = place.open("f");
        let number = place.number(&file);
        let wish = Wish { file: number, start: 0, end: 5000 };
        // One has a turn, one waits: in order for the turn, else for a read that no reader has been
        // sent on.
        let (turn, mut waiting) = {
            let mut inner = place.desk.lock();
            let now = place.desk.start.elapsed();
            assert_eq!(inner.scheduler.arrive(now, wish, true), Arrival::Turn);
            let turn = Turn { desk: Some(place.desk.clone()), age: inner.age, trusts: false };
            let Arrival::Wait(ticket) = inner.scheduler.arrive(now, wish, false) else { panic!("a turn") };
            (turn, place.desk.wait(&mut inner, ticket, &file, now, false))
        };
        poison(&place.desk);
        assert!(waiting.told.try_recv().is_err(), "nobody has told it yet");
        assert_eq!(place.get("f").unwrap(), [7; 5000], "{order:?}: the server goes on");
        assert!(
            matches!(waiting.told.try_recv(), Err(oneshot::error::TryRecvError::Closed)),
            "{order:?}: it is not kept waiting"
        );
        // What comes back from before changes nothing.
        drop((turn, waiting));
        assert_eq!(place.get("f").unwrap(), [7; 5000], "{order:?}: once more");
        let inner = place.desk.lock();
        inner.scheduler.validate();
        assert_eq!((inner.age, inner.scheduler.lengths()), (1, Lengths::default()), "{order:?}");
        assert_eq!(place.desk.metrics.faults.load(Relaxed), 1);
    }
}

#[test]
fn a_turn_of_before_gives_its_bytes_and_is_not_given_back() {
    let place = Place::new(|options| (options.order, options.disk_reads) = (Order::Fifo, 1));
    std::fs::write(place.folder.path().join("f"), [7; 5000]).unwrap();
    assert_eq!(place.get("f").unwrap(), [7; 5000]);
    let file = place.open("f");
    let number = place.number(&file);
    let wish = Wish { file: number, start: 0, end: 5000 };
    let turn = {
        let mut inner = place.desk.lock();
        assert_eq!(inner.scheduler.arrive(Duration::ZERO, wish, true), Arrival::Turn);
        Turn { desk: Some(place.desk.clone()), age: inner.age, trusts: false }
    };
    poison(&place.desk);
    match place.desk.take_turn(turn, &file, wish, Duration::ZERO, 0) {
        Ok(Asked::Bytes { bytes, .. }) => assert_eq!(bytes[..], [7; 5000]),
        Ok(Asked::Wait(_)) => panic!("a turn that nobody counts waits for a read"),
        // The machine took the page back meanwhile.
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ResourceBusy),
    }
    assert_eq!(place.desk.lock().scheduler.lengths(), Lengths::default());
    assert_eq!(place.get("f").unwrap(), [7; 5000]);
}

#[test]
fn a_reader_that_panics_refuses_those_who_wait_and_reads_on() {
    // One reader: if it were gone, nobody would read.
    let place = Place::new(|options| (options.order, options.disk_reads) = (Order::MirrorVerify, 1));
    std::fs::write(place.folder.path().join("f"), [7; 5000]).unwrap();
    let file = place.open("f");
    let number = place.number(&file);
    for _ in 0..3 {
        let mut inner = place.desk.lock();
        // Nobody can ask for this; whoever reads it panics.
        let wish = Wish { file: number, start: 9, end: 5 };
        let Arrival::Wait(ticket) = inner.scheduler.arrive(Duration::ZERO, wish, false) else {
            panic!("a turn")
        };
        let mut waiting = place.desk.wait(&mut inner, ticket, &file, Duration::ZERO, false);
        place.desk.finish(Vec::new(), inner);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let told = runtime.block_on(&mut waiting.told);
        assert!(matches!(told, Ok(Told::Failed(io::ErrorKind::Other))), "{told:?}");
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
        let span = Span { start: 0, end: file.size() };
        let feed = Feed::new(place.desk.clone(), file, Arc::new(Pulse::new()), || b"f".to_vec(), span);
        let error = all_of(feed).unwrap_err();
        assert_eq!(error.kind(), crate::feed::CHANGED, "{order:?}: it is to be opened anew");
    }
}

#[test]
fn what_is_being_read_is_not_let_go() {
    let place = Place::new(|_| ());
    std::fs::write(place.folder.path().join("f"), [7; 5000]).unwrap();
    let file = place.open("f");
    let number = place.number(&file);
    let part = Piece { version: file.version, name: b"f".to_vec(), start: 0, end: 5000 };
    let mut inner = place.desk.lock();
    assert!(!inner.is_wanted(&part));
    let wish = Wish { file: number, start: 0, end: 5000 };
    let Arrival::Wait(ticket) = inner.scheduler.arrive(Duration::ZERO, wish, false) else { panic!("a turn") };
    assert!(inner.is_wanted(&part), "it waits to be read");
    let Some(Work::Read { id, .. }) = inner.scheduler.next(Duration::ZERO) else { panic!("no read") };
    assert!(inner.is_wanted(&part), "it is being read");
    assert_eq!(inner.scheduler.done(id), [ticket]);
    assert!(!inner.is_wanted(&part));
    inner.belief.read(wish);
    assert!(inner.is_wanted(&part), "it was read");
}

/// A file in memory, whose file system cannot say what of it is there.
fn blind_file(bytes: &[u8]) -> Arc<Opened> {
    use std::io::Write;
    let descriptor = rustix::fs::memfd_create("blind", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(descriptor);
    file.write_all(bytes).unwrap();
    let attributes = pantler_origin::Attributes::of(std::os::fd::AsFd::as_fd(&file)).unwrap();
    let look = pantler_origin::Look { version: attributes.version(), settled: true };
    let validators =
        crate::conditions::Validators { etag: String::new(), modified: Some(std::time::UNIX_EPOCH) };
    Arc::new(Opened::new(file.into(), (look, attributes.links), validators, Below::PageCache))
}

#[test]
fn a_file_system_that_cannot_say_what_it_holds_is_no_evidence() {
    for order in Order::ALL {
        let place = Place::new(|options| options.order = order);
        let size = place.desk.with_belief(|belief| belief.model());
        let bytes: Vec<u8> = (0..700_000).map(|at| (at / 7) as u8).collect();
        let files = [blind_file(&bytes), blind_file(&bytes[..5000])];
        for round in 0..300 {
            let file = files[round % 2].clone();
            let expected = &bytes[..file.size() as usize];
            let span = Span { start: 0, end: file.size() };
            let feed = Feed::new(place.desk.clone(), file, Arc::new(Pulse::new()), || b"f".to_vec(), span);
            assert!(all_of(feed).unwrap() == expected, "{order:?}");
        }
        let (after, score) = place.desk.with_belief(|belief| (belief.model(), belief.score()));
        assert_eq!(after, size, "{order:?}");
        assert!(score.falsely_cached <= 1, "{order:?}: {score:?}");
        assert_eq!(number(&place, "let_go_bytes"), 0, "{order:?}");
    }
}

fn number(place: &Place, name: &str) -> u64 {
    place.desk.metrics.numbers().into_iter().find(|(other, _)| *other == name).unwrap().1
}

/// A file where this program lies: there pages can be asked about and dropped. What lies in memory
/// alone has none.
fn file_on_disk(bytes: &[u8]) -> (tempfile::TempDir, Arc<Opened>) {
    let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
    std::fs::write(folder.path().join("f"), bytes).unwrap();
    let file = std::fs::File::open(folder.path().join("f")).unwrap();
    file.sync_all().unwrap();
    let attributes = pantler_origin::Attributes::of(std::os::fd::AsFd::as_fd(&file)).unwrap();
    let look = pantler_origin::Look { version: attributes.version(), settled: true };
    let validators =
        crate::conditions::Validators { etag: String::new(), modified: Some(std::time::UNIX_EPOCH) };
    (folder, Arc::new(Opened::new(file.into(), (look, attributes.links), validators, Below::PageCache)))
}

/// Takes all but the first bytes of it out of the page cache.
fn leave_the_first(folder: &tempfile::TempDir, file: &Opened, bytes: usize) {
    file.drop_cached(0, 1 << 20).unwrap();
    // Not more than is asked for comes back.
    let part = std::fs::File::open(folder.path().join("f")).unwrap();
    rustix::fs::fadvise(&part, 0, None, rustix::fs::Advice::Random).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&part, &mut vec![0; bytes], 0).unwrap();
}

/// All of an open file, as a client gets it.
fn get(place: &Place, file: &Arc<Opened>) -> Vec<u8> {
    let span = Span { start: 0, end: file.size() };
    let feed = Feed::new(place.desk.clone(), file.clone(), Arc::new(Pulse::new()), || b"f".to_vec(), span);
    all_of(feed).unwrap()
}

#[test]
fn a_part_of_a_file_is_not_taken_for_all_of_it() {
    let (folder, opened) = file_on_disk(&[7; 200_000]);
    let place = Place::new(|_| ());
    assert!(get(&place, &opened) == [7; 200_000]);
    for _ in 0..50 {
        leave_the_first(&folder, &opened, 8192);
        let held = opened.held(0, 200_000).unwrap();
        assert!(get(&place, &opened) == [7; 200_000]);
        // Pages that somebody looks at just now are not dropped: then once more.
        if (1..100_000).contains(&held) {
            assert_ne!(place.desk.with_belief(|belief| belief.score().falsely_cached), 0);
            return;
        }
    }
    panic!("it never left");
}

#[test]
fn where_beliefs_are_right_the_kernel_is_hardly_asked() {
    const TIMES: u64 = 700;
    let bytes: Vec<u8> = (0..1 << 20).map(|at| (at / 7) as u8).collect();
    let (folder, opened) = file_on_disk(&bytes);
    let place = Place::new(|_| ());
    for _ in 0..TIMES {
        assert!(get(&place, &opened) == bytes);
    }
    // Each wrong belief, if the machine has taken a page back, makes it ask anew for a while.
    let wrong = place.desk.with_belief(|belief| belief.score()).falsely_cached;
    let asked = place.desk.store.asked();
    assert!(asked <= 300 * (wrong + 1) + TIMES / 8, "asked {asked} times, wrong {wrong} times");
    // What has left without anybody asking is found out by reading, and is no fault of the answer.
    let before = place.desk.with_belief(|belief| belief.score()).falsely_cached;
    for _ in 0..50 {
        leave_the_first(&folder, &opened, 300 << 10);
        assert!(get(&place, &opened) == bytes);
        if place.desk.with_belief(|belief| belief.score()).falsely_cached > before {
            return;
        }
    }
    panic!("nobody noticed what left");
}

#[test]
fn a_panic_while_turns_are_given_out_holds_nobody_up() {
    let place = Place::new(|options| (options.order, options.disk_reads) = (Order::Fifo, 2));
    std::fs::write(place.folder.path().join("f"), [7; 5000]).unwrap();
    let file = place.open("f");
    let number = place.number(&file);
    let wish = Wish { file: number, start: 0, end: 5000 };
    let (ended, end) = std::sync::mpsc::channel();
    let desk = place.desk.clone();
    std::thread::spawn(move || {
        let panicking = catch_unwind(AssertUnwindSafe(|| {
            let mut inner = desk.lock();
            for _ in 0..2 {
                assert_eq!(inner.scheduler.arrive(Duration::ZERO, wish, true), Arrival::Turn);
            }
            for is_known in [true, false] {
                let Arrival::Wait(ticket) = inner.scheduler.arrive(Duration::ZERO, wish, true) else {
                    panic!("a third turn")
                };
                if is_known {
                    std::mem::forget(desk.wait(&mut inner, ticket, &file, Duration::ZERO, false));
                }
            }
            (0..2).for_each(|_| inner.scheduler.leave());
            // The first is told of its turn; the second breaks K1.
            desk.finish(Vec::new(), inner);
        }));
        ended.send(panicking.is_err()).unwrap();
    });
    assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(true), "it hangs");
    assert_eq!(place.get("f").unwrap(), [7; 5000]);
}

#[test]
fn who_looks_in_vain_goes_on_waiting_since_it_began_to() {
    let place = Place::new(|options| options.order = Order::Mirror);
    let (_folder, file) = file_on_disk(&[7; 5000]);
    let wish = Wish::first(place.number(&file), 0, 5000);
    let since = Duration::from_nanos(7);
    // It was told that its bytes were read, but they have left again; unless the disk is faster
    // than who looks.
    let found = (0..1000).find_map(|_| {
        file.drop_cached(0, 1 << 20).unwrap();
        match place.desk.look_on(&file, wish, (Some(since), 1), (false, 0)).unwrap() {
            Asked::Wait(waiting) => Some(waiting.since),
            Asked::Bytes { .. } => None,
        }
    });
    assert_eq!(found, Some(since), "its age counts for the cap");
}
