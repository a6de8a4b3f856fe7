//! The examples, in C and in Rust, where programs run: steered, on a mount, and without either.
//! Needs root, `/dev/fuse` and the command; says why when it cannot run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FILE_BYTES: u64 = 32 << 20;
const MEMORY: &str = "20M";
const PASSES: u64 = 5;

/// Where cargo puts what it builds.
fn built(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("a path");
    let path = tests.ancestors().nth(2).expect("a folder").join(name);
    assert!(path.exists(), "{} is not built: cargo build --workspace --all-targets", path.display());
    path
}

struct Place(tempfile::TempDir);

impl Place {
    /// `None`, and a line that says why, on a machine that lacks what steering or mounting needs.
    fn new() -> Option<Place> {
        // Not on a file system in memory.
        let place = Place(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"));
        if place.pantler(&["doctor"]).status.success() && Path::new("/dev/fuse").exists() {
            return Some(place);
        }
        assert!(
            std::env::var_os("PANTLER_NO_SKIP").is_none(),
            "pantler doctor says that something is missing"
        );
        eprintln!("skipped: pantler doctor says that something is missing");
        None
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("PANTLER_RUNTIME_DIR", self.path("run")).env_remove("SUDO_UID");
        command
    }

    fn pantler(&self, words: &[&str]) -> Output {
        self.command(&built("pantler")).args(words).output().expect("started")
    }

    fn ok(&self, words: &[&str]) -> String {
        let done = self.pantler(words);
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    }

    /// A file that is on the disk, and not in memory.
    fn file(&self, name: &str) -> String {
        let path = self.path(name);
        fs::write(&path, vec![7; FILE_BYTES as usize]).expect("written");
        forget(&path);
        path
    }

    /// A program of `examples` at the root, below a folder of its own; `patched` by its lines.
    fn example(&self, name: &str, is_patched: bool) -> String {
        let folder = self.path(&format!("{name}-{}", if is_patched { "patched" } else { "plain" }));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        fs::create_dir(&folder).expect("a folder");
        let copy = Path::new(&folder).join(format!("{name}.c"));
        fs::copy(source.join(format!("{name}.c")), &copy).expect("a source");
        if is_patched {
            let mut patch = Command::new("patch");
            patch.args(["-p1", "--directory", &folder, "--input"]).arg(source.join(format!("{name}.patch")));
            run(patch);
        }
        self.compiled(&format!("{name}-{}/{name}", if is_patched { "patched" } else { "plain" }), &copy)
    }

    /// A program in C, with the library as it is installed.
    fn compiled(&self, name: &str, source: &Path) -> String {
        let (output, include) = (self.path(name), Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
        for installed in ["libpantler.so", "libpantler.so.0"] {
            let _ = std::os::unix::fs::symlink(built("deps/libpantler.so"), self.path(installed));
        }
        let mut compile = Command::new("cc");
        compile.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", &output]);
        let folder = self.0.path().display().to_string();
        compile.arg(source).arg("-I").arg(include).args(["-L", &folder, "-lpantler", "-lpthread"]);
        compile.arg(format!("-Wl,-rpath,{folder}"));
        assert!(compile.status().expect("cc").success());
        output
    }
}

impl Place {
    /// Bytes that a patched script reads, and one without the patch under LRU, steered; they print
    /// the same. The least of three runs each: what else the machine does only adds to it.
    fn both(&self, folder: &str, memory: &str, plain: &str, patched: &str) -> (u64, u64) {
        let steered = |script: &str, policy: &[&str]| {
            run({
                let mut sync = Command::new("sh");
                sync.args(["-c", "rm -rf runs"]).current_dir(folder);
                sync
            });
            for entry in fs::read_dir(folder).expect("a folder") {
                forget(&entry.expect("an entry").path().display().to_string());
            }
            let report = self.path("report");
            let words =
                [&["run", "--memory", memory, "--profile", "none", "--report", &report], policy].concat();
            let script = format!("cd {folder} && {script}");
            let printed = self.ok(&[&words[..], &["--", "sh", "-c", &script]].concat());
            assert!(!printed.is_empty(), "{script}");
            let report = fs::read_to_string(&report).expect("a report");
            assert_eq!(report.contains("\"policy\":\"mru\""), policy.is_empty(), "hints in force: {report}");
            (number(&report, "read_bytes"), printed)
        };
        let before = [(); 3].map(|()| steered(plain, &["--policy", "lru"]));
        let after = [(); 3].map(|()| steered(patched, &[]));
        assert!(after.iter().chain(&before).all(|(_, printed)| *printed == before[0].1));
        let least = |runs: &[(u64, String)]| runs.iter().map(|(bytes, _)| *bytes).min().expect("three");
        (least(&after), least(&before))
    }
}

impl Drop for Place {
    /// A test that failed has left its mount.
    fn drop(&mut self) {
        for name in ["point", "point-C", "point-Rust"] {
            let mut command = Command::new("umount");
            let _ = command.args(["--lazy", "--quiet", &self.path(name)]).output();
        }
    }
}

/// What is in memory belongs to no run.
fn forget(path: &str) {
    let file = fs::File::open(path).expect("open");
    file.sync_all().expect("on the disk");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

fn run(mut command: Command) {
    let done = command.output().expect("started");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The number behind a name in a line of JSON; the first, which is that of all owners.
fn number(json: &str, name: &str) -> u64 {
    let (_, rest) = json.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name}: {json}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Protects programs that are written with the library: their hints take effect where they run, and
/// save what the policy saves; without a connection they do the same work.
#[test]
fn ten_lines_save_a_third_of_the_reads() {
    let Some(place) = Place::new() else { return };
    let programs =
        [place.compiled("cycles", &example("cycles.c")), built("examples/cycles").display().to_string()];
    for (language, program) in ["C", "Rust"].into_iter().zip(&programs) {
        // LRU keeps nothing of a cycle that is longer than the cache.
        let (all, file) = (PASSES * FILE_BYTES, place.file(language));
        run({
            let mut alone = place.command(Path::new(program));
            alone.arg(&file);
            alone
        });
        let file = place.file(language);
        let report = place.path("report");
        place.ok(&["run", "--memory", MEMORY, "--report", &report, "--", program, &file]);
        let steered = number(&fs::read_to_string(&report).expect("a report"), "read_bytes");

        let (origin, point) =
            (place.path(&format!("origin-{language}")), place.path(&format!("point-{language}")));
        fs::create_dir(&origin).and_then(|()| fs::create_dir(&point)).expect("folders");
        fs::rename(&file, format!("{origin}/file")).expect("moved");
        place.ok(&["mount", &origin, &point, "--cache", MEMORY]);
        run({
            let mut on_mount = place.command(Path::new(program));
            on_mount.arg(format!("{point}/file"));
            on_mount
        });
        let mounted = number(&place.ok(&["stat", &point, "--json"]), "read_bytes");
        place.ok(&["umount", &point]);
        println!("{language}: of {all} bytes it reads {steered} steered, {mounted} on a mount");
        assert!(steered * 10 < all * 7 && mounted * 10 < all * 7);
        assert!(steered >= FILE_BYTES && mounted >= FILE_BYTES);
    }
}

/// A line of words that differ from text to text.
fn line(text: usize, number: usize) -> String {
    let word = |at: usize| (text * 31 + number * 17 + at * 7919) % 600;
    format!(
        "{:x} w{}x{} w{}x{}\n",
        number.wrapping_mul(2_654_435_761) % 99_991,
        text % 32,
        word(1),
        text % 32,
        word(2)
    )
}

/// Protects the papers' lines: each patch applies, its hints are in force, and its program prints
/// what the program without it prints under LRU. The search reads less; the sort not much more.
#[test]
fn patched_examples_print_the_same() {
    let Some(place) = Place::new() else { return };
    let data = place.path("data");
    fs::create_dir(&data).expect("a folder");
    let names: Vec<String> = (0..64).map(|text| format!("text{text:02}")).collect();
    for (text, name) in names.iter().enumerate() {
        let lines: String = (0..12_000).map(|number| line(text, number)).collect();
        fs::write(format!("{data}/{name}"), lines).expect("a text");
    }
    fs::write(format!("{data}/names"), names.join("\n") + "\n").expect("names");
    let [plain, patched] = [false, true].map(|is_patched| place.example("search", is_patched));
    let make = format!("cd {data} && {plain} index index < names && cat text* > input");
    run({
        let mut shell = Command::new("sh");
        shell.args(["-c", &make]);
        shell
    });
    // Each word is in all texts: a query reads them in one order.
    let queries = |program: &str| format!("for w in x57 x58 x31 x32; do {program} ./index $w || exit; done");
    let (searched, searched_before) = place.both(&data, "8M", &queries(&plain), &queries(&patched));
    println!("search: {searched} bytes read instead of {searched_before}");
    assert!(searched * 100 < searched_before * 90, "{searched} of {searched_before}");

    let [plain, patched] = [false, true].map(|is_patched| place.example("sort", is_patched));
    let sort = |program: &str| format!("mkdir -p runs && {program} input runs");
    let (sorted, sorted_before) = place.both(&data, "8M", &sort(&plain), &sort(&patched));
    println!("sort: {sorted} bytes read instead of {sorted_before}");
    // A slow disk saves reads for both: written blocks stay until they are on it.
    assert!(sorted * 100 < sorted_before * 125, "{sorted} of {sorted_before}");
}

/// Protects readers of the documentation: what it shows is what is run here.
#[test]
fn the_documentation_shows_the_examples() {
    let bindings = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder");
    let text = fs::read_to_string(bindings.join("../docs/PROGRAMS.md")).expect("a text");
    for name in ["pantler/examples/cycles.c", "pantler/examples/cycles.rs", "python/examples/cycles.py"] {
        let example = fs::read_to_string(bindings.join(name)).expect("an example");
        assert!(text.contains(&format!("\n{example}```")), "{name}");
    }
}

/// Protects programs from mistakes: each call of C tells what is wrong, and none crashes.
#[test]
fn every_call_of_c_answers() {
    let Some(place) = Place::new() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls.c");
    let program = place.compiled("calls", &source);
    let file = place.file("file");
    run({
        let mut alone = place.command(Path::new(&program));
        alone.args([&*file, "0"]);
        alone
    });
    forget(&file);
    place.ok(&["run", "--memory", MEMORY, "--profile", "none", "--", &program, &file, "1"]);

    // On a mount, without a run; the first pause is longer than a host waits for a word.
    let [origin, point] = ["origin", "point"].map(|name| place.path(name));
    fs::create_dir(&origin).and_then(|()| fs::create_dir(&point)).expect("folders");
    fs::rename(&file, format!("{origin}/file")).expect("moved");
    place.ok(&["mount", &origin, &point, "--cache", MEMORY]);
    run({
        let mut on_mount = place.command(Path::new(&program));
        on_mount.args([&format!("{point}/file"), "1", "12"]);
        on_mount
    });
    place.ok(&["umount", &point]);
}
