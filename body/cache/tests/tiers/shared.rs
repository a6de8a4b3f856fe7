//! A tier that several clients share, and the door of each.

use super::*;

/// A tier in this process, shared by several clients: the store of the server without its sockets.
pub struct Shared {
    pub store: Mutex<(Store, u64)>,
    pub started: Instant,
    pub broken: AtomicBool,
}

impl Shared {
    pub fn new(frames: u32) -> Arc<Self> {
        let key = Stem::new(None, BLOCK as u32, [b"x".as_slice()]).block(0).pack();
        let limit = u64::from(frames) * charge(&key, BLOCK);
        let (store, started) = (Mutex::new((Store::new(limit), 0)), Instant::now());
        Arc::new(Self { store, started, broken: AtomicBool::new(false) })
    }

    pub fn client(self: &Arc<Self>, name: &str) -> Arc<dyn Tier> {
        self.client_that_knows(name, 1 << 20)
    }

    /// A client that was told how many frames there are.
    pub fn client_that_knows(self: &Arc<Self>, name: &str, frames: u32) -> Arc<dyn Tier> {
        self.client_that_learns(name, frames, frames)
    }

    /// A client that was told a number of frames, and hears how many there are when the tier works.
    pub fn client_that_learns(self: &Arc<Self>, name: &str, frames: u32, real: u32) -> Arc<dyn Tier> {
        let owner = self.store.lock().unwrap().0.join(name);
        let told = AtomicBool::new(frames == real);
        Arc::new(Door { shared: Arc::clone(self), owner, frames, real, told, more: false })
    }

    /// A client that may use fewer frames than there are.
    pub fn client_that_may_use(self: &Arc<Self>, name: &str, frames: u32) -> Arc<dyn Tier> {
        let owner = self.store.lock().unwrap().0.join(name);
        let (real, told) = (frames, AtomicBool::new(true));
        Arc::new(Door { shared: Arc::clone(self), owner, frames, real, told, more: true })
    }

    /// Blocks of a client that are really there.
    pub fn owned(&self, name: &str) -> u64 {
        let store = &self.store.lock().unwrap().0;
        store.owners().find(|(one, ..)| *one == name).map_or(0, |(_, blocks, _)| blocks)
    }
}

pub struct Door {
    pub shared: Arc<Shared>,
    pub owner: Owner,
    /// What it was said to have, until it tells.
    pub frames: u32,
    /// What it has.
    pub real: u32,
    pub told: AtomicBool,
    /// There are more than it may use.
    pub more: bool,
}

impl Door {
    pub fn with<R>(&self, work: impl FnOnce(&mut Store, u64, Owner) -> R) -> Result<R, TierError> {
        if self.shared.broken.load(Ordering::SeqCst) {
            return Err(TierError::Timeout { name: "test".into(), timeout_ms: 1 });
        }
        let mut store = self.shared.store.lock().unwrap();
        // A clock that does not stand still between two requests.
        store.1 = ((1 << 50) + self.shared.started.elapsed().as_nanos() as u64).max(store.1 + 1);
        let now = store.1;
        Ok(work(&mut store.0, now, self.owner))
    }
}

impl Tier for Door {
    fn name(&self) -> &str {
        "test"
    }

    fn retrieve(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), TierError> {
        for (at, Wanted { key, how }) in wanted.iter().enumerate() {
            let bytes = self.with(|store, now, owner| match how {
                Retrieve::Take => store.take(&key.pack(), owner),
                Retrieve::Keep => store.keep(&key.pack(), owner, now),
                Retrieve::Read => store.read(&key.pack()),
            })?;
            if let Some(bytes) = bytes {
                found(at, &bytes);
            }
        }
        Ok(())
    }

    fn put(&self, given: &[Given<'_>]) -> Result<(), TierError> {
        for one in given {
            let age = one.age.as_nanos() as u64;
            self.with(|store, now, owner| {
                let value = Bytes::copy_from_slice(one.bytes);
                store.put(&one.key.pack(), value, one.bytes.len(), owner, now - age, one.why == Put::Demote);
                let owned = store.owners().map(|(_, blocks, _)| blocks).max().unwrap_or_default();
                assert!(!self.more || owned <= self.frames.into(), "{owned} blocks are there");
            })?;
        }
        Ok(())
    }

    fn remove(&self, keys: &[Key]) -> Result<(), TierError> {
        keys.iter()
            .try_for_each(|key| self.with(|store, _, owner| store.give_up(&key.pack(), owner)).map(|_| ()))
    }

    fn news(&self) -> News {
        let told = self.with(|store, _, owner| (store.notices(owner), store.is_full()));
        let Ok((notices, full)) = told else { return News { unknown: true, ..News::default() } };
        let key = |packed: &[u8]| Key::unpack(packed.try_into().unwrap());
        News {
            full: Some(full),
            gone: notices.gone.iter().map(|packed| key(packed)).collect(),
            unknown: notices.unknown,
        }
    }

    fn is_own(&self) -> bool {
        false
    }

    fn frames(&self, _: usize) -> u32 {
        if self.told.load(Ordering::SeqCst) { self.real } else { self.frames }
    }

    fn has_more(&self) -> bool {
        self.more
    }

    fn held(&self) -> Vec<Key> {
        let key = |packed: &[u8]| Key::unpack(packed.try_into().unwrap());
        let keys = self.with(|store, _, owner| store.keys_of(owner, 1 << 20).into_iter().map(key).collect());
        keys.unwrap_or_default()
    }

    fn heal(&self) -> Result<(), TierError> {
        self.with(|_, _, _| self.told.store(true, Ordering::SeqCst))
    }

    fn damaged(&self) -> u64 {
        0
    }
}
