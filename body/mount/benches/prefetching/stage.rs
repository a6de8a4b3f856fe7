//! Where programs work: sources, databases, and what each program is going to read.
//!
//! The reads of a program are found out by tracing its system calls once: a wrong list is worth
//! nothing, and reads are seldom as expected. cscope reads head and tail of its database and then
//! the sources in the order of their names, whatever the order in its list of files.
//!
//! PostgreSQL is a server that runs when a query comes: one process; its first query, on other
//! tuples, is over before anything is measured or listed. So its reads of the catalogue are in no
//! time that counts, as in the paper, and the list has what the paper's program knew: the pages of
//! the index and the blocks of the table, in the order of the index.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use pantler_control::PolicyName;
use pantler_mount::{Mount, MountOptions};

use crate::Outcome;

/// Bytes in a block of the mounts.
pub const BLOCK_BYTES: usize = 8 << 10;

const SOURCES: usize = 300;
const QUERIES: [&str; 3] = ["mutex_lock", "kmem_cache", "hrtimer"];
/// Rows of the table of PostgreSQL.
const TUPLES: u32 = 60_000;
/// Its queries as shares of all rows, in percent: from where on, and how many. The paper selects 1
/// and 2 percent.
const SELECTIONS: [(u64, u64); 2] = [(30, 1), (60, 2)];
/// Present when the stage is complete. Another name for another stage.
const READY: &str = "ready-2";
/// A program opens it when it begins with what is measured: so its trace tells where that begins.
const BEGIN: &str = "begin";
/// The word of programs in a shell when they are ready, and when they are done.
const WORD: &str = "pantler-bench";
/// PostgreSQL's prompt when it is ready for a query.
const PROMPT: &str = "backend> ";

/// A program: its queries as a shell script, and what it will read, in order.
pub struct Program {
    pub name: String,
    /// Waits for a line before it does anything, and for another once it is ready.
    pub script: String,
    /// Its word when it is ready and when it is done, and which number of these means what.
    pub word: &'static str,
    pub ready_after: usize,
    pub done_after: usize,
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
        fs::write(folder.join(BEGIN), "")?;
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
            let (script, index) = make(folder)?;
            fs::write(folder.join(format!("{name}.script")), &script)?;
            trace(folder, &Program::new(folder, name)?)?;
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
            if !file("script").exists() {
                continue;
            }
            let list = parse_list(&fs::read_to_string(file("list"))?);
            let index = fs::read_to_string(file("index"))?.lines().map(PathBuf::from).collect();
            programs.push(Program { list, index, ..Program::new(folder, name)? });
        }
        Ok(Self { folder: folder.to_owned(), programs })
    }
}

impl Program {
    /// Without a list.
    fn new(folder: &Path, name: &str) -> Outcome<Self> {
        let script = fs::read_to_string(folder.join(format!("{name}.script")))?;
        // All but PostgreSQL read in cycles.
        let (policy, word, ready_after, done_after) = match name {
            // It prompts before each query, and before it finds that there is none.
            "postgres" => (PolicyName::Lru, PROMPT, 2, 2 + SELECTIONS.len()),
            _ => (PolicyName::Mru, WORD, 1, 2),
        };
        let (list, index) = (Vec::new(), Vec::new());
        Ok(Self { name: name.to_owned(), script, word, ready_after, done_after, list, index, policy })
    }

    /// Starts its shell.
    pub fn spawn(&self, command: &mut Command) -> Outcome<Running> {
        command.args(["sh", "-c", &self.script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = child.stdout.take().ok_or("no pipe")?;
        let Self { word, ready_after, done_after, .. } = *self;
        Ok(Running { child, output, word, heard: 0, ready_after, done_after, tail: Vec::new() })
    }
}

/// A program that runs. One that is given up is killed.
pub struct Running {
    child: Child,
    output: ChildStdout,
    word: &'static str,
    heard: usize,
    ready_after: usize,
    done_after: usize,
    /// What may be the beginning of the word.
    tail: Vec<u8>,
}

impl Running {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Has it start, and waits until it is ready.
    pub fn start(&mut self) -> Outcome<()> {
        self.child.stdin.as_mut().ok_or("it has begun already")?.write_all(b"start\n")?;
        self.hear(self.ready_after)
    }

    /// Has it begin with its queries.
    pub fn go(&mut self) -> Outcome<()> {
        let mut input = self.child.stdin.take().ok_or("it has begun already")?;
        Ok(input.write_all(b"go\n")?)
    }

    /// Waits until its queries are answered.
    pub fn await_done(&mut self) -> Outcome<()> {
        self.hear(self.done_after)
    }

    /// Waits until it has ended.
    pub fn end(mut self) -> Outcome<()> {
        std::io::copy(&mut self.output, &mut std::io::sink())?;
        // cscope and glimpse say by their status whether anything was found.
        self.child.wait()?.code().map(drop).ok_or_else(|| "a program was killed".into())
    }

    fn hear(&mut self, times: usize) -> Outcome<()> {
        let mut piece = [0; 4096];
        while self.heard < times {
            let count = self.output.read(&mut piece)?;
            if count == 0 {
                return Err(format!("a program ended before it said {:?} {times} times", self.word).into());
            }
            self.tail.extend_from_slice(&piece[..count]);
            while let Some(at) =
                self.tail.windows(self.word.len()).position(|part| part == self.word.as_bytes())
            {
                self.tail.drain(..at + self.word.len());
                self.heard += 1;
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is needed is made in the origin of a stage; the script and the index files are the mount's.
type Maker = fn(&Path) -> Outcome<(String, Vec<PathBuf>)>;

/// Shell commands, one after the other, as a program that says when it is ready and when it is
/// done.
fn script(folder: &Path, queries: &[String]) -> String {
    let queries: Vec<String> = queries.iter().map(|query| format!("({query}) > /dev/null; ")).collect();
    let begin = folder.join(BEGIN);
    format!("read start; echo {WORD}; read go; : < {}; {}echo {WORD}", begin.display(), queries.concat())
}

fn exists(binary: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {binary}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Sources from all over the tree, written in an order that is not that of their names: so lie
/// files that were written as they were needed.
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

fn make_cscope(folder: &Path) -> Outcome<(String, Vec<PathBuf>)> {
    let (origin, point) = (folder.join("origin"), folder.join("mnt"));
    must(Command::new("cscope").args(["-b", "-c", "-k"]).current_dir(origin.join("src")))?;
    let query = |word| format!("cd {} && cscope -d -L -4 {word}", point.join("src").display());
    Ok((script(folder, &QUERIES.map(query)), Vec::new()))
}

fn make_glimpse(folder: &Path) -> Outcome<(String, Vec<PathBuf>)> {
    let (origin, point) = (&folder.join("origin"), &folder.join("mnt"));
    fs::create_dir(origin.join("index"))?;
    let mounted = Mount::new(MountOptions::new(origin, point))?.spawn()?;
    // The index names files as the mount does.
    must(Command::new("glimpseindex").arg("-o").arg("-H").arg(point.join("index")).arg(point.join("src")))?;
    mounted.unmount()?;
    let query = |word| format!("glimpse -y -H {} {word}", point.join("index").display());
    let names =
        fs::read_dir(origin.join("index"))?.map(|entry| Ok(point.join("index").join(entry?.file_name())));
    Ok((script(folder, &QUERIES.map(query)), names.collect::<Outcome<_>>()?))
}

/// A table in random order and an index on its key, as in the paper.
fn make_postgres(folder: &Path) -> Outcome<(String, Vec<PathBuf>)> {
    let (origin, point) = (&folder.join("origin"), &folder.join("mnt"));
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
    // The files that the program knows once it has searched the index.
    fs::write(folder.join("postgres.only"), format!("{index}\n{table}\n"))?;
    let path = point.join("pg");
    let query = |(from, count): (u64, u64)| {
        let key = |percent: u64| (1u64 << 32) / 100 * percent;
        format!("SELECT count(pad) FROM t WHERE key BETWEEN {} AND {};\\n\\n", key(from), key(from + count))
    };
    let queries: String = SELECTIONS.map(query).concat();
    let script = format!(
        "read start; (printf 'SELECT count(pad) FROM t WHERE key BETWEEN 0 AND 100000;\\n\\n'; read go; : < {}; printf '{queries}') | \
         setpriv --reuid=postgres --regid=postgres --clear-groups {}",
        folder.join(BEGIN).display(),
        single_words(&path.to_string_lossy()).join(" ")
    );
    Ok((script, vec![path.join(index)]))
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

/// Runs a program under strace and writes down what it reads of the mount.
fn trace(folder: &Path, program: &Program) -> Outcome<()> {
    let (name, point) = (&program.name, &folder.join("mnt"));
    let mounted = Mount::new(MountOptions::new(folder.join("origin"), point))?.spawn()?;
    let trace = folder.join("trace");
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-y", "-s", "0", "-e", "trace=open,openat,read,pread64,lseek,close", "-o"])
        .arg(&trace);
    let mut running = program.spawn(&mut strace)?;
    running.start()?;
    running.go()?;
    running.await_done()?;
    running.end()?;
    mounted.unmount()?;
    let text = fs::read_to_string(&trace)?;
    let begin = folder.join(BEGIN).display().to_string();
    let begins =
        text.find(&begin).ok_or_else(|| format!("the trace of {name} does not tell where it begins"))?;
    let mut reads = blocks_read(&text[begins..], point);
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
