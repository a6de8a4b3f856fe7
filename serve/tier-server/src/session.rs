//! What a client has said about itself, and what it has been told.

use crate::shared::Shared;
use crate::store::{NOBODY, Notices, Owner};
use pantler_tier::wire::{Protocol, Reply};

/// One client, whatever its connection is made of.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) protocol: Protocol,
    /// It has said the password, or needs none.
    pub(crate) known: bool,
    /// Wrong passwords so far.
    pub(crate) failures: u32,
    pub(crate) owner: Owner,
    /// The connection ends after what is to be said.
    pub(crate) closing: bool,
    /// Fullness as last told to clients that joined.
    told_full: Option<bool>,
}

impl Session {
    pub(crate) fn new(id: u64, known: bool) -> Self {
        Self {
            id,
            protocol: Protocol::default(),
            known,
            failures: 0,
            owner: NOBODY,
            closing: false,
            told_full: None,
        }
    }

    /// Rule U5: what became of this client's blocks goes with the answer, before it.
    pub(crate) fn news(&mut self, shared: &mut Shared) -> Option<Reply> {
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

    /// Answers in that protocol from now on. A client that cannot be told anything owns
    /// nothing.
    pub(crate) fn speak(&mut self, shared: &mut Shared, protocol: Protocol) {
        if protocol == Protocol::Resp2 {
            shared.store.leave(self.owner);
            (self.owner, self.told_full) = (NOBODY, None);
        }
        self.protocol = protocol;
    }
}
