//! `pantler explain`: what is cached of a file, for which owner, and the last decisions about it.

use anyhow::{Result, bail};
use clap::Args;
use pantler_control::client::{open_to_name, unexpected};
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyKind, DecisionLine, FileExplanation, Size};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use crate::bodies::{self, Found};
use crate::output;

/// Decisions that a mount or run remembers.
pub const DECISIONS_KEPT: u32 = 1024;
/// The last decisions in the text; `--json` has all.
const DECISIONS_SHOWN: usize = 10;
const OWNERS_SHOWN: usize = 10;

#[derive(Debug, Args)]
pub struct Explain {
    /// The file
    file: PathBuf,
    /// Mount point or run to ask; without it all that could know the file
    #[arg(long, value_name = "MOUNT|RUN")]
    on: Option<String>,
    /// One JSON object per line, with all decisions that are remembered
    #[arg(long)]
    json: bool,
}

/// Asks the mount that holds the file, or every run that could know it.
pub fn explain(arguments: &Explain) -> Result<()> {
    let file = open_to_name(&arguments.file)?;
    let bodies: Vec<Found> = match &arguments.on {
        Some(on) => vec![bodies::named(on)?],
        None => match bodies::meant(Some(&arguments.file)) {
            Ok(body) => vec![body],
            Err(_) => bodies::all().into_iter().filter(|body| body.info.kind == BodyKind::Steer).collect(),
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

/// A page about a file: what is cached, for which owner, how often which rule decided, and the last
/// decisions.
fn sentences(story: &FileExplanation) -> String {
    let mut text = format!(
        "{} on {}: {} of {} blocks of {} cached\n  priority {}, policy {}\n",
        story.path.display(),
        story.body.name,
        story.cached_blocks,
        story.blocks,
        Size::new(story.body.block_bytes.into()).rounded(),
        story.priority,
        story.policy
    );
    for (owner, blocks) in story.owners.iter().take(OWNERS_SHOWN) {
        let _ = writeln!(text, "  {blocks} blocks of {owner}");
    }
    if story.owners.len() > OWNERS_SHOWN {
        let _ = writeln!(text, "  and {} more owners", story.owners.len() - OWNERS_SHOWN);
    }
    if story.decisions.is_empty() {
        text.push_str("  no decision about it is remembered\n");
    }
    for (rule, count) in by_rule(story) {
        let _ = writeln!(text, "  {count} decisions by {rule}");
    }
    let known = story.decisions.len();
    let hidden = known.saturating_sub(DECISIONS_SHOWN);
    if hidden > 0 {
        let _ = writeln!(text, "  the last {} of {known} decisions:", known - hidden);
    }
    for DecisionLine { number, block, rule, text: said } in &story.decisions[hidden..] {
        let _ = writeln!(text, "  #{number} block {block} by {rule}: {said}");
    }
    text
}

/// How many of the remembered decisions each rule took, most first.
fn by_rule(story: &FileExplanation) -> Vec<(&str, usize)> {
    let mut counts = BTreeMap::new();
    for decision in &story.decisions {
        *counts.entry(decision.rule.as_str()).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(_, count)| Reverse(count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_control::{BodyInfo, PolicyName};

    /// Protects the page: thousands of decisions are counted, and the last few of them told.
    #[test]
    fn many_decisions_fit_on_a_page() {
        let decision = |number: u64| DecisionLine {
            number,
            block: number,
            rule: if number.is_multiple_of(4) { "overruled" } else { "replaced" }.to_owned(),
            text: "lost to block 7".to_owned(),
        };
        let story = FileExplanation {
            body: BodyInfo { name: "job".into(), block_bytes: 4096, ..BodyInfo::default() },
            path: "/data/file".into(),
            blocks: 5000,
            cached_blocks: 900,
            owners: (0..500).map(|number| (format!("job {number:03}"), 900)).collect(),
            holder: None,
            priority: 0,
            policy: PolicyName::Mru,
            decisions: (0..4000).map(decision).collect(),
        };
        let page = sentences(&story);
        assert!(page.lines().count() <= 30 && page.contains("\n  and 490 more owners\n"), "{page}");
        for line in
            ["  3000 decisions by replaced\n  1000 decisions by overruled\n", "the last 10 of 4000", "#3999 "]
        {
            assert!(page.contains(line), "{line:?} is not in {page}");
        }
        assert!(!page.contains("#3989 "));
    }
}
