//! Control groups against recorded trees: what a machine with v1, with v2, with both and in a
//! container looks like.
//!
//! A recorded tree has the control files that Linux 6.1 shows, with plain contents. Writes are read
//! back as they were written; what only a kernel can do (refusing, reclaiming) is tested end to end
//! where the hierarchy exists.

use std::fs;
use std::path::Path;

use pantler_kernel::group::mounts::{Memory, Places};
use pantler_kernel::group::v1::V1;
use pantler_kernel::group::v2::V2;
use pantler_kernel::group::{RunGroup, Throttle, Usage};
use pantler_kernel::memory::Left;

const V2_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
const V1_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
    35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
    38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio\n\
    41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("written");
}

fn got(root: &Path, file: &str) -> String {
    fs::read_to_string(root.join(file)).expect("a file")
}

/// A Debian 12 machine with systemd: we are in a session scope, and slices hand the memory
/// controller down.
fn v2_tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().expect("a folder");
    let root = tree.path();
    put(root, "proc/self/mountinfo", V2_MOUNTS);
    put(root, "proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n");
    let group = "sys/fs/cgroup";
    put(root, &format!("{group}/cgroup.controllers"), "cpuset cpu io memory hugetlb pids rdma misc\n");
    put(root, &format!("{group}/cgroup.subtree_control"), "cpu io memory pids\n");
    put(root, &format!("{group}/cgroup.procs"), "");
    put(root, &format!("{group}/user.slice/cgroup.subtree_control"), "cpu io memory pids\n");
    put(root, &format!("{group}/user.slice/cgroup.procs"), "");
    put(root, &format!("{group}/user.slice/memory.max"), "1000000000\n");
    put(root, &format!("{group}/user.slice/memory.high"), "max\n");
    put(root, &format!("{group}/user.slice/memory.current"), "900000000\n");
    put(root, &format!("{group}/user.slice/user-1000.slice/cgroup.subtree_control"), "pids\n");
    put(root, &format!("{group}/user.slice/user-1000.slice/cgroup.procs"), "");
    put(root, &format!("{group}/user.slice/user-1000.slice/session-3.scope/cgroup.procs"), "77\n");
    put(root, &format!("{group}/user.slice/user-1000.slice/session-3.scope/cgroup.subtree_control"), "");
    tree
}

fn v1(places: &Places, name: &str) -> V1 {
    let Some(Memory::V1 { own }) = &places.memory else { panic!("expected v1: {places:?}") };
    V1::create(own, places.blkio.as_deref(), name).expect("made")
}

fn v2(places: &Places, name: &str, joins: bool) -> V2 {
    let Some(Memory::V2 { root, own }) = &places.memory else { panic!("expected v2: {places:?}") };
    V2::create(root, own, name, joins).expect("made")
}

/// What is left of a limit for which the kernel reclaims.
fn kernels(bytes: u64) -> Option<Left> {
    Some(Left { bytes, kernel_reclaims: true })
}

#[test]
fn v2_makes_a_group_with_two_leaves_where_memory_is_handed_down() {
    let tree = v2_tree();
    let places = Places::read_below(tree.path()).expect("places");
    assert_eq!(places.blkio, None);
    let group = v2(&places, "pantler-1-2-x", true);
    let top = "sys/fs/cgroup/user.slice/pantler-1-2-x";
    assert_eq!(group.version(), "v2");
    assert_eq!(group.memory_path(), tree.path().join(top));
    assert_eq!(group.program_files(), [tree.path().join(top).join("program/cgroup.procs")]);
    assert_eq!(group.host_files(), [tree.path().join(top).join("host/cgroup.procs")]);
    assert_eq!(got(tree.path(), "sys/fs/cgroup/user.slice/cgroup.subtree_control"), "+io");
}

#[test]
fn v2_makes_a_group_within_ours_where_we_are_alone() {
    let tree = v2_tree();
    let own = "sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope";
    let us = std::process::id().to_string();
    put(tree.path(), &format!("{own}/cgroup.procs"), &format!("{us}\n"));
    let places = Places::read_below(tree.path()).expect("places");
    let beside = v2(&places, "pantler-1-2-x", false);
    assert_eq!(beside.memory_path(), tree.path().join("sys/fs/cgroup/user.slice/pantler-1-2-x"));
    let group = v2(&places, "pantler-1-2-y", true);
    assert_eq!(group.memory_path(), tree.path().join(own).join("pantler-1-2-y"));
    assert_eq!(got(tree.path(), &format!("{own}/pantler-1-2-y/host/cgroup.procs")), us);
    assert_eq!(got(tree.path(), &format!("{own}/cgroup.subtree_control")), "+io");
}

#[test]
fn v2_takes_the_limits_of_a_group_that_it_leaves() {
    let tree = v2_tree();
    let group = "sys/fs/cgroup/user.slice";
    put(tree.path(), &format!("{group}/user-1000.slice/memory.high"), "60000000\n");
    put(tree.path(), &format!("{group}/user-1000.slice/session-3.scope/memory.max"), "50000000\n");
    put(tree.path(), &format!("{group}/user-1000.slice/session-3.scope/memory.high"), "70000000\n");
    let places = Places::read_below(tree.path()).expect("places");
    let made = v2(&places, "pantler-1-2-x", true);
    assert_eq!(got(tree.path(), &format!("{group}/pantler-1-2-x/memory.max")), "50000000");
    assert_eq!(got(tree.path(), &format!("{group}/pantler-1-2-x/memory.high")), "60000000");
    put(tree.path(), &format!("{group}/pantler-1-2-x/memory.current"), "30000000\n");
    assert_eq!(made.gauge(None).room(), kernels(20_000_000));
}

#[test]
fn v2_counts_and_bounds() {
    let tree = v2_tree();
    let root = tree.path();
    let group = v2(&Places::read_below(root).expect("places"), "pantler-1-2-x", true);
    let top = "sys/fs/cgroup/user.slice/pantler-1-2-x";
    put(root, &format!("{top}/memory.current"), "41000000\n");
    put(root, &format!("{top}/memory.peak"), "43000000\n");
    put(
        root,
        &format!("{top}/memory.stat"),
        "anon 900000\nfile 40000000\nkernel 100000\nshmem 500000\nfile_mapped 4096\n",
    );
    put(root, &format!("{top}/host/memory.current"), "30000000\n");
    put(
        root,
        &format!("{top}/io.stat"),
        "254:0 rbytes=1000 wbytes=7 rios=3 wios=1 dbytes=0 dios=0\n4095:2 4095:1 rbytes=24 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n",
    );
    assert_eq!(
        group.usage().expect("usage"),
        Usage { total: 41_000_000, file: 39_500_000, other: 1_500_000 }
    );
    assert_eq!(group.peak(), Some(43_000_000));
    assert_eq!(group.device_read_bytes(), Some(1024));
    assert_eq!(group.gauge(None).room(), kernels(100_000_000), "the slice above has a limit");
    group.enforce(50_000_000).expect("bounded");
    assert_eq!(
        got(root, &format!("{top}/program/memory.high")),
        "20000000",
        "the host's share is the steward's"
    );
    group.hard_limit(Some(7 << 20)).expect("limited");
    assert_eq!(got(root, &format!("{top}/memory.max")), "7340032");
    group.hard_limit(None).expect("lifted");
    assert_eq!(got(root, &format!("{top}/memory.max")), "max");
    group
        .throttle(Throttle { major: 254, minor: 0, reads_per_s: 3000, read_bytes_per_s: 125_000_000 })
        .expect("slow");
    assert_eq!(got(root, &format!("{top}/io.max")), "254:0 rbps=125000000 riops=3000");
}

#[test]
fn v2_without_memory_below_us_enables_it_at_the_root() {
    let tree = tempfile::tempdir().expect("a folder");
    let root = tree.path();
    put(root, "proc/self/mountinfo", V2_MOUNTS);
    put(root, "proc/self/cgroup", "0::/\n");
    put(root, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    put(root, "sys/fs/cgroup/cgroup.subtree_control", "cpu\n");
    let group = v2(&Places::read_below(root).expect("places"), "pantler-1-2-x", true);
    assert_eq!(group.memory_path(), root.join("sys/fs/cgroup/pantler-1-2-x"));
    assert_eq!(got(root, "sys/fs/cgroup/pantler-1-2-x/cgroup.subtree_control"), "+io");
    assert!(group.peak().is_none(), "before 5.19 it is unknown");
    let none = Left { bytes: u64::MAX, kernel_reclaims: false };
    assert_eq!(group.gauge(None).room(), Some(none));
}

#[test]
fn v1_is_preferred_where_it_has_the_memory_controller() {
    let tree = tempfile::tempdir().expect("a folder");
    let root = tree.path();
    put(root, "proc/self/mountinfo", V1_MOUNTS);
    put(root, "proc/self/cgroup", "7:blkio:/jobs\n4:memory:/jobs/7\n0::/\n");
    fs::create_dir_all(root.join("sys/fs/cgroup/memory/jobs/7")).expect("a folder");
    fs::create_dir_all(root.join("sys/fs/cgroup/blkio/jobs")).expect("a folder");
    put(root, "sys/fs/cgroup/unified/cgroup.controllers", "\n");
    put(root, "sys/fs/cgroup/memory/jobs/cgroup.procs", "");
    put(root, "sys/fs/cgroup/memory/jobs/7/cgroup.procs", "");
    put(root, "sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "5\n");
    put(root, "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1000\n");
    put(root, "sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "300\n");
    let places = Places::read_below(root).expect("places");
    assert_eq!(places.memory, Some(Memory::V1 { own: root.join("sys/fs/cgroup/memory/jobs/7") }));
    let group = v1(&places, "pantler-1-2-x");
    let memory = "sys/fs/cgroup/memory/jobs/7/pantler-1-2-x";
    let blkio = "sys/fs/cgroup/blkio/jobs/pantler-1-2-x";
    assert_eq!(
        group.program_files(),
        [root.join(memory).join("cgroup.procs"), root.join(blkio).join("cgroup.procs")]
    );
    assert_eq!(group.io_path(), Some(root.join(blkio).as_path()));
    assert_eq!(
        group.gauge(None).room(),
        kernels(700),
        "the group above has a limit, the largest number is none"
    );
    put(root, &format!("{memory}/memory.usage_in_bytes"), "100\n");
    let own = Left { bytes: 400, kernel_reclaims: false };
    assert_eq!(group.gauge(Some(500)).room(), Some(own), "a total is less than the limit leaves");
    assert_eq!(group.gauge(Some(900)).room(), kernels(700), "a total is more");
    put(root, &format!("{memory}/memory.usage_in_bytes"), "900\n");
    put(
        root,
        &format!("{memory}/memory.stat"),
        "cache 1\nshmem 1\ntotal_cache 700\ntotal_rss 90\ntotal_shmem 100\n",
    );
    assert_eq!(group.usage().expect("usage"), Usage { total: 900, file: 600, other: 300 });
    put(
        root,
        &format!("{blkio}/blkio.throttle.io_service_bytes"),
        "254:0 Read 4096\n254:0 Write 1\n254:0 Total 4097\n4095:0 Read 4\nTotal 4101\n",
    );
    assert_eq!(group.device_read_bytes(), Some(4100));
    group.enforce(1000).expect("nothing to do");
    assert!(!root.join(memory).join("memory.limit_in_bytes").exists(), "no limit below the bound");
    group.enforce(800).expect("reclaimed");
    assert_eq!(got(root, &format!("{memory}/memory.limit_in_bytes")), "-1", "no limit stays");
}

#[test]
fn in_a_container_only_a_part_of_the_hierarchy_is_mounted() {
    let tree = tempfile::tempdir().expect("a folder");
    let root = tree.path();
    let mounts = "35 31 0:32 /docker/77 /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory\n";
    put(root, "proc/self/mountinfo", mounts);
    put(root, "proc/self/cgroup", "4:memory:/docker/77/app\n");
    let places = Places::read_below(root).expect("places");
    assert_eq!(places.memory, Some(Memory::V1 { own: root.join("sys/fs/cgroup/memory/app") }));
}

#[test]
fn without_a_memory_controller_there_is_none() {
    let tree = tempfile::tempdir().expect("a folder");
    put(
        tree.path(),
        "proc/self/mountinfo",
        "nonsense\n41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    put(tree.path(), "proc/self/cgroup", "0::/\n");
    put(tree.path(), "sys/fs/cgroup/cgroup.controllers", "cpu\n");
    assert_eq!(Places::read_below(tree.path()).expect("places").memory, None);
    assert!(Places::read_below(&tree.path().join("nowhere")).is_err());
}
