//! What is read for a simulation.

use anyhow::Result;
use clap::Args;
use pantler_sim::{Loaded, Source, load};

use super::trace_error;
/// How traces are read.
#[derive(Debug, Args)]
pub struct Reading {
    /// What one reference is: object, or block:BYTES to split ranges of bytes
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// Format of the traces; guessed without
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// What the columns of a CSV mean, in order or as MEANING=NAME
    #[arg(long, value_name = "LIST")]
    columns: Option<String>,
    /// Leave out lines that make no sense, and count them
    #[arg(long)]
    skip_bad_lines: bool,
}

impl Reading {
    pub fn load(&self, trace: &str) -> Result<Loaded> {
        let source = Source {
            trace: trace.to_owned(),
            format: self.format.clone(),
            unit: self.unit.clone(),
            columns: self.columns.clone(),
            skip_bad_lines: self.skip_bad_lines,
        };
        let (loaded, report) = load(&source).map_err(trace_error)?;
        if let Some(report) = report
            && let Some(first) = &report.first_bad
        {
            eprintln!("pantler: {} bad lines or records skipped, the first: {first}", report.skipped);
        }
        Ok(loaded)
    }
}
