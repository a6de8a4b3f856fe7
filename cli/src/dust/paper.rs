//! `pantler dust --paper`: the figures of the paper, drawn anew.

use anyhow::Result;
use pantler_dust::paper::figures;
use std::collections::BTreeMap;

use super::Dust;
use crate::output;

/// Blocks of the caches, as in the paper, and runs of each pattern.
const CAPACITY: u32 = 20_000;
const RUNS: u32 = 25;

/// Says in a line for each graph what stays in the cache.
pub fn paper(words: &Dust) -> Result<()> {
    let figures = figures(CAPACITY, RUNS, words.seed());
    if words.json {
        return output::json("dust-paper", &BTreeMap::from([("figures", figures)]));
    }
    let mut text = String::new();
    for figure in &figures {
        text += &format!("figure {}: {}\n", figure.number, figure.title);
        for panel in &figure.panels {
            text += &format!("  {:<44} {}  {}\n", panel.title, panel.line(), panel.says);
        }
    }
    text += "# stays, + mostly, - partly, . leaves: each character is a twentieth of the test region\n";
    output::text(&text)
}
