//! `pantler hint`: one hint to one body.

use anyhow::Result;
use clap::{Args, Subcommand};
use pantler_control::client::{open_to_name, unexpected};
use pantler_control::wire::{Answer, Request};
use pantler_control::{self as control, ControlError, HintAnswer};
use pantler_control::{OwnerSelector, PolicyName};
use serde::Serialize;
use std::path::PathBuf;

use crate::named::named;
use crate::values;
use crate::{bodies, output};

/// Say which blocks matter.
///
/// A hint is about the owner named by --owner. Without it, it becomes the default of your present
/// and future owners on that mount or run, until cleared. On a mount your new processes are one
/// owner until then.
#[derive(Debug, Args)]
pub struct Hint {
    /// Mount point or run the hint is for; needed where the file does not tell and several could be
    /// meant
    #[arg(long, global = true, value_name = "MOUNT|RUN")]
    on: Option<String>,
    /// Owner the hint is about, by name or by one of its processes
    #[arg(long, global = true, value_name = "NAME|PID")]
    pub owner: Option<OwnerSelector>,
    /// Answer as one JSON object
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    pub what: HintWords,
}

#[derive(Debug, Clone, Subcommand)]
pub enum HintWords {
    /// Set the priority of a file; lower goes first, 0 is the default
    SetPriority {
        file: PathBuf,
        #[arg(allow_negative_numbers = true, value_parser = values::priority)]
        priority: i32,
    },
    /// Show the priority of a file
    GetPriority { file: PathBuf },
    /// Set the replacement policy of a priority
    SetPolicy {
        #[arg(allow_negative_numbers = true, value_parser = values::priority)]
        priority: i32,
        /// Such as lru, mru or arc; by name, without parameters
        #[arg(value_parser = named(values::policies, values::policy), hide_possible_values = true)]
        policy: PolicyName,
    },
    /// Show the replacement policy of a priority
    GetPolicy {
        #[arg(allow_negative_numbers = true, value_parser = values::priority)]
        priority: i32,
    },
    /// Give the cached blocks FIRST to LAST of a file a priority until their next use
    SetTemporaryPriority {
        file: PathBuf,
        #[arg(value_parser = |text: &str| values::whole(text, 0..=u64::MAX))]
        first: u64,
        #[arg(value_parser = |text: &str| values::whole(text, 0..=u64::MAX))]
        last: u64,
        #[arg(allow_negative_numbers = true, value_parser = values::priority)]
        priority: i32,
    },
    /// You are done with a file, or its blocks FIRST to LAST: those that are cached leave first,
    /// each unless it is used again
    DoneWith {
        file: PathBuf,
        #[arg(requires = "last", value_parser = |text: &str| values::whole(text, 0..=u64::MAX))]
        first: Option<u64>,
        #[arg(value_parser = |text: &str| values::whole(text, 0..=u64::MAX))]
        last: Option<u64>,
    },
    /// Take back all hints
    Clear,
    /// Give an owner that lost control its control back; for root and the user that started the
    /// mount or run
    Grant {
        /// Its name, or one of its processes
        #[arg(value_name = "NAME|PID")]
        revoked: OwnerSelector,
    },
}

/// What a question comes back with.
#[derive(Serialize)]
struct HintRecord<'a> {
    on: &'a str,
    #[serde(flatten)]
    answer: &'a HintAnswer,
}

impl HintRecord<'_> {
    fn tell(&self, json: bool) -> Result<()> {
        match self.answer {
            _ if json => output::json("hint", self),
            HintAnswer::Priority(priority) => output::text(&format!("{priority}\n")),
            HintAnswer::Policy(policy) => output::text(&format!("{policy}\n")),
            HintAnswer::Marked(count) => output::text(&format!("{count} blocks marked\n")),
            _ => Ok(()),
        }
    }
}

/// Gives a hint. Questions are answered on standard output; other hints say nothing.
pub fn hint(arguments: &Hint) -> Result<()> {
    let owner = match (&arguments.what, &arguments.owner) {
        (HintWords::Grant { .. }, Some(owner)) => {
            let text = format!("--owner, {owner}: grant names its owner itself");
            return Err(ControlError::invalid(text).into());
        }
        (HintWords::Grant { revoked }, None) => revoked.clone(),
        (_, owner) => owner.clone().unwrap_or_default(),
    };
    let hint = words(&arguments.what)?;
    hint.check()?;
    let file = hint.path().map(|path| open_to_name(path)).transpose()?;
    let mut body = bodies::on(arguments.on.as_deref(), hint.path().map(|path| path.as_path()))?;
    let on = body.info.name.clone();
    match body.ask(&Request::Hint { on: on.clone(), owner, hint, number: None }, file.as_ref())? {
        Answer::Hint(HintAnswer::Done) => Ok(()),
        Answer::Hint(answer @ HintAnswer::Marked(0)) => {
            let why = match arguments.owner {
                Some(_) => "it holds none of them now",
                None => {
                    "no owner of yours holds any of them now. On a mount the blocks of a program that ended belong \
                     to no owner: set a policy or priority before it runs, give the hint meanwhile, or name an \
                     owner (--owner; as root anybody's)"
                }
            };
            tell!("no block was marked: {why}");
            HintRecord { on: &on, answer: &answer }.tell(arguments.json)
        }
        Answer::Hint(answer) => HintRecord { on: &on, answer: &answer }.tell(arguments.json),
        other => Err(unexpected(&other).into()),
    }
}

fn words(words: &HintWords) -> Result<control::Hint, ControlError> {
    Ok(match words.clone() {
        HintWords::SetPriority { file, priority } => control::Hint::SetPriority { path: file, priority },
        HintWords::GetPriority { file } => control::Hint::GetPriority { path: file },
        HintWords::SetPolicy { priority, policy } => control::Hint::SetPolicy { priority, policy },
        HintWords::GetPolicy { priority } => control::Hint::GetPolicy { priority },
        HintWords::SetTemporaryPriority { file, first, last, priority } => {
            control::Hint::SetTemporaryPriority { path: file, first, last, priority }
        }
        HintWords::DoneWith { file, first, last } => {
            let (first, last) = (first.unwrap_or(0), last.unwrap_or(u64::MAX));
            if last < first {
                let text = format!("blocks {first} to {last}: the last block must not come before the first");
                return Err(ControlError::invalid(text));
            }
            control::Hint::DoneWith { path: file, first, end: last.saturating_add(1) }
        }
        HintWords::Clear => control::Hint::Clear,
        HintWords::Grant { .. } => control::Hint::Grant,
    })
}
