//! One round of everything on each kind of origin that the machine can mount.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::*;

fn round(origin: &Path) {
    let fixture = Fixture::over(origin.to_owned(), |options| options.cache_bytes = 2 << 20);
    let mnt = &fixture.mnt;
    let data = pattern(1_000_003, 9);
    fs::create_dir(mnt.join("d")).unwrap();
    fs::write(mnt.join("d/f"), &data).unwrap();
    assert!(fs::read(mnt.join("d/f")).unwrap() == data, "written through the mount");
    assert!(fs::read(origin.join("d/f")).unwrap() == data, "in the origin");
    // Past the cache: from the origin again.
    fs::write(mnt.join("filler"), pattern(4 << 20, 1)).unwrap();
    fs::read(mnt.join("filler")).unwrap();
    assert!(fs::read(mnt.join("d/f")).unwrap() == data, "fetched");
    let file = OpenOptions::new().read(true).write(true).open(mnt.join("d/f")).unwrap();
    file.write_all_at(b"in the middle", 333_333).unwrap();
    let mut bytes = [0; 13];
    file.read_exact_at(&mut bytes, 333_333).unwrap();
    assert_eq!(&bytes, b"in the middle");
    file.set_len(400_000).unwrap();
    file.sync_all().unwrap();
    fs::rename(mnt.join("d/f"), mnt.join("g")).unwrap();
    assert_eq!(fs::read(mnt.join("g")).unwrap().len(), 400_000);
    fs::hard_link(mnt.join("g"), mnt.join("h")).unwrap();
    fs::remove_file(mnt.join("g")).unwrap();
    file.write_all_at(b"still open", 0).unwrap();
    assert!(fs::read(mnt.join("h")).unwrap().starts_with(b"still open"));
    // Behind the mount, again and again, with the same size.
    for number in 0..200u32 {
        let behind = OpenOptions::new().write(true).open(origin.join("h")).unwrap();
        behind.write_all_at(&number.to_le_bytes(), 0).unwrap();
        let mut bytes = [0; 4];
        File::open(mnt.join("h")).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(u32::from_le_bytes(bytes), number, "stale");
    }
    must(&format!(
        "cp -r /usr/include/linux {0}/tree && diff -r /usr/include/linux {0}/tree && rm -r {0}/tree",
        mnt.display()
    ));
    // fio leaves files about what it verified wherever it is started.
    let scratch = tempfile::tempdir().unwrap();
    must(&format!(
        "cd {} && fio --name=v --directory={} --size=2m --rw=randrw --bsrange=1k-64k --bs_unaligned=1 --verify=crc32c \
         --verify_fatal=1 --ioengine=psync --output-format=terse",
        scratch.path().display(),
        mnt.display()
    ));
}

fn on_a_disk(make: &str, bytes: u64) {
    if cannot_mount() {
        return;
    }
    let program = make.split(' ').next().unwrap();
    if !shell(&format!("command -v {program}")).status.success() {
        skip(&format!("needs {program}"));
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Loop::new(folder.path(), make, bytes);
    round(&disk.at);
}

#[test]
fn ext4() {
    on_a_disk("mkfs.ext4 -q", 64 << 20);
}

#[test]
fn xfs() {
    on_a_disk("mkfs.xfs -q", 320 << 20);
}

#[test]
fn btrfs() {
    on_a_disk("mkfs.btrfs -q", 160 << 20);
}

#[test]
fn tmpfs() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    must(&format!("mount -t tmpfs -o size=64m none {}", folder.path().display()));
    let mounted = Loop { at: folder.path().to_owned() };
    round(&mounted.at);
}

#[test]
fn overlayfs() {
    if cannot_mount() {
        return;
    }
    // Upper and work directory may not lie on an overlay themselves, as the build directory of a
    // container may.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Loop::new(folder.path(), "mkfs.ext4 -q", 64 << 20);
    let at = |name: &str| disk.at.join(name);
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    let data = pattern(100_000, 3);
    fs::write(at("lower/below"), &data).unwrap();
    must(&format!(
        "cd {} && mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none merged",
        disk.at.display()
    ));
    let merged = Loop { at: at("merged") };
    {
        // A reader from before a file is copied up sees what is written after.
        let fixture = Fixture::over(merged.at.clone(), |_| {});
        let reader = File::open(fixture.mnt.join("below")).unwrap();
        reader.read_exact_at(&mut [0; 100], 0).unwrap();
        OpenOptions::new()
            .write(true)
            .open(fixture.mnt.join("below"))
            .unwrap()
            .write_all_at(b"copied up", 0)
            .unwrap();
        let mut bytes = [0; 9];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"copied up");
        assert!(fs::read(fixture.mnt.join("below")).unwrap()[9..] == data[9..]);
        assert!(fs::read(at("lower/below")).unwrap() == data);
    }
    round(&merged.at);
}
