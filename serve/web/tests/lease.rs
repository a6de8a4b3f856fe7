//! A file with a lease is waited for, but not by spinning, and not for ever.

mod common;

use common::site;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Chooses the signal of a broken lease; the crate does not name it.
const F_SETSIG: libc::c_int = 10;

/// Takes a lease that every other open must wait for. Breaking it makes the kernel send a
/// signal, here one that is ignored.
fn lease(file: &File) {
    // SAFETY: plain numbers go in; the descriptor is open.
    let results = unsafe {
        [
            libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG),
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
}

/// Processor time of this process, which runs nothing but this test.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_lease_is_waited_for_without_spinning_and_not_for_ever() {
    let limited = site(|options| options.limits.open_time = Duration::from_secs(1));
    let file = File::options().read(true).write(true).open(limited.path("hello.txt")).unwrap();
    lease(&file);
    let (start, cpu) = (Instant::now(), cpu_time());
    let refused = limited.get("/hello.txt");
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    assert!(start.elapsed() >= Duration::from_millis(900), "it was waited for");
    let cpu = cpu_time() - cpu;
    assert!(cpu < Duration::from_millis(500), "{cpu:?} of processor time in a second of waiting");
    assert_eq!(limited.get("/plain/a%20b.txt").status, 200, "others are served meanwhile");
    drop(file);
    assert_eq!(limited.get("/hello.txt").status, 200);

    // A request that waits for the server is not cut off as one that takes nothing.
    let watchful = site(|options| {
        options.limits.open_time = Duration::from_secs(3);
        options.limits.idle_time = Duration::from_millis(500);
    });
    let file = File::options().read(true).write(true).open(watchful.path("hello.txt")).unwrap();
    lease(&file);
    assert_eq!(watchful.get("/hello.txt").status, 503);
    drop(file);

    let patient = site(|options| options.limits.open_time = Duration::from_secs(60));
    let file = File::options().read(true).write(true).open(patient.path("hello.txt")).unwrap();
    lease(&file);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| patient.get("/hello.txt"));
        std::thread::sleep(Duration::from_millis(200));
        drop(file);
        assert_eq!(asking.join().unwrap().text(), "hello, world\n");
    });
}
