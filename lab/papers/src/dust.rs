//! Dust (USENIX 2002): fingerprints of caches, and a server that knows what is cached.

use anyhow::Result;
use pantler_dust::paper::{Panel, figures, kernels};

use crate::outcome::{Outcome, Table, change};
use crate::paper::Number::{Figure, Text};
use crate::paper::{Paper, elsewhere, here, not, quick};

mod server;

use server::{Order, Served, Server};

pub(crate) const PAPER: Paper = Paper {
    name: "dust",
    source: "Burnett, Bent, Arpaci-Dusseau, Arpaci-Dusseau: Exploiting Gray-Box Knowledge of Buffer-Cache Management \
             (USENIX 2002)",
    about: "The paper's patterns over simulated caches of its 20,000 blocks. \
            A fingerprint is a line of twenty characters, one for each twentieth of the test region: `#` stays in the \
            cache, `+` mostly, `-` partly, `.` leaves. \
            The paper draws points, and names what they show: that stands beside each line.",
    parts: &[
        not(
            Figure(&[1, 2]),
            "Short-term attributes, and the pattern for history",
            "they are pictures of the patterns",
            "lab/dust/src/infer/pattern/paper.rs, which the lines below come from",
        ),
        here(Figure(&[3, 4, 5, 6, 7, 8, 9, 10]), "Fingerprints of simulated policies", &[], fingerprints),
        here(
            Figure(&[11, 12, 13, 14]),
            "Kernels: models of today's Linux in place of NetBSD 1.5, Linux 2.2 and 2.4, Solaris 2.7",
            &[],
            todays_kernels,
        ),
        elsewhere(
            Figure(&[11, 12, 13, 14]),
            "The kernel that runs here, named by its page cache",
            "sudo cargo test -p pantler-dust --test page_cache -- --nocapture",
            "benchmarks/dust.md",
        ),
        quick(
            Figure(&[15, 16]),
            "A server that serves cached files first, by the size it believes in",
            &[],
            mirror,
        ),
        elsewhere(
            Figure(&[15, 16]),
            "The real server, beside nginx",
            "sudo cargo bench -p pantler-web --bench order",
            "benchmarks/web.md",
        ),
        elsewhere(
            Text("names"),
            "How often a policy is named rightly, which the paper leaves to the eye",
            "make dust-full",
            "benchmarks/dust.md",
        ),
    ],
};

/// As in the paper.
const BLOCKS: u32 = 20_000;
/// Of each pattern: 20 probes each.
const RUNS: u32 = 15;

fn table() -> Table {
    Table::new("", 4, &["figure", "cache", "fingerprint", "what it shows"])
}

fn row(table: &mut Table, figure: String, panel: &Panel) {
    let line = format!("`{}`", panel.line());
    table.row(false, [figure, panel.title.to_owned(), line, panel.says.to_owned()]);
}

fn fingerprints() -> Result<Outcome> {
    let mut table = table();
    // What leaves by LRU-2 with a correlated period, in the middle of figure 7.
    let mut leaves = 0;
    for figure in figures(BLOCKS, RUNS, crate::SEED) {
        for (at, panel) in figure.panels.iter().enumerate() {
            if (figure.number, at) == (7, 1) {
                leaves = panel.kept.iter().filter(|&&kept| kept < 0.5).count();
            }
            row(&mut table, figure.number.to_string(), panel);
        }
    }
    Ok(Outcome::of([table])
        .claim(
            "with a correlated period LRU-2 keeps what was read more than twice, and nothing else (figure 7, middle)",
            leaves > 0,
            format!("{leaves} of 20 leave"),
        )
        .note(
            "The paper prints as a plot alone how often each stripe of figure 7 is read. As it is here, all of them \
             are read more often, and the eviction scan replaces itself.",
        )
        .note("A test of Dust asserts what each line shows, twentieth by twentieth."))
}

fn todays_kernels() -> Result<Outcome> {
    let mut table = table();
    for panel in kernels(BLOCKS, RUNS, crate::SEED) {
        row(&mut table, "for 11 to 14".to_owned(), &panel);
    }
    Ok(Outcome::of([table]).note(
        "None of the paper's four kernels runs on a machine of today. NetBSD 1.5 is LRU in figures 3 and 6, and Linux \
         2.2 is CLOCK in figure 5. Models of Linux are those by which Dust names real kernels.",
    ))
}

/// Megabytes that the cache really has.
const CACHE: u32 = 80;

fn mirror() -> Result<Outcome> {
    let mut table = Table::new(
        "200 files of 1 MB, 144 clients, a cache of 80 MB",
        1,
        &["order", "MB/s", "against oblivious", "mean response, s", "read from disk, MB of 100"],
    );
    let oblivious = Server::run(CACHE, Order::Arrival)?;
    let (mut best, mut worst) = ((0, f64::INFINITY), f64::INFINITY);
    let mut row = |name: String, served: Served| {
        let gain =
            if served.rate == oblivious.rate { String::new() } else { change(oblivious.rate, served.rate) };
        let cells = [
            name,
            format!("{:.1}", served.rate),
            gain,
            format!("{:.2}", served.response),
            format!("{:.0}", 100.0 * served.from_disk),
        ];
        table.row(served.rate < oblivious.rate, cells);
    };
    row("oblivious, as they come".to_owned(), oblivious);
    for believed in [10, 20, 40, 60, 70, 80, 90, 100, 120, 160] {
        let served = Server::run(CACHE, Order::Mirror(believed))?;
        if served.response < best.1 {
            best = (believed, served.response);
        }
        worst = worst.min(served.rate);
        row(format!("mirror of {believed} MB"), served);
    }
    Ok(Outcome::of([table])
        .claim(
            "response time is lowest when the estimate is closest to the true size (figure 15)",
            best.0 == CACHE,
            format!("lowest with {} MB", best.0),
        )
        .claim(
            "estimates of a large range of sizes improve throughput: here 10 to 160 MB (figure 16)",
            worst >= oblivious.rate,
            format!("at worst {:.1} MB/s against {:.1}", worst, oblivious.rate),
        )
        .note(
            "Simulated: whole files in a CLOCK of 80, as Linux 2.2 has it, and the server's own model of one with the \
             size it believes in. Eight requests are served at once, a disk gives 20 MB/s, the network 100 MB/s; \
             clients ask for the next file, drawn anew, when they have one. The first tenth of 20,000 answers is \
             left out.",
        )
        .note(
            "Pantler's server has no such model: asking the kernel which files are cached was never worse (decision \
             0080).",
        ))
}
