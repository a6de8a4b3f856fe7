//! The table, the JSON, and whether the demo shows what it promises.

use anyhow::{Result, bail};
use pantler_steer::Check;
use serde_json::{Value, json};
use std::fmt::Write;

use super::runs::{Disk, Kind, Measured};
use super::source::SYMBOLS;
use super::trace::Trace;
use crate::median::median;

/// Why nothing can be steered here, if so: the kernel's version, what it lacks, and the remedy.
pub fn lacking(checks: &[Check]) -> Option<String> {
    let lacking: Vec<String> = checks
        .iter()
        .filter(|check| check.needed && !check.present)
        .map(|check| format!("{}: {}: {}", check.name, check.detail, check.remedy))
        .collect();
    (!lacking.is_empty()).then(|| lacking.join("; "))
}

/// One run.
pub struct Row {
    pub kind: Kind,
    pub disk: Disk,
    pub measured: Measured,
    /// How many blocks a steered run had.
    blocks: Option<u64>,
    /// What its model reads, with as many.
    model_read_bytes: Option<u64>,
}

impl Row {
    pub fn new(kind: Kind, disk: Disk, measured: Measured, blocks: Option<u64>) -> Row {
        Row { kind, disk, measured, blocks, model_read_bytes: None }
    }
}

/// All runs.
pub struct Report {
    budget_bytes: u64,
    database_bytes: u64,
    /// Bytes the queries ask for.
    referenced_bytes: u64,
    ideal_read_bytes: Option<u64>,
    rows: Vec<Row>,
    failures: Vec<(Kind, String)>,
}

impl Report {
    pub fn new(budget_bytes: u64, database_bytes: u64, trace: Option<&Trace>) -> Report {
        let scans = SYMBOLS.len() as u64 * database_bytes;
        Report {
            budget_bytes,
            database_bytes,
            referenced_bytes: trace.map_or(scans, Trace::referenced_bytes),
            ideal_read_bytes: trace.map(|trace| trace.ideal_read_bytes(budget_bytes)),
            rows: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Asks what the model of each steered run reads, with as many blocks as the run had.
    pub fn model(&mut self, read_bytes: impl Fn(u64) -> Result<u64>) -> Result<()> {
        for row in &mut self.rows {
            row.model_read_bytes = row.blocks.map(&read_bytes).transpose()?;
        }
        Ok(())
    }

    /// Rows that are computed, not run: name and bytes read.
    fn computed(&self, disk: Disk) -> impl Iterator<Item = (&'static str, u64)> {
        let models = self.rows_of(Kind::Steer).filter(|row| row.disk == disk);
        let model = median(models.filter_map(|row| Some(row.model_read_bytes? as f64)));
        let rows = [("model", model.map(|read| read as u64)), ("ideal", self.ideal_read_bytes)];
        rows.into_iter().filter_map(|(name, read)| Some((name, read?)))
    }

    /// A kind that cannot run here; why is part of the report.
    pub fn fail(&mut self, kind: Kind, why: String) {
        self.failures.push((kind, why));
    }

    /// Whether the kind has failed before.
    pub fn is_impossible(&self, kind: Kind) -> bool {
        self.failures.iter().any(|(failed, _)| *failed == kind)
    }

    /// All runs of a kind; none when one has failed.
    fn rows_of(&self, kind: Kind) -> impl Iterator<Item = &Row> {
        let is_possible = !self.is_impossible(kind);
        self.rows.iter().filter(move |row| is_possible && row.kind == kind)
    }

    /// The medians of all runs of a kind on a disk.
    fn medians(&self, kind: Kind, disk: Disk) -> Option<Measured> {
        let middle = |value: &dyn Fn(&Measured) -> f64| {
            let rows = self.rows_of(kind).filter(|row| row.disk == disk);
            median(rows.map(|row| value(&row.measured)))
        };
        Some(Measured {
            device_read_bytes: middle(&|m| m.device_read_bytes as f64)? as u64,
            elapsed_s: middle(&|m| m.elapsed_s)?,
            command_s: middle(&|m| m.command_s)?,
            memory_peak_bytes: middle(&|m| m.memory_peak_bytes as f64)? as u64,
        })
    }

    /// How far reads of steered runs and of their models agree, in percent: the median over the
    /// runs on all disks. They differ in how many blocks they have, so each has its own model.
    fn agreement(&self) -> Option<f64> {
        median(self.rows_of(Kind::Steer).filter_map(|row| {
            let ratio = row.model_read_bytes? as f64 / row.measured.device_read_bytes as f64;
            Some(100.0 - 100.0 * (ratio - 1.0).abs())
        }))
    }

    fn hit_ratio(&self, read_bytes: u64) -> f64 {
        (1.0 - read_bytes as f64 / self.referenced_bytes.max(1) as f64).max(0.0)
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "\ncscope, {} symbol queries, database {:.1} MB, budget {:.1} MB; medians\n\n\
             disk       run        blocks read   MB read   saved  hit ratio  elapsed s  command s  peak MB\n",
            SYMBOLS.len(),
            self.database_bytes as f64 / 1e6,
            self.budget_bytes as f64 / 1e6
        );
        for disk in [Disk::Raw, Disk::Throttled] {
            let kernel = self.medians(Kind::Kernel, disk).map(|measured| measured.device_read_bytes);
            for kind in Kind::ALL {
                let Some(m) = self.medians(kind, disk) else { continue };
                let times = format!(
                    "{:>9.2}  {:>9.2}  {:>7.1}",
                    m.elapsed_s,
                    m.command_s,
                    m.memory_peak_bytes as f64 / 1e6
                );
                self.line(&mut text, disk, &kind.to_string(), m.device_read_bytes, kernel, &times);
            }
            for (name, read) in self.computed(disk) {
                let times = format!("{:>9}  {:>9}  {:>7.1}", "-", "-", self.budget_bytes as f64 / 1e6);
                self.line(&mut text, disk, name, read, kernel, &times);
            }
        }
        for (kind, why) in &self.failures {
            let _ = writeln!(text, "no {kind} row: {why}");
        }
        text.push_str(
            "\nEvery run has the budget as hard limit of its control group, program and daemon included.\n\
             Reads are that group's; saved is against the kernel alone.\n\
             elapsed is from the first query to the last; command includes setting up and tearing down steering.\n\
             model: the engine of a steered run over a model of the kernel, on the recorded references,\n\
             with as many blocks as each run had.\n\
             ideal: MIN on the same, with the whole budget for blocks.\n",
        );
        text
    }

    fn line(&self, text: &mut String, disk: Disk, name: &str, read: u64, kernel: Option<u64>, times: &str) {
        let saved =
            kernel.filter(|&kernel| kernel > 0).map_or(0.0, |kernel| 1.0 - read as f64 / kernel as f64);
        let _ = writeln!(
            text,
            "{disk:<10} {name:<10} {:>11}  {:>8.1}  {:>5.1}%  {:>8.1}%  {times}",
            read / 4096,
            read as f64 / 1e6,
            saved * 100.0,
            self.hit_ratio(read) * 100.0
        );
    }

    /// For programs.
    pub fn json(&self) -> String {
        let mut runs = Vec::new();
        for disk in [Disk::Raw, Disk::Throttled] {
            for kind in Kind::ALL {
                if let Some(m) = self.medians(kind, disk) {
                    runs.push(json!({
                        "name": kind.to_string(),
                        "disk": disk.to_string(),
                        "device_read_bytes": m.device_read_bytes,
                        "elapsed_s": m.elapsed_s,
                        "command_s": m.command_s,
                        "hit_ratio": self.hit_ratio(m.device_read_bytes),
                        "memory_peak_bytes": m.memory_peak_bytes,
                    }));
                }
            }
            for (name, read) in self.computed(disk) {
                runs.push(json!({
                    "name": name,
                    "disk": disk.to_string(),
                    "device_read_bytes": read,
                    "elapsed_s": Value::Null,
                    "hit_ratio": self.hit_ratio(read),
                    "memory_peak_bytes": self.budget_bytes,
                }));
            }
        }
        let report =
            json!({ "budget_bytes": self.budget_bytes, "database_bytes": self.database_bytes, "runs": runs });
        format!("{report:#}\n")
    }

    /// Says how the promises came out. A busy machine misses some; that does not fail the demo.
    pub fn verdict(&self) -> Result<()> {
        let saved = |kind, base| {
            let read = |kind| Some(self.medians(kind, Disk::Raw)?.device_read_bytes as f64);
            Some(100.0 * (1.0 - read(kind)? / read(base)?))
        };
        let faster = |disk| {
            let time = |kind| Some(self.medians(kind, disk)?.elapsed_s);
            Some(100.0 * (1.0 - time(Kind::Steer)? / time(Kind::Kernel)?))
        };
        let promises = [
            ("steered reads below the kernel's, %", saved(Kind::Steer, Kind::Kernel), 45.0),
            ("mount's reads below its own global LRU, %", saved(Kind::Mount, Kind::MountLru), 48.0),
            ("reads of the steered run and of its model agree, %", self.agreement(), 97.0),
            ("steered faster on the raw disk, %", faster(Disk::Raw), 0.0),
            ("steered faster on the throttled disk, %", faster(Disk::Throttled), 25.0),
        ];
        println!();
        for (what, got, wanted) in promises {
            match got {
                Some(got) => {
                    let mark = if got >= wanted { "kept" } else { "MISSED" };
                    println!("{mark:<7} {what}: {got:.1}, promised {wanted:.0}");
                }
                None => println!("unknown {what}: a row is missing"),
            }
        }
        // Rows that this machine cannot run have said why; those of the kernel alone always can.
        if self.medians(Kind::Kernel, Disk::Raw).is_none() {
            bail!("not even the kernel alone could be measured");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(read: u64) -> Measured {
        Measured { device_read_bytes: read, elapsed_s: 1.0, command_s: 2.0, memory_peak_bytes: 3 }
    }

    #[test]
    fn a_kernel_that_is_too_old_costs_the_steered_rows_only() {
        let check = |needed, present| Check {
            name: "cachestat",
            needed,
            present,
            detail: "Linux 6.1.0-18-amd64 does not have it".into(),
            remedy: "run Linux 6.5 or newer",
            since: None,
        };
        assert_eq!(lacking(&[check(true, true), check(false, false)]), None);
        let mut report = Report::new(4096, 1_000_000, None);
        report.fail(Kind::Steer, lacking(&[check(true, false), check(true, true)]).unwrap());
        assert!(report.is_impossible(Kind::Steer));
        for kind in [Kind::Kernel, Kind::MountLru, Kind::Mount] {
            report.add(Row::new(kind, Disk::Raw, measured(8_000_000), None));
        }
        let table = report.table();
        let why = "no steer row: cachestat: Linux 6.1.0-18-amd64 does not have it: run Linux 6.5 or newer";
        assert!(table.lines().any(|line| line == why), "{table}");
        for kind in ["kernel", "mount-lru", "mount"] {
            let mut rows = table.lines().filter(|line| line.starts_with("raw "));
            assert!(rows.any(|line| line.split_whitespace().nth(1) == Some(kind)), "{kind}: {table}");
        }
        assert!(report.verdict().is_ok());
    }

    #[test]
    fn medians_ratios_and_missing_rows() {
        let mut report = Report::new(4096, 1_000_000, None);
        for read in [8_000_000, 7_000_000, 9_000_000] {
            report.add(Row::new(Kind::Kernel, Disk::Raw, measured(read), None));
        }
        report.add(Row::new(Kind::Steer, Disk::Raw, measured(4_000_000), None));
        report.fail(Kind::Mount, "no FUSE".into());
        assert_eq!(report.medians(Kind::Kernel, Disk::Raw).unwrap().device_read_bytes, 8_000_000);
        assert_eq!(report.hit_ratio(4_000_000), 0.5);
        let table = report.table();
        assert!(table.contains("no mount row: no FUSE"), "{table}");
        let steer = table.lines().find(|line| line.starts_with("raw        steer")).unwrap();
        assert!(steer.contains(" 50.0%"), "{steer}");
        let value: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(value["runs"][1]["name"], "steer");
        assert_eq!(value["runs"][1]["device_read_bytes"], 4_000_000);
        assert!(report.verdict().is_ok());
        assert!(Report::new(1, 1, None).verdict().is_err());
    }

    #[test]
    fn each_steered_run_has_a_model_of_its_own() {
        let mut report = Report::new(4096, 1_000_000, None);
        for (disk, read, blocks) in
            [(Disk::Raw, 4_000_000, 40), (Disk::Raw, 2_000_000, 10), (Disk::Throttled, 1_000_000, 10)]
        {
            report.add(Row::new(Kind::Steer, disk, measured(read), Some(blocks)));
        }
        report.model(|blocks| Ok(blocks * 100_000)).unwrap();
        assert_eq!(report.computed(Disk::Raw).collect::<Vec<_>>(), [("model", 2_500_000)]);
        assert_eq!(report.agreement(), Some(100.0));
        report.fail(Kind::Steer, "it is gone".into());
        assert_eq!((report.computed(Disk::Raw).count(), report.agreement()), (0, None));
    }
}
