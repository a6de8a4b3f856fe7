//! Requests that wait for the disk while others do not, and what the age cap does for them.

use super::load::{Pace, Plan, Sizes};
use anyhow::{Result, bail};

use super::{AGE_CAP, Bench, CLIENTS, Own, Rival, Row, header, print_row};

/// Clients of a crowd.
const CROWD: u32 = 1000;

impl Bench {
    /// Popular files keep the server busy; files with few requests must come all the same.
    pub(super) fn starvation(&self) -> Result<()> {
        let plan = Plan { files: 200, sizes: Sizes::Fixed(1_000_000), seed: 1 };
        let root = self.root("files", &plan)?;
        println!("\nStarvation: 200 files of 1 MB, Zipf 1.2, {CLIENTS} clients, by age cap");
        header();
        for age_cap in ["2000", "5000", "600000"] {
            let rival = Rival::Own(Own { age_cap, ..Own::DEFAULT });
            let mut row =
                self.row(rival, &root, &self.load(&plan, 1.2, Pace::Closed { clients: CLIENTS }))?;
            row.name = format!("cap {} s", age_cap.parse::<f64>()? / 1000.0);
            print_row(&row, None);
            let longest = row.longest_wait().unwrap_or(f64::NAN);
            println!("{:24} longest wait for a read {longest:.2} s", "");
            // A shorter cap than this disk needs for what waits is no promise, and the longest one
            // is none at all.
            if age_cap == AGE_CAP {
                let cap = age_cap.parse::<f64>()? / 1000.0;
                self.bars.at_most("starvation: longest wait for a read against the cap", longest / cap, 1.0);
            } else {
                let what = format!("starvation, {}: answers that failed or never came", row.name);
                self.bars.at_most(&what, (row.report.errors + row.report.unanswered) as f64, 0.0);
            }
        }
        Ok(())
    }

    /// Many more clients than the disk can serve within the cap, with the cap and without: then all
    /// are overdue, and going by age must cost nothing.
    pub(super) fn crowd(&self) -> Result<()> {
        let plan = Plan { files: 200, sizes: Sizes::Fixed(1_000_000), seed: 1 };
        let root = self.root("files", &plan)?;
        println!("\nA crowd: 200 files of 1 MB, Zipf 1.2, {CROWD} clients, with the age cap and without");
        header();
        let mut rows: Vec<Row> = Vec::new();
        for (name, age_cap) in [("without a cap", "86400000"), ("cap 5 s", AGE_CAP)] {
            let rival = Rival::Own(Own { age_cap, ..Own::DEFAULT });
            let mut row = self.row(rival, &root, &self.load(&plan, 1.2, Pace::Closed { clients: CROWD }))?;
            row.name = name.to_owned();
            print_row(&row, rows.first());
            let what = format!("crowd, {name}: answers that failed or never came");
            self.bars.at_most(&what, (row.report.errors + row.report.unanswered) as f64, 0.0);
            rows.push(row);
        }
        let [free, capped] = &rows[..] else { bail!("two rows") };
        let rate = capped.report.per_second() / free.report.per_second();
        self.bars.at_least("crowd: answers/s with the cap against without", rate, 0.9);
        let tail = capped.report.percentile_ms(99.0) / free.report.percentile_ms(99.0);
        self.bars.at_most("crowd: p99 with the cap against without", tail, 1.1);
        Ok(())
    }
}
