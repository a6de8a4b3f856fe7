//! What waits to be written to a connection: small replies together, large values from where they
//! are.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

use bytes::{Buf, Bytes, BytesMut};

use pantler_tier::wire::{Protocol, Reply, bytes_head};

/// From this size on a value is not copied: an entry more in the list of a writev costs about as
/// much.
const SHARED_BYTES_MIN: usize = 16 << 10;
/// Pieces of one write.
const PIECES_MAX: usize = 64;
/// What a buffer may keep for the next replies.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Pieces in order, then `tail`.
#[derive(Default)]
pub(crate) struct Output {
    pieces: VecDeque<Bytes>,
    tail: BytesMut,
    /// In `pieces`.
    queued: usize,
    /// Bytes of the first piece that are out already: it is kept until all of it is.
    begun: usize,
}

impl Output {
    pub(crate) fn push(&mut self, reply: &Reply, protocol: Protocol) {
        match reply {
            Reply::Bytes(bytes) if bytes.len() >= SHARED_BYTES_MIN => {
                bytes_head(bytes.len(), &mut self.tail);
                let head = self.tail.split().freeze();
                self.queued += head.len() + bytes.len();
                self.pieces.extend([head, bytes.clone()]);
                self.tail.extend_from_slice(b"\r\n");
            }
            Reply::List(list) => {
                self.tail.extend_from_slice(format!("*{}\r\n", list.len()).as_bytes());
                list.iter().for_each(|reply| self.push(reply, protocol));
            }
            _ => reply.encode(protocol, &mut self.tail),
        }
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.queued + self.tail.len()
    }

    /// Memory that is kept for them.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.begun + self.queued + self.tail.capacity()
    }

    /// Gives back memory in which nothing waits.
    pub(crate) fn trim(&mut self) {
        if self.tail.is_empty() {
            self.tail = BytesMut::new();
        }
    }

    /// Writes as much as the sink takes. An error of the kind `WouldBlock` is not one.
    pub(crate) fn write_to(&mut self, sink: &mut impl Write) -> io::Result<()> {
        while self.len() > 0 {
            let (offered, wrote) = if self.pieces.is_empty() {
                (self.tail.len(), sink.write(&self.tail))
            } else {
                let pieces = self.pieces.iter().map(|piece| &piece[..]).chain([&self.tail[..]]);
                let slices: Vec<IoSlice<'_>> = pieces.take(PIECES_MAX).map(IoSlice::new).collect();
                (slices.iter().map(|slice| slice.len()).sum(), sink.write_vectored(&slices))
            };
            match wrote {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) if count < offered => {
                    // It is full: trying again at once would be in vain.
                    self.advance(count);
                    return Ok(());
                }
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if self.tail.capacity() > KEPT_BYTES_MAX {
            self.tail = BytesMut::new();
        }
        Ok(())
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(piece) = self.pieces.front_mut().filter(|_| count > 0) {
            let part = count.min(piece.len());
            piece.advance(part);
            (count, self.queued, self.begun) = (count - part, self.queued - part, self.begun + part);
            if piece.is_empty() {
                self.pieces.pop_front();
                self.begun = 0;
            }
        }
        while self.pieces.front().is_some_and(Bytes::is_empty) {
            self.pieces.pop_front();
        }
        if count == self.tail.len() {
            self.tail.clear();
        } else {
            self.tail.advance(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes at a time, and now and then none.
    struct Stingy(Vec<u8>, usize);

    impl Write for Stingy {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1.is_multiple_of(3) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(7001);
            self.0.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_is_lost_or_turned_around() {
        let mut output = Output::default();
        let mut expected = BytesMut::new();
        let mut sink = Stingy(Vec::new(), 0);
        for round in 0..50_usize {
            let value = Bytes::from(vec![round as u8; round * 1999]);
            for reply in [Reply::Bytes(value), Reply::Null, Reply::Simple("OK"), Reply::Number(-3)] {
                reply.encode(Protocol::Resp3, &mut expected);
                output.push(&reply, Protocol::Resp3);
            }
            output.write_to(&mut sink).unwrap();
            let pieces: usize = output.pieces.iter().map(Bytes::len).sum();
            assert!(output.buffer_bytes() >= pieces + output.tail.len());
        }
        while output.len() > 0 {
            output.write_to(&mut sink).unwrap();
        }
        assert_eq!(sink.0, expected);
        output.trim();
        assert_eq!(output.buffer_bytes(), 0);
    }

    #[test]
    fn a_value_is_kept_until_all_of_it_is_out() {
        let mut output = Output::default();
        output.push(&Reply::Bytes(Bytes::from(vec![1; 100_000])), Protocol::Resp3);
        let before = output.buffer_bytes();
        let mut sink = Stingy(Vec::new(), 0);
        while output.len() > 10 {
            output.write_to(&mut sink).unwrap();
            let is_whole = output.pieces.is_empty();
            assert!(is_whole || output.buffer_bytes() + 16 > before, "{} of {before}", output.buffer_bytes());
        }
    }
}
