//! The multi-generational LRU of Linux: one record per page known, generations by number, and
//! tiers by the number of references, as the documentation tells it.

use pantler_policy::{Handle, Links, Policy, Replacement};

use crate::harness::{Twin, check};

#[derive(Clone, Copy, Debug)]
struct Page {
    handle: Handle,
    /// Its generation, or, for a shadow, the oldest one when it left.
    generation: u64,
    is_shadow: bool,
    references: u32,
    /// It had five references since it came, and was protected or came back.
    is_of_the_working_set: bool,
}

impl Page {
    fn tier(&self) -> usize {
        // The logarithm, rounded up.
        let of_count = [0, 0, 1, 2, 2, 3][self.references as usize];
        if self.is_of_the_working_set { 3 } else { of_count }
    }
}

pub struct Mglru {
    gain: f64,
    least: f64,
    shadows_for_a_frame: f64,
    reworked: bool,
    frames: u32,
    /// In the order in which they came to their generations, or left.
    pages: Vec<Page>,
    min_seq: u64,
    max_seq: u64,
    refaulted: [u64; 4],
    /// Evicted or protected.
    passed: [u64; 4],
}

impl Mglru {
    fn resident(&self) -> Vec<Page> {
        self.pages.iter().copied().filter(|page| !page.is_shadow).collect()
    }

    fn size(&self, generation: u64) -> usize {
        self.resident().iter().filter(|page| page.generation == generation).count()
    }

    fn at(&self, handle: Handle) -> Option<usize> {
        self.pages.iter().position(|page| page.handle == handle)
    }

    /// Ends empty generations while more than two are left.
    fn end_empty(&mut self) {
        while self.max_seq > self.min_seq + 1 && self.size(self.min_seq) == 0 {
            self.min_seq += 1;
            self.refaulted = self.refaulted.map(|count| count / 2);
            self.passed = self.passed.map(|count| count / 2);
        }
    }

    fn prepare(&mut self) {
        loop {
            self.end_empty();
            let count = self.max_seq - self.min_seq + 1;
            let all = self.resident().len();
            let young = self.size(self.max_seq);
            let old = self.size(self.min_seq);
            let is_uneven = 2 * young > all || 4 * old < all;
            if count == 2 || count == 3 && (self.reworked || is_uneven) {
                self.max_seq += 1;
            } else {
                return;
            }
        }
    }

    /// Whether the controller protects each tier.
    fn protected(&self) -> [bool; 4] {
        let share = |tier: usize, more: f64, margin: f64| {
            (self.refaulted[tier] as f64 + more) / (self.passed[tier] as f64 + margin)
        };
        let bar = self.gain * share(0, 1.0, self.least);
        // A share of nothing is not a number: no comparison with it holds.
        let is_outlying =
            |tier: usize| self.refaulted[tier] as f64 >= self.least && share(tier, 0.0, 0.0) > bar;
        [0, 1, 2, 3].map(|tier| (1..=tier).any(is_outlying))
    }

    fn is_hottest(&self, page: Page) -> bool {
        if self.reworked { page.references == 4 && page.is_of_the_working_set } else { page.references == 5 }
    }
}

impl Twin for Mglru {
    fn hit(&mut self, handle: Handle) {
        let at = self.at(handle).expect("resident");
        let page = &mut self.pages[at];
        if self.reworked && page.references == 4 {
            page.is_of_the_working_set = true;
        } else if page.references < 5 {
            page.references += 1;
        }
    }

    fn insert(&mut self, handle: Handle) {
        let mut page =
            Page { handle, generation: 0, is_shadow: false, references: 1, is_of_the_working_set: false };
        if let Some(at) = self.at(handle) {
            let shadow = self.pages.remove(at);
            let recent = match self.reworked {
                true => self.max_seq < shadow.generation + 4,
                false => shadow.generation == self.min_seq,
            };
            if recent {
                self.refaulted[shadow.tier()] += 1;
                page.is_of_the_working_set = shadow.is_of_the_working_set;
                if !self.reworked && shadow.references >= 4 {
                    page.references = 5;
                }
            }
        }
        // The second oldest, if all four are there.
        page.generation = if self.max_seq - self.min_seq == 3 { self.min_seq + 1 } else { self.min_seq };
        self.pages.push(page);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        // The controller is asked once for each eviction.
        let protected = self.protected();
        let most_walked = self.resident().len();
        let mut walked = 0;
        let victim = loop {
            if walked < most_walked {
                self.prepare();
            }
            let mut free: Vec<Page> = self.resident();
            free.retain(|page| !pinned(page.handle));
            // Stable: pages of a generation stay in their order.
            free.sort_by_key(|page| page.generation);
            let page = *free.first()?;
            let is_protected = protected[page.tier()] || self.is_hottest(page);
            let moves_on = page.generation == self.min_seq && is_protected;
            if !moves_on || walked == most_walked {
                break page;
            }
            walked += 1;
            self.passed[page.tier()] += 1;
            self.remove(page.handle);
            self.pages.push(Page { generation: self.min_seq + 1, references: 0, ..page });
        };
        self.passed[victim.tier()] += 1;
        let at = self.at(victim.handle).expect("found");
        self.pages.remove(at);
        self.pages.push(Page { is_shadow: true, generation: self.min_seq, ..victim });
        self.end_empty();
        let most = (f64::from(self.frames) * self.shadows_for_a_frame).round() as usize;
        for _ in 0..4 {
            let count = self.pages.iter().filter(|page| page.is_shadow).count();
            if count > most {
                let oldest = self.pages.iter().position(|page| page.is_shadow).expect("counted");
                self.pages.remove(oldest);
            }
        }
        Some(victim.handle)
    }

    fn remove(&mut self, handle: Handle) {
        self.pages.retain(|page| page.handle != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames;
    }

    fn residents(&self) -> Vec<Handle> {
        self.resident().iter().map(|page| page.handle).collect()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.pages.iter().filter(|page| page.is_shadow).map(|page| page.handle).collect()
    }
}

fn twin(frames: u32, gain: f64, least: f64, shadows_for_a_frame: f64, reworked: bool) -> Mglru {
    Mglru {
        gain,
        least,
        shadows_for_a_frame,
        reworked,
        frames,
        pages: Vec::new(),
        min_seq: 0,
        max_seq: 3,
        refaulted: [0; 4],
        passed: [0; 4],
    }
}

#[test]
fn mglru() {
    check("mglru", |frames| twin(frames, 2.0, 64.0, 8.0, false));
    check("mglru:rework=1", |frames| twin(frames, 2.0, 64.0, 8.0, true));
    // Where the controller decides after few references.
    check("mglru:least=1", |frames| twin(frames, 2.0, 1.0, 8.0, false));
    check("mglru:gain=1,least=2,rework=1,ghosts=1.5", |frames| twin(frames, 1.0, 2.0, 1.5, true));
    check("mglru:gain=0,least=0", |frames| twin(frames, 0.0, 0.0, 8.0, false));
}

/// As by readahead. In 7.3 it enters the oldest generation, below those that were read.
#[test]
fn a_page_that_is_placed_was_not_read() {
    let first_out = |spec: &str, reads: u32| {
        let (mut links, spec) = (Links::new(2), spec.parse().unwrap());
        let mut mglru = Replacement::new(spec, 2).unwrap();
        mglru.insert(&mut links, 1);
        mglru.place(&mut links, 0);
        (0..reads).for_each(|_| mglru.hit(&mut links, 0));
        (0..4).for_each(|_| mglru.hit(&mut links, 1));
        mglru.evict(&mut links, &|_| false)
    };
    // Page 1 has five references: it is protected.
    assert_eq!([first_out("mglru", 4), first_out("mglru", 5)], [Some(0), Some(1)]);
    assert_eq!(first_out("mglru:rework=1", 0), Some(0));
}
