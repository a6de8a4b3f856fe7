//! `pantler sim --body steer`: traces under a steered run, beside the kernel alone.

use anyhow::Result;
use pantler_sim::pagecache::{SteerError, SteerRecord, SteerSettings, steer, steer_table};
use pantler_sim::{Footprint, Job, Json, Loaded, What};

use super::words::Plan;
use super::{INTERRUPTED, Session, sizes};
use crate::failure::Usage;
use crate::output;

/// What the model of the page cache counts in.
pub const PAGE_BYTES: u32 = 4096;

impl Session<'_> {
    /// Runs each trace under each policy and size. What is done is shown when Ctrl-C comes.
    pub(super) fn run_steered(&self, plan: &Plan) -> Result<u8> {
        let mut records: Vec<SteerRecord> = Vec::new();
        for name in &self.words.traces {
            let Some(loaded) = self.load(name)? else { break };
            check_pages("--body steer", &loaded)?;
            let blocks = Footprint { block_bytes: Some(PAGE_BYTES.into()), ..loaded.footprint() };
            let sizes = sizes(plan, name, blocks)?;
            let jobs = plan.jobs(&sizes);
            let progress = self.progress(loaded.references(&jobs), jobs.len());
            for job in &jobs {
                let Job { what: What::Policy(policy), size, .. } = *job else { continue };
                let super::Sim { kernel, small_folios, seed, .. } = *self.words;
                let settings = SteerSettings { policy, kernel, small_folios, budget: size, seed };
                let record = match steer(loaded.trace(), settings, &self.watch) {
                    Err(SteerError::Stopped(_)) => break,
                    record => SteerRecord { trace: name.clone(), ..record.map_err(Usage::new)? },
                };
                progress.ran();
                if self.words.json {
                    progress.hidden(|| output::line(&(record.to_json() + "\n")))?;
                }
                records.push(record);
            }
        }
        if !self.words.json {
            output::text(&steer_table(&records))?;
        }
        Ok(if self.interrupt.happened() { INTERRUPTED } else { 0 })
    }
}

/// Refuses a trace of references that are known to be no pages. Keys without a size are pages.
pub fn check_pages(what: &str, loaded: &Loaded) -> Result<(), Usage> {
    let (name, trace) = (loaded.name(), loaded.trace());
    let is_sized = trace.sizes().is_some() || trace.equal_bytes().is_some();
    if is_sized && trace.equal_bytes() != Some(PAGE_BYTES) {
        return Err(Usage(format!(
            "{name}: {what} needs references to pages of {PAGE_BYTES} bytes: add --unit block:{PAGE_BYTES}"
        )));
    }
    Ok(())
}
