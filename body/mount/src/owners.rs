//! The owner that a request is charged to.
//!
//! Requests carry thread ids. Which process a thread belongs to is asked once and remembered for a
//! moment: a number cannot come back within [`TRUST`]. A process is watched by a descriptor of its
//! own, so its end is seen whatever becomes of its number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use pantler_steward::OwnerId;

use crate::OwnerBy;
use crate::defaults::UserDefaults;
use crate::descent::Descent;
use crate::descriptors::Descriptors;
use pantler_kernel::process::{Member, cgroup_of, is_thread_of, lineage, process_of};

mod commands;
mod key;
mod registry;

use key::{Key, gone};
pub(crate) use registry::{Owner, Watch};
use registry::{Registry, Run};

/// How long it is believed that a thread id still names the same thread.
const TRUST: Duration = Duration::from_millis(20);
/// Threads remembered before the stale ones are thrown away.
const THREADS_MAX: usize = 65_536;

/// No process: requests that carry none, such as the kernel writing back mapped
/// pages.
pub(crate) const NOBODY: OwnerId = OwnerId(0);

/// What an owner takes over from the owner that its process comes from (L7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inherits {
    /// The standing: the owner is new, and the process its first.
    All,
    /// Lost control alone: it takes in processes of a user that has as many owners as it may.
    Loss,
    /// Nothing: it is the same as before, or a user's, and users are no children of each other.
    Nothing,
}

/// An owner that appeared for the first time.
pub(crate) struct NewOwner {
    pub(crate) id: OwnerId,
    pub(crate) uid: u32,
    pub(crate) watch: Option<Watch>,
    /// Whether the owner itself is new, and not just a process of it.
    pub(crate) is_owner_new: bool,
    pub(crate) inherits: Inherits,
    /// The process through which it appeared.
    pub(crate) process: u32,
    /// The owner that it belonged to before, if to another.
    pub(crate) former: Option<OwnerId>,
}

#[derive(Clone, Copy)]
struct Thread {
    process: u32,
    /// The user in its last request: a thread that becomes another user may leave a run by it.
    uid: u32,
    owner: OwnerId,
    checked: Instant,
    /// Whether it has read anything. A shell opens files before it becomes the program that does.
    has_read: bool,
}

pub(crate) struct Owners {
    by: OwnerBy,
    pub(crate) defaults: UserDefaults,
    descriptors: Arc<Descriptors>,
    threads: RwLock<HashMap<u32, Thread>>,
    registry: Mutex<Registry>,
}

impl Owners {
    pub(crate) fn new(by: OwnerBy) -> Arc<Self> {
        let descriptors = Descriptors::of_process();
        let (threads, registry) = (RwLock::default(), Mutex::default());
        Arc::new(Self { by, defaults: UserDefaults::default(), descriptors, threads, registry })
    }

    /// The owner that thread `id` of user `uid` belongs to. `begin` is told of new owners and
    /// processes.
    pub(crate) fn of(&self, id: u32, uid: u32, begin: impl FnOnce(NewOwner)) -> OwnerId {
        if id == 0 {
            return NOBODY;
        }
        let known = self.threads.read().expect("owners are in order").get(&id).copied();
        match known.filter(|thread| thread.uid == uid) {
            Some(thread) if thread.checked.elapsed() < TRUST => thread.owner,
            Some(thread) if is_thread_of(id, thread.process) => {
                let mut threads = self.threads();
                threads.insert(id, Thread { checked: Instant::now(), ..thread });
                thread.owner
            }
            _ => self.add_thread(id, uid, begin),
        }
    }

    /// The owner that thread `id` belonged to when it was seen last: an event about it may come
    /// after its end. `None` where that is too long ago to be believed of a thread that goes on.
    pub(crate) fn last_of(&self, id: u32) -> Option<OwnerId> {
        let known = self.threads.read().expect("owners are in order").get(&id).copied()?;
        let is_believed = known.checked.elapsed() < TRUST || process_of(id).is_none();
        is_believed.then_some(known.owner)
    }

    /// Thread `id` reads. Returns its owner, if that has another name and program since: it was
    /// known by its first `open`, and became another program before it read anything.
    pub(crate) fn begins_to_read(&self, id: u32) -> Option<OwnerId> {
        let known = self.threads.read().expect("owners are in order").get(&id).copied();
        let Thread { process, owner, .. } = known.filter(|thread| !thread.has_read)?;
        self.threads().get_mut(&id)?.has_read = true;
        self.registry().name_again(owner, process).then_some(owner)
    }

    fn add_thread(&self, id: u32, uid: u32, begin: impl FnOnce(NewOwner)) -> OwnerId {
        let Some(process) = process_of(id) else { return NOBODY };
        let Some(start) = Member::look(process).map(|member| member.start) else { return NOBODY };
        let mut registry = self.registry();
        let is_watched = registry.is_watched(process, start);
        let charge = if is_watched { None } else { self.descriptors.take(uid).ok() };
        let can_watch = is_watched || charge.is_some();
        let run = registry.run_of(process, uid);
        let (owner, is_owner_new, inherits) = match run {
            Some(owner) => (owner, false, Inherits::Nothing),
            None => {
                let key = self.key(process, start, uid);
                // The end of a process that cannot be watched would not be seen: it is one owner
                // with others of its user. So are processes of a user that hinted for all.
                let is_own = matches!(key, Key::Process(..));
                let is_joint = self.defaults.has(uid)
                    && !registry.keys.contains_key(&key)
                    && !registry.is_apart(process, start);
                let meant = if is_own && (!can_watch || is_joint) { Key::User(uid) } else { key.clone() };
                let (owner, is_new) = registry.owner(meant, self.charged(uid), process);
                let inherits = match registry.keys.get(&key) {
                    None => Inherits::Loss,
                    Some(_) if is_new && !matches!(key, Key::User(_)) => Inherits::All,
                    Some(_) => Inherits::Nothing,
                };
                (owner, is_new, inherits)
            }
        };
        let former = registry.former(process, start).filter(|&former| former != owner);
        let watch = registry.watch(process, start, owner, charge);
        drop(registry);
        let mut threads = self.threads();
        if threads.len() >= THREADS_MAX {
            threads.retain(|_, thread| thread.checked.elapsed() < TRUST);
        }
        threads.insert(id, Thread { process, uid, owner, checked: Instant::now(), has_read: false });
        drop(threads);
        if is_owner_new || watch.is_some() {
            let uid = self.charged(uid);
            begin(NewOwner { id: owner, uid, watch, is_owner_new, inherits, process, former });
        }
        owner
    }

    /// The user that a new owner belongs to.
    fn charged(&self, uid: u32) -> u32 {
        if matches!(self.by, OwnerBy::Fixed(_)) { rustix::process::geteuid().as_raw() } else { uid }
    }

    fn key(&self, process: u32, start: u64, uid: u32) -> Key {
        match &self.by {
            OwnerBy::Process => Key::Process(process, start),
            OwnerBy::Cgroup => cgroup_of(process).map_or(Key::Process(process, start), Key::Cgroup),
            OwnerBy::User => Key::User(uid),
            OwnerBy::Fixed(name) => Key::Name(rustix::process::geteuid().as_raw(), name.clone()),
        }
    }

    /// A process hints for itself: it is an owner of its own from now on.
    pub(crate) fn set_apart(&self, id: u32) {
        let Some(process) = process_of(id) else { return };
        let mut registry = self.registry();
        let Some(known) = registry.processes.get_mut(&process) else { return };
        if !std::mem::replace(&mut known.is_apart, true) {
            self.forget_threads_of(process);
        }
    }

    /// The process of that number that began then ended. Returns the owner that ended with it, if
    /// one did.
    pub(crate) fn exited(&self, process: u32, start: u64) -> Option<OwnerId> {
        // Also where the number is another's by now: that one's threads are added again.
        self.forget_threads_of(process);
        let mut registry = self.registry();
        if registry.processes.get(&process).is_some_and(|known| known.start == start) {
            registry.processes.remove(&process);
            // Those that came before the lock. If its number is another's by now its threads are
            // gone already, or will not be believed.
            self.forget_threads_of(process);
        }
        let id = registry.keys.remove(&Key::Process(process, start))?;
        registry.remove(id);
        Some(id)
    }

    /// Owners of many processes none of which is known any more, and for which nothing was hinted.
    fn idle(&self) -> Vec<(OwnerId, Key)> {
        let registry = self.registry();
        let is_idle = |key: &Key, id| match key {
            Key::User(uid) if self.defaults.has(*uid) => false,
            _ => key.is_group() && !registry.is_used(id),
        };
        let groups = registry.keys.iter().filter(|&(key, &id)| is_idle(key, id));
        groups.map(|(key, &id)| (id, key.clone())).collect()
    }

    /// Whether there may be something for [`end_idle`](Self::end_idle) to do, now or later.
    pub(crate) fn has_idle(&self) -> bool {
        !self.idle().is_empty()
    }

    /// Ends owners by control group when the group is gone, and owners by user when the user has no
    /// processes. Returns them.
    pub(crate) fn end_idle(&self) -> Vec<OwnerId> {
        let mut gone = gone(self.idle());
        let mut registry = self.registry();
        // A process may have come meanwhile.
        gone.retain(|&id| !registry.is_used(id));
        registry.keys.retain(|_, id| !gone.contains(id));
        gone.iter().for_each(|&id| registry.remove(id));
        gone
    }

    /// From now on `leader` and its descendants are the owner called `name` of user `uid`; a known
    /// one continues. Says whether the owner is new.
    pub(crate) fn begin_run(&self, name: &str, uid: u32, leader: u32) -> (OwnerId, bool) {
        let mut registry = self.registry();
        let (id, is_new) = registry.owner(Key::Name(uid, name.to_owned()), uid, leader);
        let goes_on = registry.owners.get_mut(&id).is_some_and(|owner| {
            owner.pid = Some(leader);
            std::mem::replace(&mut owner.live, true)
        });
        if !goes_on {
            registry.find_program(id);
        }
        registry.runs.push(Run { leader, uid, owner: id });
        drop(registry);
        // Processes seen before may belong to the run now.
        self.threads().clear();
        (id, is_new)
    }

    /// The run that `leader` began as that owner is over. With `keep`, a later run of the same name
    /// continues it. Returns the owners that end: none while another run of the same name goes on,
    /// else this one, or the user's oldest that was kept, when there are too many.
    pub(crate) fn end_run(&self, id: OwnerId, leader: u32, keep: bool) -> Vec<OwnerId> {
        let mut registry = self.registry();
        if let Some(at) = registry.runs.iter().position(|run| run.owner == id && run.leader == leader) {
            registry.runs.remove(at);
        }
        let goes_on = registry.runs.iter().any(|run| run.owner == id);
        if let Some(owner) = registry.owners.get_mut(&id) {
            owner.live = goes_on;
        }
        let ended = match (goes_on, keep) {
            (true, _) => Vec::new(),
            (false, true) => registry.kept_too_many(id),
            (false, false) => vec![id],
        };
        for id in &ended {
            registry.keys.retain(|_, other| other != id);
            registry.remove(*id);
        }
        drop(registry);
        self.threads().retain(|_, thread| thread.owner != id);
        ended
    }

    /// The owners of that name, by user.
    pub(crate) fn named(&self, name: &str) -> Vec<Owner> {
        let registry = self.registry();
        let mut found: Vec<Owner> =
            registry.owners.values().filter(|owner| owner.name == name).cloned().collect();
        found.sort_unstable_by_key(|owner| (owner.uid, owner.id));
        found
    }

    /// Present owners of a user.
    pub(crate) fn of_user(&self, uid: u32) -> Vec<OwnerId> {
        let registry = self.registry();
        registry.owners.values().filter(|owner| owner.uid == uid).map(|owner| owner.id).collect()
    }

    /// An owner that is known.
    pub(crate) fn get(&self, id: OwnerId) -> Option<Owner> {
        self.registry().owners.get(&id).cloned()
    }

    /// What a new owner runs, and programs that ended to make room for it.
    pub(crate) fn program_of(&self, id: OwnerId) -> (Option<OwnerId>, Vec<OwnerId>) {
        let mut registry = self.registry();
        let ended = registry.commands.take_ended();
        (registry.owners.get(&id).and_then(|owner| owner.program), ended)
    }

    /// What owners run, each shown as an owner: blocks of several that run the same are its.
    pub(crate) fn programs(&self) -> Vec<Owner> {
        let registry = self.registry();
        let shown = |(id, uid, command): (OwnerId, u32, &str)| {
            let name = format!("all {command}");
            Owner { id, name, uid, pid: None, live: true, program: None }
        };
        registry.commands.all().map(shown).collect()
    }

    /// An owner lost control: its children begin without.
    pub(crate) fn fell(&self, id: OwnerId) {
        let Some(Owner { uid, pid: Some(process), .. }) = self.get(id) else { return };
        let lineage = lineage(process);
        self.registry().fallen.add(id, uid, &lineage);
    }

    /// An owner was granted control.
    pub(crate) fn rose(&self, id: OwnerId) {
        self.registry().fallen.remove(id);
    }

    /// Whether any owner with possible children lost control.
    pub(crate) fn have_fallen(&self) -> bool {
        !self.registry().fallen.is_empty()
    }

    /// The owner that a process of user `uid` comes from. `former` is the owner that it belonged to
    /// before.
    pub(crate) fn descent(&self, process: u32, uid: u32, former: Option<OwnerId>) -> Descent {
        let lineage = lineage(process);
        let registry = self.registry();
        if let Some(descent) = former.and_then(|owner| registry.descent(owner, uid)) {
            return descent;
        }
        for pair in lineage.windows(2) {
            let (member, parent) = (&pair[0], &pair[1]);
            let known = registry.former(parent.pid, parent.start);
            if let Some(descent) = known.and_then(|owner| registry.descent(owner, uid)) {
                return descent;
            }
            if registry.fallen.left(member, parent, uid) {
                return Descent::OfFallen;
            }
        }
        Descent::Unknown
    }

    /// The owner that a process belonged to at its last request.
    pub(crate) fn former(&self, process: u32) -> Option<OwnerId> {
        let start = Member::look(process)?.start;
        self.registry().former(process, start)
    }

    /// All owners known.
    pub(crate) fn all(&self) -> Vec<Owner> {
        self.registry().owners.values().cloned().collect()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().expect("owners are in order")
    }

    fn threads(&self) -> RwLockWriteGuard<'_, HashMap<u32, Thread>> {
        self.threads.write().expect("owners are in order")
    }

    /// Hints for all of a user's processes ended: they are owners as before.
    pub(crate) fn part(&self, uid: u32) {
        self.threads().retain(|_, thread| thread.uid != uid);
    }

    fn forget_threads_of(&self, process: u32) {
        self.threads().retain(|_, thread| thread.process != process);
    }
}

#[cfg(test)]
mod tests {
    use super::registry::{OWNERS_PER_USER_MAX, Process};
    use super::*;

    #[test]
    fn owners_of_a_user_are_bounded() {
        let owners = Owners::new(OwnerBy::Process);
        let process = |pid| {
            let mut registry = owners.registry();
            registry.processes.insert(pid, Process { start: 5, owner: NOBODY, is_apart: false });
            registry.owner(Key::Process(pid, 5), 7, pid).0
        };
        // Beyond any number that a process can have.
        let first = 1 << 30;
        let own: Vec<OwnerId> = (0..OWNERS_PER_USER_MAX).map(|pid| process(first + pid)).collect();
        let late = process(first + OWNERS_PER_USER_MAX);
        assert!(!own.contains(&late));
        assert_eq!(process(first + OWNERS_PER_USER_MAX + 1), late, "later ones are one owner");
        assert_eq!(owners.all().len(), own.len() + 1);
        assert_ne!(owners.of(std::process::id(), 8, drop), late, "other users have room");
        // Room comes back; the owner that is shared does not end with one of its processes.
        assert_eq!(owners.exited(first + OWNERS_PER_USER_MAX, 5), None);
        assert_eq!((owners.exited(first, 5), owners.exited(first + 1, 5)), (Some(own[0]), Some(own[1])));
        assert_ne!(process(first + OWNERS_PER_USER_MAX + 2), late);
    }

    #[test]
    fn runs_of_one_command_are_one_program_and_those_that_ended_make_room() {
        let owners = Owners::new(OwnerBy::Process);
        let program = |name: &str, leader: u32, keep| {
            let (id, _) = owners.begin_run(name, 7, leader);
            let (program, _) = owners.program_of(id);
            owners.end_run(id, leader, keep);
            program
        };
        // Beyond any number that a process can have.
        let first = 1 << 30;
        let searches: Vec<_> =
            (first..first + 8).map(|leader| program(&format!("cscope-{leader}"), leader, false)).collect();
        assert!(searches[0].is_some() && searches.iter().all(|search| *search == searches[0]));
        assert_ne!(program(&format!("tar-{first}"), first, false), searches[0]);
        let night = program("night", first, true);
        let others = |name: &str| (0..32).all(|at| program(&format!("{name}{at}"), first, true).is_some());
        assert!(others("kept") && others("more"), "what was kept and is over pins no program");
        let again = program("night", first, true);
        assert!(again.is_some() && again != night, "it begins anew");
    }

    #[test]
    fn a_thread_that_becomes_another_user_leaves_the_run() {
        let owners = Owners::new(OwnerBy::Process);
        let own = std::process::id();
        let (run, _) = owners.begin_run("night", 7, std::os::unix::process::parent_id());
        assert_eq!(owners.of(own, 7, drop), run);
        assert_ne!(owners.of(own, 8, drop), run);
        assert_eq!(owners.of(own, 7, drop), run);
    }

    #[test]
    fn threads_of_a_process_are_one_owner_and_nobody_is_nobody() {
        let owners = Owners::new(OwnerBy::Process);
        let own = std::process::id();
        let first = owners.of(own, 0, |new| assert!(new.is_owner_new && new.watch.is_some()));
        let thread = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
                owners.of(id, 0, |_| panic!("the process is known"))
            });
            thread.join().unwrap()
        });
        assert_eq!(first, thread);
        assert_eq!(owners.of(0, 0, |_| panic!("no process is no owner")), NOBODY);
        let start = Member::look(own).unwrap().start;
        // The end of an earlier process of that number, noticed late.
        assert_eq!(owners.exited(own, start - 1), None);
        assert_eq!(owners.of(own, 0, drop), first);
        assert_eq!(owners.exited(own, start), Some(first));
    }

    #[test]
    fn a_new_owner_comes_from_its_nearest_ancestor_that_is_one() {
        let owners = Owners::new(OwnerBy::Process);
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert_eq!(owners.descent(own, 7, None), Descent::Unknown);
        let father = owners.of(parent, 7, drop);
        assert_eq!(owners.descent(own, 7, None), Descent::Of(father));
        assert_eq!(owners.descent(own, 8, None), Descent::Unknown, "another user's");
        // The parent was a run's, which lost control and ended.
        let (run, _) = owners.begin_run("night", 7, parent);
        assert_eq!(owners.of(parent, 7, drop), run);
        owners.fell(run);
        assert!(owners.have_fallen());
        owners.end_run(run, parent, false);
        assert_eq!(owners.descent(own, 7, None), Descent::OfFallen);
        assert_eq!(owners.descent(1, 7, Some(run)), Descent::OfFallen, "its own process, from now on");
        owners.rose(run);
        assert_eq!(owners.descent(own, 7, None), Descent::Unknown);
    }

    #[test]
    fn a_run_takes_in_its_descendants() {
        let owners = Owners::new(OwnerBy::Process);
        let parent = std::os::unix::process::parent_id();
        let (run, _) = owners.begin_run("night", 7, parent);
        assert_eq!(owners.of(std::process::id(), 7, |new| assert!(!new.is_owner_new)), run);
        owners.end_run(run, parent, true);
        assert_ne!(owners.of(std::process::id(), 7, drop), run);
        assert_eq!(owners.begin_run("night", 7, parent), (run, false), "a kept name continues its owner");
    }

    #[test]
    fn the_first_process_can_lead_a_run() {
        // As in a container that was started for the run.
        let owners = Owners::new(OwnerBy::Process);
        let (run, _) = owners.begin_run("night", 7, 1);
        assert_eq!(owners.of(std::process::id(), 7, drop), run);
    }

    #[test]
    fn a_run_goes_on_when_another_of_its_name_ends() {
        let owners = Owners::new(OwnerBy::Process);
        let (parent, own) = (std::os::unix::process::parent_id(), std::process::id());
        let (run, is_new) = owners.begin_run("night", 7, parent);
        assert!(is_new);
        assert_eq!(owners.begin_run("night", 7, u32::MAX), (run, false));
        assert!(owners.end_run(run, u32::MAX, false).is_empty());
        assert_eq!(owners.of(own, 7, drop), run);
        assert_eq!(owners.end_run(run, parent, false), [run]);
        assert_ne!(owners.of(own, 7, drop), run);
    }
}
