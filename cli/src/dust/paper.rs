//! `pantler dust --paper`: the figures of the paper, redrawn.

use anyhow::{Context, Result};
use pantler_dust::paper::{figures, page};
use serde::Serialize;
use std::fs;
use std::path::Path;

use super::Dust;
use crate::output;

/// Blocks of the caches, as in the paper, and runs of each pattern.
const CAPACITY: u32 = 20_000;
const RUNS: u32 = 25;

#[derive(Serialize)]
struct Drawn<'a> {
    page: String,
    figures: &'a [pantler_dust::paper::Figure],
}

/// Draws them into the folder, and says in a line each what stays in the cache.
pub fn paper(words: &Dust, folder: &Path) -> Result<()> {
    let figures = figures(CAPACITY, RUNS, words.seed());
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok::<_, anyhow::Error>(path.display().to_string())
    };
    let mut text = String::new();
    for figure in &figures {
        text += &format!("figure {}: {}\n", figure.number, figure.title);
        for (at, panel) in figure.panels.iter().enumerate() {
            write(&format!("figure-{}-{}.svg", figure.number, at + 1), &panel.plot().svg())?;
            text += &format!("  {:<44} {}  {}\n", panel.title, panel.line(), panel.says);
        }
    }
    let page = write("dust-paper.html", &page(&figures))?;
    if words.json {
        return output::json("dust-paper", &Drawn { page, figures: &figures });
    }
    text += "# stays, + mostly, - partly, . leaves: each character is a twentieth of the test region\n";
    text += &format!("drawn in {page}\n");
    output::text(&text)
}
