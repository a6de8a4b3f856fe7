//! Every profile that comes with pantler, with the real program it is for: its rules take effect,
//! and the program's results are what they are without it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pantler_policy::Draws;
use serde_json::Value;

/// One run at a time: blocks that two runs use have no owner, and then no rule is about them.
static SERIAL: Mutex<()> = Mutex::new(());

const PANTLER: &str = env!("CARGO_BIN_EXE_pantler");

/// Runs a test in its turn, while the machine leaves what is cached alone; leaves it out, loudly,
/// when something it needs is missing.
fn in_turn(programs: &[&str], test: impl Fn()) {
    let doctor = Command::new(PANTLER).args(["doctor", "--json"]).output().unwrap();
    let mut missing: Vec<&str> =
        if doctor.status.success() { vec![] } else { vec!["what pantler doctor says"] };
    let absent = |program: &&str| !shell(Path::new("/"), &format!("command -v {program}")).0;
    missing.extend(programs.iter().copied().filter(absent));
    if !missing.is_empty() {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "missing: {missing:?}");
        return eprintln!("SKIPPED: missing: {missing:?}; cargo xtask setup installs programs");
    }
    let _turn = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    pantler_rig::undisturbed(test);
}

fn shell(folder: &Path, script: &str) -> (bool, String) {
    let output =
        Command::new("sh").args(["-c", script]).current_dir(folder).env("LC_ALL", "C").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
}

/// Runs a script that must succeed.
fn must(folder: &Path, script: &str) -> String {
    let (success, text) = shell(folder, script);
    assert!(success, "{script}: {text}");
    text
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Files of words, the same each time: each line begins with a word, and some have the word
/// `needle`.
fn corpus(folder: &Path, files: usize, bytes: usize, suffix: &str) {
    let mut draws = Draws::new(42);
    let mut next = || draws.bits() as usize;
    fs::create_dir_all(folder).unwrap();
    for number in 0..files {
        let mut text = String::with_capacity(bytes + 100);
        while text.len() < bytes {
            let word =
                if next() % 5_000 == 0 { "needle".to_owned() } else { format!("w{:x}", next() % 4096) };
            text += &format!("int {word}_{number}(int a) {{ return a + {}; }} /* {word} */\n", next());
        }
        fs::write(folder.join(format!("f{number:03}.{suffix}")), text).unwrap();
    }
}

/// What a steered script printed, and what was told of the run when it was about to end.
struct Told {
    out: String,
    err: String,
    stat: Value,
    folder: PathBuf,
    explained: String,
}

impl Told {
    /// Asserts that the results are those of the program without profile and budget.
    #[track_caller]
    fn printed(&self, plain: &str) {
        assert!(self.out == plain, "{:.2000} instead of {plain:.2000}", self.out);
    }

    fn owner(&self) -> &Value {
        &self.stat["owners"][0]
    }

    fn level(&self, priority: i64) -> Option<(&str, u64)> {
        let levels = self.owner()["priorities"].as_array();
        let levels = levels.unwrap_or_else(|| panic!("{} after {}", self.stat, self.err));
        let level = levels.iter().find(|level| level["priority"] == priority)?;
        Some((level["policy"].as_str().unwrap(), level["blocks"].as_u64().unwrap()))
    }

    /// Asserts that blocks are cached under this priority, replaced by this policy.
    #[track_caller]
    fn holds(&self, priority: i64, policy: &str) {
        let level = self.level(priority);
        assert!(
            matches!(level, Some((found, 1..)) if found == policy),
            "priority {priority}: {level:?} of {}",
            self.owner()
        );
    }

    /// Asserts that blocks got this priority, however soon they left again.
    #[track_caller]
    fn knows(&self, priority: i64, policy: &str) {
        let level = self.level(priority);
        assert!(
            level.is_some_and(|(found, _)| found == policy),
            "priority {priority}: {level:?} of {}",
            self.owner()
        );
    }

    /// Asserts what was explained of a file.
    #[track_caller]
    fn explains(&self, file: &str, priority: i64, policy: &str) {
        let path = self.folder.join(file);
        let line = self.explained.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let told = line
            .into_iter()
            .find(|told| told["path"].as_str().is_some_and(|found| Path::new(found).ends_with(file)));
        let told = told.unwrap_or_else(|| panic!("nothing about {}: {}", path.display(), self.explained));
        assert_eq!(
            (told["priority"].as_i64(), told["policy"].as_str()),
            (Some(priority), Some(policy)),
            "{told}"
        );
    }
}

/// Runs a script under a profile. Before the run ends it is asked for its counters, and about
/// files.
fn steered(folder: &Path, profile: &str, memory: &str, script: &str, files: &[&str]) -> Told {
    steered_as(None, folder, profile, memory, script, || files.iter().map(|&file| file.to_owned()).collect())
}

fn steered_as(
    user: Option<&str>,
    folder: &Path,
    profile: &str,
    memory: &str,
    script: &str,
    files: impl FnOnce() -> Vec<String>,
) -> Told {
    must(
        folder,
        "sync; find . -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \\;",
    );
    let inside = format!(
        "({script}) > steered.out 2> steered.err || {{ cat steered.err >&2; exit 1; }}; \
         : > ready; while [ ! -e asked ]; do sleep 0.02; done"
    );
    let runtime = tempfile::tempdir().unwrap();
    let pantler = |words: &[&str]| {
        let mut command = Command::new(PANTLER);
        command
            .args(words)
            .current_dir(folder)
            .env("LC_ALL", "C")
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
        command.env("PANTLER_RUNTIME_DIR", runtime.path().join("run"));
        command
    };
    let mut command = pantler(&["run", "--memory", memory, "--profile", profile, "--", "sh", "-c", &inside]);
    command.envs(user.map(|user| ("SUDO_UID", user))).envs(user.map(|user| ("SUDO_GID", user)));
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    while !folder.join("ready").exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let ask = |words: &[&str]| String::from_utf8(pantler(words).output().unwrap().stdout).unwrap();
    let stat = ask(&["stat", "--json"]);
    let explained = files().iter().map(|file| ask(&["explain", "--json", file])).collect();
    fs::write(folder.join("asked"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {err}");
    let stat = serde_json::from_str(&stat).unwrap_or_else(|error| panic!("{error}: {err}"));
    let out = fs::read_to_string(folder.join("steered.out")).unwrap();
    Told { out, err: err.into_owned(), stat, folder: folder.to_owned(), explained }
}

#[test]
fn cscope_scans_its_database_in_cycles() {
    in_turn(&["cscope"], || {
        let folder = scratch();
        corpus(&folder.path().join("src"), 24, 256 << 10, "c");
        let script =
            "for s in needle_1 w7_2 wfff_3 w80_4; do cscope -d -c -k -L0 $s; cscope -d -c -k -L1 $s; done";
        must(folder.path(), "find src -name '*.c' | sort > cscope.files; cscope -b -c -k 2>&1");
        let plain = must(folder.path(), script);
        assert!(plain.lines().count() >= 5, "{plain}");
        let database = fs::metadata(folder.path().join("cscope.out")).unwrap().len();
        let told = steered(folder.path(), "cscope", &(database * 2 / 3).to_string(), script, &["cscope.out"]);
        told.printed(&plain);
        told.holds(0, "mru");
        told.explains("cscope.out", 0, "mru");
        // Eight scans of which a third is read anew each time.
        let (misses, references) = counted(&told);
        assert!(misses * 100 < references * 75, "{misses} of {references}");
    });
}

fn counted(told: &Told) -> (u64, u64) {
    let count = |name: &str| told.stat["totals"][name].as_u64().unwrap();
    (count("misses"), count("references"))
}

#[test]
fn cscope_searches_texts_in_cycles() {
    in_turn(&["cscope"], || {
        let folder = scratch();
        corpus(&folder.path().join("src"), 24, 256 << 10, "c");
        let script = "for s in needle 'return a + 7' 'wfff_3(int' w80_4; do cscope -d -c -k -L4 \"$s\"; done";
        must(folder.path(), "find src -name '*.c' | sort > cscope.files; cscope -b -c -k 2>&1");
        let plain = must(folder.path(), script);
        assert!(plain.lines().count() >= 5, "{plain}");
        let told = steered(folder.path(), "cscope-text", "4M", script, &["src/f000.c"]);
        told.printed(&plain);
        told.holds(0, "mru");
        told.explains("src/f000.c", 0, "mru");
        let (misses, references) = counted(&told);
        assert!(misses * 100 < references * 80, "{misses} of {references}");
    });
}

#[test]
fn glimpse_keeps_its_index_before_the_texts() {
    in_turn(&["glimpse", "glimpseindex"], || {
        let folder = scratch();
        corpus(&folder.path().join("texts"), 24, 256 << 10, "txt");
        must(folder.path(), "mkdir index; glimpseindex -b -H index texts 2>&1");
        let script = "for w in needle wfff w80 w7 needle; do glimpse -H index -y -w $w 2> /dev/null; done";
        let plain = must(folder.path(), script);
        assert!(plain.lines().count() >= 50, "{plain:.500}");
        let told = steered(
            folder.path(),
            "glimpse",
            "4M",
            script,
            &["index/.glimpse_index", "index/.glimpse_filenames"],
        );
        told.printed(&plain);
        told.holds(1, "mru");
        told.holds(0, "mru");
        told.explains("index/.glimpse_index", 1, "mru");
        told.explains("index/.glimpse_filenames", 1, "mru");
    });
}

#[test]
fn grep_reads_all_files_in_cycles() {
    grep("grep", "for w in needle w80_ 'a + 77'; do grep -r \"$w\" texts | sort; done");
}

#[test]
fn ripgrep_reads_all_files_in_cycles() {
    grep("rg", "for w in needle w80_ 'a . 77'; do rg --sort path -j 1 --no-mmap \"$w\" texts; done");
}

fn grep(program: &str, script: &str) {
    in_turn(&[program], || {
        let folder = scratch();
        corpus(&folder.path().join("texts"), 24, 256 << 10, "txt");
        let plain = must(folder.path(), script);
        assert!(plain.lines().count() >= 5, "{plain}");
        let told = steered(folder.path(), "grep", "4M", script, &["texts/f000.txt"]);
        told.printed(&plain);
        told.holds(0, "mru");
        told.explains("texts/f000.txt", 0, "mru");
        // Three scans of 6 MB: the ideal reads once, and then twice what 4 MB cannot hold.
        let (misses, references) = counted(&told);
        assert!(misses * 100 < references * 80, "{misses} of {references}");
    });
}

#[test]
fn ld_is_done_with_what_it_has_read() {
    in_turn(&["ld", "as"], || {
        let folder = scratch();
        let at = folder.path();
        for number in 0..24u32 {
            let words: String = (0..4096u32).map(|word| format!(".long {}\n", word * 7 + number)).collect();
            let text = format!(
                ".globl s{number}\n.data\ns{number}:\n{}\n.text\n.globl f{number}\nf{number}: ret\n",
                words.repeat(12)
            );
            fs::write(at.join(format!("o{number:02}.s")), text).unwrap();
        }
        must(at, "for s in *.s; do as $s -o ${s%.s}.o; done; rm *.s; ar rcs l.a o1*.o; rm o1*.o");
        let script = |out: &str| format!("ld -r -o {out} o*.o --whole-archive l.a && cksum < {out}");
        let plain = must(at, &script("plain"));
        let told = steered(at, "ld", "2M", &script("linked"), &["o00.o"]);
        told.printed(&plain);
        told.knows(-1, "lru");
        // Blocks that it was done with left before older ones: what is kept is what it wrote.
        let overrules = told.owner()["counters"]["overrules"].as_u64().unwrap();
        assert!(overrules > 500, "{}", told.owner());
    });
}

/// Reads of which 22 blocks of 4 KiB are read to their end: 10 and 2 of files that are read as a
/// whole, in one call and in small pieces, and 10 of a file of which little more than the heads of
/// the blocks is read, backwards.
const PARTIAL_READS: &str = r#"
import os
a = os.open("data/a", os.O_RDONLY)
os.read(a, 1 << 20)
c = os.open("data/c", os.O_RDONLY)
while os.read(c, 1000): pass
b = os.open("data/b", os.O_RDONLY)
for block in range(399, -1, -1): os.pread(b, 100, block * 4096 + 7)
os.pread(b, 96 + 40960, 299 * 4096 + 4000)
os.pread(b, 100, 310 * 4096)
"#;

/// Both bodies call a block done with once all of it was read. Steer took a jump, and the first
/// read of a thread, for having read all that was passed over, and never knew the last block of a
/// file.
#[test]
fn both_bodies_are_done_with_the_same_blocks() {
    in_turn(&["python3"], || {
        let folder = scratch();
        let at = folder.path();
        must(
            at,
            "mkdir origin mnt; head -c 40000 /dev/zero > origin/a; head -c 1638400 /dev/zero > origin/b",
        );
        must(at, "head -c 5000 /dev/zero > origin/c; ln -s origin data");
        fs::write(at.join("reads.py"), PARTIAL_READS).unwrap();
        let profile = "[policies]\n0 = \"lru\"\n[[file]]\nglob = \"*\"\ndone-with = true\n";
        // Steer's rules are about real paths, a mount's about those on it.
        fs::write(at.join("steer.toml"), profile.replace('*', "**/origin/*")).unwrap();
        fs::write(at.join("mount.toml"), profile.replace('*', "**/mnt/*")).unwrap();
        // Room for Python's own files, too, where they are not in memory yet.
        let told = steered(at, "./steer.toml", "32M", "python3 reads.py", &[]);
        assert_eq!(told.level(-1), Some(("lru", 22)), "{}", told.owner());

        let runtime = at.join("run").display().to_string();
        let pantler = format!("PANTLER_RUNTIME_DIR={runtime} {PANTLER}");
        must(at, &format!("{pantler} mount origin mnt --block-size 4K --lookahead none; ln -sfn mnt data"));
        let inside = format!("python3 reads.py && {pantler} stat --json > stat");
        let ran =
            shell(at, &format!("{pantler} run --profile ./mount.toml --owner-name job -- sh -c '{inside}'"));
        must(at, &format!("{pantler} umount mnt"));
        assert!(ran.0, "{}", ran.1);
        let stat: Value = serde_json::from_str(&fs::read_to_string(at.join("stat")).unwrap()).unwrap();
        let owners = stat["owners"].as_array().unwrap();
        let owner = owners.iter().find(|owner| owner["owner"] == "job").unwrap().clone();
        let stat = serde_json::json!({ "owners": [owner] });
        let told = Told {
            out: String::new(),
            err: String::new(),
            stat,
            folder: at.to_owned(),
            explained: String::new(),
        };
        assert_eq!(told.level(-1), Some(("lru", 22)), "{}", told.owner());
    });
}

/// Policies that pass a bound are refused before the program starts; of rules that do, the rest
/// counts. A run on a mount said that there was nothing to control.
#[test]
fn both_bodies_refuse_the_same_profiles() {
    in_turn(&[], || {
        let folder = scratch();
        let at = folder.path();
        must(at, "mkdir origin mnt; for i in $(seq 0 69); do echo x > origin/f.$i; done");
        let numbers = |line: &dyn Fn(u32) -> String| (0..70).map(line).collect::<String>();
        let policies = numbers(&|number| format!("{number} = \"mru\"\n"));
        fs::write(at.join("policies.toml"), format!("[policies]\n{policies}")).unwrap();
        let rules = numbers(&|number| format!("[[file]]\nglob = \"*.{number}\"\npriority = {number}\n"));
        fs::write(at.join("rules.toml"), rules).unwrap();
        let runtime = at.join("run").display().to_string();
        let pantler = format!("PANTLER_RUNTIME_DIR={runtime} {PANTLER}");
        let refused = |body: &str| {
            let script = format!("{pantler} run {body} --profile ./policies.toml -- touch ran 2>&1");
            let (_, said) = shell(at, &format!("{script}; echo status $?"));
            assert!(said.contains("an owner can use at most 64 priorities\nstatus 2"), "{body}: {said}");
            assert!(!at.join("ran").exists(), "{body}: the program ran");
        };
        let of_most = |stat: &Value| {
            let owners = stat["owners"].as_array().unwrap().iter();
            owners.filter_map(|owner| Some(owner["priorities"].as_array()?.len())).max()
        };
        refused("--memory 32M");
        let steered = of_most(&steered(at, "./rules.toml", "32M", "cat origin/f.*", &[]).stat);
        must(at, &format!("{pantler} mount origin mnt"));
        refused("");
        let inside = format!("cat mnt/f.* > /dev/null; {pantler} stat --json > stat");
        must(at, &format!("{pantler} run --owner-name job --profile ./rules.toml -- sh -c '{inside}'"));
        must(at, &format!("{pantler} umount mnt"));
        let mounted = of_most(&serde_json::from_str(&fs::read_to_string(at.join("stat")).unwrap()).unwrap());
        assert_eq!((steered, mounted), (Some(64), Some(64)));
    });
}

#[test]
fn sort_reads_its_input_once_and_its_own_files_last() {
    in_turn(&["sort"], || {
        let folder = scratch();
        corpus(&folder.path().join("texts"), 1, 12 << 20, "txt");
        must(folder.path(), "mkdir tmp");
        let script = "sort -S 1M --parallel 1 -T tmp -k 2 texts/f000.txt | cksum";
        let plain = must(folder.path(), script);
        let told = steered(folder.path(), "sort", "4M", script, &["texts/f000.txt"]);
        told.printed(&plain);
        told.explains("texts/f000.txt", -1, "mru");
        told.knows(-1, "mru");
    });
}

#[test]
fn tar_reads_everything_once() {
    in_turn(&["tar"], || {
        let folder = scratch();
        corpus(&folder.path().join("texts"), 24, 256 << 10, "txt");
        let script = "tar --sort=name -c texts | cksum";
        let plain = must(folder.path(), script);
        let told = steered(folder.path(), "tar", "2M", script, &["texts/f023.txt"]);
        told.printed(&plain);
        told.knows(-1, "mru");
        told.explains("texts/f023.txt", -1, "mru");
    });
}

#[test]
fn postgresql_needs_its_indexes_before_its_tables() {
    let bin = shell(Path::new("/"), "ls -d /usr/lib/postgresql/*/bin | tail -n 1").1;
    let bin = bin.trim();
    let (initdb, postgres) = (format!("{bin}/initdb"), format!("{bin}/postgres"));
    in_turn(&[&initdb, &postgres, "psql"], || {
        // It refuses to run as root. User `games` is on every Debian machine, and must get to the
        // folder.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = folder.path();
        fs::set_permissions(at, PermissionsExt::from_mode(0o755)).unwrap();
        let home = at.join("home");
        fs::create_dir(&home).unwrap();
        std::os::unix::fs::chown(&home, Some(5), Some(60)).unwrap();
        let as_games = |script: &str| {
            must(&home, &format!("setpriv --reuid=5 --regid=60 --clear-groups sh -ec '{script}'"))
        };
        as_games(&format!(
            "mkdir indexes sockets; {bin}/initdb -D data -U games -A trust --no-sync -E UTF8 --locale C"
        ));
        let server = format!(
            "{bin}/pg_ctl start -s -w -D data -l log -o \"-k {0}/sockets -h \\\"\\\" -c fsync=off -c shared_buffers=512kB -c autovacuum=off\"",
            home.display()
        );
        let psql = format!("psql -qAt -h {}/sockets -U games postgres", home.display());
        let stop = format!("{bin}/pg_ctl stop -s -w -m fast -D data");
        let make = [
            format!("CREATE TABLESPACE quick LOCATION $${}/indexes$$", home.display()),
            "CREATE TABLE t AS SELECT i AS a, md5(i::text) AS b FROM generate_series(1, 60000) i".to_owned(),
            "CREATE INDEX u ON t (b) TABLESPACE quick".to_owned(),
            "DELETE FROM t WHERE a % 7 = 0".to_owned(),
            "VACUUM ANALYZE t".to_owned(),
        ];
        let make = make.map(|command| format!("{psql} -c \"{}\"", command.replace('$', "\\$"))).join("; ");
        as_games(&format!("{server} > /dev/null; {make}; {stop}"));
        let ask = "SET enable_bitmapscan = off; SET enable_seqscan = off; SELECT count(*), min(a), max(a) FROM t WHERE b BETWEEN $$3$$ AND $$5$$; \
                   SELECT a FROM t WHERE b = md5($$4711$$); RESET ALL; SELECT sum(a) FROM t WHERE a < 50000; \
                   INSERT INTO t SELECT i, md5(i::text) FROM generate_series(100000, 101000) i; SELECT count(*) FROM t; \
                   DELETE FROM t WHERE a >= 100000";
        let script = |files: &str| {
            let shown = ask.replace('$', "\\$");
            format!(
                "{server} > /dev/null; {psql} -c \"{shown}\" > answers; cat answers; {psql} -c \"SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname IN (\\$\\$t\\$\\$, \\$\\$u\\$\\$) ORDER BY relname\" > {files}"
            )
        };
        let plain = as_games(&format!("{}; {stop}", script("paths")));
        assert!(plain.lines().count() >= 3, "{plain}");
        let told = steered_as(
            Some("5"),
            &home,
            "postgresql-indexes",
            "3M",
            &format!("set -e; {}", script("paths")),
            || {
                let paths = fs::read_to_string(home.join("paths")).unwrap();
                paths.lines().chain(["global/1260"]).map(|path| format!("data/{path}")).collect()
            },
        );
        as_games(&stop);
        told.printed(&plain);
        told.holds(1, "auto");
        // Tables leave first, on a busy machine all of them.
        told.knows(0, "auto");
        told.explains("data/global/1260", 1, "auto");
        let paths = fs::read_to_string(home.join("paths")).unwrap();
        let paths: Vec<&str> = paths.lines().collect();
        told.explains(paths[0], 0, "auto");
        told.explains(paths[1], 1, "auto");
    });
}
