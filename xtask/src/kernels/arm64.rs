//! `make kernels KERNELS=arm64`: the tests of core, steer and the mount where a page has 64 KiB.
//!
//! ```text
//!   linux-source (apt) + arm64.config --> cross compiler --> kernel -\
//!   mmdebstrap: packages that are unpacked only --> root ------------+--> guest --> results
//!   this tree --> test executables for arm64, and arm64_job.sh ------/
//! ```
//!
//! Debian's own kernels for arm64 have pages of 4 and 16 KiB. Nothing for arm64 runs before the
//! guest does, so neither binfmt nor another emulator is needed; so there is no systemd, either.

use anyhow::{Result, bail};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::store::{SUITE, Store};
use super::{guest, image, inside};
use crate::packages;
use crate::shell::{self, say, words};
use crate::suites::{self, Suite};

/// What people type.
pub const NAME: &str = "arm64";

/// What it needs on this machine.
const PACKAGES: &[&str] = &[
    "bc",
    "bison",
    "debian-archive-keyring",
    "e2fsprogs",
    "flex",
    "gcc",
    "gcc-aarch64-linux-gnu",
    "libc6-dev",
    "libc6-dev-arm64-cross",
    "make",
    "mmdebstrap",
    "qemu-system-arm",
    "xz-utils",
];
const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Before the names of the compiler and its linker.
const CROSS: &str = "aarch64-linux-gnu-";
/// Whose tests run.
const CRATES: [&str; 7] = [
    "pantler-policy",
    "pantler-steward",
    "pantler-pagecache",
    "pantler-kernel",
    "pantler-cache",
    "pantler-steer",
    "pantler-mount",
];
/// Of the cache under the mount only these run: the others are not about pages, or count memory in
/// pages of 4 KiB.
const OF_THE_CACHE: [&str; 2] = ["body/cache/model", "body/cache/pantler_cache"];
/// These meet servers: they ask for certificates and networks that a system is set up with.
const WITH_SERVERS: [&str; 2] = ["body/mount/stores", "body/mount/tiers"];
/// Debian's sources of the kernel, and the name of their folder.
const SOURCE: &str = "linux-source-6.12";
/// What the kernel has besides the least.
const CONFIG: &str = include_str!("arm64.config");
/// What guests have.
const INCLUDED: &str = "acl,attr,base-files,base-passwd,bash,btrfs-progs,coreutils,dash,diffutils,e2fsprogs,findutils,fio,fuse3,grep,iproute2,libc-bin,linux-libc-dev,login,mawk,mount,passwd,procps,python3-minimal,sed,tar,util-linux,xfsprogs";
/// Changes with everything that is put into the root file system.
const EDITION: &str = "1";
const ROOT_BYTES: &str = "1G";
const JOB_BYTES: &str = "3G";
/// The first process of a guest: what is tried lies on the other disk.
const INIT: &str = "#!/bin/sh\nmount -t ext4 /dev/vdb /job\nexec sh /job/job.sh\n";
const JOB: &str = include_str!("arm64_job.sh");
/// Long tests take ten times what they take here.
const GUEST_TIME: Duration = Duration::from_secs(3 * 3600);

/// Boots the kernel and runs the tests there.
///
/// # Errors
/// What could not be had or booted; the suites that failed.
pub fn tests() -> Result<()> {
    packages::ensure(PACKAGES)?;
    let suites = cross_compile()?;
    let store = Store::open()?;
    let kernel = kernel(&store)?;
    let root = root(&store)?;
    let job = job(&store, &suites)?;
    let start = Instant::now();
    let said = guest::start(machine(&kernel, &root, &job), &job.with_extension("log"), GUEST_TIME)?;
    say(format_args!("{NAME} tried in {:.0} s", start.elapsed().as_secs_f64()));
    let names: Vec<&str> = suites.iter().map(|suite| suite.name.as_str()).collect();
    let told = Told::parse(&said, &names)?;
    print!("{}", told.table());
    let failed = told.failed();
    if !failed.is_empty() {
        bail!(
            "{}: tests failed; {} has all that was said:\n  {}",
            told.kernel,
            job.with_extension("log").display(),
            failed.join("\n  ")
        );
    }
    Ok(())
}

/// The test executables, built for the guest.
fn cross_compile() -> Result<Vec<Suite>> {
    shell::run(&["rustup", "target", "add", TARGET])?;
    let packages = CRATES.map(|name| format!(" --package {name}")).concat();
    let line = format!("cargo build --quiet --tests --target {TARGET}{packages}");
    say(&line);
    let mut build = shell::command(&words(&line));
    // Lints are the native build's.
    build.env_remove(shell::WRAPPER);
    let compiler = format!("{CROSS}gcc");
    build.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", &compiler);
    build.env("CC_aarch64_unknown_linux_gnu", &compiler);
    let mut suites = suites::built(build)?.all();
    suites.retain(|suite| is_tried(&suite.name));
    Ok(suites)
}

fn is_tried(suite: &str) -> bool {
    let is_of_the_cache = suite.starts_with("body/cache/");
    !WITH_SERVERS.contains(&suite) && (!is_of_the_cache || OF_THE_CACHE.contains(&suite))
}

/// The kernel, compiled unless it is there from the same sources and by the same choice.
fn kernel(store: &Store) -> Result<PathBuf> {
    let version = store.version(SOURCE)?;
    let folder = store.path("kernels").join(format!("{NAME}-{version}"));
    let (image, chosen) = (folder.join("Image"), folder.join("chosen.config"));
    if fs::read_to_string(&chosen).is_ok_and(|text| text == CONFIG) {
        return Ok(image);
    }
    store.unpack(&[SOURCE], &folder)?;
    let archive = folder.join(format!("usr/src/{SOURCE}.tar.xz"));
    shell::run(&["tar", "-C", &folder.to_string_lossy(), "-xf", &archive.to_string_lossy()])?;
    let sources = folder.join(SOURCE);
    let wanted = folder.join("wanted.config");
    fs::write(&wanted, CONFIG)?;
    let jobs = std::thread::available_parallelism()?.to_string();
    let make = |goal: &str| {
        let mut make = shell::command(&["make", "-s", "-j", &jobs, "ARCH=arm64", goal]);
        make.arg(format!("CROSS_COMPILE={CROSS}")).current_dir(&sources);
        make.env("KCONFIG_ALLCONFIG", &wanted);
        shell::run_command(make)
    };
    make("allnoconfig")?;
    let got = fs::read_to_string(sources.join(".config"))?;
    let missing: Vec<&str> = wishes().filter(|wish| !got.lines().any(|line| line == *wish)).collect();
    if !missing.is_empty() {
        bail!("{SOURCE} {version} does not know, or lacks what it needs for: {}", missing.join(" "));
    }
    make("Image")?;
    fs::rename(sources.join("arch/arm64/boot/Image"), &image)?;
    fs::remove_dir_all(sources)?;
    fs::remove_dir_all(folder.join("usr"))?;
    // A kernel with this beside it is whole.
    fs::write(chosen, CONFIG)?;
    Ok(image)
}

/// The lines of [`CONFIG`] that choose something.
fn wishes() -> impl Iterator<Item = &'static str> {
    CONFIG.lines().filter(|line| line.starts_with("CONFIG_"))
}

/// The root file system, made once. Packages are unpacked and not set up: what their scripts would
/// do and tests need is done here.
fn root(store: &Store) -> Result<PathBuf> {
    let image = store.path(&format!("root-{NAME}-{SUITE}-{EDITION}.img"));
    if image.exists() {
        return Ok(image);
    }
    let folder = store.path("root-arm64");
    let _ = fs::remove_dir_all(&folder);
    let (architecture, include) = (format!("--architectures={NAME}"), format!("--include={INCLUDED}"));
    let place = folder.to_string_lossy();
    shell::run(&[
        "mmdebstrap",
        "--quiet",
        "--variant=extract",
        &architecture,
        &include,
        SUITE,
        &place,
        store.mirror(),
    ])?;
    for name in ["passwd", "group"] {
        fs::copy(folder.join(format!("usr/share/base-passwd/{name}.master")), folder.join("etc").join(name))?;
    }
    // A file that only root reads.
    let shadow = folder.join("etc/shadow");
    fs::write(&shadow, "root:*:::::::\n")?;
    fs::set_permissions(&shadow, fs::Permissions::from_mode(0o600))?;
    symlink("mawk", folder.join("usr/bin/awk"))?;
    for name in ["job", "mnt"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let init = folder.join("usr/sbin/init");
    fs::write(&init, INIT)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    let unfinished = image.with_extension("new");
    image::file_system(&folder, &unfinished, ROOT_BYTES)?;
    fs::rename(&unfinished, &image)?;
    fs::remove_dir_all(&folder)?;
    Ok(image)
}

/// The disk with the suites.
fn job(store: &Store, suites: &[Suite]) -> Result<PathBuf> {
    let folder = store.path("job-arm64");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("job.sh"), JOB)?;
    inside::place(suites, None, &folder)?;
    let tree = folder.join("tree");
    // Tests that read sources: of core, and which sentences are quoted. Files of tests are made
    // beside the executables.
    shell::run(&["cp", "-r", "--parents", "core", "cli/tests", &tree.to_string_lossy()])?;
    fs::create_dir_all(tree.join("target").join(TARGET).join("tmp"))?;
    let image = store.path("job-arm64.img");
    image::file_system(&folder, &image, JOB_BYTES)?;
    fs::remove_dir_all(&folder)?;
    Ok(image)
}

fn machine(kernel: &Path, root: &Path, job: &Path) -> Command {
    let mut machine = Command::new("qemu-system-aarch64");
    // A processor without pointer authentication, which is slow to emulate.
    machine.args(["-machine", "virt", "-accel", "tcg", "-cpu", "neoverse-n1", "-smp", "2", "-m", "2560"]);
    machine.args(["-nographic", "-no-reboot", "-nic", "none"]);
    machine.args(["-append", "console=ttyAMA0 panic=-1 quiet loglevel=3 root=/dev/vda rw"]);
    machine.arg("-kernel").arg(kernel);
    // The kernel numbers these from the last one on.
    for (name, image) in [("job", job), ("root", root)] {
        let file = format!("file={},if=none,format=raw,snapshot=on,cache=unsafe,id={name}", image.display());
        machine.args(["-drive", &file, "-device", &format!("virtio-blk-device,drive={name}")]);
    }
    machine
}

/// What a guest told of its suites.
struct Told {
    kernel: String,
    page_bytes: String,
    /// By name: exit status, seconds, and the last line about tests.
    suites: Vec<[String; 4]>,
    failed: Vec<String>,
}

impl Told {
    /// Takes the results out of what a guest said.
    fn parse(said: &str, names: &[&str]) -> Result<Told> {
        let value = |name: &str| {
            let found = said.lines().find_map(|line| {
                line.trim_end().split_once("result ")?.1.strip_prefix(name)?.strip_prefix(' ')
            });
            found.unwrap_or_default().to_owned()
        };
        if value("end").is_empty() {
            bail!("the job did not come to its end; the guest said:\n{said}");
        }
        let mut told = Told {
            kernel: value("kernel"),
            page_bytes: value("page_bytes"),
            suites: Vec::new(),
            failed: Vec::new(),
        };
        for name in names {
            let [status, seconds, tests, failed] =
                ["status", "seconds", "tests", "failed"].map(|part| value(&format!("suite.{name}.{part}")));
            if status != "0" {
                told.failed.push(format!("{name}: tests ended with {status}: {failed}"));
            }
            told.suites.push([(*name).to_owned(), status, seconds, tests]);
        }
        Ok(told)
    }

    fn failed(&self) -> Vec<String> {
        // Without large pages nothing was shown.
        let pages = (self.page_bytes != "65536").then(|| format!("pages have {} bytes", self.page_bytes));
        pages.into_iter().chain(self.failed.iter().cloned()).collect()
    }

    /// A table in Markdown.
    fn table(&self) -> String {
        let mut text = format!(
            "{}, pages of {} bytes\n\n| suite | tests | seconds |\n| --- | --- | ---: |\n",
            self.kernel, self.page_bytes
        );
        for [name, _, seconds, tests] in &self.suites {
            text.push_str(&format!("| {name} | {tests} | {seconds} |\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_that_failed_or_were_not_told_are_named() {
        let said = "result kernel 6.12\nresult page_bytes 65536\r\nresult suite.a/b.status 0\n\
                    result suite.a/b.tests 3 passed; 0 failed\nresult suite.a/b.seconds 7\n\
                    result suite.a/c.status 101\nresult suite.a/c.failed this that\nresult end 0\n";
        let failed = |said: &str, names: &[&str]| Told::parse(said, names).map(|told| told.failed()).unwrap();
        assert_eq!(failed(said, &["a/b"]), Vec::<String>::new());
        assert_eq!(failed(said, &["a/b", "a/c"]), ["a/c: tests ended with 101: this that"]);
        assert_eq!(failed(said, &["a/d"]), ["a/d: tests ended with : "], "not told is not passed");
        assert_eq!(failed(&said.replace("65536", "4096"), &["a/b"]).len(), 1);
        assert!(Told::parse("Booting", &[]).is_err(), "without an end nothing counts");
        let table = Told::parse(said, &["a/b"]).unwrap().table();
        assert!(table.ends_with("| a/b | 3 passed; 0 failed | 7 |\n"), "{table}");
    }

    #[test]
    fn suites_are_left_out_by_their_names() {
        let names = ["body/cache/model", "body/cache/memory", "body/mount/reads", "body/mount/tiers"];
        assert_eq!(names.map(is_tried), [true, false, true, false]);
    }

    #[test]
    fn the_kernel_is_asked_for_large_pages() {
        assert!(wishes().any(|wish| wish == "CONFIG_ARM64_64K_PAGES=y"));
    }
}
