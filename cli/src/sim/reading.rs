//! What is read for a simulation.

use anyhow::Result;
use clap::Args;
use pantler_sim::{Loaded, Source, load};
use pantler_trace::{Format, Unit};

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
    columns: Option<String>,
}

impl Reading {
    /// That trace, read so.
    pub fn source(&self, trace: &str) -> Source {
        Source {
            trace: trace.to_owned(),
            format: self.format.map(|format| format.to_string()),
            unit: self.unit.map(|unit| unit.to_string()),
            columns: self.columns.clone(),
        }
    }

    pub fn load(&self, trace: &str) -> Result<Loaded> {
        Ok(load(&self.source(trace)).map_err(trace_error)?.0)
    }
}
