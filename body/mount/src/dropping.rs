//! The thread that has the kernel drop pages: so that a change can be acknowledged (M2 of `pages`),
//! or because their block left its frame.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use fuser::{INodeNo, Notifier};
use pantler_steward::FileId;

use crate::content::Content;
use crate::pages::Change;

/// A change that is acknowledged when the kernel has dropped the pages that it covers.
pub(crate) struct Unseen {
    pub(crate) number: u64,
    pub(crate) content: Arc<Content>,
    pub(crate) change: Arc<Change>,
}

impl Unseen {
    fn drop_pages(&self, notifier: &Notifier) {
        drop_pages(notifier, self.number, self.change.range.clone());
    }
}

type Answer = Box<dyn FnOnce() + Send>;

enum Order {
    /// Have the pages of a change dropped, and acknowledge it.
    Acknowledge(Unseen, Answer),
    /// Have all pages of versions before this one dropped, and say so.
    Outdate(u64, Arc<Content>, FileId, Answer),
    /// Have these bytes of an inode dropped: a block left its frame (K3 of the cache's `lending`).
    Drop(u64, Range<u64>),
    End,
}

/// The thread that has pages dropped.
pub(crate) struct PageDropper {
    // Each acknowledgement is a request that a program waits for: there are never more than threads
    // of programs. Of pages to drop there are as many as were read since.
    orders: Sender<Order>,
    /// Until the thread takes it.
    ordered: Mutex<Option<Receiver<Order>>>,
    is_ending: AtomicBool,
}

impl Default for PageDropper {
    fn default() -> Self {
        let (orders, ordered) = channel();
        Self { orders, ordered: Mutex::new(Some(ordered)), is_ending: AtomicBool::new(false) }
    }
}

impl PageDropper {
    /// Starts the thread. A second one has nothing to do.
    pub(crate) fn start(&self, notifier: Notifier) -> io::Result<JoinHandle<()>> {
        let ordered = self.ordered.lock().expect("nothing panics under it").take();
        let thread = std::thread::Builder::new().name("pantler-pages".into());
        thread.spawn(move || {
            if let Some(ordered) = ordered {
                serve(&ordered, &notifier);
            }
        })
    }

    /// Ends the thread, after what was ordered.
    pub(crate) fn stop(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        let _ = self.orders.send(Order::End);
    }

    /// Answers once no page of the kernel's hides the change (M2).
    pub(crate) fn answer(&self, unseen: Option<Unseen>, answer: impl FnOnce() + Send + 'static) {
        let Some(unseen) = unseen else { return answer() };
        if self.is_ending.load(Ordering::SeqCst) {
            // The mount ends, and its pages with it.
            return answer();
        }
        // What comes after the end is dropped with the channel, and with it the reply, which says
        // that the mount ended.
        let _ = self.orders.send(Order::Acknowledge(unseen, Box::new(answer)));
    }

    /// Answers once the kernel has no page of versions before this one: a change behind the mount
    /// was seen (V2 of `content`), and who asks is to see it, too. Not to be asked for a read of
    /// such pages, which would wait for itself.
    pub(crate) fn answer_up_to_date(
        &self,
        (number, content, version): (u64, Arc<Content>, FileId),
        answer: impl FnOnce() + Send + 'static,
    ) {
        if self.is_ending.load(Ordering::SeqCst) {
            return answer();
        }
        let _ = self.orders.send(Order::Outdate(number, content, version, Box::new(answer)));
    }

    /// For a cache: has bytes of an inode dropped, soon.
    pub(crate) fn take_back(&self) -> impl Fn(u64, Range<u64>) + Send + use<> {
        let orders = self.orders.clone();
        move |number, bytes| drop(orders.send(Order::Drop(number, bytes)))
    }
}

fn serve(ordered: &Receiver<Order>, notifier: &Notifier) {
    // What lies side by side is dropped in one go.
    let mut gathered: Option<(u64, Range<u64>)> = None;
    loop {
        let order = if gathered.is_some() { ordered.try_recv().ok() } else { ordered.recv().ok() };
        if let (Some(Order::Drop(number, bytes)), Some((of, before))) = (&order, &mut gathered)
            && (number, bytes.start) == (of, before.end)
        {
            before.end = bytes.end;
            continue;
        }
        if let Some((number, bytes)) = gathered.take() {
            drop_pages(notifier, number, bytes);
        }
        match order {
            Some(Order::Drop(number, bytes)) => gathered = Some((number, bytes)),
            Some(Order::Acknowledge(unseen, answer)) => {
                unseen.drop_pages(notifier);
                unseen.content.pages.forget(&unseen.change);
                answer();
            }
            Some(Order::Outdate(number, content, version, answer)) => {
                drop_pages(notifier, number, 0..0);
                content.is_shown(version);
                answer();
            }
            Some(Order::End) => return,
            None => {}
        }
    }
}

/// Waits for reads of these pages, and for what the kernel has to write back first, so no thread
/// that serves requests may call it.
fn drop_pages(notifier: &Notifier, number: u64, bytes: Range<u64>) {
    // No length means to the end.
    let length = i64::try_from(bytes.end - bytes.start).unwrap_or(0);
    // It fails when the kernel does not know the file any more, or the mount ended: then there are
    // no pages.
    let _ = notifier.inval_inode(INodeNo(number), bytes.start as i64, length);
}
