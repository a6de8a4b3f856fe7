//! PostgreSQL: pgbench, read only, with a sequential report beside it.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use crate::shell;

/// What the row runs.
pub const SCRIPT: &str = include_str!("postgres.sh");
/// PostgreSQL refuses to run as root.
const AS_POSTGRES: [&str; 4] = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"];
/// Of pgbench: 100,000 accounts each, 15 MB with their index.
const SCALE: u32 = 5;
/// Rows of the table that is reported on, of 1,000 bytes each.
const REPORT_ROWS: u32 = 130_000;

/// A script as user postgres.
pub fn as_postgres(script: &str) -> String {
    format!("{} sh -c '{}'", AS_POSTGRES.join(" "), script.replace('\'', r"'\''"))
}

/// Makes a cluster `data` in a new folder, and says there which files are hot; its socket is in
/// another folder.
pub fn write(folder: &Path, sockets: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    give(folder)?;
    let (folder, sockets) = (folder.display(), sockets.display());
    let make = format!(
        r#"set -e
cd {folder}
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
$bin/initdb -D data -A trust --no-sync -E UTF8 --locale C > {sockets}/log 2>&1
$bin/pg_ctl start -s -w -D data -l {sockets}/log -o "-k {sockets} -h '' -c fsync=off -c autovacuum=off -c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=64MB"
trap '$bin/pg_ctl stop -s -w -m fast -D data' EXIT
$bin/pgbench -h {sockets} -q -i -s {SCALE} postgres
ask="psql -qAt -h {sockets} postgres"
$ask -c "CREATE EXTENSION pg_prewarm"
$ask -c "CREATE TABLE report AS SELECT i, repeat(md5(i::text), 30) AS text FROM generate_series(1, {REPORT_ROWS}) i"
$ask -c "VACUUM FREEZE ANALYZE" -c CHECKPOINT
$ask -c "SELECT pg_relation_filepath(unnest(ARRAY['pgbench_accounts_pkey', 'pgbench_accounts']::regclass[]))" > hot
$ask -c "SELECT pg_relation_filepath('report')" > cold"#
    );
    shell::output(&[&AS_POSTGRES[..], &["sh", "-c", &make]].concat()).map(drop)
}

/// Gives a folder to user postgres.
pub fn give(folder: &Path) -> Result<()> {
    let (user, group) = identity()?;
    Ok(chown(folder, Some(user), Some(group))?)
}

/// User and group postgres.
pub fn identity() -> Result<(u32, u32)> {
    let id = |option| -> Result<u32> {
        shell::output(&["id", option, "postgres"])?.trim().parse().context("no user postgres")
    };
    Ok((id("-u")?, id("-g")?))
}

/// The files that are named in a list of [`write`](fn@write), `hot` or `cold`.
pub fn files(folder: &Path, list: &str) -> Result<Vec<PathBuf>> {
    let text = fs::read_to_string(folder.join(list)).context("the cluster is not whole")?;
    Ok(text.lines().map(|line| folder.join("data").join(line)).collect())
}
