//! CLOCK-Pro from its paper: pages in a vector, oldest first, and hands that name pages.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Hot,
    Cold,
    Ghost,
}
use Kind::{Cold, Ghost, Hot};

#[derive(Clone, Copy, Debug)]
struct Page {
    handle: Handle,
    kind: Kind,
    test: bool,
    bit: bool,
}

const HOT_HAND: usize = 0;
const COLD_HAND: usize = 1;
const TEST_HAND: usize = 2;

struct ClockPro {
    share: f64,
    ghost_share: f64,
    frames: usize,
    target: usize,
    pages: Vec<Page>,
    /// `None` is before the first page.
    hands: [Option<Handle>; 3],
    last: Option<Handle>,
}

impl ClockPro {
    fn new(frames: u32, share: f64, ghost_share: f64) -> Self {
        let mut twin = Self {
            share,
            ghost_share,
            frames: frames as usize,
            target: 0,
            pages: Vec::new(),
            hands: [None; 3],
            last: None,
        };
        twin.set_target();
        twin
    }

    fn set_target(&mut self) {
        self.target = match self.frames {
            1 | 2 => 1,
            frames => ((frames as f64 * self.share) as usize).clamp(2, frames - 1),
        };
    }

    fn count(&self, kind: Kind) -> usize {
        self.pages.iter().filter(|page| page.kind == kind).count()
    }

    fn hot_max(&self) -> usize {
        self.frames - self.target
    }

    fn find(&self, handle: Handle) -> Option<usize> {
        self.pages.iter().position(|page| page.handle == handle)
    }

    fn position(&self, hand: usize) -> usize {
        self.hands[hand].map_or(0, |handle| self.find(handle).expect("hands are at pages"))
    }

    fn advance(&mut self, hand: usize) {
        let next = (self.position(hand) + 1) % self.pages.len();
        self.hands[hand] = Some(self.pages[next].handle);
    }

    fn take(&mut self, at: usize) -> Page {
        let next = self.pages[(at + 1) % self.pages.len()].handle;
        let page = self.pages.remove(at);
        for hand in &mut self.hands {
            if *hand == Some(page.handle) {
                *hand = (next != page.handle).then_some(next);
            }
        }
        page
    }

    fn renew(&mut self, at: usize, page: Page) {
        self.take(at);
        self.pages.push(page);
    }

    /// One page on.
    fn test_hand(&mut self) {
        let at = self.position(TEST_HAND);
        self.advance(TEST_HAND);
        match self.pages[at].kind {
            Ghost => drop(self.take(at)),
            Cold => {
                self.pages[at].test = false;
                self.pages[at].bit = false;
            }
            Hot => {}
        }
    }

    fn few_ghosts(&mut self) {
        while self.count(Ghost) > (self.frames as f64 * self.ghost_share).round() as usize {
            self.test_hand();
        }
    }

    /// Whether a page was made cold before the candidate was met.
    fn hot_hand(&mut self, candidate: Option<Handle>) -> bool {
        let mut demoted = false;
        let mut met = false;
        while self.count(Hot) > 0 {
            let at = self.position(HOT_HAND);
            let page = self.pages[at];
            match page.kind {
                Hot if demoted || met => break,
                Hot => {
                    demoted = !page.bit;
                    let kind = if page.bit { Hot } else { Cold };
                    self.renew(at, Page { kind, bit: false, test: false, ..page });
                }
                Cold | Ghost => {
                    met |= Some(page.handle) == candidate;
                    self.advance(HOT_HAND);
                    if self.position(TEST_HAND) == at {
                        self.test_hand();
                        self.few_ghosts();
                    }
                }
            }
        }
        demoted
    }

    fn promote(&mut self, handle: Handle) -> bool {
        if self.hot_max() == 0 {
            return false;
        }
        while self.count(Hot) >= self.hot_max() {
            let in_test = |twin: &Self| twin.find(handle).is_some_and(|at| twin.pages[at].test);
            if !self.hot_hand(Some(handle)) && !in_test(self) {
                return false;
            }
        }
        if let Some(at) = self.find(handle) {
            self.take(at);
        }
        self.pages.push(Page { handle, kind: Hot, test: false, bit: false });
        true
    }
}

impl Twin for ClockPro {
    fn hit(&mut self, handle: Handle) {
        if self.last.replace(handle) != Some(handle) {
            let at = self.find(handle).expect("resident");
            self.pages[at].bit = true;
        }
    }

    fn insert(&mut self, handle: Handle) {
        self.last = Some(handle);
        if self.find(handle).is_some() {
            if self.promote(handle) {
                return;
            }
            if let Some(at) = self.find(handle) {
                self.take(at);
            }
        }
        let fills = self.residents().len() + self.target < self.frames;
        let kind = if fills { Hot } else { Cold };
        self.pages.push(Page { handle, kind, test: !fills, bit: false });
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let mut passed = 0;
        loop {
            if self.count(Cold) == 0 && !self.hot_hand(None) {
                return None;
            }
            let at = self.position(COLD_HAND);
            let page = self.pages[at];
            if page.kind != Cold {
                self.advance(COLD_HAND);
            } else if pinned(page.handle) {
                self.advance(COLD_HAND);
                passed += 1;
                if passed > self.count(Cold) {
                    let hot = self.pages.iter().position(|page| page.kind == Hot && !pinned(page.handle))?;
                    return Some(self.take(hot).handle);
                }
            } else if !page.test {
                return Some(self.take(at).handle);
            } else if !page.bit {
                self.advance(COLD_HAND);
                self.pages[at].kind = Ghost;
                self.few_ghosts();
                return Some(page.handle);
            } else if !self.promote(page.handle) {
                let at = self.find(page.handle).expect("cold pages stay");
                self.pages[at].bit = false;
            }
        }
    }

    fn remove(&mut self, handle: Handle) {
        let at = self.find(handle).expect("known");
        self.take(at);
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames as usize;
        self.set_target();
        while self.count(Hot) > self.hot_max() {
            self.hot_hand(None);
        }
        self.few_ghosts();
    }

    fn residents(&self) -> Vec<Handle> {
        self.pages.iter().filter(|page| page.kind != Ghost).map(|page| page.handle).collect()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.pages.iter().filter(|page| page.kind == Ghost).map(|page| page.handle).collect()
    }
}

#[test]
fn clock_pro() {
    check("clock-pro", |frames| ClockPro::new(frames, 0.05, 1.0));
    check("clock-pro:cold=0.4,ghosts=0.5", |frames| ClockPro::new(frames, 0.4, 0.5));
}
