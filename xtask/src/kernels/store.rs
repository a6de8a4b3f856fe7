//! Where guests are kept, and how kernels come there: Debian's packages, checked by apt.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::arm64;
use crate::shell::{self, say};

/// The environment variable that names another folder to keep guests in.
const FOLDER: &str = "PANTLER_GUESTS";
const FOLDER_DEFAULT: &str = "/var/cache/pantler-guests";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Where the user space of guests comes from; programs that were built on Debian 12 run there.
pub const SUITE: &str = "trixie";

/// A kernel to try.
#[derive(Debug)]
pub struct Wanted {
    /// What people type.
    pub name: &'static str,
    suite: &'static str,
    /// Begins the names of the packages that hold the kernel itself.
    image: &'static str,
    /// The same of its modules, where they are a package of their own.
    modules: Option<&'static str>,
}

/// Those that are tried: Debian 12, Debian 13, and the newest of backports.
pub const KERNELS: [Wanted; 3] = [
    Wanted { name: "6.1", suite: "bookworm", image: "linux-image-6.1.", modules: None },
    Wanted { name: "6.12", suite: SUITE, image: "linux-image-6.12.", modules: None },
    Wanted {
        name: "newest",
        suite: "trixie-backports",
        image: "linux-binary-",
        modules: Some("linux-modules-"),
    },
];

/// Packages of C sources for programs to read in guests: the headers of two kernels.
const SOURCES: [&str; 2] = ["linux-headers-6.1.", "linux-headers-6.12."];

/// Their names, for messages.
pub fn names() -> String {
    let all = KERNELS.iter().map(|kernel| kernel.name).chain([arm64::NAME]);
    all.collect::<Vec<_>>().join(", ")
}

/// A kernel that is unpacked.
#[derive(Debug)]
pub struct Kernel {
    /// As it calls itself: `6.1.0-50-cloud-amd64`.
    pub version: String,
    /// What boots.
    pub image: PathBuf,
    /// Its folder of modules, named by the version.
    pub modules: PathBuf,
}

/// The folder of guests, and apt's state in it.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    mirror: String,
    /// Held while the folder is used: two would write over each other's disks.
    _lock: fs::File,
}

impl Store {
    /// Opens the folder and asks the mirror that this machine uses which kernels there are.
    ///
    /// # Errors
    /// No mirror is configured, or it does not answer.
    pub fn open() -> Result<Store> {
        let folder = std::env::var_os(FOLDER).map_or_else(|| PathBuf::from(FOLDER_DEFAULT), PathBuf::from);
        for part in ["apt/lists/partial", "apt/cache/archives/partial", "kernels"] {
            fs::create_dir_all(folder.join(part)).with_context(|| folder.display().to_string())?;
        }
        let sites = shell::output(&["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)"])?;
        let mirror = sites
            .lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(site, _)| site.ends_with("/debian"))
            .map(|(site, _)| site.to_owned())
            .context("apt knows no mirror of Debian")?;
        let lock = fs::File::create(folder.join("lock"))?;
        if lock.try_lock().is_err() {
            say("waiting for another that uses the folder of guests");
            lock.lock()?;
        }
        let store = Store { folder, mirror, _lock: lock };
        store.configure()?;
        store.apt("apt-get", &["-qq", "-o", "Acquire::Retries=5", "update"])?;
        Ok(store)
    }

    /// A place in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The mirror of Debian that this machine uses.
    pub fn mirror(&self) -> &str {
        &self.mirror
    }

    /// A kernel, fetched and unpacked unless it is there.
    ///
    /// # Errors
    /// There is none, or it could not be fetched.
    pub fn kernel(&self, wanted: &Wanted) -> Result<Kernel> {
        let known = self.apt("apt-cache", &["pkgnames", "linux-"])?;
        let image = newest(&known, wanted.image, "-cloud-amd64")
            .with_context(|| format!("{} has no kernel for {}", wanted.suite, wanted.name))?;
        let version = image.trim_start_matches("linux-image-").trim_start_matches("linux-binary-").to_owned();
        let folder = self.path("kernels").join(&version);
        if !folder.join("complete").exists() {
            let modules = wanted.modules.map(|prefix| format!("{prefix}{version}"));
            let packages: Vec<&str> = [image].into_iter().chain(modules.as_deref()).collect();
            self.unpack(&packages, &folder)?;
        }
        say(format_args!("{}: {version}", wanted.name));
        // Where both are depends on whether /lib is merged into /usr.
        let modules = ["lib/modules", "usr/lib/modules"].map(|place| folder.join(place).join(&version));
        let modules = modules.into_iter().find(|it| it.is_dir()).context("a kernel without modules")?;
        let images = [folder.join("boot").join(format!("vmlinuz-{version}")), modules.join("vmlinuz")];
        let image = images.into_iter().find(|it| it.exists()).context("packages without a kernel")?;
        Ok(Kernel { version, image, modules })
    }

    /// The folder of C sources, 150 MB, fetched and unpacked unless it is there.
    ///
    /// # Errors
    /// There are none, or they could not be fetched.
    pub fn sources(&self) -> Result<PathBuf> {
        let known = self.apt("apt-cache", &["pkgnames", "linux-headers-"])?;
        let newest =
            |prefix| newest(&known, prefix, "-common").with_context(|| format!("no {prefix}*-common"));
        let packages = SOURCES.into_iter().map(newest).collect::<Result<Vec<_>>>()?;
        let folder = self.path("sources").join(packages.join("+"));
        if !folder.join("complete").exists() {
            self.unpack(&packages, &folder)?;
        }
        Ok(folder)
    }

    /// The version that Debian has of a package.
    ///
    /// # Errors
    /// There is none.
    pub fn version(&self, package: &str) -> Result<String> {
        let told = self.apt("apt-cache", &["show", "--no-all-versions", package])?;
        let version = told.lines().find_map(|line| line.strip_prefix("Version: "));
        Ok(version.with_context(|| format!("{package} has no version"))?.to_owned())
    }

    /// Fetches packages and unpacks them in a folder of their own.
    ///
    /// # Errors
    /// They could not be fetched.
    pub fn unpack(&self, packages: &[&str], folder: &Path) -> Result<()> {
        say(format_args!("fetching {}", packages.join(" ")));
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
        let fetched = folder.join("packages");
        fs::create_dir_all(&fetched)?;
        let words = [&["-qq", "-o", "Acquire::Retries=5", "download"], packages].concat();
        self.apt_in(&fetched, "apt-get", &words)?;
        for package in fs::read_dir(&fetched)? {
            let package = package?.path();
            shell::run(&["dpkg", "-x", &package.to_string_lossy(), &folder.to_string_lossy()])?;
        }
        fs::remove_dir_all(&fetched)?;
        fs::write(folder.join("complete"), "")?;
        Ok(())
    }

    /// Gives apt a state of its own: this machine's packages and lists stay as they are.
    fn configure(&self) -> Result<()> {
        let folder = self.folder.display();
        let lines: Vec<String> = KERNELS
            .iter()
            .map(|kernel| format!("deb [signed-by={KEYRING}] {} {} main\n", self.mirror, kernel.suite))
            .collect();
        fs::write(self.path("apt/sources.list"), lines.concat())?;
        fs::write(self.path("apt/status"), "")?;
        let configuration = format!(
            "Dir::Etc::SourceList \"{folder}/apt/sources.list\";\nDir::Etc::SourceParts \"-\";\n\
             Dir::State::Lists \"{folder}/apt/lists\";\nDir::State::status \"{folder}/apt/status\";\n\
             Dir::Cache \"{folder}/apt/cache\";\nAPT::Sandbox::User \"root\";\n"
        );
        Ok(fs::write(self.path("apt/apt.conf"), configuration)?)
    }

    fn apt(&self, program: &str, words: &[&str]) -> Result<String> {
        self.apt_in(&self.folder, program, words)
    }

    fn apt_in(&self, folder: &Path, program: &str, words: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.args(words).current_dir(folder).env("APT_CONFIG", self.path("apt/apt.conf"));
        let output = command.output().with_context(|| format!("cannot start {program}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{program} {}: {}: {said}", words.join(" "), output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The newest package whose name begins with a prefix and a number, and ends with a suffix.
fn newest<'a>(packages: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    let is_meant = |name: &&str| {
        let numbers = name.strip_prefix(prefix);
        let begins = numbers.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        begins && name.ends_with(suffix)
    };
    packages.lines().map(str::trim).filter(is_meant).max_by_key(|name| numbers(name))
}

/// The numbers in a name, which order versions.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_the_one_with_the_largest_numbers() {
        let packages = "linux-image-6.1.0-47-cloud-amd64\nlinux-image-6.1.0-50-cloud-amd64-unsigned\n\
                        linux-image-6.1.0-50-cloud-amd64\nlinux-image-6.12.117+deb13-cloud-amd64\n\
                        linux-binary-7.2.12+deb13-cloud-amd64\nlinux-binary-7.10.1+deb13-cloud-amd64\n\
                        linux-binary-unsigned-7.11.1+deb13-cloud-amd64\nlinux-image-6.1.0-9-amd64\n";
        let newest = |packages, prefix| newest(packages, prefix, "-cloud-amd64");
        assert_eq!(newest(packages, "linux-image-6.1."), Some("linux-image-6.1.0-50-cloud-amd64"));
        assert_eq!(newest(packages, "linux-binary-"), Some("linux-binary-7.10.1+deb13-cloud-amd64"));
        assert_eq!(newest(packages, "linux-image-5."), None);
    }
}
