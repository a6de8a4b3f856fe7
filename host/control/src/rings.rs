//! The rings of the programs that speak to one body.
//!
//! ```text
//!   rings --collect--> a queue for each --next, oldest first--> the body
//! ```
//!
//! A body collects when it has seen which references come next, and takes each entry before the
//! first reference that is later: a hint that is given before a read holds for it.
//!
//! R1  A queue has at most [`ENTRIES`] entries: what was written when it was collected is taken.
//! R2  `earliest_ns` is the time of the next entry that may be taken, or the end of time.
//!
//! `F` is what the body knows of a file, `W` the owner that the program is charged to.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;

use pantler_kernel::clock;
use pantler_kernel::peer::Peer;

use crate::ring::{ENTRIES, Entry, FILES_MAX, RingReader};
use crate::{ControlError, Hint, Speaker};

/// Rings of one body.
const RINGS_MAX: usize = 256;
/// Rings of one user other than root.
const RINGS_PER_USER_MAX: usize = 64;
/// What the hints of one user may take between two collections, but for the last of them. The rest
/// waits, while others go on.
const TURN_NS: u64 = 1_000_000;

/// A ring that a process handed over, and that process.
#[derive(Debug)]
pub struct OpenedRing {
    process: Peer,
    reader: RingReader,
}

impl OpenedRing {
    /// The ring that a process made.
    ///
    /// # Errors
    /// See [`RingReader::open`].
    pub fn new(process: Peer, file: BorrowedFd<'_>) -> Result<OpenedRing, ControlError> {
        Ok(OpenedRing { process, reader: RingReader::open(file)? })
    }
}

/// A hint that came by a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given<F, W> {
    /// The process that gave it, as it was attested when it opened its ring.
    pub pid: u32,
    /// The user of that process, then.
    pub uid: u32,
    /// It has ended, and its number may be another's.
    pub has_ended: bool,
    /// What is known of that process.
    pub owner: W,
    /// The hint.
    pub hint: Hint,
    /// The file that it is about, if it is about one.
    pub file: Option<F>,
}

#[derive(Debug)]
struct Ring<F, W> {
    opened: OpenedRing,
    pid: u32,
    uid: u32,
    owner: W,
    files: Vec<Option<F>>,
    queue: VecDeque<Entry>,
    /// Its process has ended, or it lied: it goes once its queue is empty.
    is_over: bool,
}

impl<F: Clone, W: Clone> Ring<F, W> {
    /// Copies what waits (R1). A time later than now is a lie: now is taken for it.
    fn collect(&mut self, now_ns: u64) {
        if self.is_over || !self.opened.reader.has_entries() {
            return;
        }
        // Asked first: what a process wrote before it ended counts, and what others write
        // afterwards into memory that it left them is taken once at most.
        self.is_over = self.opened.process.has_ended();
        let (queue, mut refused) = (&mut self.queue, 0);
        let room = ENTRIES - queue.len();
        let taken = self.opened.reader.take(room, |words| match Entry::decode(&words) {
            Ok(entry) => queue.push_back(Entry { time_ns: entry.time_ns.min(now_ns), ..entry }),
            Err(_) => refused += 1,
        });
        (0..refused).for_each(|_| self.opened.reader.refuse());
        if taken.is_err() {
            tracing::debug!(pid = self.pid, "a ring with a head that cannot be ends");
            self.is_over = true;
        }
    }

    /// The next of its queue. `None` also for a file without a number, which counts as refused.
    fn pop(&mut self) -> Option<Given<F, W>> {
        let Entry { file, hint, .. } = self.queue.pop_front()?;
        let known = file.map(|number| self.files.get(usize::from(number)).cloned().flatten());
        match known {
            Some(None) => {
                self.opened.reader.refuse();
                None
            }
            known => {
                let (pid, uid, owner, has_ended) = (self.pid, self.uid, self.owner.clone(), self.is_over);
                Some(Given { pid, uid, has_ended, owner, hint, file: known.flatten() })
            }
        }
    }
}

/// The rings of the programs that speak to one body.
#[derive(Debug)]
pub struct Rings<F, W> {
    rings: Vec<Ring<F, W>>,
    earliest_ns: u64,
    /// What the hints of each user took since the last collection, and since when the last one is
    /// carried out.
    spent_ns: HashMap<u32, u64>,
    under_way: Option<(u32, u64)>,
}

impl<F, W> Default for Rings<F, W> {
    fn default() -> Self {
        let (rings, spent_ns) = (Vec::new(), HashMap::new());
        Rings { rings, earliest_ns: u64::MAX, spent_ns, under_way: None }
    }
}

impl<F: Clone, W: Clone> Rings<F, W> {
    /// A process has opened a ring. One that it had before ends; what that one said is to be taken
    /// [before](Self::next_of).
    ///
    /// # Errors
    /// A bound.
    pub fn open(&mut self, speaker: &Speaker, owner: W, opened: OpenedRing) -> Result<(), ControlError> {
        self.rings.retain(|ring| {
            let is_left = ring.pid == speaker.pid || ring.queue.is_empty() && ring.opened.process.has_ended();
            !is_left
        });
        let of_user = self.rings.iter().filter(|ring| ring.uid == speaker.uid).count();
        let bound = match (self.rings.len() >= RINGS_MAX, speaker.uid != 0 && of_user >= RINGS_PER_USER_MAX) {
            (true, _) => format!("{RINGS_MAX} rings"),
            (_, true) => format!("{RINGS_PER_USER_MAX} rings of user {}", speaker.uid),
            _ => {
                let (pid, uid, files) = (speaker.pid, speaker.uid, vec![None; usize::from(FILES_MAX)]);
                let queue = VecDeque::with_capacity(ENTRIES);
                self.rings.push(Ring { opened, pid, uid, owner, files, queue, is_over: false });
                self.find_earliest();
                return Ok(());
            }
        };
        Err(ControlError::Bound { bound })
    }

    /// Entries of the speaker's ring name this file by a number from now on.
    ///
    /// # Errors
    /// It has no ring, or the number is none.
    pub fn number_file(&mut self, speaker: &Speaker, number: u16, file: F) -> Result<(), ControlError> {
        let is_its = |ring: &&mut Ring<F, W>| ring.pid == speaker.pid && ring.uid == speaker.uid;
        let ring = self.rings.iter_mut().find(is_its);
        let ring =
            ring.ok_or_else(|| ControlError::not_found(format!("a ring of process {}", speaker.pid)))?;
        let place = ring.files.get_mut(usize::from(number)).ok_or_else(|| {
            ControlError::invalid(format!("file number {number}: expected one below {FILES_MAX}"))
        })?;
        *place = Some(file);
        Ok(())
    }

    /// Whether a process has a ring in which something waits.
    pub fn has_hints_of(&self, pid: u32) -> bool {
        let waits = |ring: &Ring<F, W>| !ring.queue.is_empty() || ring.opened.reader.has_entries();
        self.rings.iter().any(|ring| ring.pid == pid && waits(ring))
    }

    /// Whether something waits in any.
    pub fn have_hints(&self) -> bool {
        self.rings.iter().any(|ring| !ring.queue.is_empty() || ring.opened.reader.has_entries())
    }

    /// Copies what programs have written until now, and begins a turn: each user has time again.
    pub fn collect(&mut self) {
        if self.rings.is_empty() {
            return;
        }
        self.spent_ns.clear();
        let now_ns = clock::monotonic_ns();
        self.rings.iter_mut().for_each(|ring| ring.collect(now_ns));
        self.rings.retain(|ring| !ring.is_over || !ring.queue.is_empty());
        self.find_earliest();
    }

    /// The oldest hint that was given up to this time. To be asked until there is none: what is
    /// done between two calls is charged to the user of the first.
    #[inline]
    pub fn next(&mut self, until_ns: u64) -> Option<Given<F, W>> {
        if self.earliest_ns > until_ns && self.under_way.is_none() { None } else { self.take_next(until_ns) }
    }

    #[cold]
    fn take_next(&mut self, until_ns: u64) -> Option<Given<F, W>> {
        self.charge();
        while self.earliest_ns <= until_ns {
            let earliest_ns = self.earliest_ns;
            let is_it = |ring: &&mut Ring<F, W>| {
                ring.queue.front().is_some_and(|entry| entry.time_ns == earliest_ns)
                    && has_time(&self.spent_ns, ring.uid)
            };
            let ring = self.rings.iter_mut().find(is_it)?;
            let given = ring.pop();
            self.find_earliest();
            if let Some(given) = given {
                self.under_way = Some((given.uid, clock::monotonic_ns()));
                return Some(given);
            }
        }
        None
    }

    /// The next hint of one process, whatever its time: it asks for something now.
    pub fn next_of(&mut self, pid: u32) -> Option<Given<F, W>> {
        let ring = self.rings.iter_mut().find(|ring| ring.pid == pid)?;
        let mut given = None;
        while given.is_none() && !ring.queue.is_empty() {
            given = ring.pop();
        }
        self.find_earliest();
        given
    }

    /// The hint of this process was refused.
    pub fn refuse(&mut self, pid: u32) {
        if let Some(ring) = self.rings.iter_mut().find(|ring| ring.pid == pid) {
            ring.opened.reader.refuse();
        }
    }

    /// The ring of this process ends: the body does not hold it any more.
    pub fn end(&mut self, pid: u32) {
        self.rings.retain(|ring| ring.pid != pid);
        self.find_earliest();
    }

    /// Charges what was done since the last hint was taken.
    fn charge(&mut self) {
        if let Some((uid, since_ns)) = self.under_way.take() {
            let spent_ns = self.spent_ns.entry(uid).or_default();
            *spent_ns += clock::monotonic_ns().saturating_sub(since_ns);
            if *spent_ns >= TURN_NS {
                self.find_earliest();
            }
        }
    }

    /// Restores R2.
    fn find_earliest(&mut self) {
        let may_go = self.rings.iter().filter(|ring| has_time(&self.spent_ns, ring.uid));
        let times = may_go.filter_map(|ring| ring.queue.front()).map(|entry| entry.time_ns);
        self.earliest_ns = times.min().unwrap_or(u64::MAX);
    }
}

fn has_time(spent_ns: &HashMap<u32, u64>, uid: u32) -> bool {
    spent_ns.get(&uid).is_none_or(|&spent| spent < TURN_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyName;
    use crate::ring::RingWriter;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::process::{Child, Command};

    type Test = Rings<&'static str, ()>;

    fn speaker(uid: u32, pid: u32) -> Speaker {
        Speaker { uid, gid: uid, groups: vec![], pid }
    }

    /// A ring as of this process.
    fn opened() -> (RingWriter, OpenedRing) {
        let (writer, file) = RingWriter::create().unwrap();
        let (stream, _other) = UnixStream::pair().unwrap();
        let process = Peer::of(stream.as_fd(), std::process::id()).unwrap();
        (writer, OpenedRing::new(process, file.as_fd()).unwrap())
    }

    fn open(rings: &mut Test, uid: u32, pid: u32) -> RingWriter {
        let (writer, opened) = opened();
        rings.open(&speaker(uid, pid), (), opened).unwrap();
        writer
    }

    fn policy(time_ns: u64, priority: i32) -> Entry {
        Entry { time_ns, file: None, hint: Hint::SetPolicy { priority, policy: PolicyName::Mru } }
    }

    fn write(writer: &mut RingWriter, entry: &Entry) {
        writer.write(&entry.encode().unwrap());
    }

    fn taken(rings: &mut Test, until_ns: u64) -> Vec<(u32, Option<i32>)> {
        let number = |given: Given<_, _>| match given.hint {
            Hint::SetPolicy { priority, .. } => (given.pid, Some(priority)),
            _ => (given.pid, None),
        };
        std::iter::from_fn(|| rings.next(until_ns)).map(number).collect()
    }

    #[test]
    fn hints_of_several_programs_come_by_their_time() {
        let mut rings = Test::default();
        let (mut one, mut two) = (open(&mut rings, 5, 1), open(&mut rings, 6, 2));
        for (time, number) in [(10, 1), (30, 3)] {
            write(&mut one, &policy(time, number));
        }
        write(&mut two, &policy(20, 2));
        assert_eq!(taken(&mut rings, 99), [], "nothing was collected");
        rings.collect();
        assert_eq!(taken(&mut rings, 9), []);
        assert_eq!(taken(&mut rings, 20), [(1, Some(1)), (2, Some(2))]);
        // What is written now waits for the next collection.
        write(&mut two, &policy(25, 4));
        assert_eq!(taken(&mut rings, 99), [(1, Some(3))]);
        assert!(rings.has_hints_of(2) && !rings.has_hints_of(1) && rings.have_hints());
        rings.collect();
        assert_eq!(taken(&mut rings, 99), [(2, Some(4))]);
        assert!(!rings.have_hints());
    }

    #[test]
    fn an_entry_from_the_future_is_of_now() {
        let mut rings = Test::default();
        let mut one = open(&mut rings, 5, 1);
        write(&mut one, &policy(u64::MAX, 7));
        rings.collect();
        assert_eq!(taken(&mut rings, clock::monotonic_ns()), [(1, Some(7))]);
    }

    #[test]
    fn what_a_ring_says_wrong_is_counted_there() {
        let mut rings = Test::default();
        let (mut one, two) = (open(&mut rings, 5, 1), open(&mut rings, 5, 2));
        one.write(&[9; 8]);
        let about = |number| {
            let hint = Hint::SetPriority { path: PathBuf::new(), priority: 1 };
            Entry { time_ns: 1, file: Some(number), hint }
        };
        write(&mut one, &about(3));
        write(&mut one, &about(4));
        rings.number_file(&speaker(5, 1), 4, "data").unwrap();
        for (speaker, number) in [(speaker(5, 9), 4), (speaker(6, 1), 4), (speaker(5, 1), FILES_MAX)] {
            assert!(rings.number_file(&speaker, number, "data").is_err());
        }
        rings.collect();
        assert_eq!(rings.next(99).and_then(|given| given.file), Some("data"));
        rings.refuse(1);
        assert_eq!((rings.next(99).is_none(), one.refused(), two.refused()), (true, 3, 0));
        rings.end(1);
        assert!(!one.has_room() && two.has_room());
    }

    #[test]
    fn a_user_that_has_had_its_turn_waits_and_others_go_on() {
        let mut rings = Test::default();
        let (mut one, mut two) = (open(&mut rings, 5, 1), open(&mut rings, 6, 2));
        for time in 0..100 {
            write(&mut one, &policy(time, time as i32));
        }
        write(&mut two, &policy(99, 500));
        rings.collect();
        let mut order = Vec::new();
        while let Some(given) = rings.next(u64::MAX) {
            if given.pid == 1 {
                std::thread::sleep(std::time::Duration::from_micros(400));
            }
            order.push(given.pid);
        }
        assert!(order.len() < 5 && order.last() == Some(&2), "{order:?}");
        // It asks for something: all that it said holds.
        let rest = std::iter::from_fn(|| rings.next_of(1)).count();
        assert_eq!(rest + order.len(), 101);
    }

    #[test]
    fn bounds_hold_for_a_user_and_for_all() {
        let mut rings = Test::default();
        let kept: Vec<RingWriter> =
            (0..RINGS_PER_USER_MAX as u32).map(|pid| open(&mut rings, 5, pid)).collect();
        let refused = |rings: &mut Test, uid, pid| rings.open(&speaker(uid, pid), (), opened().1).is_err();
        assert!(refused(&mut rings, 5, 1000));
        // One of its own takes the place of the one before.
        assert!(!refused(&mut rings, 5, 3) && !kept[3].has_room() && kept[4].has_room());
        let _more: Vec<RingWriter> =
            (RINGS_PER_USER_MAX as u32..RINGS_MAX as u32).map(|pid| open(&mut rings, 0, pid)).collect();
        assert!(refused(&mut rings, 6, 2000));
    }

    #[test]
    fn a_ring_ends_with_its_process_and_what_was_said_before_counts() {
        let mut rings = Test::default();
        let mut child: Child = Command::new("sleep").arg("60").spawn().unwrap();
        let (mut writer, file) = RingWriter::create().unwrap();
        // No socket: the number is taken.
        let other = tempfile::tempfile().unwrap();
        let process = Peer::of(other.as_fd(), child.id()).unwrap();
        rings.open(&speaker(5, 1), (), OpenedRing::new(process, file.as_fd()).unwrap()).unwrap();
        write(&mut writer, &policy(1, 1));
        child.kill().and_then(|()| child.wait()).unwrap();
        rings.collect();
        assert_eq!(taken(&mut rings, 99), [(1, Some(1))]);
        rings.collect();
        assert!(!writer.has_room(), "taken from no more");
    }
}
