//! Programs of the papers as seeded generators: what they read in which order, what they say, how
//! long they compute.
//!
//! Sizes are those that the papers name; blocks are 8 KB. How long a program computes per block,
//! and how large a source file is, follows from the raw tables of the OSDI'94 paper (appendix),
//! with 6.4 to 16 MB of cache on an RZ56: elapsed times at different numbers of reads give 4.4 ms
//! per sequential read, 10.1 ms per read of small files and the rest as computing.
//!
//! | name | reads | computes per block |
//! | --- | --- | ---: |
//! | `cs1` | a file of 1,141 blocks, 8 times | 2.6 ms |
//! | `cs2` | 2,946 blocks of source files, 1 to 4 each, 4 times | 6.0 ms |
//! | `cs3` | 1,728 blocks of source files, 4 times | 4.3 ms |
//! | `din` | a file of 988 blocks, 9 times | 10.7 ms |
//! | `gli` | 5 queries: an index of 256 blocks, then 36 % of 5,120 blocks of articles | 2.0 ms |
//! | `pse1`, `pse2` | 2,000 and 4,000 tuples of 4,096 blocks, by an index of 640 blocks | 4.0 ms |
//! | `sort` | 2,125 blocks once, as many of temporary files in three merges of eight | 10.0 ms |
//!
//! The papers leave open, and this file chooses: how large single files are (uniform around the
//! mean), which articles a query reads, and how long Postgres computes on a tuple (as in the join
//! of the OSDI'94 paper). Nothing is written: `sort` finds its temporary files on the disk.
//!
//! Sources: P. Cao, E. W. Felten, K. Li, *Implementation and performance of application-controlled
//! file caching*, OSDI 1994, section 5.1 and appendix; the ACFS paper, section 5.1.

mod beside;
mod databases;
mod searches;

use super::scene::Scene;

/// Adds a process to a scene.
pub type Make = fn(&mut Scene, u64);

/// Workloads by name, and what they are.
pub const WORKLOADS: [(&str, &str, Make); 13] = [
    ("cs1", "cscope, 8 symbols: one file of 9 MB again and again", searches::cs1),
    ("cs2", "cscope, 4 texts in 18 MB of source files", searches::cs2),
    ("cs3", "cscope, 4 texts in 10 MB of source files", searches::cs3),
    ("din", "dinero, 9 runs over a trace of 8 MB; mostly computes", searches::din),
    ("gli", "glimpse, 5 words: index, then articles", searches::gli),
    ("pse1", "Postgres, 1 % of 200,000 tuples by an index", databases::pse1),
    ("pse2", "Postgres, 2 % of them", databases::pse2),
    ("sort", "sort of 17 MB: input, then three merges", databases::sort),
    ("read300", "300 blocks of a file five times, then the next 300; says nothing", beside::read300),
    ("read490", "the same with 490", beside::read490),
    ("andrew", "many small files read and compiled; says nothing", beside::andrew),
    ("scan", "10,000 blocks of one file once", beside::scan),
    ("figure-1", "blocks A, B, C, A with A and B cached: the ACFS paper's example", beside::figure_1),
];

/// No workload has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown workload `{0}`")]
pub struct UnknownWorkload(String);

impl Scene {
    /// [Workloads](WORKLOADS) by name, one process each, all starting at the same time.
    ///
    /// # Errors
    ///
    /// [`UnknownWorkload`].
    pub fn of_workloads(names: &[&str], seed: u64) -> Result<Self, UnknownWorkload> {
        let mut scene = Self::default();
        for name in names {
            let known = WORKLOADS.iter().find(|(known, ..)| known == name);
            let (.., make) = known.ok_or_else(|| UnknownWorkload((*name).to_owned()))?;
            make(&mut scene, seed);
        }
        scene.tell_apart();
        Ok(scene)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_as_large_as_the_papers_say() {
        for (name, references, footprint) in [
            ("cs1", 9128, 1141),
            ("cs2", 11_784, 2946),
            ("cs3", 6912, 1728),
            ("din", 8892, 988),
            ("read300", 7500, 1500),
            ("figure-1", 4, 3),
        ] {
            let scene = Scene::of_workloads(&[name], 1).unwrap();
            assert_eq!((scene.references(), scene.footprint()), (references, footprint), "{name}");
        }
        for (name, ..) in WORKLOADS {
            let scene = Scene::of_workloads(&[name, name], 3).unwrap();
            assert_eq!(scene.programs[1].name, format!("{name}#2"));
            assert!(scene.references() > 0, "{name}");
        }
    }
}
