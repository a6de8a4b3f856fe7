//! The hands: carry out a decision of the engine with system calls, and answer.

use std::io;
use std::os::fd::BorrowedFd;

use pantler_pagecache::{Answer, Decision, Rule, Span};

use crate::files::Files;
use crate::files::devices::Descriptor;
use crate::takeover::TakenOver;
use pantler_kernel::mapped::Mapper;
use pantler_kernel::pages;

/// The open files of a run, and what was changed about them.
#[derive(Debug, Default)]
pub(crate) struct Hands {
    pub(crate) files: Files,
    taken_over: TakenOver,
    /// The descriptors that the last search found: a take-over of the same file follows at once.
    found: Option<(u32, u32, Vec<Descriptor>)>,
    last_look: LastLook,
}

/// The processes that have a file mapped, as of the round with this time: several runs of its
/// blocks leave in one.
#[derive(Debug, Default)]
struct LastLook {
    file: u32,
    at_ns: u64,
    mappers: Vec<Mapper>,
}

impl Hands {
    /// Carries out a decision. Searches and notices are the caller's: they concern owners.
    pub(crate) fn carry_out(&mut self, decision: Decision, now_ns: u64) -> Answer {
        match decision {
            Decision::Drop { span, rule } => self.drop(span, rule, now_ns),
            Decision::ReadAhead { span, .. } => self.with(span, now_ns, |file| {
                pages::read_ahead(file, span.first, span.blocks).map(|()| Answer::Done)
            }),
            // Looking must not keep files open, nor open closed ones.
            Decision::Ask { span, rule: Rule::Audit } => match self.files.open_descriptor(span.file) {
                Some(file) => cached(file, span).unwrap_or(Answer::Failed),
                None => Answer::Unreachable,
            },
            Decision::Ask { span, .. } => self.with(span, now_ns, |file| cached(file, span)),
            Decision::Await { span } => self.with(span, now_ns, |file| {
                let is_awaited = is_awaited(file, span.first + span.blocks - 1);
                Ok(if is_awaited { Answer::NotYet } else { Answer::Done })
            }),
            Decision::TakeOver { file, thread } => self.take_over(file, thread, now_ns),
            Decision::Find { .. } | Decision::Tell { .. } => Answer::Failed,
        }
    }

    fn drop(&mut self, span: Span, rule: Rule, now_ns: u64) -> Answer {
        let is_mapped = rule == Rule::EvictedByWish && self.page_out(span, now_ns);
        let answer = self.with(span, now_ns, |file| {
            pages::drop_blocks(file, span.first, span.blocks)?;
            cached(file, span)
        });
        if answer == Answer::Cached(0) || !is_mapped {
            return answer;
        }
        // Pages that were just mapped are in the order of eviction by now: a drop that fails waits
        // for that.
        self.page_out(span, now_ns);
        self.with(span, now_ns, |file| cached(file, span))
    }

    /// Drops blocks from the page cache, after what was written is on the disk.
    pub(crate) fn give_up(&mut self, span: Span, now_ns: u64) {
        self.with(span, now_ns, |file| {
            pages::drop_blocks(file, span.first, span.blocks)?;
            if cached(file, span)? != Answer::Cached(0) {
                let bytes =
                    span.indices().start * pages::block_bytes()..span.indices().end * pages::block_bytes();
                pages::write_out(file, &[bytes])?;
            }
            Ok(Answer::Done)
        });
    }

    /// Takes blocks from the processes that have them mapped. Says whether there are any.
    fn page_out(&mut self, span: Span, now_ns: u64) -> bool {
        let last = &mut self.last_look;
        if (last.file, last.at_ns) != (span.file, now_ns) {
            *last = LastLook { file: span.file, at_ns: now_ns, mappers: self.files.mappers(span.file) };
        }
        for mapper in &last.mappers {
            // What stayed is counted.
            let _ = mapper.page_out(span.first, span.blocks);
        }
        !last.mappers.is_empty()
    }

    fn with(
        &mut self,
        span: Span,
        now_ns: u64,
        call: impl FnOnce(BorrowedFd<'_>) -> io::Result<Answer>,
    ) -> Answer {
        match self.files.descriptor(span.file, now_ns) {
            Some(file) => call(file).unwrap_or(Answer::Failed),
            None => Answer::Unreachable,
        }
    }

    /// Opens a file by its number alone, without a name, in half the time of a search. The size in
    /// blocks; `None` where that cannot be done, or where programs know files by names of overlays.
    pub(crate) fn reach(&mut self, file: u32, now_ns: u64) -> Option<u64> {
        let is_reached = !self.files.have_overlays() && self.files.descriptor(file, now_ns).is_some();
        is_reached.then(|| self.files.size_blocks(file))
    }

    /// Looks for a file where a thread has it open. Says whether it can be acted on. Unless it is
    /// told what is mapped (`maps_are_told`), any file may be.
    pub(crate) fn find(&mut self, file: u32, thread: u32, maps_are_told: bool, now_ns: u64) -> bool {
        // A list of mappings takes longer to read than all else that is looked at.
        let may_be_mapped = !maps_are_told || self.files.was_mapped(file);
        let descriptors = self.files.resolve(file, thread, may_be_mapped, now_ns);
        self.found = Some((file, thread, descriptors));
        self.files.size_blocks(file) != 0
    }

    fn take_over(&mut self, file: u32, thread: u32, now_ns: u64) -> Answer {
        let descriptors = match self.found.take() {
            Some((of, by, descriptors)) if (of, by) == (file, thread) => descriptors,
            _ => self.files.resolve(file, thread, true, now_ns),
        };
        let taken = descriptors.iter().filter(|&&found| self.taken_over.take(thread, found).is_ok());
        if taken.count() > 0 { Answer::Done } else { Answer::Failed }
    }

    /// The program chose the readahead of this descriptor itself since it was taken over: that is
    /// not undone when the run ends.
    pub(crate) fn leave_readahead(&mut self, thread: u32, descriptor: i32) {
        self.taken_over.forget(thread, descriptor);
    }

    /// Lets go of the processes that were looked at last.
    pub(crate) fn end_look(&mut self) {
        self.last_look = LastLook::default();
    }

    /// Gives readahead back to the kernel wherever one of these processes has the file open still.
    pub(crate) fn restore(&mut self, processes: impl Fn(u32) -> bool) {
        self.taken_over.restore(processes);
    }
}

fn cached(file: BorrowedFd<'_>, span: Span) -> io::Result<Answer> {
    pages::count_cached(file, span.first, span.blocks).map(Answer::Cached)
}

/// Whether reading this block would wait. An error counts as no: waiting for it would not end.
fn is_awaited(file: BorrowedFd<'_>, index: u64) -> bool {
    let mut byte = [0];
    let flags = rustix::io::ReadWriteFlags::NOWAIT;
    let read =
        rustix::io::preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], index * pages::block_bytes(), flags);
    read == Err(rustix::io::Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_block_behind_the_end_is_not_awaited() {
        let file = tempfile::tempfile().expect("a file");
        assert!(!is_awaited(file.as_fd(), 3), "the file was cut");
    }
}
