//! PostgreSQL and its extension: the join of the paper.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::programs::Example;
use super::{build, done};
use crate::rivals::postgres::{as_postgres, give, identity};
use crate::shell;

/// Of both relations, ten times the paper's of the inner one: tuples of some 200 bytes.
const INNER_TUPLES: u32 = 600_000;
const OUTER_TUPLES: u32 = 40_000;
/// Frames of the server itself, as few as the paper's had.
const SHARED_BUFFERS: &str = "1MB";
/// Less than the index and the tuples that are joined.
const BUDGET: u64 = 32 << 20;

/// Builds the extension against the headers of the server's package.
pub fn build(folder: &Path) -> Result<()> {
    let bin = bin()?;
    let major = bin.parent().and_then(Path::file_name).context("a version")?.to_string_lossy().into_owned();
    let headers = folder.join("headers");
    if !headers.join("complete").exists() {
        let _ = fs::remove_dir_all(&headers);
        fs::create_dir_all(&headers)?;
        // Unpacked, not installed: its dependencies are compilers for what is not built here.
        let package = format!("postgresql-server-dev-{major}");
        let mut fetch = Command::new("apt-get");
        fetch.args([
            "-qq",
            "-o",
            "Acquire::Retries=5",
            "-o",
            "APT::Sandbox::User=root",
            "download",
            &package,
        ]);
        done(fetch.current_dir(&headers))?;
        done(
            Command::new("sh")
                .args(["-c", "dpkg -x *.deb . && rm *.deb && touch complete"])
                .current_dir(&headers),
        )?;
    }
    let work = folder.join("extension");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;
    for entry in fs::read_dir("examples/postgresql")? {
        let entry = entry?;
        fs::copy(entry.path(), work.join(entry.file_name()))?;
    }
    let [include, library, path, _] = build::linking(folder)?.try_into().ok().context("four words")?;
    let server = headers.join("usr/include/postgresql").join(&major).join("server");
    let internal = headers.join("usr/include/postgresql/internal");
    let flags = [
        format!("PG_CPPFLAGS={include} -I{} -I{}", server.display(), internal.display()),
        format!("PG_LDFLAGS={library} {path}"),
    ];
    done(make(&work)?.args(flags))
}

/// PGXS, without code for the compiler in the server, which needs a compiler of its own.
fn make(folder: &Path) -> Result<Command> {
    let mut make = Command::new("make");
    make.arg("--silent").arg(format!("PG_CONFIG={}", bin()?.join("pg_config").display()));
    make.arg("with_llvm=no").current_dir(folder).stdout(Stdio::null());
    Ok(make)
}

/// The extension where the server looks for it, until this goes out of scope.
pub struct Installed(PathBuf);

impl Installed {
    pub fn new(folder: &Path) -> Result<Installed> {
        let installed = Installed(folder.join("postgresql/extension"));
        done(make(&installed.0)?.arg("install"))?;
        Ok(installed)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let removed = make(&self.0).and_then(|mut make| done(make.arg("uninstall")));
        if let Err(error) = removed {
            eprintln!("xtask: the extension stays where it was installed: {error:#}");
        }
    }
}

fn bin() -> Result<PathBuf> {
    Ok(shell::output(&["sh", "-c", "ls -d /usr/lib/postgresql/*/bin | tail -n 1"])?.trim().into())
}

/// Makes the cluster with both relations.
pub fn write(folder: &Path, data: &Path) -> Result<()> {
    fs::create_dir_all(data)?;
    give(data)?;
    let sockets = folder.join("sockets");
    fs::create_dir_all(&sockets)?;
    give(&sockets)?;
    let make = format!(
        r#"set -e
cd {data}
bin={bin}
$bin/initdb -D data -A trust --no-sync -E UTF8 --locale C > {sockets}/log 2>&1
$bin/pg_ctl start -s -w -D data -l {sockets}/log -o "-k {sockets} -h '' -c fsync=off -c autovacuum=off -c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=64MB"
trap '$bin/pg_ctl stop -s -w -m fast -D data' EXIT
psql -qAt -h {sockets} postgres -c "CREATE TABLE inner_tuples AS SELECT (i::bigint * 7919 % {INNER_TUPLES})::int AS unique1, repeat(md5(i::text), 5) AS text FROM generate_series(0, {INNER_TUPLES} - 1) i" \
  -c "CREATE INDEX inner_unique1 ON inner_tuples (unique1)" \
  -c "CREATE TABLE outer_tuples AS SELECT (i::bigint * 104729 % (5 * {INNER_TUPLES}))::int AS unique1, repeat(md5(i::text), 5) AS text FROM generate_series(1, {OUTER_TUPLES}) i" \
  -c "VACUUM FREEZE ANALYZE" -c CHECKPOINT"#,
        data = data.display(),
        bin = bin()?.display(),
        sockets = sockets.display()
    );
    done(Command::new("sh").args(["-c", &as_postgres(&make)]))
}

/// The join, with the extension or without.
pub fn example(programs: PathBuf, data: PathBuf) -> Result<Example> {
    let folder = programs.parent().context("a folder below another")?;
    let sockets = folder.join("sockets");
    // The server is in the run, so that what its backends say is about the run's blocks.
    let script = format!(
        r#"set -e
bin={bin}
$bin/postgres -D data -k {sockets} -h "" -c fsync=off -c autovacuum=off -c jit=off -c shared_buffers={SHARED_BUFFERS} -c max_parallel_workers_per_gather=0 2> {sockets}/log &
server=$!
trap 'kill -INT $server; wait $server' EXIT
until $bin/pg_isready -q -h {sockets}; do kill -0 $server; sleep 0.02; done
ask() {{ psql -qAt -h {sockets} postgres -c "$1"; }}
case "$1" in */patched/*)
  ask "SET client_min_messages = error; CREATE EXTENSION IF NOT EXISTS pantler"
  for look in $(seq 100); do [ "$(ask "SELECT pantler_connections()")" = 0 ] || break; sleep 0.02; done
  [ "$(ask "SELECT pantler_connections()")" = 1 ]
  ask "SELECT pantler_set_priority('inner_unique1', 1)" > /dev/null;;
esac
ask "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off; SELECT count(*), min(i.text), max(o.text) FROM outer_tuples o JOIN inner_tuples i USING (unique1)"
"#,
        bin = bin()?.display(),
        sockets = sockets.display()
    );
    Ok(Example {
        name: "postgresql",
        script,
        data,
        programs,
        budget: BUDGET,
        user: Some(identity()?),
        emptied: None,
    })
}
