//! Where programs work: sources, databases, and what each program is going to read.
//!
//! What a program will read is found out by tracing its system calls once: a list that is not what is read is worth nothing,
//! and what is read is not what one thinks. cscope reads head and tail of its database and then the sources in the order
//! of their names, whatever the order in its list of files.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pantler_control::PolicyName;
use pantler_mount::{Mount, MountOptions};

use crate::Outcome;
use crate::programs::BLOCK_BYTES;

const SOURCES: usize = 300;
const QUERIES: [&str; 3] = ["mutex_lock", "kmem_cache", "hrtimer"];
/// Rows of the table of PostgreSQL, and how many of them a query selects.
const TUPLES: u32 = 60_000;
const SELECTED: u32 = 400;
/// Present when the stage is complete.
const READY: &str = "ready";

/// A program: its queries as a shell script, and what it will read, in order.
pub struct Program {
    pub name: String,
    pub script: String,
    pub list: Vec<(PathBuf, Vec<(i64, i64)>)>,
    /// Files that every query needs more than others.
    pub index: Vec<PathBuf>,
    /// How it reads.
    pub policy: PolicyName,
}

pub struct Stage {
    pub folder: PathBuf,
    pub programs: Vec<Program>,
}

impl Stage {
    pub fn origin(&self) -> PathBuf {
        self.folder.join("origin")
    }

    pub fn point(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    /// Where rows are kept that were measured.
    pub fn results(&self) -> PathBuf {
        self.folder.join("results.tsv")
    }

    /// The stage in a folder, made if it is not there.
    pub fn make(folder: &Path, tree: &Path) -> Outcome<()> {
        if folder.join(READY).exists() {
            return Ok(());
        }
        let _ = fs::remove_dir_all(folder);
        let (origin, point) = (folder.join("origin"), folder.join("mnt"));
        fs::create_dir_all(origin.join("src"))?;
        fs::create_dir(&point)?;
        // Programs that do not run as root go through here.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        copy_sources(tree, &origin.join("src"))?;
        let makers: [(&str, &str, Maker); 3] = [
            ("cscope", "cscope", make_cscope),
            ("glimpse", "glimpse", make_glimpse),
            ("postgres", "/usr/lib/postgresql/15/bin/postgres", make_postgres),
        ];
        for (name, binary, make) in makers {
            if !exists(binary) {
                println!("{name} is left out: there is no {binary}");
                continue;
            }
            let (queries, index) = make(&origin, &point)?;
            trace(folder, &origin, &point, name, &queries)?;
            let index: Vec<String> = index.iter().map(|path| format!("{}\n", path.display())).collect();
            fs::write(folder.join(format!("{name}.index")), index.concat())?;
        }
        must(&mut Command::new("sync"))?;
        fs::write(folder.join(READY), "")?;
        Ok(())
    }

    /// A stage that is there.
    pub fn open(folder: &Path) -> Outcome<Self> {
        let mut programs = Vec::new();
        for name in ["cscope", "glimpse", "postgres"] {
            let file = |kind: &str| folder.join(format!("{name}.{kind}"));
            let Ok(script) = fs::read_to_string(file("script")) else { continue };
            let list = parse_list(&fs::read_to_string(file("list"))?);
            let index = fs::read_to_string(file("index"))?.lines().map(PathBuf::from).collect();
            // What is read again and again is read in cycles by all but PostgreSQL.
            let policy = if name == "postgres" { PolicyName::Lru } else { PolicyName::Mru };
            programs.push(Program { name: name.to_owned(), script, list, index, policy });
        }
        Ok(Self { folder: folder.to_owned(), programs })
    }
}

/// What is needed is made in the origin; the queries, one shell command each, and the index files are the mount's.
type Maker = fn(&Path, &Path) -> Outcome<(Vec<String>, Vec<PathBuf>)>;

fn exists(binary: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {binary}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Sources from all over the tree, written in an order that is not that of their names: so lie files that were written
/// as they were needed.
fn copy_sources(tree: &Path, folder: &Path) -> Outcome<()> {
    let mut found = Vec::new();
    find(tree, &mut found)?;
    found.sort();
    let step = (found.len() / SOURCES).max(1);
    let mut chosen: Vec<(u32, PathBuf, String)> = Vec::new();
    for path in found.into_iter().step_by(step).take(SOURCES) {
        let name = path.strip_prefix(tree)?.to_string_lossy().replace('/', "_");
        let hash = name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        chosen.push((hash, path, name));
    }
    chosen.sort();
    let mut names = Vec::new();
    for (_, path, name) in chosen {
        let to = folder.join(&name);
        fs::copy(path, &to)?;
        // Now, so that they lie in this order.
        fs::File::open(to)?.sync_all()?;
        names.push(name);
    }
    fs::write(folder.join("cscope.files"), names.join("\n") + "\n")?;
    Ok(())
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            find(&path, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "c") {
            found.push(path);
        }
    }
    Ok(())
}

fn make_cscope(origin: &Path, point: &Path) -> Outcome<(Vec<String>, Vec<PathBuf>)> {
    must(Command::new("cscope").args(["-b", "-c", "-k"]).current_dir(origin.join("src")))?;
    let query = |word| format!("cd {} && cscope -d -L -4 {word}", point.join("src").display());
    Ok((QUERIES.map(query).to_vec(), Vec::new()))
}

fn make_glimpse(origin: &Path, point: &Path) -> Outcome<(Vec<String>, Vec<PathBuf>)> {
    fs::create_dir(origin.join("index"))?;
    let mounted = Mount::new(MountOptions::new(origin, point))?.spawn()?;
    // The index names files as the mount does.
    must(Command::new("glimpseindex").arg("-o").arg("-H").arg(point.join("index")).arg(point.join("src")))?;
    mounted.unmount()?;
    let query = |word| format!("glimpse -y -H {} {word}", point.join("index").display());
    let names =
        fs::read_dir(origin.join("index"))?.map(|entry| Ok(point.join("index").join(entry?.file_name())));
    Ok((QUERIES.map(query).to_vec(), names.collect::<Outcome<_>>()?))
}

/// A table in random order and an index on its key, as in the paper.
fn make_postgres(origin: &Path, point: &Path) -> Outcome<(Vec<String>, Vec<PathBuf>)> {
    let data = origin.join("pg");
    fs::create_dir(&data)?;
    must(Command::new("chown").arg("postgres:").arg(&data))?;
    let postgres = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).args(words);
        command.current_dir(origin);
        command
    };
    let path = data.to_string_lossy();
    must(&mut postgres(&["/usr/lib/postgresql/15/bin/initdb", "-A", "trust", "-N", "-D", &path]))?;
    let sql = format!(
        "CREATE TABLE t AS SELECT i AS id, hashint4(i)::bigint + 2147483648 AS key, repeat('x', 400) AS pad FROM generate_series(1, {TUPLES}) i;\n\
         CREATE INDEX t_key ON t (key);\n\
         VACUUM FREEZE ANALYZE t;\n\
         VACUUM FREEZE;\n\
         CHECKPOINT;\n"
    );
    single(&mut postgres(&single_words(&path)), &sql)?;
    let files = "SELECT pg_relation_filepath('t_key');\nSELECT pg_relation_filepath('t');\n";
    let said = single(&mut postgres(&single_words(&path)), files)?;
    let mut files = said.split('"').filter(|word| word.starts_with("base/"));
    let index = files.next().ok_or("the index has no file")?.to_owned();
    let table = files.next().ok_or("the table has no file")?;
    // What is listed: the log and the catalogue are read anew each time, up to where they end by then.
    fs::write(origin.with_file_name("postgres.only"), format!("{index}\n{table}\n"))?;
    let path = point.join("pg");
    let step = (1u64 << 32) / u64::from(TUPLES) * u64::from(SELECTED);
    let query = |number: u64| {
        let (from, to) = (number * 7 * step, (number * 7 + 1) * step);
        format!(
            "echo 'SELECT count(pad) FROM t WHERE key BETWEEN {from} AND {to}' | setpriv --reuid=postgres --regid=postgres --clear-groups {}",
            single_words(&path.to_string_lossy()).join(" ")
        )
    };
    Ok(((1..=QUERIES.len() as u64).map(query).collect(), vec![path.join(index)]))
}

/// One process that waits for no write, few buffers of its own, and index scans only.
fn single_words(data: &str) -> [&str; 17] {
    [
        "/usr/lib/postgresql/15/bin/postgres",
        "--single",
        "-F",
        "-D",
        data,
        "-c",
        "shared_buffers=256kB",
        "-c",
        "enable_seqscan=off",
        "-c",
        "enable_bitmapscan=off",
        "-c",
        "max_connections=1",
        "-c",
        "autovacuum=off",
        "-j",
        "postgres",
    ]
}

fn single(command: &mut Command, sql: &str) -> Outcome<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // With -j a statement ends at a semicolon and an empty line.
    child.stdin.take().ok_or("no pipe")?.write_all(sql.replace(";\n", ";\n\n").as_bytes())?;
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

/// Runs the queries under strace and writes down what they read of the mount.
fn trace(folder: &Path, origin: &Path, point: &Path, name: &str, queries: &[String]) -> Outcome<()> {
    let mounted = Mount::new(MountOptions::new(origin, point))?.spawn()?;
    let trace = folder.join("trace");
    let mut reads = Vec::new();
    for query in queries {
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-y", "-s", "0", "-e", "trace=open,openat,read,pread64,lseek,close", "-o"])
            .arg(&trace);
        strace.args(["sh", "-c", query]).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        reads.extend(blocks_read(&fs::read_to_string(&trace)?, point));
    }
    mounted.unmount()?;
    if let Ok(only) = fs::read_to_string(folder.join(format!("{name}.only"))) {
        reads.retain(|(path, _): &(PathBuf, u64)| only.lines().any(|end| path.ends_with(end)));
        reads.dedup();
    }
    if reads.is_empty() {
        return Err(format!("{name} read nothing").into());
    }
    let mut list = String::new();
    for (path, first, last) in ranges(&reads) {
        let block = BLOCK_BYTES as u64;
        list += &format!("{} {} {}\n", first * block, (last + 1) * block, path.display());
    }
    fs::write(folder.join(format!("{name}.list")), list)?;
    let script: Vec<String> = queries.iter().map(|query| format!("({query}) > /dev/null")).collect();
    fs::write(folder.join(format!("{name}.script")), script.join("; "))?;
    Ok(())
}

/// The blocks that a trace of system calls read below `point`, in order.
fn blocks_read(trace: &str, point: &Path) -> Vec<(PathBuf, u64)> {
    let block = BLOCK_BYTES as u64;
    let mut places: HashMap<(&str, &str), u64> = HashMap::new();
    let mut found = Vec::new();
    for line in trace.lines() {
        let Some((process, call)) = line.trim_start().split_once(' ') else { continue };
        let Some((name, rest)) = call.trim_start().split_once('(') else { continue };
        let Some(result) = call.rsplit_once("= ").and_then(|(_, text)| text.split(['<', ' ']).next()) else {
            continue;
        };
        let Ok(result) = result.parse::<u64>() else { continue };
        if matches!(name, "open" | "openat") {
            let number = call.rsplit_once("= ").and_then(|(_, text)| text.split('<').next()).unwrap_or("");
            places.insert((process, number), 0);
            continue;
        }
        let Some((number, rest)) = rest.split_once('<') else { continue };
        let Some((path, _)) = rest.split_once('>') else { continue };
        let place = places.entry((process, number)).or_default();
        let start = match name {
            "lseek" => {
                *place = result;
                continue;
            }
            "read" => {
                *place += result;
                *place - result
            }
            "pread64" => {
                let offset = call
                    .rsplit_once(')')
                    .and_then(|(words, _)| words.rsplit_once(", "))
                    .and_then(|(_, at)| at.parse().ok());
                let Some(offset) = offset else { continue };
                offset
            }
            _ => continue,
        };
        let path = PathBuf::from(path);
        if result > 0 && path.starts_with(point) {
            found.extend((start / block..=(start + result - 1) / block).map(|index| (path.clone(), index)));
        }
    }
    // The same block in several calls is one step.
    found.dedup();
    found
}

/// Neighbours put together.
fn ranges(blocks: &[(PathBuf, u64)]) -> Vec<(PathBuf, u64, u64)> {
    let mut ranges: Vec<(PathBuf, u64, u64)> = Vec::new();
    for (path, index) in blocks {
        match ranges.last_mut() {
            Some((last, _, end)) if last == path && *end + 1 == *index => *end = *index,
            _ => ranges.push((path.clone(), *index, *index)),
        }
    }
    ranges
}

fn parse_list(text: &str) -> Vec<(PathBuf, Vec<(i64, i64)>)> {
    let mut list: Vec<(PathBuf, Vec<(i64, i64)>)> = Vec::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let mut number = || words.next().and_then(|word| word.parse().ok());
        let (Some(start), Some(end)) = (number(), number()) else { continue };
        let path = PathBuf::from(words.next().unwrap_or_default());
        match list.last_mut().filter(|(last, _)| *last == path) {
            Some((_, ranges)) => ranges.push((start, end)),
            None => list.push((path, vec![(start, end)])),
        }
    }
    list
}

fn must(command: &mut Command) -> Outcome<()> {
    let output = command.output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}
