//! `pantler explain`: what is cached of a file, whose it is, and the last decisions about it.

use anyhow::{Result, bail};
use pantler_control::client::unexpected;
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyKind, FileExplanation};
use std::fmt::Write;

use crate::args;
use crate::ask::{self, Found};
use crate::output;

/// Asks the mount that holds the file, or every run that could know it.
pub fn explain(arguments: &args::Explain) -> Result<()> {
    let file = ask::file(&arguments.file)?;
    let bodies: Vec<Found> = match &arguments.on {
        Some(on) => vec![ask::named(on)?],
        None => match ask::meant(Some(&arguments.file)) {
            Ok(body) => vec![body],
            Err(_) => ask::all().into_iter().filter(|body| body.info.kind == BodyKind::Steer).collect(),
        },
    };
    if bodies.is_empty() {
        bail!("no mount holds {} and no run is active", arguments.file.display());
    }
    for mut body in bodies {
        let request = Request::Explain { on: body.info.name.clone(), path: arguments.file.clone() };
        match body.ask(&request, Some(&file))? {
            Answer::Explanation(story) if arguments.json => output::json("explain", &story)?,
            Answer::Explanation(story) => output::text(&sentences(&story))?,
            other => return Err(unexpected(&other).into()),
        }
    }
    Ok(())
}

fn sentences(story: &FileExplanation) -> String {
    let mut text = format!(
        "{} on {}: {} of {} blocks of {} bytes cached\n  priority {}, policy {}\n",
        story.path.display(),
        story.body.name,
        story.cached_blocks,
        story.blocks,
        story.body.block_bytes,
        story.priority,
        story.policy
    );
    for (owner, blocks) in &story.owners {
        let _ = writeln!(text, "  {blocks} blocks of {owner}");
    }
    if story.decisions.is_empty() {
        text.push_str("  no decision about it is remembered\n");
    }
    for decision in &story.decisions {
        let _ = writeln!(
            text,
            "  #{} block {} by {}: {}",
            decision.number, decision.block, decision.rule, decision.text
        );
    }
    text
}
