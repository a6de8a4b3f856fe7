//! LRU-K from figure 2.1 of its paper: the history of each page, and a search for the smallest
//! HIST(q, K).

use pantler_policy::Handle;

use crate::harness::{Twin, check};

#[derive(Clone, Default)]
struct Page {
    handle: Handle,
    /// HIST(p, 1), HIST(p, 2), ...; the vector ends where no reference is known.
    hist: Vec<u64>,
    last: u64,
    /// When it left, for ghosts.
    left: Option<u64>,
}

struct LruK {
    k: usize,
    correlated: u64,
    retained: u64,
    frames: u64,
    t: u64,
    pages: Vec<Page>,
}

impl LruK {
    fn forget_one(&mut self) {
        let ghosts = self.pages.iter().filter(|page| page.left.is_some());
        // Evictions at one time are told apart by their order.
        let Some(oldest) = ghosts.min_by_key(|page| page.left) else { return };
        if self.t - oldest.left.expect("a ghost") > self.retained * self.frames {
            self.remove(oldest.handle);
        }
    }

    fn at(&self, handle: Handle) -> Option<usize> {
        self.pages.iter().position(|page| page.handle == handle)
    }
}

impl Twin for LruK {
    fn hit(&mut self, handle: Handle) {
        self.t += 1;
        let at = self.at(handle).expect("resident");
        let page = &mut self.pages[at];
        if self.t - page.last > self.correlated {
            let period = page.last - page.hist[0];
            page.hist.iter_mut().for_each(|time| *time += period);
            page.hist.insert(0, self.t);
            page.hist.truncate(self.k);
        }
        page.last = self.t;
        self.forget_one();
    }

    fn insert(&mut self, handle: Handle) {
        self.t += 1;
        let known = self.at(handle).map(|at| self.pages.remove(at));
        let mut page = known.unwrap_or(Page { handle, ..Page::default() });
        page.hist.insert(0, self.t);
        page.hist.truncate(self.k);
        page.last = self.t;
        page.left = None;
        self.pages.push(page);
        self.forget_one();
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let free = |page: &&Page| page.left.is_none() && !pinned(page.handle);
        let order = |page: &&Page| (page.hist.get(self.k - 1).copied().unwrap_or(0), page.last, page.handle);
        let ripe = |page: &&Page| self.t - page.last > self.correlated;
        let victim = self.pages.iter().filter(free).filter(ripe).min_by_key(order);
        let victim = victim.or(self.pages.iter().filter(free).min_by_key(order))?.handle;
        let mut page = self.pages.remove(self.at(victim)?);
        page.left = Some(self.t);
        self.pages.push(page);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.pages.retain(|page| page.handle != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames.into();
    }

    fn residents(&self) -> Vec<Handle> {
        self.pages.iter().filter(|page| page.left.is_none()).map(|page| page.handle).collect()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.pages.iter().filter(|page| page.left.is_some()).map(|page| page.handle).collect()
    }
}

fn twin(frames: u32, k: usize, correlated: u64, retained: u64) -> LruK {
    LruK { k, correlated, retained, frames: frames.into(), t: 0, pages: Vec::new() }
}

#[test]
fn lru_k() {
    check("lru-2", |frames| twin(frames, 2, 0, 10));
    check("lru-3:correlated=2,retained=2", |frames| twin(frames, 3, 2, 2));
    check("lru-2:correlated=20,retained=0", |frames| twin(frames, 2, 20, 0));
}

/// LRU, with no history but that of the paper.
struct Lru(Vec<Handle>);

impl Twin for Lru {
    fn hit(&mut self, handle: Handle) {
        self.remove(handle);
        self.0.push(handle);
    }

    fn insert(&mut self, handle: Handle) {
        self.0.push(handle);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let at = self.0.iter().position(|handle| !pinned(*handle))?;
        Some(self.0.remove(at))
    }

    fn remove(&mut self, handle: Handle) {
        self.0.retain(|other| *other != handle);
    }

    fn residents(&self) -> Vec<Handle> {
        self.0.clone()
    }
}

/// With K = 1 there is nothing to remember: LRU-1 is LRU.
#[test]
fn lru_1_is_lru() {
    check("lru-1", |_| Lru(Vec::new()));
}
