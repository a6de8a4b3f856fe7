//! A connection's bytes, and its end: closed so that the last answer arrives.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// How long a closed connection is read on. Closing it with unread bytes would make the client lose
/// our last answer.
const LINGER_TIME: Duration = Duration::from_millis(1500);
/// How much is read meanwhile.
const LINGER_BYTES: usize = 512 << 10;

/// See the head of this file.
pub struct Stream {
    wire: TcpStream,
    has_ended: bool,
    linger: Option<Linger>,
}

struct Linger {
    end: Pin<Box<Sleep>>,
    left: usize,
}

impl Stream {
    /// Of an accepted connection.
    pub fn new(wire: TcpStream) -> Self {
        Self { wire, has_ended: false, linger: None }
    }

    /// Reads until the client has closed too, or enough was done for it.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut linger = self
            .linger
            .take()
            .unwrap_or_else(|| Linger { end: Box::pin(tokio::time::sleep(LINGER_TIME)), left: LINGER_BYTES });
        let mut space = [0; 8192];
        while linger.left > 0 && linger.end.as_mut().poll(context).is_pending() {
            let mut into = ReadBuf::new(&mut space);
            match Pin::new(&mut self.wire).poll_read(context, &mut into) {
                Poll::Ready(Ok(())) if !into.filled().is_empty() => {
                    linger.left = linger.left.saturating_sub(into.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    self.linger = Some(linger);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.wire).poll_read(context, into))?;
        if into.filled().len() == before {
            self.has_ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.wire).poll_shutdown(context))?;
        }
        if self.has_ended { Poll::Ready(Ok(())) } else { self.poll_linger(context) }
    }
}
