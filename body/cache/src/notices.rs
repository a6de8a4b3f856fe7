//! Notices for owners, until they are taken.

use std::collections::VecDeque;

use pantler_steward::{Notice, OwnerId};

/// Notices kept until they are taken; older ones are lost.
const NOTICES_MAX: usize = 64;

/// The latest notices, and a bell that says that there are some.
#[derive(Default)]
pub(crate) struct Notices {
    waiting: VecDeque<(OwnerId, Notice)>,
    bell: Option<Box<dyn Fn() + Send>>,
}

impl Notices {
    pub(crate) fn push(&mut self, owner: OwnerId, notice: Notice) {
        if self.waiting.len() == NOTICES_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((owner, notice));
        if let Some(bell) = &self.bell {
            bell();
        }
    }

    pub(crate) fn take(&mut self) -> Vec<(OwnerId, Notice)> {
        std::mem::take(&mut self.waiting).into()
    }

    pub(crate) fn ring(&mut self, bell: impl Fn() + Send + 'static) {
        self.bell = Some(Box::new(bell));
    }
}
