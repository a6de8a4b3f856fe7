//! What is measured: generated traces, and block traces where they can be had, all as records of 24
//! bytes.

use anyhow::{Context, Result};
use pantler_trace::generate::Specification;
use pantler_trace::testing::locate;
use pantler_trace::{NEVER, Options, prepare};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use super::{Choice, FOLDER};
use crate::shell::say;

/// One trace, and what is run over it.
pub struct Trace {
    pub name: String,
    from: From,
    pub sizes: &'static [&'static str],
    /// Pairs of each row: five where the bars are, fewer elsewhere.
    pub pairs: usize,
}

enum From {
    /// Words of a generator.
    Generator(String),
    /// A file among the traces of others.
    File(&'static str),
}

/// Multiplied with a number, gives a sparse key: both programs have to look keys up.
const SPARSE: u64 = 0x9e37_79b9_7f4a_7c15;

/// All traces of a choice. The large one is every policy at one size: our runs take seconds and the
/// peer's up to half a minute. After 4 million of its requests every cache is full.
pub fn all(choice: &Choice) -> Vec<Trace> {
    let requests = choice.requests;
    let generated = |name: &str, words: String, sizes, pairs| Trace {
        name: name.to_owned(),
        from: From::Generator(words),
        sizes,
        pairs,
    };
    let zipf = |alpha| format!("zipf:alpha={alpha},ids=1000000,requests={requests},order=shuffled,seed=1");
    let file = |name: &str, path| Trace {
        name: name.to_owned(),
        from: From::File(path),
        sizes: &["1%", "10%"],
        pairs: 3,
    };
    let mut traces = vec![
        generated("zipf 1.0", zipf("1"), &["1%", "10%"], 5),
        generated("zipf 0.8", zipf("0.8"), &["10%"], 1),
        generated("scan", format!("scan:ids={}", requests / 2), &["10%"], 1),
        file("P3", "arc/P3.lis.zst"),
        file("cloudPhysicsIO", "block/cloudPhysicsIO.vscsi.xz"),
    ];
    if choice.large {
        let words = "uniform:ids=100000000,requests=24000000,seed=1".to_owned();
        traces.push(generated("10^8 ids", words, &["776864"], 3));
    }
    traces
}

impl Trace {
    /// The file that both programs read; `None` where the trace cannot be had.
    pub fn prepare(&self) -> Result<Option<PathBuf>> {
        let requests = match &self.from {
            From::Generator(words) => {
                words.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte))
            }
            From::File(_) => 0,
        };
        let path = PathBuf::from(format!(
            "{FOLDER}/{}-{requests:x}.oracleGeneral",
            self.name.replace(['.', ' ', '^'], "")
        ));
        if path.exists() {
            return Ok(Some(path));
        }
        say(format_args!("generating {}", self.name));
        let prepared = match &self.from {
            From::Generator(words) => words.parse::<Specification>()?.prepare()?,
            From::File(name) => {
                let Some(found) = locate(name) else { return Ok(None) };
                prepare(&found, &Options::default())?.0
            }
        };
        let partial = path.with_extension("partial");
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&partial).context("a trace")?);
        for (time, (&id, &next)) in (0_u32..).zip(prepared.requests().iter().zip(prepared.next_uses())) {
            let key = prepared.block_of(id).index.wrapping_add(1).wrapping_mul(SPARSE);
            let next = if next == NEVER { -1 } else { i64::from(next) };
            write(&mut out, time, key, next)?;
        }
        out.flush()?;
        std::fs::rename(partial, &path)?;
        Ok(Some(path))
    }
}

/// One record: time, key, size, position of the next request for the key (the peer's MIN needs it)
/// or -1.
fn write(out: &mut impl Write, time: u32, key: u64, next: i64) -> std::io::Result<()> {
    let mut record = [0; 24];
    record[..4].copy_from_slice(&time.to_le_bytes());
    record[4..12].copy_from_slice(&key.to_le_bytes());
    record[12..16].copy_from_slice(&1_u32.to_le_bytes());
    record[16..].copy_from_slice(&next.to_le_bytes());
    out.write_all(&record)
}
