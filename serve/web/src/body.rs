//! The body of an answer, and what is noted when it ends.

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

use crate::feed::Feed;
use crate::metrics::{Ended, Metrics};
use crate::pulse::Pulse;

/// Where the bytes of a body come from.
#[derive(Debug)]
pub enum Source {
    /// Nowhere.
    Nothing,
    /// They are here.
    Text(Bytes),
    /// First these, then the rest of a range.
    File(Option<Bytes>, Box<Feed>),
}

#[derive(Debug)]
pub struct AnswerBody {
    source: Source,
    /// Bytes that are left to hand over.
    left: u64,
    ending: Arc<Ending>,
}

impl AnswerBody {
    /// A body of `length` bytes.
    pub fn new(source: Source, length: u64, mut ending: Ending) -> Self {
        ending.length = Some(length);
        Self { source, left: length, ending: Arc::new(ending) }
    }

    fn poll_source(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        match &mut self.source {
            Source::Nothing => Poll::Ready(Ok(None)),
            Source::Text(bytes) => {
                Poll::Ready(Ok(Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty())))
            }
            Source::File(first, feed) => {
                if let Some(bytes) = first.take() {
                    return Poll::Ready(Ok(Some(bytes)));
                }
                let next = ready!(feed.poll_next(context));
                self.ending.waited.fetch_or(feed.has_waited, Relaxed);
                Poll::Ready(next)
            }
        }
    }
}

impl Body for AnswerBody {
    type Data = Portion;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Portion>, io::Error>>> {
        let next = ready!(self.poll_source(context)).transpose();
        Poll::Ready(next.map(|bytes| {
            let bytes = bytes?;
            self.left = self.left.saturating_sub(bytes.len() as u64);
            Ok(Frame::data(Portion { bytes, ending: self.ending.clone() }))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Bytes of an answer that the socket has not taken. The answer lasts as long as one of them.
#[derive(Debug)]
pub struct Portion {
    bytes: Bytes,
    ending: Arc<Ending>,
}

impl Buf for Portion {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.ending.taken.fetch_add(count as u64, Relaxed);
        self.ending.pulse.took();
    }
}

/// Notes that an answer ended when it is dropped.
#[derive(Debug)]
pub struct Ending {
    pub pulse: Arc<Pulse>,
    pub metrics: Arc<Metrics>,
    /// When the head of the request was there.
    pub start: Instant,
    pub status: u16,
    /// Bytes that it has, once that is known.
    pub length: Option<u64>,
    /// Of these, those that the socket has taken.
    pub taken: AtomicU64,
    /// Whether it waited for the disk.
    pub waited: AtomicBool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.pulse.end();
        let taken = self.taken.load(Relaxed);
        self.metrics.ended(&Ended {
            status: self.status,
            bytes: taken,
            waited: self.waited.load(Relaxed),
            is_whole: self.length == Some(taken),
            time: self.start.elapsed(),
        });
    }
}
