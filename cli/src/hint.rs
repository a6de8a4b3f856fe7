//! `pantler hint`: one hint to one body.

use anyhow::Result;
use pantler_control::client::unexpected;
use pantler_control::wire::{Answer, Request};
use pantler_control::{ControlError, Hint, HintAnswer};
use serde::Serialize;

use crate::args::{self, HintWords};
use crate::{ask, output};

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
            _ => output::json("hint", self),
        }
    }
}

/// Gives a hint. Questions are answered on standard output; other hints say nothing.
pub fn hint(arguments: &args::Hint) -> Result<()> {
    let owner = match (&arguments.what, &arguments.owner) {
        (HintWords::Grant { .. }, Some(owner)) => {
            let text = format!("--owner, {owner}: grant names its owner itself");
            return Err(ControlError::invalid(text).into());
        }
        (HintWords::Grant { who }, None) => who.clone(),
        (_, owner) => owner.clone().unwrap_or_default(),
    };
    let hint = words(&arguments.what);
    hint.check()?;
    let file = hint.path().map(|path| ask::file(path)).transpose()?;
    let mut body = match &arguments.on {
        Some(on) => ask::named(on)?,
        None => ask::meant(hint.path().map(|path| path.as_path()))?,
    };
    let on = body.info.name.clone();
    match body.ask(&Request::Hint { on: on.clone(), owner, hint }, file.as_ref())? {
        Answer::Hint(HintAnswer::Done) => Ok(()),
        Answer::Hint(answer @ HintAnswer::Marked(0)) => {
            let why = match arguments.owner {
                Some(_) => "it holds none of them now",
                None => {
                    "no owner of yours holds any of them now. On a mount the blocks of a program that ended belong \
                     to no owner: mount with --owner-by user, give the hint while the program runs, or name an \
                     owner (--owner; as root anybody's)"
                }
            };
            eprintln!("pantler: no block got the priority: {why}");
            HintRecord { on: &on, answer: &answer }.tell(arguments.json)
        }
        Answer::Hint(answer) => HintRecord { on: &on, answer: &answer }.tell(arguments.json),
        other => Err(unexpected(&other).into()),
    }
}

fn words(words: &HintWords) -> Hint {
    match words.clone() {
        HintWords::SetPriority { file, priority } => Hint::SetPriority { path: file, priority },
        HintWords::GetPriority { file } => Hint::GetPriority { path: file },
        HintWords::SetPolicy { priority, policy } => Hint::SetPolicy { priority, policy },
        HintWords::GetPolicy { priority } => Hint::GetPolicy { priority },
        HintWords::SetTemporaryPriority { file, first, last, priority } => {
            Hint::SetTemporaryPriority { path: file, first, last, priority }
        }
        HintWords::Clear => Hint::Clear,
        HintWords::Grant { .. } => Hint::Grant,
    }
}
