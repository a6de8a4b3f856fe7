//! The rows: real programs that read more than their budget.

use anyhow::{Context, Result};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::arms::{Family, Rival};
use super::{build, postgres, store, tier, web};
use crate::demo::source::Source;
use crate::limits::programs;
use crate::shell;

/// The row that needs an object store.
pub const OBJECTS: &str = "objects";
/// What can be asked for alone.
pub const NAMES: [&str; 12] = [
    "cscope",
    "ripgrep",
    "epochs",
    "weights-read",
    "weights-mmap",
    "sqlite",
    "service",
    "postgres",
    "build",
    OBJECTS,
    "web",
    "tier",
];
/// Weights of a model.
const WEIGHTS_BYTES: usize = 96 << 20;
/// What the service reads again and again.
const HOT_BYTES: usize = 76 << 20;
/// Rows of the table that is scanned, of 1,000 bytes each.
const TABLE_ROWS: u32 = 96_000;
/// The budget, as a fraction of what a program reads.
const BUDGET: (u64, u64) = (2, 3);
/// The budget of a service and of what goes on beside it, as a fraction of the service's data,
/// which shall fit.
const BUDGET_OF_SERVICE: (u64, u64) = (5, 4);
/// What the guide gives a backup.
const BACKUP_MEMORY: &str = "16M";
/// Epochs from an object store, which takes its time.
const OBJECT_EPOCHS: u32 = 5;
/// What the backup reads, beside the service's file.
const BACKED_UP: [&str; 4] = ["../database", "../files", "../tree", "../weights"];

/// How Pantler is told what fits a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    /// A shipped profile, which a mount takes from the run around the program.
    Profile(&'static str),
    /// A policy, of the run or of the mount.
    Policy(&'static str),
    /// The backup alone runs under Pantler, which knows `tar` by its name.
    Backup,
    /// Nothing fits.
    None,
}

/// How a program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// By calls of ours, which can ask for `RWF_DONTCACHE`.
    ByOurs,
    /// By calls of its own.
    ByItself,
    /// It maps its file.
    Mapped,
    /// By calls of ours, of an object store.
    Objects,
    /// By a web server.
    Served,
    /// By calls of ours, with a server's memory between.
    Tiered,
}

/// A program, and what it reads.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    /// For `sh`; `$READER` is [`Row::READER`], `$CLIENTS` asks web servers, `$SAID` is a file for
    /// figures of its own.
    script: String,
    /// Where it runs, below the folder of the disk, or of a mount over it.
    pub folder: &'static str,
    /// Pages that it reads at least once, in bytes.
    pub bytes: u64,
    /// For blocks of files, in bytes.
    pub budget: u64,
    /// What is locked in memory, below the disk's folder, the most important first.
    pub locked: Vec<PathBuf>,
    hint: Hint,
    reads: Reads,
}

impl Row {
    /// The program that reads in rows without a program of their own.
    pub const READER: &str = include_str!("reader.py");

    /// All of them, on a disk that is mounted at `point`.
    pub fn all(point: &Path) -> Result<Vec<Row>> {
        let five = |what: &str| format!("for pass in 1 2 3 4 5; do {what} || exit 1; done");
        let row = |name, script, folder, hint, reads| -> Result<Row> {
            let locked = files_below(&point.join(folder))?;
            let bytes = total(&locked)?;
            let budget = bytes * BUDGET.0 / BUDGET.1 / 4096 * 4096;
            Ok(Row { name, script, folder, bytes, budget, locked, hint, reads })
        };
        let mut rows = Vec::new();
        for program in programs::Program::all(point)? {
            let hint = match program.name {
                "cscope" => Hint::Profile("cscope"),
                "ripgrep" => Hint::Profile("grep"),
                _ => continue,
            };
            rows.push(row(program.name, program.script, program.folder, hint, Reads::ByItself)?);
        }
        let mru = Hint::Policy("mru");
        let scan = "sqlite3 -readonly table 'SELECT max(body) FROM scanned' > /dev/null";
        rows.push(row("epochs", "$READER epochs .".to_owned(), "files", mru, Reads::ByOurs)?);
        rows.push(row("weights-read", five("$READER read weights"), "weights", mru, Reads::ByOurs)?);
        rows.push(row("weights-mmap", five("$READER map weights"), "weights", mru, Reads::Mapped)?);
        rows.push(row("sqlite", five(scan), "table", mru, Reads::ByItself)?);
        rows.push(service(row("service", String::new(), "hot", Hint::Backup, Reads::ByOurs)?, point)?);
        rows.push(postgres(
            row("postgres", String::new(), "postgres", Hint::Profile("postgresql-indexes"), Reads::ByItself)?,
            point,
        )?);
        rows.push(built(row("build", build::SCRIPT.to_owned(), "build", mru, Reads::ByItself)?, point)?);
        rows.push(objects());
        let ask = format!("$CLIENTS 127.0.0.1:{} \"$SAID\"", web::PORT);
        rows.push(row("web", ask, "web", Hint::None, Reads::Served)?);
        rows.push(row("tier", String::new(), "files", mru, Reads::Tiered)?);
        Ok(rows)
    }

    /// What it is compared over.
    pub fn family(&self) -> Family {
        match self.reads {
            Reads::Objects => Family::Objects,
            Reads::Served => Family::Web,
            Reads::Tiered => Family::Tiers,
            _ => Family::Files,
        }
    }

    /// Whether what its programs hold besides files comes and goes with each of them.
    pub fn is_uneven(&self) -> bool {
        self.name == "build"
    }

    /// Whether a run holds itself to the limit that a group would have: where that has room for the
    /// most that programs hold, files may use what they leave.
    pub fn has_total(&self, rival: Rival) -> bool {
        self.is_uneven() && matches!(rival, Rival::Run | Rival::RunHint)
    }

    /// What runs with a rival.
    pub fn script(&self, rival: Rival) -> String {
        if self.reads == Reads::Tiered { tier::script(rival) } else { self.script.clone() }
    }

    /// Whether the row is measured with this rival, or why not.
    pub fn is_for(&self, rival: Rival) -> Result<(), &'static str> {
        match rival {
            Rival::DontCache if self.reads == Reads::ByItself => {
                Err("a flag of reads, and the program makes its calls itself")
            }
            Rival::DontCache if self.reads == Reads::Mapped => Err("a flag of reads, and the file is mapped"),
            _ => Ok(()),
        }
    }

    /// Whether the group of this rival has the budget as limit, which holds what is in the group to
    /// it; other rivals hold themselves to it.
    pub fn is_limited(&self, rival: Rival) -> bool {
        match rival {
            _ if rival.own_bytes().is_some() => false,
            // Mapped pages are the kernel's to keep unless a policy is named.
            Rival::Run | Rival::Join if self.reads == Reads::Mapped => true,
            Rival::WebRun => false,
            Rival::Run | Rival::Join | Rival::JoinHint => false,
            Rival::RunHint => self.hint == Hint::Backup,
            _ => true,
        }
    }

    /// Words before the program; `limit` is the budget and what is held besides.
    pub fn around(&self, rival: Rival, pantler: &str, limit: Option<u64>) -> Vec<String> {
        let total = limit.filter(|_| self.has_total(rival)).map(|bytes| bytes.to_string());
        let memory = total.clone().unwrap_or_else(|| self.budget.to_string());
        let mut run = vec![pantler, "run", "--quiet"];
        if let Some(total) = &total {
            run.extend(["--total", total]);
        }
        let none = ["--profile", "none"];
        let words: Vec<&str> = match (rival, self.hint) {
            (Rival::Join, _) | (Rival::JoinHint, Hint::Backup) => [&run[..], &none, &["--"]].concat(),
            (Rival::JoinHint, Hint::Policy(name)) => [&run[..], &none, &["--policy", name, "--"]].concat(),
            (Rival::Run, _) => [&run[..], &["--memory", &memory], &none, &["--"]].concat(),
            (Rival::RunHint, Hint::Profile(name)) => {
                [&run[..], &["--memory", &memory, "--profile", name, "--"]].concat()
            }
            (Rival::RunHint, Hint::Policy(name)) => {
                [&run[..], &["--memory", &memory], &none, &["--policy", name, "--"]].concat()
            }
            (Rival::MountHint | Rival::JoinHint, Hint::Profile(name)) => {
                [&run[..], &["--profile", name, "--"]].concat()
            }
            (Rival::Nocache, Hint::Profile(_) | Hint::Policy(_)) => vec!["nocache"],
            _ => Vec::new(),
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// Words for `pantler mount`.
    pub fn mounting(&self, rival: Rival) -> Vec<&'static str> {
        match self.hint {
            _ if rival == Rival::MountOwn => vec!["--frames", "own"],
            Hint::Policy(name) if rival.is_our_mount() && rival.is_hinted() => vec!["--policy", name],
            _ => Vec::new(),
        }
    }

    /// Words before the backup.
    pub fn before_backup(&self, rival: Rival, pantler: &str) -> String {
        match rival {
            Rival::RunHint => format!("{pantler} run --quiet --memory {BACKUP_MEMORY} --"),
            Rival::MountHint | Rival::JoinHint => format!("{pantler} run --quiet --"),
            Rival::Nocache => "nocache".to_owned(),
            _ => String::new(),
        }
    }
}

/// Epochs in random orders from an object store.
fn objects() -> Row {
    let bytes = store::OBJECTS * store::OBJECT_BYTES;
    Row {
        name: OBJECTS,
        script: format!("$READER epochs . {OBJECT_EPOCHS}"),
        folder: "",
        bytes,
        budget: bytes * BUDGET.0 / BUDGET.1 / 4096 * 4096,
        locked: Vec::new(),
        hint: Hint::Policy("mru"),
        reads: Reads::Objects,
    }
}

/// A build, of what the compiler reads.
fn built(row: Row, point: &Path) -> Result<Row> {
    let locked = build::files(&point.join(row.folder))?;
    let bytes = total(&locked)?;
    Ok(Row { bytes, budget: bytes * BUDGET.0 / BUDGET.1 / 4096 * 4096, locked, ..row })
}

/// The service, and a backup of everything else on the disk beside it.
fn service(row: Row, point: &Path) -> Result<Row> {
    let paths = BACKED_UP.join(" ");
    let script = format!(
        "$READER serve hot \"$SAID\" &
service=$!
while [ ! -e \"$SAID.warm\" ]; do kill -0 $service || exit 1; sleep 0.01; done
if [ \"$DONTCACHE\" ]; then $READER backup {paths}; else $BACKUP tar --create --absolute-names --file - {paths} | cat > /dev/null; fi
wait $service"
    );
    let mut bytes = row.bytes;
    for path in BACKED_UP {
        bytes += total(&files_below(&point.join(row.folder).join(path))?)?;
    }
    Ok(Row { script, bytes, budget: budget_of_service(row.bytes), ..row })
}

fn budget_of_service(bytes: u64) -> u64 {
    bytes * BUDGET_OF_SERVICE.0 / BUDGET_OF_SERVICE.1 / 4096 * 4096
}

/// pgbench, and a report beside it.
fn postgres(row: Row, point: &Path) -> Result<Row> {
    let folder = point.join(row.folder);
    let locked = postgres::files(&folder, "hot")?;
    let hot = total(&locked)?;
    let bytes = hot + total(&postgres::files(&folder, "cold")?)?;
    let script = format!("{} && mv \"$SOCKETS/said\" \"$SAID\"", postgres::as_postgres(postgres::SCRIPT));
    Ok(Row { script, bytes, budget: budget_of_service(hot), locked, ..row })
}

/// Fills the disk; `sockets` is a folder of user postgres.
pub fn write(point: &Path, source: &Source, sockets: &Path) -> Result<()> {
    programs::write(point, source)?;
    postgres::write(&point.join("postgres"), sockets)?;
    web::write(&point.join("web"))?;
    build::write(&point.join("build"), source)?;
    for (name, bytes) in [("weights", WEIGHTS_BYTES), ("hot", HOT_BYTES)] {
        fs::create_dir(point.join(name))?;
        let mut file = std::io::BufWriter::new(fs::File::create(point.join(name).join(name))?);
        for block in 0..bytes as u64 / 4096 {
            file.write_all(&block.to_le_bytes().repeat(512))?;
        }
        file.into_inner()?.sync_all()?;
    }
    fs::create_dir(point.join("table"))?;
    let table = point.join("table/table").display().to_string();
    let make = format!(
        "CREATE TABLE scanned (id INTEGER PRIMARY KEY, body TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {TABLE_ROWS})
         INSERT INTO scanned SELECT i, printf('%01000d', i) FROM n;"
    );
    shell::output(&["sqlite3", &table, &make]).map(drop)
}

/// Files below a folder, in the order of their names.
fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        let kind = fs::symlink_metadata(&entry)?;
        if kind.is_dir() {
            files.extend(files_below(&entry)?);
        } else if kind.is_file() {
            files.push(entry);
        }
    }
    Ok(files)
}

/// What the pages of some files take.
fn total(files: &[PathBuf]) -> Result<u64> {
    let pages = |path| fs::metadata(path).map(|file| file.len().div_ceil(4096) * 4096);
    files.iter().map(|path| pages(path).context("a file is gone")).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(hint: Hint, reads: Reads, rival: Rival) -> (String, bool) {
        let row = Row {
            name: "",
            script: String::new(),
            folder: "",
            bytes: 6144,
            budget: 4096,
            locked: Vec::new(),
            hint,
            reads,
        };
        (row.around(rival, "pantler", None).join(" "), row.is_limited(rival))
    }

    #[test]
    fn what_has_no_budget_of_its_own_has_a_limit() {
        let mru = Hint::Policy("mru");
        let of = |rival| words(mru, Reads::ByItself, rival);
        assert_eq!(of(Rival::Kernel), (String::new(), true));
        assert_eq!(of(Rival::Nocache), ("nocache".to_owned(), true));
        assert_eq!(of(Rival::Mount), (String::new(), false));
        assert_eq!(of(Rival::Join), ("pantler run --quiet --profile none --".to_owned(), false));
        assert_eq!(
            of(Rival::RunHint),
            ("pantler run --quiet --memory 4096 --profile none --policy mru --".to_owned(), false)
        );
        assert!(words(mru, Reads::Mapped, Rival::Run).1);
        assert!(!words(mru, Reads::Mapped, Rival::JoinHint).1, "a policy is named");
        let limited = [Rival::Nginx, Rival::Apache, Rival::Web].map(|rival| of(rival).1);
        assert_eq!(limited, [true; 3]);
        let others = [Rival::Varnish, Rival::WebRun, Rival::Redis, Rival::Memcached, Rival::Tier];
        assert!(others.into_iter().all(|rival| !of(rival).1), "they have the budget as option");
    }

    #[test]
    fn in_an_uneven_row_runs_have_the_whole_limit() {
        let mut row = objects();
        row.name = "build";
        let words = |rival| row.around(rival, "pantler", Some(8192)).join(" ");
        let run = "pantler run --quiet --total 8192 --memory 8192 --profile none --";
        assert_eq!((words(Rival::Run).as_str(), row.is_limited(Rival::Run)), (run, false));
        assert_eq!(words(Rival::Join), "pantler run --quiet --profile none --");
        row.name = "sqlite";
        let words = row.around(Rival::Run, "pantler", Some(8192)).join(" ");
        assert!(!words.contains("8192"), "{words}");
    }

    #[test]
    fn of_a_service_the_backup_has_the_hint() {
        assert_eq!(words(Hint::Backup, Reads::ByOurs, Rival::RunHint), (String::new(), true));
        let (run, is_limited) = words(Hint::Backup, Reads::ByOurs, Rival::Run);
        assert_eq!(run, "pantler run --quiet --memory 4096 --profile none --");
        assert!(!is_limited);
    }
}
