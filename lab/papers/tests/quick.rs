//! The fast experiments, made anew and held against the committed documents; and that each table
//! and figure of a paper is made or named.
//!
//! `cargo test -p pantler-papers --test quick -- --nocapture` prints how long each takes.

use std::fs;
use std::path::Path;
use std::time::Instant;

use pantler_papers::{Claim, Made, Number, Outcome, PAPERS, Part, Ran, Row, Source, Table, html, markdown};
use pantler_trace::testing::locate;

fn source() -> Source {
    Source { commit: "c0ffee00".into(), changed: false, kernel: "Linux 1.0".into(), seed: 1 }
}

fn ran(name: &str, outcome: Outcome) -> Ran {
    Ran { name: name.to_owned(), source: source(), seconds: 1.0, outcome }
}

fn document(paper: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/papers/{paper}.md"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn what_the_documents_say_still_holds() {
    let mut differences = Vec::new();
    for paper in &PAPERS {
        for (name, part, experiment) in paper.experiments().filter(|(.., experiment)| experiment.quick) {
            if experiment.traces.iter().any(|trace| locate(trace).is_none()) {
                continue;
            }
            let start = Instant::now();
            let outcome = (experiment.run)().unwrap_or_else(|error| panic!("{name}: {error:#}"));
            println!("{name}: {:.1} s", start.elapsed().as_secs_f64());
            differences.extend(ran(&name, outcome).differences(part, &document(paper.name)));
        }
    }
    assert!(differences.is_empty(), "`make papers` makes the documents anew:\n{}", differences.join("\n"));
}

#[test]
fn a_changed_cell_is_found() {
    let (paper, name, part) = PAPERS
        .iter()
        .find_map(|paper| paper.experiments().next().map(|(name, part, _)| (paper, name, part)))
        .expect("an experiment");
    let outcome = |cell: &str| {
        let mut table = Table::new("Hits", 1, &["trace", "hits"]);
        table.row(true, ["cs".to_owned(), cell.to_owned()]);
        Outcome::of([table]).claim("it wins", false, "in 0 of 1").note("Why.")
    };
    let text = markdown(paper, &[ran(&name, outcome("12.3"))]);
    assert_eq!(ran(&name, outcome("12.3")).differences(part, &text), Vec::<String>::new());
    let found = ran(&name, outcome("12.4")).differences(part, &text);
    assert_eq!(found, [format!("{name}: | cs (loses) | 12.3 |\n    is now: | cs (loses) | 12.4 |")]);
    assert_eq!(ran(&name, outcome("12.4").note("More.")).differences(part, &text).len(), 3);
    assert_eq!(ran("no/such", outcome("12.3")).differences(part, &text).len(), 1);
}

/// Numbers of the tables and figures that each paper has: all are made, or said not to be.
#[test]
fn every_table_and_figure_is_made_or_named() {
    for (paper, figures, tables) in
        [("osdi94", 6, 6), ("tocs96", 11, 0), ("sa-w2r", 9, 5), ("dust", 16, 0), ("ulc", 11, 1)]
    {
        let paper = PAPERS.iter().find(|known| known.name == paper).expect("a paper");
        let numbers = |of: fn(&Part) -> &'static [u8]| -> Vec<u8> {
            let mut numbers: Vec<u8> = paper.parts.iter().flat_map(of).copied().collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        };
        let figure = |part: &Part| if let Number::Figure(numbers) = part.number { numbers } else { &[] };
        let table = |part: &Part| if let Number::Table(numbers) = part.number { numbers } else { &[] };
        assert_eq!(numbers(figure), (1..=figures).collect::<Vec<_>>(), "{}", paper.name);
        assert_eq!(numbers(table), (1..=tables).collect::<Vec<_>>(), "{}", paper.name);
        let mut names: Vec<String> = paper.experiments().map(|(name, ..)| name).collect();
        names.sort();
        names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1]));
        for part in paper.parts {
            if let Made::Elsewhere { document, .. } = part.made {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
                assert!(path.is_file(), "{}: no {document}", paper.name);
            }
        }
    }
}

#[test]
fn the_page_has_what_the_documents_have() {
    let paper = &PAPERS[0];
    let (name, ..) = paper.experiments().next().expect("an experiment");
    let row = Row { cells: vec!["a < b".into(), "1".into()], loses: true };
    let table =
        Table { title: "T & U".into(), columns: vec!["x".into(), "y".into()], names: 1, rows: vec![row] };
    let claims = vec![Claim { says: "it wins".into(), holds: false, found: "0 of 1".into() }];
    let outcome = Outcome { tables: vec![table], claims, notes: vec!["Why.".into()] };
    let page = html(&PAPERS, &[ran(&name, outcome)], "../docs");
    for part in
        ["T &amp; U", "a &lt; b (loses)", "class=\"loses\"", "it wins", "<p>Why.</p>", "commit c0ffee00"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
}
