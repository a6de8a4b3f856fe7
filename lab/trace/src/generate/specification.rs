//! A generated trace as a line of text, checked.

use std::str::FromStr;

use super::mix;
use super::parameters::{GENERATORS, Parameters};
use super::permutation::Permutation;
use super::reference::Reference;
use super::stack_distance::StackDistance;
use super::zipf::Zipf;
use crate::{Block, Prepared, PreparedBuilder, TraceError, Unit, perhaps};
use pantler_policy::Draws;

/// Most references: positions in a prepared trace are `u32`, and the highest means *never*.
const REQUESTS_MAX: u64 = u32::MAX as u64;
/// Most ids of most generators: what `f64` counts exactly.
const IDS_MAX: u64 = 1 << 52;
/// Most ids where each takes memory.
const STACK_IDS_MAX: u64 = 1 << 24;
/// Deepest nesting of specifications.
const DEPTH_MAX: u32 = 8;

/// Which generator, with its parameters.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "GENERATORS describes them")]
pub enum Generator {
    Zipf {
        ids: u64,
        alpha: f64,
        shuffled: bool,
        seed: u64,
    },
    Uniform {
        ids: u64,
        seed: u64,
    },
    Loop {
        ids: u64,
    },
    Scan,
    /// References alternate between a small pool and a large one, uniform within each, like index
    /// pages and the records they lead to: the experiment of the LRU-K paper. (O'Neil, O'Neil,
    /// Weikum, The LRU-K Page Replacement Algorithm, 1993, section 4.1: 100 and 10,000.)
    TwoPool {
        small: u64,
        large: u64,
        seed: u64,
    },
    StackDistance {
        ids: u32,
        alpha: f64,
        seed: u64,
    },
    /// One part after the other, and all of that `repeat` times. A random part begins with its
    /// seed each time.
    Phases {
        parts: Vec<Specification>,
        repeat: u64,
    },
    Mix {
        processes: Vec<Process>,
        burst: u64,
        seed: u64,
    },
}

/// A process of a mix by name, and what it references.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Name of the owner.
    pub name: String,
    /// What it references.
    pub specification: Specification,
}

/// A generated trace. Its text says everything: the same text is the same trace, anywhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Specification {
    generator: Generator,
    requests: u64,
    /// Added to every block number.
    first: u64,
}

impl Specification {
    /// Whether a text means a generator and not a file: its name and a colon, or what could be a
    /// name misspelt, a colon, and parameters.
    pub fn is_meant(text: &str) -> bool {
        text.split_once(':').is_some_and(|(name, rest)| {
            let is_known = GENERATORS.iter().any(|known| known.0 == name);
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            is_known || (is_name && !name.is_empty() && rest.contains('=') && !rest.contains('/'))
        })
    }

    /// What can be generated: name, parameters with their defaults, and one line about each, for
    /// people.
    pub fn help() -> String {
        let mut text = String::from("NAME:PARAMETER=VALUE,... in the place of a trace:\n\n");
        for (name, parameters, description) in GENERATORS {
            text.push_str(&format!("  {name:<16} {description}\n  {:<16}   {parameters}\n", ""));
        }
        text.push_str(
            "\nParameters without a default must be given. All but phases and mix take first=0 too, which is added to every \
             block\nnumber; SPECIFICATION is any of these in parentheses.\n",
        );
        text
    }

    /// The generator.
    pub fn generator(&self) -> &Generator {
        &self.generator
    }

    /// How many references there are.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Names of the processes of a mix; empty for all others.
    pub fn owner_names(&self) -> Vec<String> {
        match &self.generator {
            Generator::Mix { processes, .. } => {
                processes.iter().map(|process| process.name.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The references, in order.
    pub fn references(&self) -> Box<dyn Iterator<Item = Reference> + '_> {
        let plain = |block: u64| Reference { owner: 0, file: 0, block: block + self.first };
        let most = self.requests as usize;
        match &self.generator {
            Generator::Zipf { ids, alpha, shuffled, seed } => {
                let (law, mut random) = (Zipf::new(*ids, *alpha), Draws::new(*seed));
                // Another seed than that of the draws, so that the two do not follow each other.
                let order = shuffled.then(|| Permutation::new(*ids, !seed));
                let placed = move |rank| order.as_ref().map_or(rank, |order| order.at(rank));
                Box::new((0..most).map(move |_| plain(placed(law.draw(&mut random)))))
            }
            Generator::Uniform { ids, seed } => {
                let (ids, mut random) = (*ids, Draws::new(*seed));
                Box::new((0..most).map(move |_| plain(random.below(ids))))
            }
            Generator::Loop { ids } => Box::new((0..*ids).cycle().take(most).map(plain)),
            Generator::Scan => Box::new((0..self.requests).map(plain)),
            Generator::TwoPool { small, large, seed } => {
                let pools = [(0, *small), (*small, *large)].into_iter().cycle().take(most);
                let mut random = Draws::new(*seed);
                Box::new(pools.map(move |(first, blocks)| plain(first + random.below(blocks))))
            }
            Generator::StackDistance { ids, alpha, seed } => {
                let (mut stack, mut random) = (StackDistance::new(*ids, *alpha), Draws::new(*seed));
                Box::new((0..most).map(move |_| plain(stack.draw(&mut random))))
            }
            Generator::Phases { parts, repeat } => {
                // Rounds that give no reference are not counted: repeated, they would never end.
                let repeat = if self.requests == 0 { 0 } else { *repeat };
                Box::new((0..repeat).flat_map(|_| parts.iter().flat_map(Specification::references)))
            }
            Generator::Mix { processes, burst, seed } => {
                let references = processes.iter().map(|process| process.specification.references());
                Box::new(mix::in_turns(references, *burst, *seed))
            }
        }
    }

    /// The prepared trace, one object per reference.
    ///
    /// # Errors
    ///
    /// [`TraceError::TooLong`] past 2³² − 1 references.
    pub fn prepare(&self) -> Result<Prepared, TraceError> {
        self.prepare_up_to(self.requests)
    }

    /// The same, but at most this number of references.
    ///
    /// # Errors
    ///
    /// As for [`prepare`](Self::prepare).
    pub fn prepare_up_to(&self, references_max: u64) -> Result<Prepared, TraceError> {
        let mut builder = PreparedBuilder::new(Unit::Object);
        let most = self.requests.min(references_max) as usize;
        builder.reserve(most);
        for reference in self.references().take(most) {
            let block = Block { file: reference.file, index: reference.block };
            builder.reference(reference.owner, block, 0)?;
        }
        let names = self.owner_names();
        Ok(builder.finish(names.clone(), names))
    }

    fn parse(text: &str, depth: u32) -> Result<Specification, TraceError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut given = Parameters::new(text, rest)?;
        if depth > DEPTH_MAX {
            return Err(given.wrong("at most 8 specifications within each other"));
        }
        let given = &mut given;
        let ids = |given: &mut Parameters| given.number("ids", None, 1..=IDS_MAX);
        let requests = |given: &mut Parameters| given.number("requests", None, 0..=REQUESTS_MAX);
        let seed = |given: &mut Parameters| given.number("seed", Some(1), 0..=u64::MAX);
        let shuffled =
            |given: &mut Parameters| given.word("order", &["rank", "shuffled"]).map(|word| word != "rank");
        let mut first = 0;
        if !matches!(name, "phases" | "mix") {
            first = given.number("first", Some(0), 0..=IDS_MAX)?;
        }
        let (generator, requests) = match name {
            "zipf" => {
                let alpha = given.number("alpha", Some(1.0), 0.0..=20.0)?;
                let (ids, shuffled, seed) = (ids(given)?, shuffled(given)?, seed(given)?);
                (Generator::Zipf { ids, alpha, shuffled, seed }, requests(given)?)
            }
            "uniform" => (Generator::Uniform { ids: ids(given)?, seed: seed(given)? }, requests(given)?),
            "loop" => (Generator::Loop { ids: ids(given)? }, requests(given)?),
            "scan" => (Generator::Scan, given.number("ids", None, 0..=REQUESTS_MAX)?),
            "two-pool" => {
                let small = given.number("small", Some(100), 1..=IDS_MAX)?;
                let large = given.number("large", Some(10_000), 1..=IDS_MAX)?;
                (Generator::TwoPool { small, large, seed: seed(given)? }, requests(given)?)
            }
            "stack-distance" => {
                let ids = given.number("ids", None, 1..=STACK_IDS_MAX)? as u32;
                let alpha = given.number("alpha", Some(1.0), 0.0..=20.0)?;
                (Generator::StackDistance { ids, alpha, seed: seed(given)? }, requests(given)?)
            }
            "phases" => {
                let repeat = given.number("repeat", Some(1), 1..=REQUESTS_MAX)?;
                let parts = given.parts().into_iter().map(|(_, part)| Specification::parse(part, depth + 1));
                let parts: Vec<Specification> = parts.collect::<Result<_, _>>()?;
                if parts.is_empty() || parts.iter().any(|part| !part.owner_names().is_empty()) {
                    return Err(given.wrong("phases in parentheses, none of them a mix"));
                }
                let sum = Self::sum(&parts).and_then(|sum| sum.checked_mul(repeat));
                (Generator::Phases { parts, repeat }, sum.unwrap_or(u64::MAX))
            }
            "mix" => {
                let burst = given.number("burst", Some(1), 1..=REQUESTS_MAX)?;
                let seed = given.number("seed", Some(1), 1..=u64::MAX)?;
                let random = given.word("turns", &["random", "round"])? == "random";
                let processes = Self::processes(given, depth)?;
                let sum = Self::sum(processes.iter().map(|process| &process.specification));
                let seed = if random { seed } else { 0 };
                (Generator::Mix { processes, burst, seed }, sum.unwrap_or(u64::MAX))
            }
            _ => {
                let names: Vec<&str> = GENERATORS.iter().map(|known| known.0).collect();
                let near = perhaps(name, names.iter().copied());
                return Err(given.wrong(&format!(
                    "one of {} before the colon{near}; pantler trace generate help lists their parameters",
                    names.join(", ")
                )));
            }
        };
        if requests > REQUESTS_MAX {
            return Err(given.wrong("at most 4294967295 requests in all"));
        }
        std::mem::replace(given, Parameters::new(text, "")?).finish()?;
        Ok(Specification { generator, requests, first })
    }

    fn processes(given: &mut Parameters, depth: u32) -> Result<Vec<Process>, TraceError> {
        let mut processes: Vec<Process> = Vec::new();
        for (name, part) in given.parts() {
            let specification = Specification::parse(part, depth + 1)?;
            let free = |name: &&str| !name.is_empty() && processes.iter().all(|other| other.name != *name);
            let name =
                name.filter(free).ok_or_else(|| given.wrong("NAME=(...) with a name of its own each"))?;
            if !specification.owner_names().is_empty() {
                return Err(given.wrong("processes in parentheses, none of them a mix"));
            }
            processes.push(Process { name: name.to_owned(), specification });
        }
        if processes.is_empty() || processes.len() > usize::from(u16::MAX) {
            return Err(given.wrong("processes as NAME=(SPECIFICATION), at most 65535"));
        }
        Ok(processes)
    }

    fn sum<'a>(parts: impl IntoIterator<Item = &'a Specification>) -> Option<u64> {
        parts.into_iter().try_fold(0_u64, |sum, part| sum.checked_add(part.requests))
    }
}

impl FromStr for Specification {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        Specification::parse(text.trim(), 0)
    }
}

#[cfg(test)]
mod tests;
