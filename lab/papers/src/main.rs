//! Makes the papers' tables and figures, and the documents of them: `cargo xtask papers`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use pantler_papers::{Experiment, PAPERS, Paper, Part, Ran, Source, html, markdown, section};
use pantler_trace::testing::locate;

/// Results, a file each, and the page of all papers.
const RESULTS: &str = "target/papers";
/// Documents, one for each paper.
const DOCUMENTS: &str = "docs/papers";
/// From the page to the folder of documents.
const LINKS: &str = "../../docs";

/// The five papers' tables and figures, made anew beside what the papers print.
#[derive(Parser)]
struct Arguments {
    /// Only this experiment, or those of this paper: prints them and writes no document.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Makes the fast ones anew, and fails where a document says something else.
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Names all experiments, and what they need.
    #[arg(long)]
    list: bool,
    /// Names the documents whose sources changed since they were made, and the changes; fails if
    /// there is one.
    #[arg(long, conflicts_with_all = ["only", "quick", "list"])]
    stale: bool,
    /// Makes also those anew that were made of this commit already.
    #[arg(long)]
    again: bool,
}

/// One that is to be made.
struct Chosen {
    name: String,
    paper: &'static Paper,
    part: &'static Part,
    experiment: Experiment,
}

fn main() -> ExitCode {
    match make(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("papers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn make(arguments: &Arguments) -> Result<()> {
    if arguments.stale {
        return stale();
    }
    let of = |paper: &'static Paper| {
        paper.experiments().map(move |(name, part, experiment)| Chosen { name, paper, part, experiment })
    };
    let mut chosen: Vec<Chosen> = PAPERS.iter().flat_map(of).collect();
    if arguments.list {
        chosen.iter().for_each(list);
        return Ok(());
    }
    let wanted = |name: &str, only: &String| name == only || name.split('/').next() == Some(only.as_str());
    if let Some(unknown) =
        arguments.only.iter().find(|only| !chosen.iter().any(|one| wanted(&one.name, only)))
    {
        bail!("no experiment {unknown}: --list names all");
    }
    if arguments.quick {
        chosen.retain(|one| one.experiment.quick);
    } else if !arguments.only.is_empty() {
        chosen.retain(|one| arguments.only.iter().any(|only| wanted(&one.name, only)));
    }
    let missing = missing(&chosen);
    if arguments.quick {
        chosen.retain(|one| {
            let lacks = one.experiment.traces.iter().find(|trace| missing.contains(trace));
            lacks.inspect(|trace| eprintln!("SKIPPED: {}: there is no {trace}", one.name)).is_none()
        });
    } else {
        ensure!(
            missing.is_empty(),
            "the folder that PANTLER_TRACES names lacks {}; --only NAME makes what needs none of them",
            missing.join(", ")
        );
    }
    let anew = arguments.again || arguments.quick;
    let mut rans = Vec::new();
    for (at, one) in chosen.iter().enumerate() {
        eprintln!("[{}/{}] {}", at + 1, chosen.len(), one.name);
        rans.push(ran(one, anew)?);
    }
    if arguments.quick {
        compare(&chosen, &rans)
    } else if arguments.only.is_empty() {
        write(&rans)
    } else {
        chosen.iter().zip(&rans).for_each(|(one, ran)| {
            println!("{}", section(&one.name, one.part, &ran.outcome));
        });
        Ok(())
    }
}

/// Names documents that were made of other sources.
fn stale() -> Result<()> {
    let mut names = Vec::new();
    for paper in &PAPERS {
        let path = format!("{DOCUMENTS}/{}.md", paper.name);
        let document = fs::read_to_string(&path).with_context(|| path.clone())?;
        let changes = Source::changed_since(paper, &document).with_context(|| path.clone())?;
        if !changes.is_empty() {
            println!("{path}\n    {}", changes.join("\n    "));
            names.push(paper.name);
        }
    }
    ensure!(names.is_empty(), "made of other sources: {}; `make papers` makes them anew", names.join(", "));
    println!("all documents are of these sources");
    Ok(())
}

/// Traces of others that are needed and are not here, each once.
fn missing(chosen: &[Chosen]) -> Vec<&'static str> {
    let all = chosen.iter().flat_map(|one| one.experiment.traces);
    let mut missing: Vec<&str> = all.copied().filter(|trace| locate(trace).is_none()).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

fn list(one: &Chosen) {
    let Experiment { traces, quick, .. } = one.experiment;
    let quick = if quick { "quick" } else { "" };
    println!("{:<24} {quick:<6} {} {}", one.name, one.part.title, traces.join(" "));
}

/// What was made of these sources before, or is made now.
fn ran(one: &Chosen, anew: bool) -> Result<Ran> {
    let source = Source::of(one.paper)?;
    let folder = Path::new(RESULTS);
    if let Some(ran) = source.kept(folder, &one.name).filter(|_| !anew) {
        eprintln!("    there already, made in {:.1} s", ran.seconds);
        return Ok(ran);
    }
    let start = Instant::now();
    let outcome = (one.experiment.run)().with_context(|| one.name.clone())?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("    {seconds:.1} s");
    let ran = Ran { name: one.name.clone(), source, seconds, outcome };
    ran.source.keep(folder, &ran)?;
    Ok(ran)
}

/// Writes all documents.
fn write(rans: &[Ran]) -> Result<()> {
    fs::create_dir_all(DOCUMENTS)?;
    fs::create_dir_all(RESULTS)?;
    for paper in &PAPERS {
        let path = format!("{DOCUMENTS}/{}.md", paper.name);
        fs::write(&path, markdown(paper, rans)).with_context(|| path.clone())?;
        eprintln!("wrote {path}");
    }
    let page = format!("{RESULTS}/index.html");
    fs::write(&page, html(&PAPERS, rans, LINKS)).with_context(|| page.clone())?;
    eprintln!("wrote {page}");
    Ok(())
}

/// Holds what was made against the documents.
fn compare(chosen: &[Chosen], rans: &[Ran]) -> Result<()> {
    let mut differences = Vec::new();
    for (one, ran) in chosen.iter().zip(rans) {
        let path = format!("{DOCUMENTS}/{}.md", one.paper.name);
        let document = fs::read_to_string(&path).with_context(|| path.clone())?;
        differences.extend(ran.differences(one.part, &document));
    }
    ensure!(differences.is_empty(), "the documents say something else:\n{}", differences.join("\n"));
    eprintln!("{} experiments are as the documents say", rans.len());
    Ok(())
}
