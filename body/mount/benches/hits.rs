//! What a hit costs, beside what it could cost: the same reads on ext4 (or whatever holds the
//! target directory), through a plain FUSE daemon that answers from memory by direct I/O (same
//! crate, same number of threads), through FUSE passthrough where the kernel has it, and through
//! the mount.
//!
//! Prints one JSON object per row, and a verdict on the two targets. Environment:
//! `PANTLER_BENCH_DIR` (a directory on a real disk; default: the target directory),
//! `PANTLER_BENCH_THREADS` (default 2), `PANTLER_BENCH_ROUNDS` (default 3; the best median counts,
//! because other work on the machine only ever adds).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, Request,
};
use pantler_mount::{Keeper, Mount, MountOptions};

#[path = "../../../benches/environment.rs"]
mod environment;

const FILE_BYTES: usize = 256 << 20;
const SMALL: usize = 4 << 10;
const LARGE: usize = 1 << 20;
const SMALL_READS: usize = 60_000;
const LARGE_READS: usize = 1024;

fn threads() -> usize {
    std::env::var("PANTLER_BENCH_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    if let Err(error) = run() {
        eprintln!("hits: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let base = std::env::var_os("PANTLER_BENCH_DIR")
        .map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    let rounds: usize =
        std::env::var("PANTLER_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let folder = tempfile::tempdir_in(base)?;
    let (origin, point) = (folder.path().join("origin"), folder.path().join("mnt"));
    std::fs::create_dir(&origin)?;
    std::fs::create_dir(&point)?;
    let data: Vec<u8> = (0..FILE_BYTES).map(|at| (at / 4096) as u8).collect();
    std::fs::write(origin.join("f"), &data)?;
    let mut best: Vec<(&str, Row)> = Vec::new();
    for _ in 0..rounds {
        let mut note = |name, row: Row| match best.iter_mut().find(|(other, _)| *other == name) {
            Some((_, old)) => *old = old.better(row),
            None => best.push((name, row)),
        };
        note("file system", measure(&origin.join("f"))?);
        let plain = serve(Plain { data: data.clone(), file: None, backing: Mutex::default() }, &point)?;
        note("plain fuse", measure(&point.join("f"))?);
        plain.umount_and_join()?;
        let file: OwnedFd = File::open(origin.join("f"))?.into();
        let passthrough = Plain { data: vec![0; FILE_BYTES], file: Some(file), backing: Mutex::default() };
        let served = serve(passthrough, &point)?;
        match measure(&point.join("f")) {
            Ok(row) => note("passthrough", row),
            Err(error) => eprintln!("passthrough: {error}"),
        }
        served.umount_and_join()?;
        for (name, frames) in [("mount", Keeper::Own), ("mount, frames of the kernel", Keeper::Kernel)] {
            let mut options = MountOptions::new(&origin, &point);
            options.frames = frames;
            options.cache_bytes = 2 * FILE_BYTES as u64;
            options.threads = threads();
            let mounted = match Mount::new(options).and_then(Mount::spawn) {
                Ok(mounted) => mounted,
                Err(error) => {
                    eprintln!("{name}: {error}");
                    continue;
                }
            };
            note(name, measure(&point.join("f"))?);
            mounted.unmount()?;
        }
    }
    let environment = environment::line(Some(&origin));
    println!("{{\"environment\":\"{environment}\",\"threads\":{}}}", threads());
    print(&best);
    Ok(())
}

#[derive(Clone, Copy)]
struct Row {
    small_p50: Duration,
    large_gb_s: f64,
}

impl Row {
    fn better(self, other: Row) -> Row {
        Row {
            small_p50: self.small_p50.min(other.small_p50),
            large_gb_s: self.large_gb_s.max(other.large_gb_s),
        }
    }
}

fn print(rows: &[(&str, Row)]) {
    let of = |name| rows.iter().find(|(other, _)| *other == name).map(|(_, row)| *row);
    for (name, row) in rows {
        let p50_us = row.small_p50.as_nanos() as f64 / 1000.0;
        let gb_s = row.large_gb_s;
        println!("{{\"path\":\"{name}\",\"read_4k_p50_us\":{p50_us:.2},\"sequential_1m_gb_s\":{gb_s:.2}}}");
    }
    if let (Some(mount), Some(plain)) = (of("mount"), of("plain fuse")) {
        let ratio = mount.small_p50.as_secs_f64() / plain.small_p50.as_secs_f64();
        let small = mount.small_p50 <= Duration::from_micros(6) || ratio <= 1.35;
        let large = mount.large_gb_s >= 3.5;
        eprintln!(
            "4 KiB hit {:?}, {ratio:.2} of plain fuse: {}; 1 MiB {:.2} GB/s: {}",
            mount.small_p50,
            if small { "met" } else { "MISSED" },
            mount.large_gb_s,
            if large { "met" } else { "MISSED" },
        );
    }
}

fn measure(path: &Path) -> io::Result<Row> {
    let file = File::open(path)?;
    let mut buffer = vec![0u8; LARGE];
    let blocks = FILE_BYTES / LARGE;
    for block in 0..blocks {
        file.read_exact_at(&mut buffer, (block * LARGE) as u64)?;
    }
    let mut large_gb_s = 0f64;
    for _ in 0..LARGE_READS / blocks {
        let start = Instant::now();
        for block in 0..blocks {
            file.read_exact_at(&mut buffer, (block * LARGE) as u64)?;
        }
        large_gb_s = large_gb_s.max(FILE_BYTES as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    let mut times = Vec::with_capacity(SMALL_READS);
    let mut at = 1usize;
    for _ in 0..SMALL_READS {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (at >> 33) % (FILE_BYTES / SMALL);
        let start = Instant::now();
        file.read_exact_at(&mut buffer[..SMALL], (block * SMALL) as u64)?;
        times.push(start.elapsed());
        assert_eq!(buffer[0], block as u8, "wrong bytes");
    }
    times.sort_unstable();
    Ok(Row { small_p50: times[times.len() / 2], large_gb_s })
}

fn serve(file_system: Plain, point: &Path) -> io::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("plain".into())];
    config.n_threads = Some(threads());
    config.clone_fd = true;
    fuser::spawn_mount(file_system, point, &config)
}

/// One file, from memory or passed through.
struct Plain {
    data: Vec<u8>,
    file: Option<OwnedFd>,
    backing: Mutex<Vec<fuser::BackingId>>,
}

impl Plain {
    fn attributes(&self, number: u64) -> FileAttr {
        FileAttr {
            ino: INodeNo(number),
            size: self.data.len() as u64,
            blocks: self.data.len() as u64 / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if number == 1 { FileType::Directory } else { FileType::RegularFile },
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

const LONG: Duration = Duration::from_secs(3600);

impl Filesystem for Plain {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(LARGE as u32);
        if self.file.is_some() {
            let missing = |_| io::Error::from(io::ErrorKind::Unsupported);
            config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).map_err(missing)?;
            let _ = config.set_max_stack_depth(2);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "f" {
            reply.entry(&LONG, &self.attributes(2), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LONG, &self.attributes(number.0));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let Some(file) = &self.file else { return reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO) };
        match reply.open_backing(file) {
            Ok(backing) => {
                reply.opened_passthrough(FileHandle(0), FopenFlags::empty(), &backing);
                self.backing.lock().expect("no panic before").push(backing);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let start = (offset as usize).min(self.data.len());
        reply.data(&self.data[start..(start + size as usize).min(self.data.len())]);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}
