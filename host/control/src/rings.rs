//! The rings of the programs that speak to one body.
//!
//! ```text
//!   rings --collect--> a queue for each --next, oldest first--> the body
//! ```
//!
//! A body collects when it has seen which references come next, and takes each entry before the
//! first reference that is later: a hint that is given before a read holds for it, unless hints of
//! its user have used up their time.
//!
//! N3  A queue has at most [`ENTRIES`] entries: what was written when it was collected is taken.
//! N4  `earliest_ns` is the time of the next entry that may be taken, or the end of time.
//! N5  An entry counts only if its process belonged to the ring's user after it was copied, or had
//!     ended as a process of that user as far as it was seen.
//!
//! `F` is what the body knows of a file, `W` the owner that the program is charged to.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::os::fd::BorrowedFd;

use pantler_kernel::clock;
use pantler_kernel::peer::Peer;
use serde::{Deserialize, Serialize};

use crate::ring::{ENTRIES, Entry, FILES_MAX, RingReader};
use crate::{ControlError, Hint, Speaker};

/// Rings of one body.
const RINGS_MAX: usize = 256;
/// Rings of one user other than root.
const RINGS_PER_USER_MAX: usize = 64;
/// Rings of one process: each library that it loads may open one.
const RINGS_PER_PROCESS_MAX: usize = 4;
/// What the hints of one user may take in each [`SPAN_NS`], but for the last of them. The rest
/// waits, while others go on.
const TURN_NS: u64 = 1_000_000;
/// See [`TURN_NS`].
const SPAN_NS: u64 = 20_000_000;
/// What a user may owe of later turns: a host that stood still meanwhile was not at work.
const OWED_NS: u64 = 8 * TURN_NS;
/// Entries of one look that are none, before the ring ends: no library writes one.
const NONSENSE_MAX: u64 = 16;
/// Rings in which nothing was written are looked at again after this time: their process may have
/// ended.
const SILENT_NS: u64 = 1_000_000_000;

/// A ring that a process handed over, and that process.
#[derive(Debug)]
pub struct OpenedRing {
    process: Peer,
    /// The user of the process when it opened the ring.
    user: u32,
    reader: RingReader,
}

impl OpenedRing {
    /// The ring that a process made.
    ///
    /// # Errors
    /// See [`RingReader::open`]; a process that has ended.
    pub fn new(process: Peer, file: BorrowedFd<'_>) -> Result<OpenedRing, ControlError> {
        let user = process.user().ok_or_else(|| ControlError::not_found("the process of a ring"))?;
        Ok(OpenedRing { process, user, reader: RingReader::open(file)? })
    }
}

/// How entries of a ring name a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNumber {
    /// The [name](RingReader::name) of the ring: a process may have several.
    pub ring: u64,
    /// The number, below [`FILES_MAX`].
    pub number: u16,
}

/// A hint that came by a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given<F, W> {
    /// The process that gave it, as it was attested when it opened its ring.
    pub pid: u32,
    /// The user of that process.
    pub uid: u32,
    /// The name of its ring.
    pub ring: u64,
    /// What was known of that process when it opened its ring.
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
    fn name(&self) -> u64 {
        self.opened.reader.name()
    }

    fn is(&self, pid: u32, name: u64) -> bool {
        self.pid == pid && self.name() == name
    }

    fn waits(&self) -> bool {
        !self.queue.is_empty() || !self.is_over && self.opened.reader.has_entries()
    }

    /// Copies what waits (N3). A time later than now is a lie: now is taken for it.
    fn collect(&mut self, now_ns: u64) {
        if self.is_over || !self.waits() {
            return;
        }
        self.copy(now_ns);
        // Asked last: what is in the queue was written before.
        if self.opened.process.is_of(self.opened.user) {
            return;
        }
        // What a process wrote before it ended counts. What others write afterwards, into memory
        // that it left them, is taken once at most, for the owner that it had.
        if !self.opened.process.has_ended() {
            self.leave("its process has the rights of another user");
        }
        self.is_over = true;
    }

    fn copy(&mut self, now_ns: u64) {
        let (queue, mut refused) = (&mut self.queue, 0);
        let room = ENTRIES - queue.len();
        let taken = self.opened.reader.take(room, |words| match Entry::decode(&words) {
            Ok(entry) => queue.push_back(Entry { time_ns: entry.time_ns.min(now_ns), ..entry }),
            Err(_) => refused += 1,
        });
        self.opened.reader.refuse(refused);
        if taken.is_err() {
            self.leave("its head cannot be");
        } else if refused > NONSENSE_MAX {
            self.leave("what is in it is no entry");
        }
    }

    /// Takes nothing of it any more.
    fn leave(&mut self, reason: &str) {
        tracing::debug!(pid = self.pid, reason, "a ring ends");
        self.opened.reader.refuse(self.queue.len() as u64);
        self.queue.clear();
        self.is_over = true;
    }

    /// The next of its queue. `None` also for a file without a number, which counts as refused.
    fn pop(&mut self) -> Option<Given<F, W>> {
        let Entry { file, hint, .. } = self.queue.pop_front()?;
        let known = file.map(|number| self.files.get(usize::from(number)).cloned().flatten());
        match known {
            Some(None) => {
                self.opened.reader.refuse(1);
                None
            }
            known => {
                let (pid, uid, ring, owner) = (self.pid, self.uid, self.name(), self.owner.clone());
                Some(Given { pid, uid, ring, owner, hint, file: known.flatten() })
            }
        }
    }
}

/// What the hints of a user took.
#[derive(Debug, Clone, Copy)]
struct Spent {
    since_ns: u64,
    spent_ns: u64,
}

/// The rings of the programs that speak to one body.
#[derive(Debug)]
pub struct Rings<F, W> {
    rings: Vec<Ring<F, W>>,
    earliest_ns: u64,
    /// By user; of those that have taken nothing lately there is nothing.
    spent: HashMap<u32, Spent>,
    /// The user of the hint that is carried out, and since when.
    under_way: Option<(u32, u64)>,
    silent_looked_ns: u64,
}

impl<F, W> Default for Rings<F, W> {
    fn default() -> Self {
        let (rings, spent) = (Vec::new(), HashMap::new());
        Rings { rings, earliest_ns: u64::MAX, spent, under_way: None, silent_looked_ns: 0 }
    }
}

impl<F: Clone, W: Clone> Rings<F, W> {
    /// A process has opened a ring. With too many its oldest one ends; what that one said is to be
    /// taken [before](Self::next_of).
    ///
    /// # Errors
    /// A bound.
    pub fn open(&mut self, speaker: &Speaker, owner: W, opened: OpenedRing) -> Result<(), ControlError> {
        let name = opened.reader.name();
        self.rings.retain(|ring| !(ring.is(speaker.pid, name) || is_left(ring)));
        let mut own = self.rings.iter().enumerate().filter(|(_, ring)| ring.pid == speaker.pid);
        if let (Some((oldest, _)), true) = (own.next(), own.count() + 1 >= RINGS_PER_PROCESS_MAX) {
            self.rings.remove(oldest);
        }
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

    /// Entries of that ring of the speaker name this file by a number from now on.
    ///
    /// # Errors
    /// It has no such ring, or the number is none.
    pub fn number_file(
        &mut self,
        speaker: &Speaker,
        number: FileNumber,
        file: F,
    ) -> Result<(), ControlError> {
        let is_its = |ring: &&mut Ring<F, W>| {
            ring.is(speaker.pid, number.ring) && ring.uid == speaker.uid && !ring.is_over
        };
        let ring = self.rings.iter_mut().find(is_its);
        let ring =
            ring.ok_or_else(|| ControlError::not_found(format!("a ring of process {}", speaker.pid)))?;
        let place = ring.files.get_mut(usize::from(number.number)).ok_or_else(|| {
            ControlError::invalid(format!("file number {}: expected one below {FILES_MAX}", number.number))
        })?;
        *place = Some(file);
        Ok(())
    }

    /// Whether a process has a ring in which something waits.
    pub fn has_hints_of(&self, pid: u32) -> bool {
        self.rings.iter().any(|ring| ring.pid == pid && ring.waits())
    }

    /// Whether something waits in any that may be taken now.
    pub fn have_hints(&self) -> bool {
        self.rings.iter().any(|ring| ring.waits() && has_time(&self.spent, ring.uid))
    }

    /// Whether the process of this hint goes on: then its number is no other process's.
    pub fn goes_on(&self, given: &Given<F, W>) -> bool {
        let ring = self.rings.iter().find(|ring| ring.is(given.pid, given.ring));
        ring.is_some_and(|ring| !ring.is_over && !ring.opened.process.has_ended())
    }

    /// Copies what programs have written until now, but of users that have no time now.
    pub fn collect(&mut self) {
        if self.rings.is_empty() {
            return;
        }
        let mut now_ns = clock::monotonic_ns();
        self.spent.retain(|_, spent| spent.is_left(now_ns));
        let looks_at_silent = now_ns.saturating_sub(self.silent_looked_ns) >= SILENT_NS;
        if looks_at_silent {
            self.silent_looked_ns = now_ns;
        }
        for ring in &mut self.rings {
            if !ring.waits() {
                ring.is_over |= looks_at_silent && ring.opened.process.has_ended();
            } else if has_time(&self.spent, ring.uid) {
                ring.collect(now_ns);
                let until_ns = clock::monotonic_ns();
                charge(&mut self.spent, ring.uid, now_ns..until_ns);
                now_ns = until_ns;
            }
        }
        self.rings.retain(|ring| !ring.is_over || !ring.queue.is_empty());
        self.find_earliest();
    }

    /// The same for one process, whatever time its user has: it asks for something now.
    pub fn collect_of(&mut self, pid: u32) {
        let now_ns = clock::monotonic_ns();
        self.rings.iter_mut().filter(|ring| ring.pid == pid).for_each(|ring| ring.collect(now_ns));
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
                    && has_time(&self.spent, ring.uid)
            };
            let ring = self.rings.iter_mut().find(is_it)?;
            self.under_way = Some((ring.uid, clock::monotonic_ns()));
            let given = ring.pop();
            self.find_earliest();
            if given.is_some() {
                return given;
            }
            self.charge();
        }
        None
    }

    /// The next hint of one process, whatever its time: it asks for something now.
    pub fn next_of(&mut self, pid: u32) -> Option<Given<F, W>> {
        let mut given = None;
        while given.is_none() {
            let of_process = self.rings.iter_mut().filter(|ring| ring.pid == pid);
            let waiting = of_process.filter_map(|ring| Some((ring.queue.front()?.time_ns, ring)));
            let Some((_, ring)) = waiting.min_by_key(|(time_ns, _)| *time_ns) else { break };
            given = ring.pop();
        }
        self.find_earliest();
        given
    }

    /// This hint was refused.
    pub fn refuse(&mut self, given: &Given<F, W>) {
        if let Some(ring) = self.rings.iter_mut().find(|ring| ring.is(given.pid, given.ring)) {
            ring.opened.reader.refuse(1);
        }
    }

    /// The rings of this process end: the body does not hold it any more.
    pub fn end(&mut self, pid: u32) {
        self.rings.retain(|ring| ring.pid != pid);
        self.find_earliest();
    }

    /// Charges what was done since the last hint was taken.
    fn charge(&mut self) {
        if let Some((uid, since_ns)) = self.under_way.take() {
            charge(&mut self.spent, uid, since_ns..clock::monotonic_ns());
            if !has_time(&self.spent, uid) {
                self.find_earliest();
            }
        }
    }

    /// Restores N4.
    fn find_earliest(&mut self) {
        let may_go = self.rings.iter().filter(|ring| has_time(&self.spent, ring.uid));
        let times = may_go.filter_map(|ring| ring.queue.front()).map(|entry| entry.time_ns);
        self.earliest_ns = times.min().unwrap_or(u64::MAX);
    }
}

impl Spent {
    /// What is over of a turn is taken off the next ones. Whether anything is left of it.
    fn is_left(&mut self, now_ns: u64) -> bool {
        let spans = now_ns.saturating_sub(self.since_ns) / SPAN_NS;
        self.since_ns += spans * SPAN_NS;
        self.spent_ns = self.spent_ns.saturating_sub(spans.saturating_mul(TURN_NS));
        spans == 0 || self.spent_ns > 0
    }
}

fn charge(spent: &mut HashMap<u32, Spent>, uid: u32, time_ns: Range<u64>) {
    let of_user = spent.entry(uid).or_insert(Spent { since_ns: time_ns.start, spent_ns: 0 });
    let spent_ns = of_user.spent_ns + time_ns.end.saturating_sub(time_ns.start);
    of_user.spent_ns = spent_ns.min(OWED_NS);
}

fn has_time(spent: &HashMap<u32, Spent>, uid: u32) -> bool {
    spent.get(&uid).is_none_or(|spent| spent.spent_ns < TURN_NS)
}

/// Whether a ring says nothing any more.
fn is_left<F: Clone, W: Clone>(ring: &Ring<F, W>) -> bool {
    !ring.waits() && ring.opened.process.has_ended()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyName;
    use crate::ring::RingWriter;
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

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
        let [first, second] = [one.name(), two.name()];
        let numbered = |ring, number| FileNumber { ring, number };
        rings.number_file(&speaker(5, 1), numbered(first, 4), "data").unwrap();
        for (speaker, ring, number) in [
            (speaker(5, 9), first, 4),
            (speaker(6, 1), first, 4),
            (speaker(5, 1), second, 4),
            (speaker(5, 1), first, FILES_MAX),
        ] {
            assert!(rings.number_file(&speaker, numbered(ring, number), "data").is_err());
        }
        rings.collect();
        let given = rings.next(99).expect("a hint");
        assert_eq!(given.file, Some("data"));
        rings.refuse(&given);
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
                std::thread::sleep(Duration::from_micros(400));
            }
            order.push(given.pid);
        }
        assert!(order.len() < 5 && order.last() == Some(&2), "{order:?}");
        // Another look gives it no time.
        rings.collect();
        assert!(!rings.have_hints() && rings.next(u64::MAX).is_none());
        // It asks for something: all that it said holds.
        let rest = std::iter::from_fn(|| rings.next_of(1)).count();
        assert_eq!(rest + order.len(), 101);
    }

    #[test]
    fn time_comes_back_by_the_clock() {
        let mut spent = HashMap::new();
        charge(&mut spent, 5, 100..100 + 3 * TURN_NS);
        let mut after = |spans: u64| spent.get_mut(&5).unwrap().is_left(100 + spans * SPAN_NS);
        assert!(after(0) && after(1) && after(2) && !after(3));
        assert!(has_time(&spent, 5) && has_time(&HashMap::new(), 5));
    }

    #[test]
    fn a_ring_of_nonsense_ends() {
        let mut rings = Test::default();
        let (mut one, mut two) = (open(&mut rings, 5, 1), open(&mut rings, 5, 2));
        (0..=NONSENSE_MAX).for_each(|_| one.write(&[9; 8]));
        (0..NONSENSE_MAX).for_each(|_| two.write(&[9; 8]));
        rings.collect();
        assert_eq!((one.is_closed(), one.refused()), (true, NONSENSE_MAX + 1));
        assert_eq!((two.is_closed(), two.refused()), (false, NONSENSE_MAX));
    }

    #[test]
    fn rings_of_one_process_are_apart() {
        let mut rings = Test::default();
        let mut kept: Vec<RingWriter> = (0..RINGS_PER_PROCESS_MAX).map(|_| open(&mut rings, 5, 1)).collect();
        for (ring, name) in [(0, "first"), (1, "second")] {
            let number = FileNumber { ring: kept[ring].name(), number: 0 };
            rings.number_file(&speaker(5, 1), number, name).unwrap();
        }
        for (ring, time_ns) in [(1, 5), (0, 6)] {
            let hint = Hint::SetPriority { path: PathBuf::new(), priority: 1 };
            write(&mut kept[ring], &Entry { time_ns, file: Some(0), hint });
        }
        rings.collect_of(1);
        let files: Vec<_> = std::iter::from_fn(|| rings.next_of(1)).filter_map(|given| given.file).collect();
        assert_eq!(files, ["second", "first"], "in their order");
        let _one_more = open(&mut rings, 5, 1);
        let closed: Vec<bool> = kept.iter().map(RingWriter::is_closed).collect();
        assert_eq!(closed, [true, false, false, false], "the oldest makes room");
    }

    #[test]
    fn bounds_hold_for_a_user_and_for_all() {
        let mut rings = Test::default();
        let kept: Vec<RingWriter> =
            (0..RINGS_PER_USER_MAX as u32).map(|pid| open(&mut rings, 5, pid)).collect();
        let refused = |rings: &mut Test, uid, pid| rings.open(&speaker(uid, pid), (), opened().1).is_err();
        assert!(refused(&mut rings, 5, 1000));
        assert!(kept[3].has_room());
        let _more: Vec<RingWriter> =
            (RINGS_PER_USER_MAX as u32..RINGS_MAX as u32).map(|pid| open(&mut rings, 0, pid)).collect();
        assert!(refused(&mut rings, 6, 2000));
    }

    #[test]
    fn a_ring_ends_with_its_process_and_what_was_said_before_counts() {
        let mut rings = Test::default();
        let mut child: Child = Command::new("sleep").arg("60").spawn().unwrap();
        let (mut writer, file) = RingWriter::create().unwrap();
        let process = Peer::with_number(child.id()).unwrap();
        rings.open(&speaker(5, 1), (), OpenedRing::new(process, file.as_fd()).unwrap()).unwrap();
        write(&mut writer, &policy(1, 1));
        child.kill().and_then(|()| child.wait()).unwrap();
        rings.collect();
        assert_eq!(taken(&mut rings, 99), [(1, Some(1))]);
        rings.collect();
        assert!(!writer.has_room(), "taken from no more");
    }

    #[test]
    fn a_silent_ring_goes_with_its_process() {
        let mut rings = Test::default();
        let mut child: Child = Command::new("sleep").arg("60").spawn().unwrap();
        let (writer, file) = RingWriter::create().unwrap();
        let process = Peer::with_number(child.id()).unwrap();
        rings.open(&speaker(5, 1), (), OpenedRing::new(process, file.as_fd()).unwrap()).unwrap();
        rings.collect();
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(!writer.is_closed());
        rings.silent_looked_ns = 0;
        rings.collect();
        assert!(writer.is_closed() && rings.rings.is_empty());
    }

    /// Protects owners of programs with more rights from what began them. Needs root.
    #[test]
    fn a_ring_ends_when_its_process_gets_rights_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "programs of two users need root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("sleep");
        std::fs::copy("/bin/sleep", &program).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read line; exec \"$0\" 60"]).arg(&program);
        let mut child = command.uid(65534).gid(65534).stdin(Stdio::piped()).spawn().unwrap();
        let (mut writer, file) = RingWriter::create().unwrap();
        let process = Peer::with_number(child.id()).unwrap();
        let mut rings = Test::default();
        rings.open(&speaker(65534, child.id()), (), OpenedRing::new(process, file.as_fd()).unwrap()).unwrap();
        // One waits in the queue, one in the ring.
        write(&mut writer, &policy(1, 1));
        write(&mut writer, &policy(2, 2));
        rings.collect();
        assert_eq!(taken(&mut rings, 1), [(child.id(), Some(1))]);
        write(&mut writer, &policy(3, 3));
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while rings.rings.iter().any(|ring| ring.opened.process.is_of(65534)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        rings.spent.clear();
        rings.collect();
        let late = (taken(&mut rings, u64::MAX), rings.has_hints_of(child.id()));
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!(late, (vec![], false));
        assert_eq!((writer.is_closed(), writer.refused()), (true, 2), "the program is told");
    }
}
