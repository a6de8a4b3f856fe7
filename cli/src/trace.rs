//! `pantler trace`: look at traces, convert and generate them.

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use pantler_trace::generate::{GENERATORS, Specification};
use pantler_trace::{Content, Format, Options, ReadOptions, Reader, Request, Writer, prepare};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::failure::Usage;
use crate::named::{named, names};
use crate::output;
use crate::sim::trace_error;
use crate::values;

/// Look at traces, convert and generate them.
#[derive(Debug, Args)]
pub struct Trace {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Say what a trace is and what is in it
    Info(Info),
    /// Write a trace as CSV
    Convert(Convert),
    /// Write a generated trace as CSV, such as zipf:ids=1000000,requests=20000000,alpha=0.9
    Generate(Generate),
    /// List the formats that are read, and the generators
    Formats,
}

/// How a trace is read.
#[derive(Debug, Args)]
struct Reading {
    /// The trace, perhaps compressed (gzip, zstd, xz); - is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Format of the trace; guessed without
    #[arg(long, value_name = "NAME", value_parser = named(values::formats, values::format), hide_possible_values = true)]
    format: Option<Format>,
    /// What the columns of a CSV mean, in order or as MEANING=NAME
    #[arg(long, value_name = "LIST")]
    columns: Option<pantler_trace::Columns>,
}

#[derive(Debug, Args)]
struct Info {
    #[command(flatten)]
    reading: Reading,
    /// What one reference is: object, or block:BYTES to split ranges of bytes
    #[arg(long, value_name = "UNIT")]
    unit: Option<pantler_trace::Unit>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Convert {
    #[command(flatten)]
    reading: Reading,
    /// The file to write; it is there when it is whole
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
struct Generate {
    /// The generator and its parameters; `help` lists all
    #[arg(value_name = "SPECIFICATION", value_parser = names(generators), hide_possible_values = true)]
    specification: String,
    /// The file to write; it is there when it is whole
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

fn generators() -> Vec<&'static str> {
    GENERATORS.iter().map(|known| known.0).chain(["help"]).collect()
}

/// Carries out the words.
pub fn trace(words: &Trace) -> Result<()> {
    match &words.command {
        TraceCommand::Info(words) => info(words),
        TraceCommand::Convert(words) => convert(words),
        TraceCommand::Generate(words) => generate(words),
        TraceCommand::Formats => output::text(&formats()),
    }
}

/// What `info --json` prints.
#[derive(Serialize)]
struct Told<'a> {
    trace: &'a str,
    format: String,
    compression: Option<String>,
    unit: String,
    requests: u64,
    references: usize,
    distinct: u32,
    owners: &'a [String],
    files: usize,
}

fn info(words: &Info) -> Result<()> {
    let Reading { trace, .. } = &words.reading;
    let options = Options { read: words.reading.options(), unit: words.unit, ..Options::default() };
    let (prepared, report) = prepare(trace, &options).map_err(trace_error)?;
    report.note.iter().for_each(|note| tell!("{note}"));
    let name = trace.to_string_lossy();
    let content = Told {
        trace: &name,
        format: report.format.to_string(),
        compression: report.compression,
        unit: report.unit.to_string(),
        requests: report.requests,
        references: prepared.requests().len(),
        distinct: prepared.distinct(),
        owners: prepared.owner_names(),
        files: prepared.file_names().len().max(1),
    };
    if words.json {
        return output::json("trace", &content);
    }
    let mut text = String::new();
    let compression = content.compression.as_deref().unwrap_or("none");
    let rows = [
        ("format", content.format),
        ("compression", compression.to_owned()),
        ("unit", content.unit),
        ("requests", content.requests.to_string()),
        ("references", content.references.to_string()),
        ("distinct", content.distinct.to_string()),
        ("owners", content.owners.len().max(1).to_string()),
        ("files", content.files.to_string()),
    ];
    for (name, value) in rows {
        writeln!(text, "{name:<12} {value}")?;
    }
    output::text(&text)
}

fn convert(words: &Convert) -> Result<()> {
    let mut reader = Reader::open(&words.reading.trace, &words.reading.options()).map_err(trace_error)?;
    let mut batch = Vec::new();
    // The first requests say whether the trace gives offsets.
    let mut more = reader.fill(&mut batch).map_err(trace_error)?;
    write(&words.file, Content::of(&reader), |writer| {
        while more {
            for request in &batch {
                writer.write(request, reader.owner_names(), reader.file_names())?;
            }
            more = reader.fill(&mut batch).map_err(trace_error)?;
        }
        Ok(())
    })?;
    reader.note().into_iter().for_each(|note| tell!("{note}"));
    Ok(())
}

fn generate(words: &Generate) -> Result<()> {
    if words.specification == "help" {
        return output::text(&Specification::help());
    }
    let specification: Specification = words.specification.parse().map_err(trace_error)?;
    let Some(file) = &words.file else {
        return Err(Usage("expected a file to write behind the specification".to_owned()).into());
    };
    let names = specification.owner_names();
    write(file, Content::Keys, |writer| {
        for reference in specification.references() {
            let request =
                Request { owner: reference.owner, file: reference.file, ..Request::object(reference.block) };
            writer.write(&request, &names, &names)?;
        }
        Ok(())
    })
}

impl Reading {
    fn options(&self) -> ReadOptions {
        ReadOptions { format: self.format, columns: self.columns.clone() }
    }
}

/// Writes under another name, and renames what is whole. Devices and pipes are written as they are.
fn write(path: &Path, content: Content, fill: impl FnOnce(&mut Writer<File>) -> Result<()>) -> Result<()> {
    let special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let mut name = path.as_os_str().to_owned();
    if !special {
        name.push(format!(".{}.part", std::process::id()));
    }
    let part = Path::new(&name);
    let cannot = || format!("cannot write {}", path.display());
    let mut writer = Writer::new(File::create(part).with_context(cannot)?, content);
    let result = fill(&mut writer).and_then(|()| Ok(writer.finish()?));
    if special {
        return result.with_context(cannot);
    }
    let result = result.and_then(|()| Ok(fs::rename(part, path)?));
    if result.is_err() {
        // What was begun is of no use; why it failed is what counts.
        let _ = fs::remove_file(part);
    }
    result.with_context(cannot)
}

fn formats() -> String {
    let mut text = String::from("formats:\n");
    for format in Format::all() {
        text.push_str(&format!("  {:<16} {}\n", format.as_str(), format.description()));
    }
    text + "\ngenerators, as " + &Specification::help()
}
