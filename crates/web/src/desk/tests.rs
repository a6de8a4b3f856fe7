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
        let mut feed = Feed::new(self.desk.clone(), file, Arc::new(Pulse::new()), || name.into(), span);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut all = Vec::new();
        while let Some(bytes) = runtime.block_on(std::future::poll_fn(|context| feed.poll_next(context)))? {
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }
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
        // One has a turn, one waits: in order for the turn, else for a read that no reader has been sent on.
        let (turn, mut waiting) = {
            let mut inner = place.desk.lock();
            let now = place.desk.start.elapsed();
            assert_eq!(inner.scheduler.arrive(now, wish, true), Arrival::Turn);
            let turn = Turn { desk: Some(place.desk.clone()), age: inner.age };
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
        Turn { desk: Some(place.desk.clone()), age: inner.age }
    };
    poison(&place.desk);
    match place.desk.take_turn(turn, &file, wish, Duration::ZERO, 0) {
        Ok(Asked::Bytes(bytes)) => assert_eq!(bytes[..], [7; 5000]),
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
        place.desk.finish(inner, Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let told = runtime.block_on(&mut waiting.told);
        assert!(matches!(told, Ok(Told::Failed(io::ErrorKind::Other))), "{told:?}");
        assert_eq!(place.get("f").unwrap(), [7; 5000]);
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
