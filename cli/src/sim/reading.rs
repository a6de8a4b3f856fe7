//! What is read for a simulation.

use anyhow::Result;
use clap::Args;
use pantler_sim::{Loaded, load};
use pantler_trace::{Columns, Format, Options, ReadOptions, Unit};

use super::trace_error;
use crate::named::named;
use crate::values;

/// How traces are read.
#[derive(Debug, Args)]
pub struct Reading {
    /// What one reference is: object, or block:BYTES to split ranges of bytes
    #[arg(long, value_name = "UNIT")]
    unit: Option<Unit>,
    /// Format of the traces; guessed without
    #[arg(long, value_name = "NAME", value_parser = named(values::formats, values::format), hide_possible_values = true)]
    format: Option<Format>,
    /// What the columns of a CSV mean, in order or as MEANING=NAME
    #[arg(long, value_name = "LIST")]
    columns: Option<Columns>,
}

impl Reading {
    pub fn options(&self) -> Options {
        let read = ReadOptions { format: self.format, columns: self.columns.clone() };
        Options { read, unit: self.unit, ..Options::default() }
    }

    pub fn load(&self, trace: &str) -> Result<Loaded> {
        Ok(load(trace, &self.options()).map_err(trace_error)?.0)
    }
}
