//! Lines over a Unix socket, with at most one descriptor beside each.

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::wire::MESSAGE_BYTES_MAX;

/// Bytes asked from the kernel at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Room for one message's descriptors. One is expected; more are received, so that they can be
/// refused and closed.
const DESCRIPTORS_MAX: usize = 4;

/// One end of a conversation.
#[derive(Debug)]
pub(crate) struct Lines {
    stream: UnixStream,
    /// Bytes that arrived behind the last line.
    rest: Vec<u8>,
}

/// A line without its newline, and the descriptor that came with it.
pub(crate) type Line = (Vec<u8>, Option<OwnedFd>);

impl Lines {
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, rest: Vec::new() }
    }

    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends one line, newline included, and a descriptor with its first byte.
    pub fn send(&self, line: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files: Vec<_> = file.into_iter().collect();
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::Error::other("no room for a descriptor"));
        }
        let mut sent = retry_on_intr(|| {
            rustix::net::sendmsg(&self.stream, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)
        })?;
        while sent < line.len() {
            sent += retry_on_intr(|| rustix::net::send(&self.stream, &line[sent..], SendFlags::NOSIGNAL))?;
        }
        Ok(())
    }

    /// Receives one line; `None` when the other side is gone. A line that is too long, or comes
    /// with more than one descriptor, is an error: the conversation is over.
    pub fn receive(&mut self) -> io::Result<Option<Line>> {
        let mut file = None;
        let mut searched = 0;
        loop {
            if let Some(end) = self.rest[searched..].iter().position(|&b| b == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=searched + end).collect();
                line.pop();
                return Ok(Some((line, file)));
            }
            searched = self.rest.len();
            if searched > MESSAGE_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
            }
            if self.fill(&mut file)? == 0 {
                return Ok(None);
            }
        }
    }

    fn fill(&mut self, file: &mut Option<OwnedFd>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut chunk = vec![0; CHUNK_BYTES];
        let count = retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut chunk)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            Ok(rustix::net::recvmsg(&self.stream, &mut parts, &mut control, flags)?.bytes)
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                for received in files {
                    if file.replace(received).is_some() {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, "more than one descriptor"));
                    }
                }
            }
        }
        self.rest.extend_from_slice(&chunk[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Lines, Lines) {
        let (a, b) = UnixStream::pair().unwrap();
        (Lines::new(a), Lines::new(b))
    }

    #[test]
    fn lines_arrive_one_by_one() {
        let (a, mut b) = pair();
        a.send(b"one\ntwo\nthr", None).unwrap();
        a.send(b"ee\n", None).unwrap();
        drop(a);
        for expected in ["one", "two", "three"] {
            assert_eq!(b.receive().unwrap().unwrap().0, expected.as_bytes());
        }
        assert!(b.receive().unwrap().is_none());
    }

    #[test]
    fn endless_lines_are_refused() {
        let (a, mut b) = pair();
        let sender = std::thread::spawn(move || {
            let chunk = vec![b'x'; 1 << 20];
            while a.send(&chunk, None).is_ok() {}
        });
        assert_eq!(b.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(b);
        sender.join().unwrap();
    }
}
