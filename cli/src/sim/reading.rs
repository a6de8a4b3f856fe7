//! What is read for a simulation.

use anyhow::Result;
use clap::Args;
use pantler_sim::{Loaded, Source, load};
use pantler_trace::{Format, Unit};

use super::trace_error;
use super::values::named;
use crate::failure::Usage;

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
}

impl Reading {
    /// That trace, read so. Says in one line what is wrong with the words.
    pub fn source(&self, trace: &str) -> Result<Source, Usage> {
        if let Some(name) = &self.format {
            let all: Vec<&str> = Format::all().map(|format| format.as_str()).collect();
            named::<Format>("format", name, &all)?;
        }
        if let Some(unit) = &self.unit {
            unit.parse::<Unit>().map_err(Usage::new)?;
        }
        Ok(Source {
            trace: trace.to_owned(),
            format: self.format.clone(),
            unit: self.unit.clone(),
            columns: self.columns.clone(),
        })
    }

    pub fn load(&self, trace: &str) -> Result<Loaded> {
        Ok(load(&self.source(trace)?).map_err(trace_error)?.0)
    }
}
