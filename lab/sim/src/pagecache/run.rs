//! A trace, steered and by the kernel alone.

use pantler_pagecache::{Options, asks_for_an_order};
use pantler_policy::Spec;
use pantler_steward::OptionsError;
use pantler_trace::Prepared;

use super::kernel::{Kernel, Program};
use super::machine::{FaithfulHands, Machine};
use super::record::{SteerRecord, SteerSettings};
use crate::watch::{Stopped, Watch};

/// References between two looks at whether to stop.
const BATCH: usize = 4096;
/// The smallest budget in blocks: as for runs, 1 MiB.
const BUDGET_MIN: u32 = 256;

/// Why a trace cannot be steered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SteerError {
    /// The engine cannot run a policy that knows the future.
    #[error("--body steer: policy {0} knows the future, and no run can use it")]
    Offline(Spec),
    /// Below it the reserves leave nothing to decide about.
    #[error("--body steer: size {0} is less than {BUDGET_MIN} blocks (1 MiB): choose more")]
    Budget(u32),
    /// The engine refuses the budget.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Stopped from outside.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Runs a trace with the engine over the model of the kernel, and by that kernel alone with the
/// budget as its limit. Each owner of the trace is a thread of one run.
///
/// # Errors
///
/// [`SteerError`].
pub fn steer(trace: &Prepared, settings: SteerSettings, watch: &Watch) -> Result<SteerRecord, SteerError> {
    let alone = alone(trace, settings, watch)?;
    steer_beside(trace, settings, alone, watch)
}

/// What the kernel alone reads from the device, whatever the policy. Half of the work of [`steer`].
///
/// # Errors
///
/// As [`steer`].
pub fn alone(trace: &Prepared, settings: SteerSettings, watch: &Watch) -> Result<u64, SteerError> {
    if settings.budget < BUDGET_MIN {
        return Err(SteerError::Budget(settings.budget));
    }
    let mut alone = kernel(settings.budget.into(), settings, &file_blocks(trace))?;
    each_reference(trace, watch, |thread, file, page| {
        alone.read(Program::Run(thread), file, page, page);
        alone.take_events();
    })?;
    Ok(alone.device_reads())
}

/// As [`steer`], where it is known what the kernel alone reads: the other half.
///
/// # Errors
///
/// As [`steer`].
pub fn steer_beside(
    trace: &Prepared,
    settings: SteerSettings,
    alone: u64,
    watch: &Watch,
) -> Result<SteerRecord, SteerError> {
    if settings.budget < BUDGET_MIN {
        return Err(SteerError::Budget(settings.budget));
    }
    let mut machine = machine(settings, &file_blocks(trace))?;
    each_reference(trace, watch, |thread, file, page| machine.read(thread, file, page, page))?;
    Ok(SteerRecord::new(trace.requests().len() as u64, settings, &machine, alone))
}

fn machine(settings: SteerSettings, blocks: &[u64]) -> Result<Machine<FaithfulHands>, SteerError> {
    // As with `pantler run --policy`.
    let options = Options {
        common_policy: settings.policy,
        hits_are_watched: asks_for_an_order(settings.policy),
        ..Options::new(settings.budget)
    };
    // The backstop of a run's control group.
    let limit = u64::from(settings.budget) + (u64::from(settings.budget) / 8).max(2048);
    let kernel = kernel(limit, settings, blocks)?;
    if pantler_policy::Replacement::new(settings.policy, 1).is_none() {
        return Err(SteerError::Offline(settings.policy));
    }
    Ok(Machine::new(kernel, &options, FaithfulHands, settings.seed)?)
}

fn kernel(limit: u64, settings: SteerSettings, blocks: &[u64]) -> Result<Kernel, SteerError> {
    let order = settings.kernel;
    let mut kernel = Kernel::new(limit, order).ok_or(SteerError::Offline(order))?;
    if settings.small_folios {
        kernel = kernel.without_large_folios();
    }
    for &blocks in blocks {
        kernel.add_file(blocks);
    }
    Ok(kernel)
}

/// Goes through a trace, by thread, file and page: half of the work, which is two passes.
fn each_reference(
    trace: &Prepared,
    watch: &Watch,
    mut take: impl FnMut(u32, u32, u64),
) -> Result<(), Stopped> {
    for (at, &id) in trace.requests().iter().enumerate() {
        let block = trace.block_of(id);
        let thread = trace.owners().map_or(1, |owners| u32::from(owners[at]) + 1);
        take(thread, block.file, block.index);
        if at % BATCH == BATCH - 1 {
            watch.advance(BATCH / 2)?;
        }
    }
    Ok(())
}

/// The blocks of each file: up to the last that is referenced.
fn file_blocks(trace: &Prepared) -> Vec<u64> {
    let mut blocks = vec![0; trace.file_names().len().max(1)];
    for id in 0..trace.distinct() {
        let block = trace.block_of(id);
        let blocks: &mut u64 = &mut blocks[block.file as usize];
        *blocks = (*blocks).max(block.index + 1);
    }
    blocks
}
