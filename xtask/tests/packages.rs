//! The packages for Debian, made of what the tests have built: what is in them, and what they say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// What users and other programs look for, with modes, below the folder of a library for `TRIPLET`.
const MAIN: [(&str, u32); 14] = [
    ("usr/bin/pantler", 0o755),
    ("usr/lib/TRIPLET/libpantler.so.0", 0o644),
    ("usr/lib/systemd/system/pantler.service", 0o644),
    ("usr/lib/sysusers.d/pantler.conf", 0o644),
    ("usr/share/bash-completion/completions/pantler", 0o644),
    ("usr/share/zsh/vendor-completions/_pantler", 0o644),
    ("usr/share/fish/vendor_completions.d/pantler.fish", 0o644),
    ("usr/share/man/man1/pantler.1.gz", 0o644),
    ("usr/share/man/man1/pantler-run.1.gz", 0o644),
    ("usr/share/doc/pantler/GUIDE.md", 0o644),
    ("usr/share/doc/pantler/copyright", 0o644),
    ("usr/share/doc/pantler/changelog.Debian.gz", 0o644),
    ("usr/share/doc/pantler/examples/grafana.json", 0o644),
    ("usr/share/doc/pantler/examples/profiles/cscope.toml", 0o644),
];
const DEVELOPMENT: [(&str, u32); 5] = [
    ("usr/include/pantler.h", 0o644),
    ("usr/lib/TRIPLET/libpantler.so", 0o777),
    ("usr/lib/TRIPLET/libpantler.a", 0o644),
    ("usr/lib/TRIPLET/pkgconfig/pantler.pc", 0o644),
    ("usr/share/man/man3/pantler.3.gz", 0o644),
];

/// Where cargo put what the tests of the workspace run.
fn built() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_xtask")).parent().unwrap().to_owned();
    for name in ["pantler", "libpantler.so", "libpantler.a"] {
        let path = folder.join(name);
        assert!(path.exists(), "{} is not built: cargo build --workspace --all-targets", path.display());
    }
    folder
}

/// What a command prints; it must succeed.
fn said(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?}: {}\n{out}{err}", done.status);
    out.into_owned()
}

/// Packages in a folder of their own, unpacked.
struct Packages {
    folder: PathBuf,
    version: String,
}

/// Those that the tests look at.
static PACKAGES: LazyLock<Packages> = LazyLock::new(|| Packages::make("packages"));

impl Packages {
    fn make(name: &str) -> Packages {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        let mut make = Command::new(env!("CARGO_BIN_EXE_xtask"));
        make.args(["package", "deb", "--built"]).arg(built()).arg("--out").arg(&folder);
        make.envs([("DEBFULLNAME", "A Packer"), ("DEBEMAIL", "packer@example.org")]);
        said(make.env("SOURCE_DATE_EPOCH", "1700000000"));
        Packages { folder, version: format!("{}-1", env!("CARGO_PKG_VERSION")) }
    }

    fn file(&self, name: &str) -> PathBuf {
        let architecture = said(Command::new("dpkg").arg("--print-architecture"));
        self.folder.join(format!("{name}_{}_{}.deb", self.version, architecture.trim()))
    }

    fn field(&self, name: &str, field: &str) -> String {
        said(Command::new("dpkg-deb").arg("--field").arg(self.file(name)).arg(field)).trim().to_owned()
    }

    /// Unpacks files and control files, and returns where.
    fn unpack(&self, name: &str) -> PathBuf {
        let to = self.folder.join(name);
        said(Command::new("dpkg-deb").arg("--raw-extract").arg(self.file(name)).arg(&to));
        to
    }
}

/// Protects a release: a file that is missing in a package, or that is there and is not root's.
#[test]
fn the_packages_for_debian_have_what_users_look_for() {
    let packages = &*PACKAGES;
    let triplet = said(Command::new("dpkg-architecture").args(["--query", "DEB_HOST_MULTIARCH"]));
    for (name, files) in [("pantler", &MAIN[..]), ("libpantler-dev", &DEVELOPMENT[..])] {
        let root = packages.unpack(name);
        for (file, mode) in files {
            let path = root.join(file.replace("TRIPLET", triplet.trim()));
            let found = path.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(found.permissions().mode() & 0o777, *mode, "{file}");
        }
        let listed = said(Command::new("dpkg-deb").arg("--contents").arg(packages.file(name)));
        assert!(listed.lines().all(|line| line.split_whitespace().nth(1) == Some("root/root")), "{listed}");
        // All sums are right, and each file has one.
        let sums = fs::read_to_string(root.join("DEBIAN/md5sums")).unwrap();
        said(Command::new("md5sum").args(["--check", "--strict", "DEBIAN/md5sums"]).current_dir(&root));
        assert_eq!(sums.lines().count(), listed.lines().filter(|line| line.starts_with('-')).count());
    }
    // The library that programs load is the one that is there.
    let library = packages.folder.join("libpantler-dev/usr/lib").join(triplet.trim()).join("libpantler.so");
    let loaded = fs::read_link(library).unwrap();
    let library = packages.folder.join("pantler/usr/lib").join(triplet.trim()).join(&loaded);
    let dynamic = said(Command::new("readelf").arg("--dynamic").arg(library));
    assert!(dynamic.contains(&format!("Library soname: [{}]", loaded.display())), "{dynamic}");
}

/// Protects what dpkg decides by: version, maintainer, dependencies, scripts and the unit.
#[test]
fn the_packages_for_debian_say_what_they_need() {
    let packages = &*PACKAGES;
    assert_eq!(packages.field("pantler", "Version"), packages.version);
    assert_eq!(packages.field("pantler", "Maintainer"), "A Packer <packer@example.org>");
    let depends = packages.field("pantler", "Depends");
    assert!(depends.contains("libc6 (>= 2.") && depends.contains("systemd-sysusers"), "{depends}");
    assert_eq!(packages.field("pantler", "Recommends"), "fuse3");
    let exactly = format!("pantler (= {})", packages.version);
    assert_eq!(packages.field("libpantler-dev", "Depends"), exactly);
    for name in ["pantler", "libpantler-dev"] {
        let control = said(Command::new("dpkg-deb").arg("--field").arg(packages.file(name)));
        assert!(!control.contains('@') || control.matches('@').count() == 1, "{control}");
        assert!(packages.field(name, "Installed-Size").parse::<u64>().unwrap() > 1000);
    }
    let root = packages.folder.join("stage/deb/pantler");
    for script in ["postinst", "prerm", "postrm"] {
        said(Command::new("sh").arg("-n").arg(root.join("DEBIAN").join(script)));
    }
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/pantler.service")).unwrap();
    assert!(unit.contains("\nExecStart=/usr/bin/pantler daemon ") && !unit.contains('@'), "{unit}");
    // All programs see a mount of the daemon: these settings would hide it in the service.
    for apart in ["PrivateTmp", "PrivateDevices", "PrivateMounts", "ProtectSystem", "ProtectHome"] {
        assert!(!unit.contains(apart), "{apart}");
    }
}

/// Protects a comparison of packages with their source: one build is packed to the same bytes.
#[test]
fn the_same_build_gives_the_same_packages() {
    let again = Packages::make("again");
    for name in ["pantler", "libpantler-dev"] {
        let same = fs::read(PACKAGES.file(name)).unwrap() == fs::read(again.file(name)).unwrap();
        assert!(same, "{name}");
    }
}
