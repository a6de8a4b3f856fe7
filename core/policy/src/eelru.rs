//! EELRU: LRU, until blocks are seen to return that LRU has just replaced. Then it evicts early to
//! keep some of those.
//!
//! ```text
//!   back (last referenced)                                            front
//!   [R] [R] [R] [R] | [R] [.] [R] | [.] [R] [.] [R] | [.] [.] [R] [.]         R resident, . ghost
//!   position 1      e             e'    M           l             l'
//! ```
//!
//! All blocks referenced of late stand in order of recency. References are counted by the position
//! at which they find their block. M frames of LRU get those at positions up to M. Evicting early
//! at `e` keeps the first e blocks and M - e of the l - e blocks behind: it gets the references up
//! to e, and (M - e) / (l - e) of those between e and l. Whichever of LRU and the pairs (e, l)
//! would have got the most of late, decides on the victim: the last resident of all, which it also
//! is while that stands beyond l, or the first one from position e on.
//!
//! R1  All handles known are in `order`; resident ones are in `residents` too, in the same order.
//! R2  The mark of a handle is the segment of its position between the points, with a bit for
//!     residents.
//! R3  `ends` are the handles that stand at the points.
//! R4  Ghosts stand nowhere beyond the last point, but for those that are not forgotten yet: four
//!     for each verb.
//!
//! Paper: Smaragdakis, Kaplan and Wilson, EELRU: Simple and Effective Adaptive Page Replacement,
//! SIGMETRICS 1999. Differences: four early points and four late ones, at fixed shares of the
//! frames. Counts are halved after each `age` x frames references. From position e on, 32 handles
//! are looked at; when none of them is resident, the last resident leaves. Default: `age=4.0`.

use crate::parameters::parameters;
use crate::{Forgotten, Handle, Links, List, NONE, Online, Policy};

/// Early points as shares of the frames.
const EARLY: [f64; 4] = [0.2, 0.4, 0.6, 0.8];

/// Late points, the same.
const LATE: [f64; 4] = [1.25, 1.5, 2.0, 2.5];

/// Early and late points and the number of frames.
const POINTS_MAX: usize = EARLY.len() + 1 + LATE.len();

/// Handles that an early eviction looks at.
const LOOKS_MAX: usize = 32;

/// The bit of residents in a mark.
const RESIDENT: u8 = 0x80;

parameters! {
    /// Parameters of [`Eelru`].
    pub struct EelruParameters {
        /// References until counts are halved, in multiples of the frames.
        "age" => age: f64 = 4.0, 0.01..=1e6;
    }
}

/// Early eviction LRU.
#[derive(Clone, Debug, Default)]
pub struct Eelru {
    parameters: EelruParameters,
    /// Positions, increasing, the first `length` of them.
    points: [u32; POINTS_MAX],
    length: usize,
    /// Which of them is the number of frames.
    middle: usize,
    /// The handle at each point, or `NONE`.
    ends: [Handle; POINTS_MAX],
    /// References that found their block in each segment, of late.
    counts: [u32; POINTS_MAX],
    /// References since counts were halved, and until they are again.
    since: u64,
    age: u64,
    order: List,
    residents: List,
    /// Links of `residents`.
    own: Links,
    forgotten: Forgotten,
}

/// Where to evict.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Early {
    early: usize,
    late: usize,
}

impl Eelru {
    fn measure(&mut self, frames: u32) {
        self.length = 0;
        let place = |share: f64| (f64::from(frames) * share) as u32;
        let early = EARLY.map(place).into_iter().filter(|&point| 0 < point && point < frames);
        let late = LATE.map(place).into_iter().filter(|&point| point > frames);
        for point in early.chain([frames]).chain(late) {
            if point == frames {
                self.middle = self.length;
            }
            if self.length == 0 || self.points[self.length - 1] < point {
                self.points[self.length] = point;
                self.length += 1;
            }
        }
        self.age = (f64::from(frames) * self.parameters.age) as u64;
    }

    #[inline]
    fn segment(&self, links: &Links, handle: Handle) -> usize {
        usize::from(links.mark(handle) & !RESIDENT)
    }

    #[inline]
    fn set_segment(&self, links: &mut Links, handle: Handle, segment: usize) {
        links.set_mark(handle, links.mark(handle) & RESIDENT | segment as u8);
    }

    /// Counts a reference that found its block in a segment.
    #[inline]
    fn count(&mut self, segment: usize) {
        if segment < self.length {
            self.counts[segment] += 1;
        }
        self.since += 1;
        if self.since >= self.age {
            self.since = 0;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// A handle came in front of those at the first `segments` points: each of these now ends one
    /// handle nearer.
    #[inline]
    fn shift(&mut self, links: &mut Links, segments: usize) {
        for segment in 0..segments {
            let end = self.ends[segment];
            if end != NONE {
                self.set_segment(links, end, segment + 1);
                self.ends[segment] = self.order.after(links, end).unwrap_or(NONE);
            } else if self.order.len() == self.points[segment] {
                self.ends[segment] = self.order.front().unwrap_or(NONE);
            }
        }
    }

    /// To position 1, from wherever it is.
    #[inline]
    fn renew(&mut self, links: &mut Links, handle: Handle) {
        if self.order.back() == Some(handle) {
            return;
        }
        let segment = self.segment(links, handle);
        if segment < self.length && self.ends[segment] == handle {
            self.ends[segment] = self.order.after(links, handle).unwrap_or(NONE);
        }
        self.order.move_to_back(links, handle);
        self.set_segment(links, handle, 0);
        self.shift(links, segment.min(self.length));
    }

    /// Out of the order: those behind it come nearer.
    fn leave(&mut self, links: &mut Links, handle: Handle) {
        let segment = self.segment(links, handle);
        for later in segment..self.length {
            let end = self.ends[later];
            if end == NONE {
                break;
            }
            let next = self.order.before(links, end);
            if let Some(next) = next {
                self.set_segment(links, next, later);
            }
            self.ends[later] = next.unwrap_or(NONE);
        }
        self.order.remove(links, handle);
    }

    /// Forgets ghosts beyond the last point.
    #[inline]
    fn trim(&mut self, links: &mut Links) {
        for _ in 0..Forgotten::MAX {
            let Some(front) = self.order.front() else { return };
            if links.mark(front) & RESIDENT != 0 || self.segment(links, front) < self.length {
                return;
            }
            self.order.remove(links, front);
            self.forgotten.note(front);
        }
    }

    /// The pair that would have got more than LRU, and the most.
    #[inline]
    fn best(&self) -> Option<Early> {
        let upto = |segment: usize| self.counts[..=segment].iter().sum::<u32>();
        let mut best = None;
        let mut most = f64::from(upto(self.middle));
        let frames = self.points[self.middle];
        for early in 0..self.middle {
            let (near, e) = (upto(early), self.points[early]);
            for late in self.middle + 1..self.length {
                let share = f64::from(frames - e) / f64::from(self.points[late] - e);
                let got = f64::from(near) + f64::from(upto(late) - near) * share;
                if got > most {
                    most = got;
                    best = Some(Early { early, late });
                }
            }
        }
        best
    }

    fn choose(&self, links: &Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let last = self.residents.iter(&self.own).find(|&handle| !pinned(handle))?;
        let Some(pair) = self.best() else { return Some(last) };
        let end = self.ends[pair.early];
        if self.segment(links, last) > pair.late || end == NONE {
            return Some(last);
        }
        let behind = core::iter::successors(Some(end), |&handle| self.order.before(links, handle));
        let fits = |&handle: &Handle| links.mark(handle) & RESIDENT != 0 && !pinned(handle);
        Some(behind.take(LOOKS_MAX).find(fits).unwrap_or(last))
    }
}

impl Online for Eelru {
    type Parameters = EelruParameters;
    const NAME: &'static str = "eelru";
    const SUMMARY: &'static str =
        "LRU that evicts early where blocks return soon after LRU has replaced them";

    fn new(frames: u32, parameters: EelruParameters) -> Self {
        let mut policy = Self { parameters, ends: [NONE; POINTS_MAX], ..Self::default() };
        policy.measure(frames.max(1));
        policy
    }
}

impl Policy for Eelru {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.count(self.segment(links, handle));
        self.renew(links, handle);
        self.residents.move_to_back(&mut self.own, handle);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.own.grow(links.capacity());
        if links.is_linked(handle) {
            self.count(self.segment(links, handle));
            self.renew(links, handle);
        } else {
            self.count(self.length);
            links.set_mark(handle, 0);
            self.order.push_back(links, handle);
            self.shift(links, self.length);
        }
        links.set_mark(handle, links.mark(handle) | RESIDENT);
        self.residents.push_back(&mut self.own, handle);
        self.trim(links);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.choose(links, pinned)?;
        self.residents.remove(&mut self.own, victim);
        links.set_mark(victim, links.mark(victim) & !RESIDENT);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        if links.mark(handle) & RESIDENT != 0 {
            self.residents.remove(&mut self.own, handle);
        }
        self.leave(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.residents.len()
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        links.is_linked(handle) && links.mark(handle) & RESIDENT == 0
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take()
    }

    /// Looks at all handles known: their segments change.
    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.measure(frames.max(1));
        self.counts = [0; POINTS_MAX];
        self.ends = [NONE; POINTS_MAX];
        let (mut position, mut segment) = (0, 0);
        let mut next = self.order.back();
        while let Some(handle) = next {
            position += 1;
            self.set_segment(links, handle, segment);
            if segment < self.length && position == self.points[segment] {
                self.ends[segment] = handle;
                segment += 1;
            }
            next = self.order.before(links, handle);
        }
    }

    fn reserve(&mut self, handles: u32) {
        self.own.grow(handles);
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch(handle);
        self.own.prefetch(handle);
    }

    fn validate(&self, links: &Links) {
        self.order.validate(links);
        self.residents.validate(&self.own);
        let residents = self.order.iter(links).filter(|&handle| links.mark(handle) & RESIDENT != 0);
        assert!(residents.eq(self.residents.iter(&self.own)), "R1: residents and their order");
        let points = &self.points[..self.length];
        assert!(points.is_sorted_by(|a, b| a < b), "R3: the points increase");
        for (position, handle) in (1..).zip(self.order.iter(links).rev()) {
            let segment = points.iter().filter(|&&point| point < position).count();
            assert_eq!(self.segment(links, handle), segment, "R2: the segment of {handle}");
            let end = points.iter().position(|&point| point == position);
            assert!(end.is_none_or(|end| self.ends[end] == handle), "R3: {handle} stands at a point");
        }
        for (&point, &end) in points.iter().zip(&self.ends) {
            assert_eq!(end == NONE, self.order.len() < point, "R3: a point beyond the last handle");
        }
    }
}
