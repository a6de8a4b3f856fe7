//! The page cache of Linux, as the kernel's functions say: one record per page known, and a counter
//! for the age.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Page {
    Inactive {
        referenced: bool,
    },
    Active {
        referenced: bool,
    },
    /// With the age at eviction.
    Shadow(u64),
}

pub struct Linux {
    ratio: usize,
    demote: u32,
    stale: u64,
    frames: usize,
    /// In the order in which they came to their lists.
    pages: Vec<(Handle, Page)>,
    nonresident_age: u64,
    references: u64,
    owed: usize,
    activated: u64,
    /// Active, inactive, activated.
    statistics: (usize, usize, u64),
    activated_at_last_reclaim: u64,
}

fn is_active(page: &Page) -> bool {
    matches!(page, Page::Active { .. })
}

fn is_inactive(page: &Page) -> bool {
    matches!(page, Page::Inactive { .. })
}

fn is_shadow(page: &Page) -> bool {
    matches!(page, Page::Shadow(_))
}

impl Linux {
    fn count(&self, of: fn(&Page) -> bool) -> usize {
        self.pages.iter().filter(|(_, page)| of(page)).count()
    }

    fn look(&mut self) {
        self.statistics = (self.count(is_active), self.count(is_inactive), self.activated);
    }

    fn reference(&mut self) {
        self.references += 1;
        if self.stale > 0 && self.references.is_multiple_of(self.stale) {
            self.look();
        }
    }

    fn statistics(&mut self) -> (usize, usize, u64) {
        if self.stale == 0 {
            self.look();
        }
        self.statistics
    }

    fn put(&mut self, handle: Handle, page: Page) {
        self.remove(handle);
        self.pages.push((handle, page));
    }

    fn page(&self, handle: Handle) -> Option<Page> {
        self.pages.iter().find(|(other, _)| *other == handle).map(|(_, page)| *page)
    }
}

impl Twin for Linux {
    fn hit(&mut self, handle: Handle) {
        self.reference();
        if self.page(handle) == Some(Page::Inactive { referenced: true }) {
            self.put(handle, Page::Active { referenced: false });
            self.nonresident_age += 1;
            return;
        }
        let entry = self.pages.iter_mut().find(|(other, _)| *other == handle).expect("resident");
        match &mut entry.1 {
            Page::Inactive { referenced } | Page::Active { referenced } => *referenced = true,
            Page::Shadow(_) => unreachable!("resident"),
        }
    }

    fn insert(&mut self, handle: Handle) {
        self.reference();
        let (active, ..) = self.statistics();
        match self.page(handle) {
            Some(Page::Shadow(eviction)) if self.nonresident_age - eviction <= active as u64 => {
                self.put(handle, Page::Active { referenced: true });
                self.nonresident_age += 1;
                self.activated += 1;
            }
            _ => self.put(handle, Page::Inactive { referenced: true }),
        }
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let (active, inactive, activated) = self.statistics();
        // Far below a GiB the kernel's ratio is 1.
        if inactive * self.ratio.max(1) < active || activated != self.activated_at_last_reclaim {
            let [active, inactive] = [self.count(is_active), self.count(is_inactive).max(1)];
            let mut demoted = self.demote;
            if demoted == 0 {
                self.owed += active;
                while self.owed >= inactive {
                    self.owed -= inactive;
                    demoted = 32.min(demoted + 1);
                }
            }
            for _ in 0..demoted {
                let found = self.pages.iter().find(|(handle, page)| is_active(page) && !pinned(*handle));
                if let Some(&(handle, Page::Active { referenced })) = found {
                    self.put(handle, Page::Inactive { referenced });
                }
            }
        }
        self.activated_at_last_reclaim = activated;
        let free = |of: fn(&Page) -> bool| {
            self.pages.iter().find(|(handle, page)| of(page) && !pinned(*handle)).map(|(handle, _)| *handle)
        };
        let victim = free(is_inactive).or(free(is_active))?;
        self.put(victim, Page::Shadow(self.nonresident_age));
        self.nonresident_age += 1;
        for _ in 0..4 {
            if self.count(is_shadow) > self.frames {
                let oldest = self.pages.iter().position(|(_, page)| is_shadow(page)).expect("counted");
                self.pages.remove(oldest);
            }
        }
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.pages.retain(|(other, _)| *other != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames as usize;
    }

    fn residents(&self) -> Vec<Handle> {
        self.pages.iter().filter(|(_, page)| !is_shadow(page)).map(|(handle, _)| *handle).collect()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.pages.iter().filter(|(_, page)| is_shadow(page)).map(|(handle, _)| *handle).collect()
    }
}

pub fn twin(frames: u32, ratio: usize, demote: u32, stale: u64) -> Linux {
    Linux {
        ratio,
        demote,
        stale,
        frames: frames as usize,
        pages: Vec::new(),
        nonresident_age: 0,
        references: 0,
        owed: 0,
        activated: 0,
        statistics: (0, 0, 0),
        activated_at_last_reclaim: 0,
    }
}

#[test]
fn linux() {
    check("linux", |frames| twin(frames, 0, 1, 0));
    check("linux:ratio=2,demote=2", |frames| twin(frames, 2, 2, 0));
    check("linux:demote=0", |frames| twin(frames, 0, 0, 0));
    check("linux:stale=7", |frames| twin(frames, 0, 1, 7));
}
