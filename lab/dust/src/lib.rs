//! Dust: finds out what a cache does, from outside.
//!
//! A cache is treated with scripts of accesses. The same scripts are simulated under every
//! hypothesis, and the hypotheses are ranked by how well they explain what was seen (docs/RULES.md,
//! D; the idea and the first patterns are those of Burnett et al., *Exploiting Gray-Box Knowledge
//! of Buffer-Cache Management*, USENIX 2002).
//!
//! ```
//! use pantler_dust::{Inquiry, Options, investigate, targets::SimulatedTarget};
//!
//! let mut target = SimulatedTarget::new("fifo".parse().unwrap(), 60, 0.02, 7).unwrap();
//! let verdict = investigate(Inquiry::new(Options::default()), &mut target).unwrap().verdict();
//! assert_eq!(verdict.family, "fifo");
//! assert!((57..=63).contains(&verdict.capacity));
//! ```
//!
//! [`infer`] is pure: it performs no I/O, reads no clock, and draws only from seeds that are passed
//! in. I/O is in [`targets`].
//!
//! Why so: docs/decisions/0093-dust-says-what-is-read.md,
//! docs/decisions/0104-what-dust-answers-with.md.

#![forbid(unsafe_code)]

pub mod infer;
pub mod paper;
pub mod report;
mod stop;
pub mod targets;

pub use infer::calibrate::Reading;
pub use infer::inquiry::{Inquiry, Observed, Options};
pub use infer::script::Script;
pub use infer::verdict::{Doubt, Known, Verdict};
pub use report::Report;
use targets::Stop;
pub use targets::{Target, TargetError};

/// Asks a target until nothing is left to ask.
///
/// # Errors
///
/// Those of the target.
pub fn investigate(inquiry: Inquiry, target: &mut dyn Target) -> Result<Inquiry, TargetError> {
    investigate_watching(inquiry, target, &Stop::default(), &mut |_, _| {})
}

/// The same, telling `watch` what is about to be run, and ending early when `stop` says so: also
/// while it is thought about what was seen.
///
/// # Errors
///
/// Those of the target.
pub fn investigate_watching(
    mut inquiry: Inquiry,
    target: &mut dyn Target,
    stop: &Stop,
    watch: &mut dyn FnMut(&Inquiry, &Script),
) -> Result<Inquiry, TargetError> {
    loop {
        let next = move || {
            let script = inquiry.next_script();
            (inquiry, script)
        };
        let script;
        (inquiry, script) = stop.heeding(next)?;
        let Some(script) = script else { return Ok(inquiry) };
        watch(&inquiry, &script);
        let readings = target.run(&script)?;
        inquiry = stop.heeding(move || {
            inquiry.observe(script, readings);
            inquiry
        })?;
        if let Some(accesses) = inquiry.hitless() {
            return Err(TargetError::Unseen {
                what: format!(
                    "all {accesses} accesses were misses, also those to the block that was read just before"
                ),
            });
        }
        if let Some(blocks) = inquiry.boundless() {
            return Err(TargetError::Missing {
                what: format!("an end of the cache: nothing was missing among {blocks} blocks"),
                remedy: "make the cache smaller, or the blocks larger (--value-bytes)",
            });
        }
        if let Some((held, kept)) = inquiry.collapse() {
            return Err(TargetError::Missing {
                what: format!(
                    "a cache that replaces when it is full: {held} blocks were there, and {kept} of them soon after"
                ),
                remedy: "if it is nginx with max_size, which removes what is too much seconds later, bound it by its \
                         keys_zone: keys_zone=NAME:32k is about 200 pages",
            });
        }
    }
}
