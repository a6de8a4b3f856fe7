//! The thread that has the kernel drop pages, so that a change can be acknowledged (M2 of `pages`).

use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fuser::{INodeNo, Notifier};

use crate::content::Content;
use crate::pages::Change;

/// A change that is acknowledged when the kernel has dropped the pages that it covers.
pub(crate) struct Unseen {
    pub(crate) number: u64,
    pub(crate) content: Arc<Content>,
    pub(crate) change: Arc<Change>,
}

impl Unseen {
    /// Waits for what the kernel has to write back first, so no thread that serves requests may
    /// call it.
    fn drop_pages(&self, notifier: &Notifier) {
        let Range { start, end } = self.change.range;
        // No length means to the end.
        let length = i64::try_from(end - start).unwrap_or(0);
        // It fails when the kernel does not know the file any more, or the mount ended: then there
        // are no pages.
        let _ = notifier.inval_inode(INodeNo(self.number), start as i64, length);
    }
}

type Answer = Box<dyn FnOnce() + Send>;

/// The thread that has pages dropped.
#[derive(Default)]
pub(crate) struct PageDropper {
    // Each order is a request that a program waits for: there are never more than threads of
    // programs.
    orders: Mutex<Option<Sender<(Unseen, Answer)>>>,
}

impl PageDropper {
    pub(crate) fn start(&self, notifier: Notifier) -> io::Result<JoinHandle<()>> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("pantler-pages".into());
        let thread = thread.spawn(move || serve(&receiver, &notifier))?;
        *self.orders() = Some(sender);
        Ok(thread)
    }

    /// Ends the thread, after what was ordered.
    pub(crate) fn stop(&self) {
        *self.orders() = None;
    }

    /// Answers once no page of the kernel's hides the change (M2).
    pub(crate) fn answer(&self, unseen: Option<Unseen>, answer: impl FnOnce() + Send + 'static) {
        let Some(unseen) = unseen else { return answer() };
        match self.orders().as_ref() {
            // It cannot fail: the thread ends after the sender does.
            Some(orders) => drop(orders.send((unseen, Box::new(answer)))),
            // The mount ends, and its pages with it.
            None => answer(),
        }
    }

    fn orders(&self) -> MutexGuard<'_, Option<Sender<(Unseen, Answer)>>> {
        self.orders.lock().expect("nothing panics under it")
    }
}

fn serve(orders: &Receiver<(Unseen, Answer)>, notifier: &Notifier) {
    for (unseen, answer) in orders {
        unseen.drop_pages(notifier);
        unseen.content.pages.forget(&unseen.change);
        answer();
    }
}
