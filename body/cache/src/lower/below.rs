//! The tiers below a cache, by the names that its steward has for them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pantler_steward::placement::{Passing, Tier};
use pantler_steward::tiers::{Hierarchy, WayDown};
use pantler_steward::{Kept, Label, Options, OptionsError, Steward};
use pantler_tier::{Key, News, Put};

use super::attached::{Attached, Order};

/// Frames of a tier that are used: what is known of its blocks is kept in memory.
pub(super) const FRAMES_MAX: u32 = 1 << 25;
/// Carries out what the steward decides about lower tiers, as far as queues take it, and tells it
/// what tiers say. Guarded by the lock of the frames.
pub(crate) struct Below {
    attached: Arc<[Attached]>,
    block_bytes: usize,
    buffers_max: usize,
    /// Since 1970, and from then on.
    started: (Duration, Instant),
}

impl Below {
    /// Over these tiers, each of which may use that many buffers.
    pub(crate) fn new(attached: Arc<[Attached]>, block_bytes: usize, buffers_max: usize) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { attached, block_bytes, buffers_max, started: (since_1970, Instant::now()) }
    }

    /// The steward over these tiers, which knows what they hold.
    pub(crate) fn steward(&self, options: Options, passing: Passing) -> Result<Steward, OptionsError> {
        let frames: Vec<u32> = self.attached.iter().map(|one| self.frames_of(one)).collect();
        let own = self.attached.iter().take_while(|one| one.tier.is_own()).count();
        let mut steward = Steward::with_tiers(options, &Hierarchy { below: &frames, own, passing })?;
        // Farther tiers hold older blocks, which go below.
        for (number, one) in self.attached.iter().enumerate() {
            self.came(&mut steward, number, &one.tier.held());
        }
        Ok(steward)
    }

    /// Time of references, in microseconds: of a clock that does not go back, and that went before
    /// this mount did.
    pub(crate) fn now_us(&self) -> u64 {
        let (started, since) = self.started;
        u64::try_from((started + since.elapsed()).as_micros()).unwrap_or(u64::MAX)
    }

    /// What the steward has to know of now.
    pub(crate) fn tell(&self, steward: &mut Steward) {
        let way_down = match self.attached.first() {
            Some(one) if one.breaker.is_open() => WayDown::Closed,
            Some(one) if !one.has_room(self.buffers_max) => WayDown::Full,
            _ => WayDown::Open,
        };
        steward.tell_tiers(self.now_us(), way_down);
    }

    /// A tier works that did not, or was not known. It may be of another size than was believed,
    /// and hold blocks from before (U7).
    pub(crate) fn came(&self, steward: &mut Steward, number: usize, held: &[Key]) {
        let Some(one) = self.attached.get(number) else { return };
        self.tell(steward);
        let now = self.now_us();
        let time = |age: Duration| now.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        let held: Vec<_> = held.iter().map(|key| (Label::from(*key), one.tier.age(key).map(time))).collect();
        steward.tier_came(tier_of(number), self.frames_of(one), one.tier.has_more(), &held);
    }

    /// What a tier told (U5).
    pub(crate) fn listen(&self, steward: &mut Steward, number: usize, news: News) {
        let Some(one) = self.attached.get(number) else { return };
        one.count(|counts| {
            counts.notices += news.gone.len() as u64;
            counts.unknown += u64::from(news.unknown);
        });
        for key in news.gone {
            steward.left(key.into(), Some(tier_of(number)));
        }
        steward.tier_is_full(tier_of(number), news.full);
    }

    /// Bytes of a buffer, of which the order becomes a user, go down. `false`: they cannot.
    pub(crate) fn put(&self, to: Kept, why: Put, (buffer, length): (u32, u32)) -> bool {
        let Kept { label, tier, accessed_us } = to;
        let order = Order::Buffer { key: label.into(), buffer, length, why, accessed_us };
        self.order(tier, order)
    }

    /// A block goes from a tier to the next. `false`: it cannot.
    pub(crate) fn pass(&self, label: Label, from: Tier, accessed_us: u64) -> bool {
        self.order(from, Order::Pass { key: label.into(), accessed_us })
    }

    /// A block stays until it is the oldest there if its removal finds no room to wait.
    pub(crate) fn remove(&self, label: Label, from: Tier) {
        if let Some(one) = self.attached.get(number_of(from)) {
            // Also before a tier that works again is used again.
            let _ = one.accept(Order::Remove { key: label.into() }, 0);
        }
    }

    fn order(&self, tier: Tier, order: Order) -> bool {
        let Some(one) = self.attached.get(number_of(tier)) else { return false };
        let taken = one.order(order, self.buffers_max).is_ok();
        if !taken {
            one.count(|counts| counts.dropped += 1);
        }
        taken
    }

    /// Orders may be done: no reference that they follow from is in flight any more, as far as
    /// known.
    pub(crate) fn release_orders(&self) {
        self.attached.iter().for_each(Attached::release);
    }

    /// Frames of a tier, as far as they are used.
    fn frames_of(&self, one: &Attached) -> u32 {
        let frames = one.tier.frames(self.block_bytes);
        if frames > FRAMES_MAX {
            tracing::warn!(
                tier = one.tier.name(),
                frames,
                used = FRAMES_MAX,
                "larger than what is used: larger blocks reach farther"
            );
        }
        frames.clamp(1, FRAMES_MAX)
    }
}

/// Tier 2 is the first that is attached.
pub(crate) fn tier_of(number: usize) -> Tier {
    Tier::at(number + 1)
}

fn number_of(tier: Tier) -> usize {
    usize::from(tier.0).saturating_sub(2)
}
