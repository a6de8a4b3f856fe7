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
        let Ok(Found::File(file)) = self.desk.root.open_waiting(&names) else { panic!("no file `{name}`") };
        file
    }

    /// All of a file, as a client gets it.
    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.open(name);
        let number = self.desk.number(&file, || name.into());
        let span = Span { start: 0, end: file.size() };
        let mut feed = Feed::new(self.desk.clone(), file, Arc::new(Pulse::new()), number, span);
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
