//! What fetching ahead is worth on real mounts. Parts, by name (all without): `scan` `programs`.
//!
//! `scan`: a cold file read from start to end, with and without lookahead, beside the file system
//! below. `programs`: cscope text searches, glimpse over C sources and index selections of
//! PostgreSQL, alone and in pairs, under the six configurations of the ACFS paper, over a
//! throttled and the real disk. Every query is a process; those of a program are one
//! owner.
//! Needs `PANTLER_BENCH_TREE`, a folder with C sources, of which 300 from all over it are used, and
//! the Debian packages cscope, glimpse, postgresql and strace; a program that is not there is left
//! out, and said so.
//! Each row is measured by a process of its own and kept in the stage, a folder below
//! `PANTLER_BENCH_DIR`: an interrupted run goes on where it was. Remove that folder to begin anew.
//!
//! Environment: `PANTLER_BENCH_DIR` (a directory on a real disk; default: the target directory),
//! `PANTLER_BENCH_ROUNDS` (default 3; `scan` prints the medians of the ratios of each, with the
//! lowest and the highest), `PANTLER_BENCH_ROWS` (rows with all these words, for example
//! `raw cscope`, `throttled` or `raw pairs`; `alone` are those that are no pairs),
//! `PANTLER_BENCH_VERBOSE` (what was counted in each row).

#[path = "../../../../benches/environment.rs"]
mod environment;
mod programs;
mod scan;
mod stage;

use std::path::PathBuf;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let done = || -> Outcome<()> {
        if let [row, rest @ ..] = &words[..]
            && row == programs::ROW
        {
            return programs::measure_row(rest);
        }
        println!("{}", environment::line(Some(&base())));
        if wanted("scan") {
            scan::scan()?;
        }
        if wanted("programs") {
            programs::programs()?;
        }
        Ok(())
    };
    if let Err(error) = done() {
        eprintln!("prefetching: {error}");
        std::process::exit(1);
    }
}

fn base() -> PathBuf {
    std::env::var_os("PANTLER_BENCH_DIR").map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

fn folder() -> Outcome<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(base())?)
}

fn rounds() -> usize {
    std::env::var("PANTLER_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}
