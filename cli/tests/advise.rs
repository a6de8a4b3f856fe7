//! `pantler advise`: what it promises is what a run reads, and the run is of the same program.
//!
//! The matrix prints a table: `cargo test -p pantler-cli --test advise -- --nocapture matrix`.
//! Its rows are explained in docs/benchmarks/advise.md.

mod place;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pantler_rig::eventually;
use place::disk::Disk;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PANTLER: &str = env!("CARGO_BIN_EXE_pantler");

/// A promise holds within this share of it, and within what a small program cannot be blamed for.
const BOUND: f64 = 0.05;
const BOUND_BYTES: u64 = 256 << 10;

/// Writes the blocks of files to the disk, and drops them from memory.
const COLD: &str = "cold() { find \"$@\" -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \\; ; }\n";

/// A shell that finds `$PANTLER`, and begins with [`COLD`].
fn shell(folder: &Path, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{COLD}{script}")]).current_dir(folder).stdin(Stdio::null());
    command.env("PANTLER", PANTLER).env("PANTLER_RUNTIME_DIR", folder.join("run"));
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    command
}

/// Status, standard output and standard error of a script.
fn ran(folder: &Path, script: &str) -> (Option<i32>, String, String) {
    let output = shell(folder, script).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn must(folder: &Path, script: &str) -> String {
    let (status, out, err) = ran(folder, script);
    assert_eq!(status, Some(0), "{script}: {out}{err}");
    out
}

/// A folder on a real disk; `None`, loudly, where nothing can be steered.
fn scratch() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if ran(folder.path(), "$PANTLER doctor").0 == Some(0) {
        return Some(folder);
    }
    assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "pantler doctor says that something is missing");
    eprintln!("SKIPPED: pantler doctor says that something is missing");
    None
}

/// Tries of a row. Beside other work the thread that reads events gets its processor late, and more
/// is read.
const TRIES: usize = 3;

/// What is known of a row beforehand.
#[derive(Clone, Copy)]
enum Row {
    /// The promise holds.
    Holds,
    /// At most a quarter more is read: what a run does later than the model counts here, as
    /// docs/benchmarks/advise.md says row by row.
    Late,
    /// The program reads what it has written: that is told, and at most a quarter more is read.
    Writes,
}

const READER: &str = "import os, sys
size = int(sys.argv[1]) << 10
file = os.open('f', os.O_RDONLY)
for _ in range(4):
    for at in range(0, 24 << 20, size):
        os.pread(file, size, at)
";

const LOADER: &str = "import random
random.seed(3)
names = ['large/%d' % i for i in range(1, 401)]
for _ in range(3):
    random.shuffle(names)
    for name in names:
        open(name, 'rb').read()
";

const QUERY: &str = "import sqlite3
db = sqlite3.connect('db')
db.execute('pragma cache_size = 10')
print(db.execute('select count(*) from t a join t b on a.r = b.id where a.id % 10 = 0').fetchall())
";

const FILL: &str = "import random, sqlite3
random.seed(5)
db = sqlite3.connect('db')
db.execute('create table t(id integer primary key, r int, s text)')
rows = ((i, random.randrange(150000), '%080x' % random.getrandbits(300)) for i in range(150000))
db.executemany('insert into t values (?, ?, ?)', rows)
db.commit()
";

/// Name, memory, program, and what is known of it.
const ROWS: [(&str, &str, &str, Row); 10] = [
    ("cycles of 4 KiB", "12M", "exec python3 reader.py 4", Row::Holds),
    ("cycles of 64 KiB", "12M", "exec python3 reader.py 64", Row::Holds),
    ("cycles of 1 MiB", "12M", "exec python3 reader.py 1024", Row::Holds),
    ("loader at random", "12M", "exec python3 loader.py", Row::Late),
    ("ripgrep", "8M", "for i in 1 2 3; do rg -c zzzzz many; done; true", Row::Late),
    ("tar", "8M", "for i in 1 2 3; do tar -cf - many | cat > /dev/null; done", Row::Holds),
    (
        "cscope",
        "8M",
        "for i in Result Option Vec String Some; do cscope -d -L -0 $i > /dev/null; done",
        Row::Writes,
    ),
    ("SQLite", "8M", "exec python3 query.py", Row::Late),
    ("sort", "8M", "sort -S 2M -T . lines > sorted", Row::Writes),
    ("make", "64M", "make -s -B", Row::Writes),
];

/// Writes the data of all rows, and takes it out of memory.
fn prepare(at: &Path) {
    for (name, text) in [("reader.py", READER), ("loader.py", LOADER), ("query.py", QUERY), ("fill.py", FILL)]
    {
        fs::write(at.join(name), text).unwrap();
    }
    fs::create_dir(at.join("many")).unwrap();
    fs::create_dir(at.join("large")).unwrap();
    fs::create_dir(at.join("c")).unwrap();
    for i in 1..=400 {
        fs::write(at.join(format!("large/{i}")), vec![i as u8; 53_000]).unwrap();
    }
    for i in 1..=1200 {
        let text = format!("{i:>100}\n").repeat(30 + i / 6);
        fs::write(at.join(format!("many/{i}")), text).unwrap();
    }
    for i in 0..15 {
        let function = |j| format!("int f{i}_{j}(int x) {{ printf(\"%d\", x + {j}); return x * {j}; }}\n");
        let text: String = (0..300).map(function).collect();
        fs::write(at.join(format!("c/{i}.c")), format!("#include <stdio.h>\n{text}")).unwrap();
    }
    let objects = "$(patsubst %.c,%.o,$(wildcard c/*.c))";
    fs::write(
        at.join("Makefile"),
        format!("all.so: {objects}\n\tgcc -shared -o $@ $^\nc/%.o: c/%.c\n\tgcc -fPIC -c $< -o $@\n"),
    )
    .unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for copy in ["one", "two", "three"] {
        must(
            at,
            &format!(
                "mkdir -p tree/{copy}; cp -r {}/core {0}/host {0}/body {0}/lab tree/{copy}",
                sources.display()
            ),
        );
    }
    must(at, "head -c 24M /dev/urandom > f; head -c 9M /dev/urandom | base64 > lines; python3 fill.py");
    must(at, "find tree -name '*.rs' > cscope.files; cscope -b -k; cold .");
}

/// Programs of many kinds are recorded, advised, and run by the advice: what is read is what was
/// promised.
#[test]
fn the_matrix_of_promises_and_outcomes() {
    let Some(folder) = scratch() else { return };
    let disk = Disk::new(folder.path());
    prepare(&disk.at);
    println!("          program memory  promised      read       LRU deviation  policy");
    for row in ROWS {
        pantler_rig::undisturbed(|| {
            let is_as_known = (0..TRIES).any(|_| verify(&disk.at, row));
            assert!(is_as_known, "{}: the promise is not the outcome, see the table", row.0);
        });
    }
}

/// Whether promise and outcome are to each other as it is known of a row.
fn verify(at: &Path, (name, memory, program, known): (&str, &str, &str, Row)) -> bool {
    fs::write(at.join("program.sh"), program).unwrap();
    let script = format!("$PANTLER advise --memory {memory} --verify --json -- sh program.sh");
    let (status, out, err) = ran(at, &script);
    assert!(matches!(status, Some(0 | 4)), "{name}: {status:?} {err}");
    let advice: Value = serde_json::from_str(&out).unwrap();
    let verified = &advice["verified"];
    let count = |key: &str| verified[key].as_u64().unwrap_or_else(|| panic!("{key} in {verified}"));
    let (promised, read, lru) = (count("promised_read_bytes"), count("read_bytes"), count("lru_read_bytes"));
    let deviation = verified["deviation"].as_f64().unwrap();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{name:>17} {memory:>6} {:>9.1} {:>9.1} {:>9.1} {:>+8.1}%  {}",
        mib(promised),
        mib(read),
        mib(lru),
        100.0 * deviation,
        verified["policy"].as_str().unwrap()
    );
    let holds = read.abs_diff(promised) <= ((promised as f64 * BOUND) as u64).max(BOUND_BYTES);
    assert_eq!(status == Some(0), holds, "{name}: {verified}");
    assert_eq!((count("status"), count("recorded_status")), (0, 0), "{name}: {err}");
    match known {
        Row::Holds => holds,
        Row::Late => deviation < 0.25,
        Row::Writes => count("written_bytes") > promised / 50 && deviation < 0.25,
    }
}

/// Both runs have the same arguments, folder, user, environment and input, and with `--apply` the
/// output is the program's alone.
#[test]
fn the_advised_run_is_of_the_same_program() {
    let Some(folder) = scratch() else { return };
    let at = folder.path();
    fs::set_permissions(at, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    must(
        at,
        "mkdir -m 777 work; head -c 4M /dev/urandom > work/f; cold work; printf 'a line\\nmore\\n' > input",
    );
    fs::copy("/bin/sh", at.join("sudo")).unwrap();
    // As for `sudo`: a shell of that name which starts its command in an environment of its own.
    let program =
        "cat f > /dev/null; { pwd; id -u; id -G; echo \"$HOME $WORD $1\"; cat; } | tee -a log; exit 7";
    let script = format!(
        "cd work && HOME=/mine WORD=hello ../sudo -c 'env -i SUDO_UID=5 SUDO_GID=60 PATH=/usr/bin:/bin HOME=/made \
         PANTLER_RUNTIME_DIR={}/run {PANTLER} advise --memory 2M --apply -- sh -c \"$0\" sh \"x  y\" < ../input; exit $?' '{program}'",
        at.display(),
    );
    let (status, out, err) = ran(at, &script);
    let expected = format!("{}/work\n5\n60\n/mine hello x  y\na line\nmore\n", at.display());
    assert_eq!((status, out.as_str()), (Some(7), expected.as_str()), "{err}");
    assert_eq!(fs::read_to_string(at.join("work/log")).unwrap(), expected.repeat(2));
    assert!(err.contains("sh ended with status 7") && err.contains("kernel alone"), "{err}");
}

#[test]
fn what_cannot_be_verified_is_refused_or_told() {
    pantler_rig::undisturbed(|| {
        let Some(folder) = scratch() else { return };
        let at = folder.path();
        must(at, "head -c 12M /dev/urandom > f; cold f");
        for option in ["--verify", "--apply"] {
            let (status, out, err) = ran(at, &format!("$PANTLER advise f --memory 4M {option}"));
            assert_eq!((status, out.as_str()), (Some(2), ""), "{err}");
            assert!(err.contains(&format!("pantler advise --memory 4M {option} -- PROGRAM")), "{err}");
        }
        // A program that does something else when it is run once more.
        let program = "test -e ran || { touch ran; cat f f f > /dev/null; }";
        let (status, out, err) =
            ran(at, &format!("$PANTLER advise --memory 4M --verify -- sh -c '{program}'"));
        assert_eq!(status, Some(4), "{out}{err}");
        assert!(out.lines().next_back().is_some_and(|line| line.starts_with("promised ")), "{out}");
        assert!(err.contains("pantler: the promise does not hold: promised "), "{err}");
        // Data that was in memory before, because of another program, is neither read nor dropped.
        must(at, "cat f > /dev/null");
        let (status, out, err) =
            ran(at, "$PANTLER advise --memory 4M --verify -- sh -c 'cat f f > /dev/null'");
        assert!(status == Some(4) && out.contains("\nnot cold: "), "{status:?}: {out}{err}");
        assert_eq!(must(at, "fincore -nbo res f").trim(), (12 << 20).to_string());
    });
}

/// The blocks of many files, read or written, leave with the run; those of others stay.
#[test]
fn a_run_leaves_nothing_if_it_is_told_so() {
    pantler_rig::undisturbed(|| {
        let Some(folder) = scratch() else { return };
        let at = folder.path();
        must(
            at,
            "mkdir d; for i in $(seq 600); do head -c 20000 /dev/zero > d/$i; done; cold d; cat d/7 > /dev/null",
        );
        let program = "cat d/* > /dev/null; head -c 1M /dev/zero > written";
        let held = "fincore -nbo res d/* written | sort | uniq -c";
        must(
            at,
            &format!("$PANTLER run --quiet --memory 32M --profile none --leave-nothing -- sh -c '{program}'"),
        );
        let counts: Vec<String> = must(at, held)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(counts, ["600 0", "1 20480"]);
        let (status, _, err) = ran(at, "$PANTLER run --leave-nothing -- true");
        assert!(status == Some(2) && err.contains("--memory"), "{status:?}: {err}");
    });
}

/// A program that is ended while it is recorded is not run once more.
#[test]
fn a_signal_ends_all_of_it() {
    let Some(folder) = scratch() else { return };
    let at = folder.path();
    must(at, "head -c 1M /dev/urandom > f; cold f");
    let program = "cat f > /dev/null; echo run >> log; exec sleep 60";
    let mut advise = shell(at, &format!("exec $PANTLER advise --memory 2M --verify -- sh -c '{program}'"));
    let mut advise = advise.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let log = || fs::read_to_string(at.join("log")).unwrap_or_default();
    eventually("the program runs", || log() == "run\n");
    kill_process(Pid::from_child(&advise), Signal::TERM).unwrap();
    assert_eq!(advise.wait().unwrap().code(), Some(128 + 15));
    assert_eq!(log(), "run\n");
}
