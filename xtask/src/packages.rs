//! Debian packages: what is needed, what is missing, and installing it.

use anyhow::{Result, bail};

use crate::shell::{self, say};

/// What the tests need.
pub const TEST: &[&str] = &[
    "acl",
    "attr",
    "binutils",
    "bsdutils",
    "btrfs-progs",
    "chromium",
    "cscope",
    "dpkg-dev",
    "fio",
    "fuse3",
    "glimpse",
    "iproute2",
    "memcached",
    "nginx-light",
    "openssl",
    "postgresql",
    "python3",
    "redis-server",
    "ripgrep",
    "sqlite3",
    "sudo",
    "util-linux",
    "varnish",
    "wrk",
    "xfsprogs",
];

/// What the experiments of `make machine` need.
pub const MACHINE: &[&str] = &["cscope", "glimpse", "linux-source-6.1", "time", "xz-utils"];

/// What `cargo xtask limits` needs.
pub const LIMITS: &[&str] = &["cscope", "linux-source-6.1", "python3", "ripgrep", "util-linux", "xz-utils"];

/// What `make rivals` needs.
pub const RIVALS: &[&str] = &[
    "apache2",
    "bindfs",
    "chromium",
    "cscope",
    "fuse3",
    "gcc",
    "linux-headers-cloud-amd64",
    "linux-source-6.1",
    "make",
    "memcached",
    "nginx-light",
    "nocache",
    "postgresql",
    "python3",
    "rclone",
    "redis-server",
    "ripgrep",
    "s3fs",
    "sqlite3",
    "util-linux",
    "varnish",
    "vmtouch",
    "xz-utils",
];

/// What `cargo xtask profiles` needs.
pub const PROFILES: &[&str] = &[
    "binutils",
    "borgbackup",
    "fd-find",
    "gcc",
    "postgresql",
    "python3",
    "python3-lmdb",
    "restic",
    "ripgrep",
    "skopeo",
    "sqlite3",
    "umoci",
    "util-linux",
];

/// What `cargo xtask examples` needs.
pub const EXAMPLES: &[&str] = &[
    "cscope",
    "dpkg-dev",
    "libncurses-dev",
    "linux-source-6.1",
    "make",
    "patch",
    "postgresql",
    "util-linux",
    "xz-utils",
];

/// What the demo needs.
pub const DEMO: &[&str] = &["cscope", "fuse3", "linux-source-6.1", "xz-utils"];

/// Installs what is missing of `packages`, as root or by `sudo`.
pub fn ensure(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if shell::output(&["apt-get", "--version"]).is_err() {
        bail!("missing: {list}; this is no Debian: install them by hand");
    }
    let root = shell::is_root()?;
    if !root && shell::output(&["sudo", "-n", "true"]).is_err() {
        bail!("missing: {list}; run as root: apt-get install {list}");
    }
    let prefix: &[&str] = if root { &["env"] } else { &["sudo", "env"] };
    say(format_args!("installing {list}"));
    let apt =
        [prefix, &["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y", "-o", "Acquire::Retries=5"]]
            .concat();
    let install = [&apt[..], &["install", "--no-install-recommends"], &missing[..]].concat();
    // Package lists may be absent on a fresh machine, or name versions that are gone: refresh them
    // once.
    if shell::run(&install).is_err() {
        shell::run(&[&apt[..], &["update"]].concat())?;
        shell::run(&install)?;
    }
    Ok(())
}

fn is_installed(package: &str) -> bool {
    let query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package];
    shell::output(&query).is_ok_and(|status| status == "installed")
}
