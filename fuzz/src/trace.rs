//! Every reader of traces, fed with arbitrary bytes.
//!
//! The same functions run under `cargo fuzz` (`make fuzz`), which follows coverage, and in an
//! ordinary test, which draws the same inputs each time. They assert what must hold whatever the
//! bytes are: no panic, bounded batches, short messages, and prepared traces that obey their rules.

use std::io::Cursor;

use pantler_trace::generate::{Generator, Specification};
use pantler_trace::{Columns, Format, Options, ReadOptions, Reader, Unit, prepare_reader};

/// Most references that a target prepares.
const REFERENCES_MAX: u64 = 5_000;
/// Most batches that a target reads.
const BATCHES_MAX: usize = 50;
/// Requests in a batch: those wanted at least, and those of one line more.
const BATCH_MAX: usize = 512 + (1 << 20);
/// Characters in a message, whatever the value was.
const MESSAGE_CHARS_MAX: usize = 1_200;

/// A target by its name, as in `fuzz/fuzz_targets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The reader of one format.
    Reader(Format),
    /// Any file: guessed, perhaps compressed.
    Guess,
    /// A CSV that names its columns in the first line.
    Columns,
    /// A generator's specification.
    Specification,
}

impl Target {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Target> {
        let others = [Target::Guess, Target::Columns, Target::Specification];
        Format::all().map(Target::Reader).chain(others)
    }

    /// The name of its file, which is what `cargo fuzz run` takes.
    pub fn name(self) -> String {
        match self {
            Target::Reader(format) => format.as_str().replace('-', "_"),
            Target::Guess => "guess".to_owned(),
            Target::Columns => "columns".to_owned(),
            Target::Specification => "specification".to_owned(),
        }
    }

    /// Takes arbitrary bytes.
    pub fn run(self, bytes: &[u8]) {
        match self {
            Target::Reader(format) => {
                read(bytes, &ReadOptions { format: Some(format), ..ReadOptions::default() })
            }
            Target::Guess => read(bytes, &ReadOptions::default()),
            Target::Columns => columns(bytes),
            Target::Specification => specification(bytes),
        }
    }
}

/// Reads and prepares.
fn read(bytes: &[u8], options: &ReadOptions) {
    let open = || Reader::from_read("fuzz", Cursor::new(bytes.to_vec()), options);
    let mut reader = match open() {
        Ok(reader) => reader,
        Err(error) => return message(&error.to_string()),
    };
    let mut batch = Vec::new();
    for _ in 0..BATCHES_MAX {
        match reader.fill(&mut batch) {
            Ok(more) => assert!(batch.len() <= BATCH_MAX && more != batch.is_empty()),
            Err(error) => {
                message(&error.to_string());
                break;
            }
        }
    }
    for unit in [None, Some(Unit::Block(4096))] {
        let options = Options { unit, references_max: Some(REFERENCES_MAX), ..Options::default() };
        match prepare_reader(open().expect("it opened before"), &options) {
            Ok((trace, _)) => trace.validate(),
            Err(error) => message(&error.to_string()),
        }
    }
}

fn message(text: &str) {
    assert!(text.chars().count() <= MESSAGE_CHARS_MAX, "a message of {} bytes", text.len());
    assert!(!text.contains('\n'), "a message of several lines: {text}");
}

fn columns(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    match text.parse::<Columns>() {
        Ok(columns) => {
            read(&bytes[end..], &ReadOptions { columns: Some(columns), ..ReadOptions::default() });
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn specification(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match text.parse::<Specification>() {
        Ok(specification) => {
            // A stack of millions takes longer to set up than to try.
            if !text.contains("stack-distance")
                || matches!(specification.generator(), Generator::StackDistance { ids, .. } if *ids < 10_000)
            {
                let trace = specification.prepare_up_to(1_000).expect("a thousand are not too many");
                trace.validate();
                assert_eq!(trace.requests().len() as u64, specification.requests().min(1_000));
            }
        }
        Err(error) => message(&error.to_string()),
    }
}
