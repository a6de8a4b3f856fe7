//! docs/SEMANTICS.md, sentence by sentence: reading, writing, names, locks and changes behind the
//! mount.

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use pantler_mount::Keeper;
use pantler_origin::{OpenFile, Source};

const BLOCK: usize = 64 << 10;

#[test]
fn every_sentence_is_quoted_by_a_test() {
    every_sentence_is_quoted("SEMANTICS.md");
}

#[test]
fn reading() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::with(|options| options.cache_bytes = 1 << 20);
    let data = pattern(3_000_001, 1);
    fs::write(fixture.origin.join("f"), &data).unwrap();

    quote("A read returns the bytes of the file, in one piece or in many, whatever is cached.");
    assert!(fs::read(fixture.mnt.join("f")).unwrap() == data);
    let file = File::open(fixture.mnt.join("f")).unwrap();
    for (at, length) in
        [(0, 1), (BLOCK - 1, 2), (BLOCK * 3, BLOCK * 2 + 5), (100_001, 1_500_000), (2_999_990, 11)]
    {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at as u64).unwrap();
        assert!(bytes == data[at..at + length], "{length} bytes at {at}");
    }

    quote("A read at or past the end of a file returns nothing.");
    assert_eq!(file.read_at(&mut [0; 100], data.len() as u64).unwrap(), 0);
    assert_eq!(file.read_at(&mut [0; 100], u64::MAX / 4).unwrap(), 0);
    assert_eq!(file.read_at(&mut [0; 100], data.len() as u64 - 7).unwrap(), 7);

    quote("A block that is in the cache is not read from the origin again.");
    file.read_exact_at(&mut [0; 100], 0).unwrap();
    let before = fixture.fetches();
    for _ in 0..10 {
        file.read_exact_at(&mut [0; 100], 1000).unwrap();
    }
    assert_eq!(fixture.fetches(), before);

    quote("What was read leaves no copy in the kernel's page cache of the origin.");
    File::open(fixture.origin.join("f")).unwrap().sync_all().unwrap();
    let path = fixture.origin.join("f");
    must(&format!("dd if={0} iflag=nocache count=0 status=none", path.display()));
    fs::read(fixture.mnt.join("f")).unwrap();
    assert_eq!(resident_pages(&path), 0);

    quote("`O_DIRECT` is accepted, with any alignment.");
    let direct =
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(fixture.mnt.join("f")).unwrap();
    let mut bytes = [0; 333];
    direct.read_exact_at(&mut bytes, 777).unwrap();
    assert_eq!(bytes, data[777..777 + 333]);
}

#[test]
fn not_supported() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    let (through, behind) = (fixture.mnt.join("f"), fixture.origin.join("f"));
    fs::write(&through, pattern(4 * BLOCK, 1)).unwrap();
    let errno = |error: io::Error| error.raw_os_error().unwrap();

    quote("`O_TMPFILE` gets `EOPNOTSUPP`.");
    let mut options = OpenOptions::new();
    let nameless = options.write(true).custom_flags(libc::O_TMPFILE).open(&fixture.mnt);
    assert_eq!(nameless.map(drop).map_err(errno), Err(libc::EOPNOTSUPP));

    quote("`statx` tells no time of birth.");
    assert!(fs::metadata(&through).unwrap().created().is_err());

    quote(
        "FIEMAP and `FS_IOC_GETFLAGS` are refused, and so are collapsing and inserting ranges with `fallocate`.",
    );
    let script = r#"
import ctypes, fcntl, os, sys
f = os.open(sys.argv[1], os.O_RDWR)
for call, size in [(0xc020660b, 32), (0x80086601, 8)]:
    try:
        fcntl.ioctl(f, call, bytes(size))
        sys.exit(f"{call:x} was not refused")
    except OSError as error:
        print(error)
libc = ctypes.CDLL(None, use_errno=True)
for mode in [8, 32]:
    refused = libc.fallocate(f, mode, ctypes.c_int64(65536), ctypes.c_int64(65536))
    assert refused == -1 and ctypes.get_errno() == 95, (mode, refused, ctypes.get_errno())
"#;
    let output = Command::new("/usr/bin/python3").args(["-c", script]).arg(&through).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    quote("A read of what is cached leaves the time of access as it is.");
    fs::read(&through).unwrap();
    // Before the last change: a read of the origin sets it, relatime or not.
    must(&format!("touch -a -d 2001-02-03 {}", through.display()));
    let (accessed, fetches) = (fs::metadata(&behind).unwrap().atime(), fixture.fetches());
    fs::read(&through).unwrap();
    assert_eq!(fixture.fetches(), fetches);
    assert_eq!(fs::metadata(&behind).unwrap().atime(), accessed);
    assert!(accessed < 1_000_000_000, "{accessed}");
}

/// Pages of a file in the page cache.
fn resident_pages(path: &std::path::Path) -> usize {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len() as usize;
    let mut pages = vec![0u8; length.div_ceil(page_bytes())];
    // SAFETY: the mapping is made here, only asked about, and removed; `pages` has a byte for each
    // page.
    unsafe {
        use std::os::fd::AsRawFd;
        let flags = libc::MAP_SHARED;
        let map = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, flags, file.as_raw_fd(), 0);
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::mincore(map, length, pages.as_mut_ptr()), 0);
        libc::munmap(map, length);
    }
    pages.iter().filter(|&&page| page & 1 == 1).count()
}

#[test]
fn mapping() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    quote("Files can be mapped, and a shared mapping and `read` and `write` see each other's bytes.");
    let script = r#"
import mmap, sys
f = open(sys.argv[1], "w+b", buffering=0)
f.write(b"a" * 100000)
m = mmap.mmap(f.fileno(), 100000)
assert m[:3] == b"aaa"
m[5:8] = b"map"
f.seek(0)
assert f.read(10) == b"aaaaamapaa", "read does not see the store"
f.seek(50000)
f.write(b"written")
assert m[50000:50007] == b"written", "the mapping does not see the write"
m[99999:100000] = b"z"
m.flush(); m.close(); f.close()
g = open(sys.argv[1], "rb")
p = mmap.mmap(g.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
assert p[99999:] == b"z" and p[5:8] == b"map"
"#;
    let path = fixture.mnt.join("f");
    let output = Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let origin = fs::read(fixture.origin.join("f")).unwrap();
    assert_eq!((&origin[..8], &origin[50_000..50_007]), (&b"aaaaamap"[..], &b"written"[..]));
    // Programs are mapped.
    // Copied by another process: one that starts at the same time would inherit a descriptor that
    // writes it.
    must(&format!("cp /bin/true {}", fixture.mnt.join("true").display()));
    must(&fixture.mnt.join("true").display().to_string());
}

#[test]
fn holes() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    quote("Holes read as zeros, and `SEEK_DATA` and `SEEK_HOLE` find them where the origin does.");
    let mut file = File::create_new(fixture.mnt.join("f")).unwrap();
    file.write_all_at(b"start", 0).unwrap();
    file.write_all_at(b"end", 1 << 20).unwrap();
    let bytes = fs::read(fixture.mnt.join("f")).unwrap();
    assert!(bytes[5..1 << 20].iter().all(|&byte| byte == 0) && bytes[1 << 20..] == *b"end");
    let behind = File::open(fixture.origin.join("f")).unwrap();
    for (at, hole) in [(0, false), (0, true), (8192, false), (1 << 20, true)] {
        let seek = |file: &File| {
            let to = if hole { rustix::fs::SeekFrom::Hole(at) } else { rustix::fs::SeekFrom::Data(at) };
            rustix::fs::seek(file, to)
        };
        assert_eq!(seek(&file), seek(&behind), "{at} {hole}");
    }
    assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), (1 << 20) + 3);
}

/// An origin with reads that wait until they are let through, and are counted.
struct Gated {
    file: Arc<OpenFile>,
    is_open: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
}

impl Source for Gated {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while !self.is_open.load(Ordering::SeqCst) && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.file.read_at(offset, buffers)
    }
}

#[test]
fn readers_at_once() {
    if cannot_mount() {
        return;
    }
    const READERS: u64 = 8;
    let page = page_bytes();
    let block_bytes = 16 * page;
    let (is_open, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let fixture = Fixture::with(|options| {
        let (is_open, reads) = (Arc::clone(&is_open), Arc::clone(&reads));
        // Each reader waits in a thread of the mount's own: the kernel does not read around what
        // they ask for.
        options.frames = Keeper::Own;
        options.threads = READERS as usize + 1;
        (options.cache_bytes, options.block_bytes) = (256 * block_bytes as u64, block_bytes);
        options.interpose = Some(Arc::new(move |file| {
            Arc::new(Gated { file, is_open: Arc::clone(&is_open), reads: Arc::clone(&reads) })
        }));
    });
    let data = pattern(4 * block_bytes, 5);
    fs::write(fixture.origin.join("f"), &data).unwrap();
    quote(
        "Programs that read parts of one missing block at the same time read each part from the origin once.",
    );
    for block in 0..4 {
        is_open.store(false, Ordering::SeqCst);
        reads.store(0, Ordering::SeqCst);
        let counters = fixture.mounted().counters();
        let (traffic, before) = (counters.traffic, counters.totals.references);
        let path = fixture.mnt.join("f");
        // Programs of their own, each with a page of its own: none is served by the kernel for
        // another, and none goes on where another ended.
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let skip = block * 16 + 2 * reader;
                let script = format!("dd if={} bs={page} count=1 skip={skip} status=none", path.display());
                Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        // Held up until all readers asked.
        eventually("all readers have asked", || {
            fixture.mounted().counters().totals.references >= before + READERS
        });
        is_open.store(true, Ordering::SeqCst);
        for (reader, child) in readers.into_iter().enumerate() {
            let at = block as usize * block_bytes + 2 * reader * page;
            assert!(child.wait_with_output().unwrap().stdout == data[at..at + page], "reader {reader}");
        }
        assert_eq!(reads.load(Ordering::SeqCst), READERS, "block {block}");
        let now = fixture.mounted().counters().traffic;
        assert_eq!(now.fetched_bytes - traffic.fetched_bytes, READERS * page as u64, "block {block}");
        assert_eq!(fixture.fetches(), traffic.fetches + READERS);
    }
    quote(
        "A request for a part of a missing block reads that part from the origin. The third request in order reads also what comes after it in the block.",
    );
    fs::write(fixture.origin.join("g"), &data).unwrap();
    let file = File::open(fixture.mnt.join("g")).unwrap();
    let fetched = |number: usize| {
        let before = fixture.mounted().counters().traffic.fetched_bytes;
        let mut bytes = vec![0; page];
        file.read_exact_at(&mut bytes, (number * page) as u64).unwrap();
        assert!(bytes == data[number * page..][..page], "page {number}");
        (fixture.mounted().counters().traffic.fetched_bytes - before) / page as u64
    };
    let brought: Vec<u64> = [9, 3, 20, 21, 22, 23, 10].into_iter().map(fetched).collect();
    assert_eq!(brought, [1, 1, 1, 1, 10, 0, 1]);
}

/// Small files take the memory that they fill: as many fit as in the page cache.
#[test]
fn small_files_that_fit_are_read_once() {
    if cannot_mount() {
        return;
    }
    // Files of three pages, in blocks of sixteen.
    let (page, files) = (page_bytes(), if page_bytes() > 4096 { 150 } else { 1200 });
    // Less than a quarter of that in whole blocks.
    let cache_bytes = (files * page * 96 / 25) as u64;
    // A page that a program has the kernel drop is a page less where the kernel keeps them.
    let fixture = Fixture::with(|options| {
        options.frames = Keeper::Own;
        (options.cache_bytes, options.block_bytes) = (cache_bytes, 16 * page);
    });
    for number in 0..files {
        fs::write(fixture.origin.join(number.to_string()), pattern(3 * page, number as u64)).unwrap();
    }
    for _ in 0..2 {
        for number in 0..files {
            let file = File::open(fixture.mnt.join(number.to_string())).unwrap();
            // Not by the kernel's cache.
            // SAFETY: the call looks at the open file only.
            let dropped = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            assert_eq!(dropped, 0);
            let mut bytes = vec![0; 3 * page];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes == pattern(3 * page, number as u64), "{number}");
        }
    }
    assert_eq!(fixture.mounted().counters().traffic.fetched_bytes, (files * 3 * page) as u64);
}

/// An origin that fails when told to.
struct Faulty {
    file: Arc<OpenFile>,
    fails: Arc<AtomicBool>,
}

impl Source for Faulty {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let end = offset + buffers.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        if self.fails.load(Ordering::SeqCst) && end > BLOCK as u64 {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.file.read_at(offset, buffers)
    }
}

#[test]
fn an_origin_that_fails() {
    if cannot_mount() {
        return;
    }
    let fails = Arc::new(AtomicBool::new(true));
    let fixture = Fixture::with(|options| {
        let fails = Arc::clone(&fails);
        options.interpose = Some(Arc::new(move |file| Arc::new(Faulty { file, fails: Arc::clone(&fails) })));
    });
    let data = pattern(4 * BLOCK, 2);
    fs::write(fixture.origin.join("f"), &data).unwrap();
    quote(
        "When the origin cannot be read the reader gets its errno, nothing of it is cached, and the next read asks the \
         origin again.",
    );
    let file = File::open(fixture.mnt.join("f")).unwrap();
    let mut bytes = vec![0; BLOCK];
    assert_eq!(file.read_at(&mut bytes, BLOCK as u64).unwrap_err().raw_os_error(), Some(libc::EIO));
    // Bytes before the bad spot are read.
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == data[..BLOCK]);
    let mut more = vec![1; 4 * BLOCK];
    assert_eq!(file.read_at(&mut more, 100).unwrap(), BLOCK - 100);
    assert!(more[..BLOCK - 100] == data[100..BLOCK]);
    fails.store(false, Ordering::SeqCst);
    assert!(fs::read(fixture.mnt.join("f")).unwrap() == data);
}

#[test]
fn a_file_cut_under_a_reader() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    quote(
        "A file that is cut while a program reads it ends there for the reader, without error and \
            without stale bytes.",
    );
    let data = pattern(20 * BLOCK, 3);
    fs::write(fixture.mnt.join("f"), &data).unwrap();
    let reader = File::open(fixture.mnt.join("f")).unwrap();
    reader.read_exact_at(&mut vec![0; 20 * BLOCK], 0).unwrap();
    OpenOptions::new().write(true).open(fixture.mnt.join("f")).unwrap().set_len(BLOCK as u64 + 10).unwrap();
    assert_eq!(reader.read_at(&mut [0; 100], 5 * BLOCK as u64).unwrap(), 0);
    assert_eq!(reader.read_at(&mut [0; 100], BLOCK as u64).unwrap(), 10);
    // The same behind the mount, after the refresh interval.
    OpenOptions::new().write(true).open(fixture.origin.join("f")).unwrap().set_len(10).unwrap();
    std::thread::sleep(Duration::from_millis(120));
    assert_eq!(reader.read_at(&mut [0; 100], 0).unwrap(), 10);
    // And extended again: zeros, not what was there once.
    OpenOptions::new().write(true).open(fixture.mnt.join("f")).unwrap().set_len(BLOCK as u64).unwrap();
    let mut bytes = vec![1; BLOCK];
    reader.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes[..10] == data[..10] && bytes[10..].iter().all(|&byte| byte == 0));
}

#[test]
fn writing() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    let (through, behind) = (fixture.mnt.join("f"), fixture.origin.join("f"));
    let mut model = pattern(5 * BLOCK + 77, 4);
    fs::write(&through, &model).unwrap();

    quote("A write is in the origin when it is acknowledged.");
    assert!(fs::read(&behind).unwrap() == model);

    quote("Bytes that were written are seen by every later read, through any descriptor.");
    let writer = OpenOptions::new().write(true).open(&through).unwrap();
    let reader = File::open(&through).unwrap();
    for (round, at) in [0, 1, BLOCK - 3, 2 * BLOCK, 5 * BLOCK + 70, 7 * BLOCK + 1].into_iter().enumerate() {
        let data = pattern(BLOCK / 2 + 9, 100 + round as u64);
        writer.write_all_at(&data, at as u64).unwrap();
        model.resize(model.len().max(at + data.len()), 0);
        model[at..at + data.len()].copy_from_slice(&data);
        let mut bytes = vec![0; model.len()];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == model, "round {round}");
        assert!(fs::read(&behind).unwrap() == model, "round {round}");
    }

    quote("What was just written is read back from the cache.");
    fs::write(fixture.mnt.join("fresh"), &model).unwrap();
    let before = fixture.fetches();
    assert!(fs::read(fixture.mnt.join("fresh")).unwrap() == model);
    assert_eq!(fixture.fetches(), before, "it was read from the origin");

    quote("`truncate`, `fallocate`, holes punched and `copy_file_range` show in the next read.");
    let file = OpenOptions::new().read(true).write(true).open(&through).unwrap();
    let check = |model: &[u8], what: &str| {
        assert!(fs::read(&through).unwrap() == model, "{what}: through the mount");
        assert!(fs::read(&behind).unwrap() == model, "{what}: in the origin");
    };
    rustix::fs::fallocate(
        &file,
        rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
        100,
        BLOCK as u64,
    )
    .unwrap();
    model[100..100 + BLOCK].fill(0);
    check(&model, "punch");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, model.len() as u64 + 1000).unwrap();
    model.resize(model.len() + 1000, 0);
    check(&model, "allocate");
    file.set_len(3000).unwrap();
    model.truncate(3000);
    check(&model, "cut");
    file.set_len(9000).unwrap();
    model.resize(9000, 0);
    check(&model, "extend");
    let other = File::open(fixture.mnt.join("fresh")).unwrap();
    let copied = rustix::fs::copy_file_range(&other, Some(&mut 10), &file, Some(&mut 500), 4000).unwrap();
    let fresh = fs::read(fixture.origin.join("fresh")).unwrap();
    model[500..500 + copied].copy_from_slice(&fresh[10..10 + copied]);
    assert!(copied > 0);
    check(&model, "copy");

    quote("`fsync` and `fdatasync` work on files, and `fsync` on directories.");
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    File::open(&fixture.mnt).unwrap().sync_all().unwrap();
}

#[test]
fn appending() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    quote("Writes with `O_APPEND` go to the end of the file, also when several programs append at once.");
    let path = fixture.mnt.join("log");
    fs::write(&path, "").unwrap();
    let writers = 4;
    let script =
        format!("i=0; while [ $i -lt 200 ]; do echo line $$ $i >> {}; i=$((i+1)); done", path.display());
    let children: Vec<_> =
        (0..writers).map(|_| Command::new("sh").args(["-c", &script]).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    // One more appends behind the mount meanwhile: its bytes are not overwritten either.
    let mut log = OpenOptions::new().append(true).open(&path).unwrap();
    OpenOptions::new().append(true).open(fixture.origin.join("log")).unwrap().write_all(b"behind\n").unwrap();
    log.write_all(b"through\n").unwrap();
    let text = fs::read_to_string(fixture.origin.join("log")).unwrap();
    assert_eq!(text.lines().count(), writers * 200 + 2);
    assert!(text.lines().all(|line| line.starts_with("line ") || line == "behind" || line == "through"));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_file_that_grows_while_it_is_read() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    quote("Bytes that were written are seen by every later read, through any descriptor.");
    let path = fixture.mnt.join("grows");
    let mut log = OpenOptions::new().append(true).create(true).open(&path).unwrap();
    let (file, is_done) = (File::open(&path).unwrap(), AtomicBool::new(false));
    let wrong = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut piece = vec![0; 16 << 10];
                while !is_done.load(Ordering::Relaxed) {
                    let end = file.metadata().unwrap().len();
                    file.read_at(&mut piece, end.saturating_sub(4 << 10)).unwrap();
                }
            });
        }
        let wrong = (0..4000_u64).find(|&round| {
            let (line, mut got) = (vec![round as u8; 700], vec![0; 700]);
            let is_written = log.write_all(&line).is_ok();
            let is_read = file.read_exact_at(&mut got, round * 700).is_ok();
            !is_written || !is_read || got != line
        });
        is_done.store(true, Ordering::Relaxed);
        wrong
    });
    assert_eq!(wrong, None, "the first line that was not there once it was written");
}

#[test]
fn read_only() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::with(|options| options.read_only = true);
    fs::write(fixture.origin.join("f"), "x").unwrap();
    quote("A read-only mount refuses every change with `EROFS`, also after `mount -o remount,rw`.");
    let refusals = [
        fs::write(fixture.mnt.join("f"), "y"),
        fs::remove_file(fixture.mnt.join("f")),
        fs::create_dir(fixture.mnt.join("d")),
        fs::rename(fixture.mnt.join("f"), fixture.mnt.join("g")),
        fs::set_permissions(fixture.mnt.join("f"), fs::Permissions::from_mode(0o600)),
    ];
    assert!(
        refusals.iter().all(|r| r.as_ref().unwrap_err().raw_os_error() == Some(libc::EROFS)),
        "{refusals:?}"
    );
    assert_eq!(fs::read_to_string(fixture.mnt.join("f")).unwrap(), "x");
}

// The kernel lets root take its own flag back: then the mount has to refuse.
#[test]
fn read_only_mounts_that_the_kernel_takes_for_writable() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::with(|options| options.read_only = true);
    let inside = fixture.origin.clone();
    fs::write(inside.join("f"), "x").unwrap();
    fs::create_dir(inside.join("d")).unwrap();
    must(&format!("setfattr -n user.x -v y {}", inside.join("f").display()));
    let before = must(&format!("cd {} && ls -lR --time-style=full-iso", inside.display()));
    let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
    rustix::mount::mount_remount(&fixture.mnt, flags, "").unwrap();
    assert_eq!(fs::read_to_string(fixture.mnt.join("f")).unwrap(), "x");
    for change in [
        "echo y > f",
        "echo y >> f",
        "echo y > new",
        "truncate -s 0 f",
        "touch -d 2001-01-01 f",
        "chmod 600 f",
        "chown 1 f",
        "setfattr -n user.x -v z f",
        "setfattr -x user.x f",
        "ln f g",
        "ln -s f l",
        "mkfifo p",
        "mkdir e",
        "rmdir d",
        "rm f",
        "mv f g",
        "chmod 700 d",
    ] {
        let refusal = refused(&shell(&format!("cd {} && {change}", fixture.mnt.display())));
        assert!(refusal.contains("Read-only file system"), "{change}: {refusal}");
    }
    // Reading changes nothing, though the time of the last access may move.
    assert_eq!(must(&format!("cd {} && ls -lR --time-style=full-iso", inside.display())), before);
}

#[test]
fn names() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    let at = |name: &str| fixture.mnt.join(name);

    quote("An open file that is renamed or removed keeps working.");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(at("a")).unwrap();
    file.write_all(b"one").unwrap();
    fs::rename(at("a"), at("b")).unwrap();
    file.write_all(b"two").unwrap();
    fs::remove_file(at("b")).unwrap();
    file.write_all(b"three").unwrap();
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), file.metadata().unwrap().nlink()), ("onetwothree", 0));

    quote(
        "`rename` replaces what is there, and the flags `RENAME_NOREPLACE` and `RENAME_EXCHANGE` mean what they mean.",
    );
    fs::write(at("x"), "x").unwrap();
    fs::write(at("y"), "yy").unwrap();
    fs::read(at("y")).unwrap();
    let rename = |flags| rustix::fs::renameat_with(rustix::fs::CWD, at("x"), rustix::fs::CWD, at("y"), flags);
    assert_eq!(rename(rustix::fs::RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    rename(rustix::fs::RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(at("x")).unwrap(), fs::read(at("y")).unwrap()), (b"yy".to_vec(), b"x".to_vec()));
    fs::rename(at("x"), at("y")).unwrap();
    assert_eq!(fs::read(at("y")).unwrap(), b"yy");
    assert!(!at("x").exists() && !fixture.origin.join("x").exists());

    quote("Hard links, symbolic links, fifos and sockets are what they are in the origin.");
    fs::hard_link(at("y"), at("hard")).unwrap();
    fs::write(at("hard"), "by another name").unwrap();
    assert_eq!(fs::read_to_string(at("y")).unwrap(), "by another name");
    assert_eq!(fs::metadata(at("y")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(at("y")).unwrap().ino(), fs::metadata(at("hard")).unwrap().ino());
    std::os::unix::fs::symlink("y", at("soft")).unwrap();
    assert_eq!(fs::read_link(fixture.origin.join("soft")).unwrap(), fs::read_link(at("soft")).unwrap());
    assert_eq!(fs::read_to_string(at("soft")).unwrap(), "by another name");
    must(&format!("mkfifo {0}; echo through > {0} & cat {0} | grep -q through", at("fifo").display()));
    let socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    assert!(fs::metadata(fixture.origin.join("socket")).unwrap().file_type().is_socket());
    std::os::unix::net::UnixStream::connect(at("socket")).unwrap();
    drop(socket);

    quote(
        "Names that are too long, missing, taken, not empty or no directory get the errno they get in the origin.",
    );
    fs::create_dir_all(at("d/e")).unwrap();
    for base in [&fixture.mnt, &fixture.origin] {
        let errno = |result: io::Result<()>| result.unwrap_err().raw_os_error().unwrap();
        assert_eq!(errno(fs::write(base.join("n".repeat(256)), "")), libc::ENAMETOOLONG);
        assert_eq!(errno(fs::remove_file(base.join("missing"))), libc::ENOENT);
        assert_eq!(errno(fs::create_dir(base.join("d"))), libc::EEXIST);
        assert_eq!(errno(fs::remove_dir(base.join("d"))), libc::ENOTEMPTY);
        assert_eq!(errno(fs::remove_dir(base.join("y"))), libc::ENOTDIR);
        assert_eq!(errno(fs::write(base.join("y/z"), "")), libc::ENOTDIR);
        assert_eq!(errno(fs::rename(base.join("d"), base.join("d/e/f"))), libc::EINVAL);
        assert_eq!(errno(File::open(base.join("d")).unwrap().read(&mut [0]).map(drop)), libc::EISDIR);
    }

    quote("Times, permissions, owners and sizes can be read and set as in the origin.");
    must(&format!(
        "touch -d '2001-02-03 04:05:06.789' {0}; chmod 640 {0}; chown 12:34 {0}",
        at("y").display()
    ));
    for path in [at("y"), fixture.origin.join("y")] {
        let meta = fs::metadata(path).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.uid(), meta.gid(), meta.size()), (0o640, 12, 34, 15));
        assert_eq!((meta.mtime_nsec(), meta.mtime()), (789_000_000, fs::metadata(at("y")).unwrap().mtime()));
    }

    quote("`statfs` tells the size and free space of the origin.");
    let (through, behind) =
        (rustix::fs::statvfs(&fixture.mnt).unwrap(), rustix::fs::statvfs(&fixture.origin).unwrap());
    assert_eq!((through.f_blocks, through.f_frsize), (behind.f_blocks, behind.f_frsize));
}

#[test]
fn listings() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    quote("A listing shows each entry once, in directories of any size.");
    let names: Vec<String> = (0..5000).map(|number| format!("file-with-a-longer-name-{number:05}")).collect();
    fs::create_dir(fixture.mnt.join("d")).unwrap();
    for name in &names {
        File::create(fixture.origin.join("d").join(name)).unwrap();
    }
    for _ in 0..2 {
        let listed = fs::read_dir(fixture.mnt.join("d")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut listed: Vec<_> = listed.map(|name| name.into_string().unwrap()).collect();
        listed.sort_unstable();
        assert!(listed == names, "{} entries", listed.len());
    }
    assert_eq!(must(&format!("ls -la {} | wc -l", fixture.mnt.join("d").display())).trim(), "5003");
    must(&format!("rm -r {}", fixture.mnt.join("d").display()));
    assert!(!fixture.origin.join("d").exists());
}

#[test]
fn changes_behind_the_mount() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    let (through, behind) = (fixture.mnt.join("f"), fixture.origin.join("f"));

    quote("Changes made to the origin behind the mount are seen by every open that follows.");
    fs::write(&behind, "first").unwrap();
    assert_eq!(fs::read_to_string(&through).unwrap(), "first");
    fs::write(&behind, "second, and longer").unwrap();
    assert_eq!(fs::read_to_string(&through).unwrap(), "second, and longer");

    quote("Opening also refreshes the size that `fstat` tells and that mappings are bounded by.");
    for size in [100, 100_000, 7] {
        fs::write(&behind, vec![b'x'; size]).unwrap();
        assert_eq!(File::open(&through).unwrap().metadata().unwrap().len(), size as u64);
    }

    quote(
        "They are seen through a descriptor that was open before after at most the refresh interval, by default 100 ms.",
    );
    let reader = File::open(&through).unwrap();
    let first_byte = || {
        let mut byte = [0];
        reader.read_exact_at(&mut byte, 0).unwrap();
        byte[0]
    };
    for round in b'0'..=b'9' {
        OpenOptions::new().write(true).open(&behind).unwrap().write_all_at(&[round], 0).unwrap();
        let start = Instant::now();
        loop {
            // Reads that were asked for before may say either.
            let asked = start.elapsed();
            if first_byte() == round {
                break;
            }
            // A little more for a machine that is busy: the clock of the interval starts when a
            // look at the file ends.
            assert!(asked < Duration::from_millis(400), "still stale");
        }
    }

    quote("A file that is replaced by another under the same name is noticed within the refresh interval.");
    for round in 0..5 {
        let text = format!("replaced {round}");
        fs::write(fixture.origin.join("new"), &text).unwrap();
        fs::rename(fixture.origin.join("new"), &behind).unwrap();
        std::thread::sleep(Duration::from_millis(110));
        assert_eq!(fs::read_to_string(&through).unwrap(), text);
    }

    quote(
        "A file that is rewritten again and again behind the mount, with the same size, is never read stale after opening it.",
    );
    for round in 0..3000u32 {
        let data = round.to_le_bytes();
        OpenOptions::new().write(true).open(&behind).unwrap().write_all_at(&data, 0).unwrap();
        let mut bytes = [0; 4];
        File::open(&through).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(u32::from_le_bytes(bytes), round, "stale");
    }
}

/// The kernel stamps a file when a write begins; the bytes come later, and nothing is stamped
/// again.
#[test]
fn writes_behind_the_mount_that_take_their_time() {
    if cannot_mount() {
        return;
    }
    quote(
        "An open while something behind the mount writes to the file may see a part of that; an \
            open afterwards sees all of it.",
    );
    writes_are_seen_when_they_have_ended(&Fixture::new());
    // Reads wait for writers on ext4, because they go past the page cache; here they do not.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    writes_are_seen_when_they_have_ended(&Fixture::over(memory.path().to_owned(), |_| {}));
}

fn writes_are_seen_when_they_have_ended(fixture: &Fixture) {
    const SIZE: usize = 64 << 20;
    let (behind, through) = (fixture.origin.join("f"), fixture.mnt.join("f"));
    let read = |offset: usize| {
        let mut bytes = [0; 4096];
        File::open(&through).unwrap().read_exact_at(&mut bytes, offset as u64).unwrap();
        bytes
    };
    fs::write(&behind, vec![0; SIZE]).unwrap();
    for round in 1..=8 {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = OpenOptions::new().write(true).open(&behind).unwrap();
                file.write_all_at(&vec![round; SIZE], 0).unwrap();
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                read(SIZE - 4096);
            }
        });
        for offset in [0, SIZE / 2, SIZE - 4096] {
            assert_eq!(
                read(offset)[..8],
                [round; 8],
                "round {round}, offset {offset}: what was there before"
            );
        }
    }
}

/// Only the first store after the pages were last written back stamps the file.
#[test]
fn stores_through_a_mapping_behind_the_mount() {
    if cannot_mount() {
        return;
    }
    stores_are_seen(&Fixture::new());
    // Nothing here is ever written back.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    stores_are_seen(&Fixture::over(memory.path().to_owned(), |_| {}));
}

fn stores_are_seen(fixture: &Fixture) {
    let (behind, through) = (fixture.origin.join("f"), fixture.mnt.join("f"));
    fs::write(&behind, [b'0'; 8192]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&behind).unwrap();
    let (protection, flags) =
        (rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE, rustix::mm::MapFlags::SHARED);
    // SAFETY: a new mapping at a place that the kernel chooses, used until it is unmapped below.
    let map = unsafe { rustix::mm::mmap(std::ptr::null_mut(), 8192, protection, flags, &file, 0) }.unwrap();
    let store = |byte: u8| {
        // SAFETY: within the mapping.
        unsafe { map.cast::<u8>().write_volatile(byte) };
    };
    let first = || {
        let mut byte = [0];
        File::open(&through).unwrap().read_exact_at(&mut byte, 0).unwrap();
        byte[0]
    };
    drop(file);
    for byte in b'a'..=b'z' {
        store(byte);
        assert_eq!(first(), byte);
    }
    // SAFETY: exactly the mapping made above.
    unsafe { rustix::mm::munmap(map, 8192) }.unwrap();
    assert_eq!(first(), b'z');
}

#[test]
fn locks() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    quote("`flock` and `fcntl` locks hold between programs on the mount, and are unknown to the origin.");
    fs::write(fixture.mnt.join("f"), "x").unwrap();
    let script = |path: &std::path::Path, call: &str| {
        let path = path.display();
        format!(
            "python3 -c \"import fcntl; f = open('{path}', 'r+b'); fcntl.{call}(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\""
        )
    };
    let file = OpenOptions::new().read(true).write(true).open(fixture.mnt.join("f")).unwrap();
    for call in ["flock", "lockf"] {
        match call {
            "flock" => rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap(),
            _ => rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap(),
        }
        let error = refused(&shell(&script(&fixture.mnt.join("f"), call)));
        assert!(error.contains("BlockingIOError"), "{call}: {error}");
        must(&script(&fixture.origin.join("f"), call));
    }
}
