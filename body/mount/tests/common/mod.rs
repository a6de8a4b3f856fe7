//! A mount over a scratch directory on a real disk, gone again after the test whatever happens.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

pub mod gate;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pantler_mount::{Keeper, Lookahead, Mount, MountOptions, Mounted};
use pantler_policy::Draws;
pub use pantler_rig::eventually;

/// A user without privileges.
pub const NOBODY: u32 = 65534;

/// Says why a test cannot run here; with `PANTLER_NO_SKIP=1` that is a failure.
pub fn skip(why: &str) -> bool {
    assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "cannot run: {why}");
    eprintln!("SKIPPED: {why}");
    true
}

/// Whether mounting is impossible here.
pub fn cannot_mount() -> bool {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root, to mount for all users and to act for them");
    }
    if !Path::new("/dev/fuse").exists() {
        return skip("needs /dev/fuse: modprobe fuse");
    }
    false
}

/// Claims that a sentence stands in docs/SEMANTICS.md, so that test and document cannot part.
pub fn quote(sentence: &str) {
    claim("SEMANTICS.md", sentence);
}

/// The same of docs/RIGHTS.md.
pub fn quote_rights(sentence: &str) {
    claim("RIGHTS.md", sentence);
}

fn claim(page: &str, sentence: &str) {
    assert!(
        document(page).lines().any(|line| line == format!("- {sentence}")),
        "not in docs/{page}: {sentence}"
    );
}

fn document(page: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)).unwrap()
}

/// Fails when a sentence of that page is quoted by no test of this crate and of the command.
pub fn every_sentence_is_quoted(page: &str) {
    let tests = ["tests", "../../cli/tests"].map(|at| Path::new(env!("CARGO_MANIFEST_DIR")).join(at));
    let sources = tests
        .iter()
        .flat_map(|tests| std::fs::read_dir(tests).unwrap())
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok());
    // Strings may be broken over lines.
    let squeeze = |text: &str| text.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ");
    let sources = squeeze(&sources.collect::<String>());
    let text = document(page);
    let missing: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("- "))
        .filter(|sentence| !sources.contains(&format!("\"{sentence}\"")))
        .collect();
    assert!(missing.is_empty(), "untested sentences of {page}: {missing:#?}");
}

pub struct Fixture {
    pub mounted: Option<Mounted>,
    /// The directory behind the mount.
    pub origin: PathBuf,
    /// The mount.
    pub mnt: PathBuf,
    _origin: Option<tempfile::TempDir>,
    point: tempfile::TempDir,
}

/// A page of the kernel: no request of FUSE for a part of a file is smaller.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Where frames are: every sentence of docs/SEMANTICS.md holds for both kinds.
pub fn frames() -> Keeper {
    std::env::var("PANTLER_TEST_FRAMES").map_or(Keeper::Own, |text| text.parse().unwrap())
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(choose: impl FnOnce(&mut MountOptions)) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let origin = folder.path().to_owned();
        open_to_all(&origin);
        let mut fixture = Self::over(origin, choose);
        fixture._origin = Some(folder);
        fixture
    }

    /// Over a directory that the test brings along.
    pub fn over(origin: PathBuf, choose: impl FnOnce(&mut MountOptions)) -> Self {
        // Every user can get to the system's temporary directory, which need not hold for the build
        // directory.
        let point = tempfile::tempdir().unwrap();
        open_to_all(point.path());
        let mnt = point.path().join("m");
        std::fs::create_dir(&mnt).unwrap();
        let mut options = MountOptions::new(&origin, &mnt);
        options.cache_bytes = 16 << 20;
        // What is prefetched comes when it comes: tests that count say when they want it.
        options.lookahead = Lookahead::None;
        options.frames = frames();
        choose(&mut options);
        let mounted = Some(Mount::new(options).unwrap().spawn().unwrap());
        Self { mounted, origin, mnt, _origin: None, point }
    }

    pub fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().unwrap()
    }

    /// Reads of the origin so far.
    pub fn fetches(&self) -> u64 {
        self.mounted().counters().traffic.fetches
    }

    pub fn unmount(&mut self) {
        self.mounted.take().unwrap().unmount().unwrap();
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.mounted.take());
        // In case the mount is still there, deleting the scratch directory must not go through it.
        detach(&self.mnt);
    }
}

pub fn detach(path: &Path) {
    let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
}

pub fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o1777)).unwrap();
}

/// Runs a shell command.
pub fn shell(command: &str) -> Output {
    Command::new("sh").args(["-c", command]).output().unwrap()
}

/// Runs a shell command that must succeed, and returns what it printed.
pub fn must(command: &str) -> String {
    let output = shell(command);
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a shell command as a user, with a list of supplementary groups (`""` for none).
pub fn as_user(uid: u32, groups: &str, command: &str) -> Output {
    let groups = if groups.is_empty() { "--clear-groups".into() } else { format!("--groups={groups}") };
    let ids = [format!("--reuid={uid}"), format!("--regid={uid}"), groups];
    Command::new("setpriv").args(ids).args(["sh", "-c", command]).current_dir("/").output().unwrap()
}

/// What a command that failed printed.
pub fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "was not refused: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Bytes that differ from place to place.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut draws = Draws::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(draws.bits().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A file system in a file, mounted; gone again when dropped.
pub struct Loop {
    pub at: PathBuf,
}

impl Loop {
    /// `make` is the command that makes the file system, without the file's name.
    pub fn new(folder: &Path, make: &str, bytes: u64) -> Self {
        let image = folder.join("image");
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let at = folder.join("disk");
        std::fs::create_dir(&at).unwrap();
        must(&format!("{make} {0} && mount -o loop {0} {1}", image.display(), at.display()));
        open_to_all(&at);
        Self { at }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        detach(&self.at);
    }
}

/// A process of its own that serves: the test program itself, told to by its environment. A test
/// program that uses it has a test named `serve_for_the_other_tests` that calls
/// [`serve_if_told_to`].
pub struct Daemon {
    pub child: Child,
    /// Open as long as it serves: a test program prints a line when a test takes more than a
    /// minute, and that ends it if the pipe is closed.
    _said: BufReader<ChildStdout>,
    mnt: PathBuf,
}

const SERVE: &str = "PANTLER_TEST_SERVE";

impl Daemon {
    pub fn start(origin: &Path, mnt: &Path, cache_bytes: u64, block_bytes: usize) -> Self {
        Self::run(Command::new(std::env::current_exe().unwrap()), &[origin, mnt], cache_bytes, block_bytes)
    }

    /// One that may have `descriptors` open, and listens at `socket`, to which every user can
    /// connect.
    pub fn with_few_descriptors(origin: &Path, mnt: &Path, socket: &Path, descriptors: u32) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")]);
        command.arg(std::env::current_exe().unwrap());
        Self::run(command, &[origin, mnt, socket], 16 << 20, 64 << 10)
    }

    fn run(mut command: Command, paths: &[&Path], cache_bytes: u64, block_bytes: usize) -> Self {
        let mnt = paths[1];
        command.args(["--exact", "serve_for_the_other_tests", "--nocapture"]);
        let sizes = [cache_bytes.to_string(), block_bytes.to_string()];
        let words = sizes.iter().map(Path::new).chain(paths.iter().copied());
        command.env(SERVE, std::env::join_paths(words).unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut lines = said.by_ref().lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("ready")), "the daemon did not start");
        Self { child, _said: said, mnt: mnt.to_owned() }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        detach(&self.mnt);
    }
}

pub fn serve_if_told_to() {
    let Some(words) = std::env::var_os(SERVE) else { return };
    let words: Vec<PathBuf> = std::env::split_paths(&words).collect();
    let number = |index: usize| words[index].to_str().unwrap().parse::<u64>().unwrap();
    let mut options = MountOptions::new(&words[2], &words[3]);
    (options.cache_bytes, options.block_bytes) = (number(0), number(1) as usize);
    options.frames = frames();
    let mounted = Mount::new(options).unwrap().spawn().unwrap();
    let _server = words.get(4).map(|socket| listen(&mounted, socket));
    println!("ready");
    // Until its parent kills it, or is gone.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A control socket for a mount to which every user can connect, as if all were in the group.
pub fn listen(mounted: &Mounted, socket: &Path) -> pantler_control::server::Server {
    let host = pantler_control::server::Host::default();
    host.add(mounted.body()).unwrap();
    let server = pantler_control::server::Server::bind(socket, std::sync::Arc::new(host)).unwrap();
    std::fs::set_permissions(socket, PermissionsExt::from_mode(0o666)).unwrap();
    server
}

/// Two directories on a real disk: to be served, and to be mounted on.
pub fn scratch() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (origin, mnt) = (folder.path().join("origin"), folder.path().join("mnt"));
    std::fs::create_dir(&origin).unwrap();
    std::fs::create_dir(&mnt).unwrap();
    (folder, origin, mnt)
}
