//! What a guest boots: a root file system, a disk with the job, and an initial RAM disk.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::guest::Clock;
use super::inside;
use super::store::{Kernel, SUITE, Store};
use super::{Extent, Job};
use crate::demo::source::index;
use crate::shell;

/// What guests have besides Debian's base.
const PACKAGES: &str = "systemd-sysv,udev,dbus,libpam-systemd,fuse3,kmod,procps,iproute2,cscope,python3-minimal,e2fsprogs,xfsprogs,btrfs-progs,ripgrep,sudo,nfs-kernel-server";
/// Changes with everything that is put into the root file system.
const EDITION: &str = "5";
const ROOT_BYTES: &str = "2G";
const JOB_BYTES: &str = "2G";

/// Starts the job once the system is up, on the first serial line, and ends the guest after it.
const UNIT: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
ExecStart=/bin/sh /job/job.sh
ExecStopPost=/sbin/poweroff -f
[Install]
WantedBy=multi-user.target
";
const JOB: &str = include_str!("job.sh");
/// The job where the clock counts instructions.
const JOB_COUNTED: &str = include_str!("hot_reads.sh");
/// What a disk needs before it can be read, in the order in which it is loaded: Linux 6.1 has all
/// of it as modules.
const MODULES: [&str; 6] =
    ["virtio", "virtio_ring", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk"];
/// What runs first in a guest.
const START: &str = "\
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules/order); do /bin/busybox insmod /modules/$module.ko; done
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 100 ]; do /bin/busybox sleep 0.1; tries=$((tries+1)); done
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox umount /proc /sys
exec /bin/busybox switch_root /root /sbin/init
";

/// The root file system of all guests, made once.
pub fn root(store: &Store) -> Result<PathBuf> {
    let image = store.path(&format!("root-{SUITE}-{EDITION}.img"));
    if image.exists() {
        return Ok(image);
    }
    let folder = store.path("root");
    let _ = fs::remove_dir_all(&folder);
    let include = format!("--include={PACKAGES}");
    let place = folder.to_string_lossy();
    shell::run(&["mmdebstrap", "--quiet", "--variant=apt", &include, SUITE, &place, store.mirror()])?;
    let units = folder.join("etc/systemd/system");
    fs::create_dir_all(units.join("multi-user.target.wants"))?;
    fs::create_dir_all(folder.join("job"))?;
    fs::write(units.join("job.service"), UNIT)?;
    symlink("../job.service", units.join("multi-user.target.wants/job.service"))?;
    // They would take the line away.
    for unit in ["getty.target", "serial-getty@ttyS0.service"] {
        symlink("/dev/null", units.join(unit))?;
    }
    fs::write(folder.join("etc/fstab"), "/dev/vdb /job ext4 defaults 0 0\n")?;
    // An image that is there is whole.
    let unfinished = image.with_extension("new");
    file_system(&folder, &unfinished, ROOT_BYTES)?;
    fs::rename(&unfinished, &image)?;
    fs::remove_dir_all(&folder)?;
    Ok(image)
}

/// The disk with the command, the job, the suites and the kernel's modules.
pub fn job(store: &Store, kernel: &Kernel, job: &Job) -> Result<PathBuf> {
    let Job { command, suites, extent, clock } = *job;
    let folder = folder(store)?;
    fs::copy(command, folder.join("pantler")).with_context(|| command.display().to_string())?;
    let words = if clock == Clock::Instructions { JOB_COUNTED } else { JOB };
    fs::write(folder.join("job.sh"), words)?;
    if !suites.is_empty() {
        inside::place(suites, Some("target/debug/pantler"), &folder)?;
    }
    if extent == Extent::Quick {
        fs::write(folder.join("quick"), "")?;
    }
    if clock == Clock::Emulator {
        fs::create_dir(folder.join("data"))?;
        fs::hard_link(database(store)?, folder.join("data/cscope.out"))?;
    }
    disk(store, kernel, &folder)
}

/// The disk with a job of its own and files beside it.
pub fn files(store: &Store, kernel: &Kernel, words: &str, files: &[PathBuf]) -> Result<PathBuf> {
    let folder = folder(store)?;
    fs::write(folder.join("job.sh"), words)?;
    for file in files {
        let name = file.file_name().context("a file has a name")?;
        fs::copy(file, folder.join(name)).with_context(|| file.display().to_string())?;
    }
    disk(store, kernel, &folder)
}

/// The folder of what will lie on the disk, empty.
fn folder(store: &Store) -> Result<PathBuf> {
    let folder = store.path("job");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The disk with what lies in a folder, and the kernel's modules.
fn disk(store: &Store, kernel: &Kernel, folder: &Path) -> Result<PathBuf> {
    let modules = folder.join("modules/lib/modules");
    fs::create_dir_all(&modules)?;
    let words = ["cp", "-a", &kernel.modules.to_string_lossy(), &modules.to_string_lossy()];
    shell::output(&words).context("cannot copy modules")?;
    let base = folder.join("modules");
    shell::output(&["depmod", "--basedir", &base.to_string_lossy(), &kernel.version])?;
    let image = store.path("job.img");
    file_system(folder, &image, JOB_BYTES)?;
    Ok(image)
}

/// The cscope database of C sources, made once.
pub fn database(store: &Store) -> Result<PathBuf> {
    let sources = store.sources()?;
    let database = sources.join("cscope.out");
    if !database.exists() {
        index(&sources, &["usr"])?;
    }
    Ok(database)
}

/// The initial RAM disk of a kernel.
pub fn initial(store: &Store, kernel: &Kernel) -> Result<PathBuf> {
    let folder = store.path("initial");
    let _ = fs::remove_dir_all(&folder);
    for part in ["bin", "dev", "proc", "sys", "root", "modules"] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::copy("/bin/busybox", folder.join("bin/busybox")).context("busybox-static")?;
    fs::write(folder.join("init"), START)?;
    fs::set_permissions(folder.join("init"), fs::Permissions::from_mode(0o755))?;
    let mut order = String::new();
    for module in MODULES {
        if copy_module(kernel, module, &folder.join("modules"))? {
            order.push_str(module);
            order.push('\n');
        }
    }
    fs::write(folder.join("modules/order"), order)?;
    let image = store.path("initial.img");
    let script = "find . | cpio --quiet -o -H newc";
    let output = fs::File::create(&image)?;
    let mut pack = Command::new("sh");
    let status = pack.args(["-c", script]).current_dir(&folder).stdout(Stdio::from(output)).status()?;
    if !status.success() {
        bail!("{script}: {status}");
    }
    Ok(image)
}

/// Copies a module, unpacked; says whether the kernel has it as a module.
fn copy_module(kernel: &Kernel, name: &str, to: &Path) -> Result<bool> {
    let found = shell::output(&["find", &kernel.modules.to_string_lossy(), "-name", &format!("{name}.ko*")])?;
    let Some(path) = found.lines().next() else { return Ok(false) };
    let to = fs::File::create(to.join(format!("{name}.ko")))?;
    let mut copy =
        if path.ends_with(".xz") { shell::command(&["xz", "-dc"]) } else { shell::command(&["cat"]) };
    let status = copy.arg(path).stdout(Stdio::from(to)).status()?;
    if !status.success() {
        bail!("{path}: {status}");
    }
    Ok(true)
}

/// An image of this size with what lies in a folder.
pub fn file_system(folder: &Path, image: &Path, bytes: &str) -> Result<()> {
    let _ = fs::remove_file(image);
    shell::output(&[
        "mke2fs",
        "-q",
        "-t",
        "ext4",
        "-d",
        &folder.to_string_lossy(),
        &image.to_string_lossy(),
        bytes,
    ])
    .context("cannot make a file system")?;
    Ok(())
}
