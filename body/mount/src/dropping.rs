//! The threads that have the kernel drop pages: so that a change can be acknowledged (M2 of
//! `pages`), or because their block left its frame.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use fuser::{INodeNo, Notifier};
use pantler_steward::FileId;

use crate::content::Content;
use crate::left::Left;
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

/// Drops that an answer waits for.
enum Awaited {
    /// Have the pages of a change dropped, and acknowledge it.
    Acknowledge(Unseen, Answer),
    /// Have all pages of versions before this one dropped, and say so.
    Outdate(u64, Arc<Content>, FileId, Answer),
    End,
}

/// The two threads that have pages dropped. Answers do not wait for blocks that left.
pub(crate) struct PageDropper {
    // There are never more of these than threads of programs.
    awaited: Queue<Awaited>,
    left: Arc<Left>,
    is_ending: AtomicBool,
}

/// A queue, and its other end until a thread takes it.
struct Queue<T> {
    sender: Sender<T>,
    receiver: Mutex<Option<Receiver<T>>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl Default for PageDropper {
    fn default() -> Self {
        Self { awaited: Queue::default(), left: Arc::default(), is_ending: AtomicBool::new(false) }
    }
}

impl PageDropper {
    /// Starts the threads, once.
    pub(crate) fn start(&self, notifier: &Notifier) -> io::Result<[JoinHandle<()>; 2]> {
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let awaited = self.awaited.receiver.lock().expect("nothing panics under it").take();
        let (left, one, other) = (Arc::clone(&self.left), notifier.clone(), notifier.clone());
        Ok([
            thread("pantler-pages")
                .spawn(move || awaited.map_or((), |awaited| answer_all(&awaited, &one)))?,
            thread("pantler-left").spawn(move || drop_all(&left, &other))?,
        ])
    }

    /// Ends the threads, after what was ordered.
    pub(crate) fn stop(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        let _ = self.awaited.sender.send(Awaited::End);
        self.left.end();
    }

    /// Answers once no page of the kernel's hides the change (M2).
    pub(crate) fn answer(&self, unseen: Option<Unseen>, answer: impl FnOnce() + Send + 'static) {
        match unseen {
            Some(unseen) => self.order(answer, |answer| Awaited::Acknowledge(unseen, answer)),
            None => answer(),
        }
    }

    /// Answers once the kernel has no page of versions before this one: a change behind the mount
    /// was seen (V2 of `content`), and the program that asks is to see it, too. Not to be asked
    /// for a read of such pages, which would wait for itself.
    pub(crate) fn answer_up_to_date(
        &self,
        (number, content, version): (u64, Arc<Content>, FileId),
        answer: impl FnOnce() + Send + 'static,
    ) {
        self.order(answer, |answer| Awaited::Outdate(number, content, version, answer));
    }

    fn order(&self, answer: impl FnOnce() + Send + 'static, awaited: impl FnOnce(Answer) -> Awaited) {
        if self.is_ending.load(Ordering::SeqCst) {
            // The mount ends, and its pages with it.
            return answer();
        }
        // What comes after the end is dropped with the queue, and with it the reply, which says
        // that the mount ended.
        let _ = self.awaited.sender.send(awaited(Box::new(answer)));
    }

    /// For a cache: has bytes of an inode dropped, soon.
    pub(crate) fn take_back(&self) -> impl Fn(u64, Range<u64>) + Send + use<> {
        let left = Arc::clone(&self.left);
        move |number, bytes| left.add(number, bytes)
    }

    /// The kernel knows an inode no more: it has none of its pages.
    pub(crate) fn forget(&self, number: u64) {
        self.left.forget(number);
    }
}

fn answer_all(orders: &Receiver<Awaited>, notifier: &Notifier) {
    for awaited in orders {
        match awaited {
            Awaited::Acknowledge(unseen, answer) => {
                unseen.drop_pages(notifier);
                unseen.content.pages.forget(&unseen.change);
                answer();
            }
            Awaited::Outdate(number, content, version, answer) => {
                drop_pages(notifier, number, 0..0);
                content.is_shown(version);
                answer();
            }
            Awaited::End => return,
        }
    }
}

fn drop_all(left: &Left, notifier: &Notifier) {
    while let Some((number, ranges)) = left.take() {
        ranges.for_each(|bytes| drop_pages(notifier, number, bytes));
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
