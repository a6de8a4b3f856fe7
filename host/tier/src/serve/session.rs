//! What a client has said about itself, and what it has been told.

use bytes::Bytes;

use super::Shared;
use crate::store::{NOBODY, Notices, Owner};
use crate::wire::{Protocol, Reply};

/// What a client wants to be told of changes by others.
#[derive(Default)]
pub(super) struct Tracking {
    /// Only keys that begin so; all where there is none.
    pub(super) prefixes: Vec<Vec<u8>>,
    /// Not what this connection did itself.
    pub(super) no_loop: bool,
}

impl Tracking {
    /// The keys of these changes that it wants to know, which were its `own` or another's.
    pub(super) fn wanted(&self, changes: &[(Box<[u8]>, bool)], own: bool) -> Vec<Reply> {
        let wanted = |(key, evicted): &&(Box<[u8]>, bool)| {
            let prefixed = self.prefixes.iter().any(|prefix| key.starts_with(prefix));
            (self.prefixes.is_empty() || prefixed) && (*evicted || !own || !self.no_loop)
        };
        changes.iter().filter(wanted).map(|(key, _)| Reply::Bytes(Bytes::copy_from_slice(key))).collect()
    }
}

/// One client, whatever its connection is made of.
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) protocol: Protocol,
    pub(super) name: String,
    /// It has said the password, or needs none.
    pub(super) known: bool,
    /// Wrong passwords so far.
    pub(super) failures: u32,
    pub(super) owner: Owner,
    /// The connection ends after what is to be said.
    pub(super) closing: bool,
    /// Fullness as last told to clients that joined.
    told_full: Option<bool>,
    pub(super) tracking: Option<Tracking>,
}

impl Session {
    pub(super) fn new(id: u64, known: bool) -> Self {
        Self {
            id,
            protocol: Protocol::default(),
            name: String::new(),
            known,
            failures: 0,
            owner: NOBODY,
            closing: false,
            told_full: None,
            tracking: None,
        }
    }

    /// Rule U5: what became of this client's blocks goes with the answer, before it.
    pub(super) fn news(&mut self, shared: &mut Shared) -> Option<Reply> {
        if self.owner == NOBODY {
            return None;
        }
        let Notices { gone, unknown } = shared.store.notices(self.owner);
        let full = shared.store.is_full();
        if gone.is_empty() && !unknown && self.told_full == Some(full) {
            return None;
        }
        self.told_full = Some(full);
        let gone = gone.into_iter().map(|key| Reply::Bytes(key.into_vec().into())).collect();
        let news = vec![
            Reply::text("pantler"),
            Reply::Number(full.into()),
            Reply::Number(unknown.into()),
            Reply::List(gone),
        ];
        Some(Reply::Push(news))
    }

    /// Tracks from now on, or not.
    pub(super) fn track(&mut self, shared: &mut Shared, tracking: Option<Tracking>) {
        shared.trackers += usize::from(tracking.is_some());
        shared.trackers -= usize::from(self.tracking.is_some());
        self.tracking = tracking;
        shared.store.watch(shared.trackers > 0);
    }

    /// Answers in that protocol from now on. A client that cannot be told anything owns and tracks
    /// nothing.
    pub(super) fn speak(&mut self, shared: &mut Shared, protocol: Protocol) {
        if protocol == Protocol::Resp2 {
            shared.store.leave(self.owner);
            (self.owner, self.told_full) = (NOBODY, None);
            self.track(shared, None);
        }
        self.protocol = protocol;
    }
}
