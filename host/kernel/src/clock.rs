//! The clock of trace events, and the scheduling of a thread that must be on time.

/// Now, on the clock that the trace uses.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What this thread has used of a processor.
pub fn thread_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Lets this thread's short sleeps be short: the default slack of 50 us is as long as the sleeps
/// themselves.
pub fn sharpen_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and changes this thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000u64) };
}

/// What `sched_setattr` is told, as of Linux 5.3.
#[repr(C)]
#[derive(Default)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
    utilisation: [u32; 2],
}

/// Has this thread scheduled before others: it works a little, often, and what it decides is stale
/// soon. A short slice lets it in while others are within theirs (Linux 6.12); where that is not
/// known it counts for nothing.
pub fn hurry() {
    const NICE: i32 = -15;
    let wish = Scheduling {
        size: size_of::<Scheduling>() as u32,
        nice: NICE,
        runtime_ns: 100_000,
        ..Scheduling::default()
    };
    // SAFETY: `wish` is a `struct sched_attr` of the size it says; `0` is the calling thread.
    // Without the right to it nothing changes.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&wish), 0u32) };
}

/// Has the disk serve this thread's reads after those of others, where its scheduler knows classes.
pub fn read_last() {
    const WHO_PROCESS: i32 = 1;
    const CLASS_IDLE: i32 = 3 << 13;
    // SAFETY: three numbers; `0` is the calling thread. Where it is refused nothing changes.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE) };
}
