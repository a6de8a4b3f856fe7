//! A paper and its tables and figures: which are made here, which elsewhere, which not, and why.

use anyhow::Result;

use crate::outcome::Outcome;

/// A paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Names its document and its experiments.
    pub name: &'static str,
    /// Authors, title, where it appeared.
    pub source: &'static str,
    /// What holds for all of it, one paragraph.
    pub about: &'static str,
    /// In the paper's order.
    pub parts: &'static [Part],
}

/// One or several tables or figures that one experiment makes, or that are not made.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Their number in the paper.
    pub number: Number,
    /// What they show.
    pub title: &'static str,
    /// How they are made.
    pub made: Made,
}

/// What a part is called in its paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Figures, in rising order.
    Figure(&'static [u8]),
    /// Tables, in rising order.
    Table(&'static [u8]),
    /// What the paper says without table or figure.
    Text(&'static str),
}

/// How a part is made.
#[derive(Clone, Copy, Debug)]
pub enum Made {
    /// Here.
    Here(Experiment),
    /// By another command, with its figures in another document below `docs`.
    Elsewhere {
        /// As it is typed.
        command: &'static str,
        /// Where its figures are.
        document: &'static str,
    },
    /// It is not.
    Not {
        /// What would be needed.
        why: &'static str,
        /// The nearest to it that is made.
        instead: &'static str,
    },
}

/// What makes a part.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Traces of others that it needs, by their path in the folder that `PANTLER_TRACES` names.
    pub traces: &'static [&'static str],
    /// Whether it is made anew by `--quick`, and by a test.
    pub quick: bool,
    /// Makes it.
    pub run: fn() -> Result<Outcome>,
}

impl Number {
    /// As in a name: `figure-7`, `figures-2-3`, `table-1`. Of several the first and the last.
    fn slug(self) -> String {
        let (kind, numbers) = match self {
            Self::Text(text) => return text.to_owned(),
            Self::Figure(numbers) => ("figure", numbers),
            Self::Table(numbers) => ("table", numbers),
        };
        match numbers {
            [only] => format!("{kind}-{only}"),
            [first, .., last] => format!("{kind}s-{first}-{last}"),
            [] => kind.to_owned(),
        }
    }

    /// As in a heading: `Figure 7`, `Figures 2 and 3`, `Figures 3 to 10`, `Figures 1, 3, 4`.
    pub fn heading(self) -> String {
        let (kind, numbers) = match self {
            Self::Text(_) => return "In the text".to_owned(),
            Self::Figure(numbers) => ("Figure", numbers),
            Self::Table(numbers) => ("Table", numbers),
        };
        match numbers {
            [only] => format!("{kind} {only}"),
            [first, second] => format!("{kind}s {first} and {second}"),
            [first, .., last] if usize::from(last - first) + 1 == numbers.len() => {
                format!("{kind}s {first} to {last}")
            }
            several => {
                let several: Vec<String> = several.iter().map(u8::to_string).collect();
                format!("{kind}s {}", several.join(", "))
            }
        }
    }
}

impl Paper {
    /// What a part is asked for by: `ulc/figure-7`.
    pub fn name_of(&self, part: &Part) -> String {
        format!("{}/{}", self.name, part.number.slug())
    }

    /// Its experiments, with their names and parts.
    pub fn experiments(&self) -> impl Iterator<Item = (String, &'static Part, Experiment)> + '_ {
        self.parts.iter().filter_map(|part| match part.made {
            Made::Here(experiment) => Some((self.name_of(part), part, experiment)),
            Made::Elsewhere { .. } | Made::Not { .. } => None,
        })
    }
}

/// A part that is made here of nothing but the papers' own rules.
pub(crate) const fn here(
    number: Number,
    title: &'static str,
    traces: &'static [&'static str],
    run: fn() -> Result<Outcome>,
) -> Part {
    Part { number, title, made: Made::Here(Experiment { traces, quick: false, run }) }
}

/// The same, fast enough to be made anew each time.
pub(crate) const fn quick(
    number: Number,
    title: &'static str,
    traces: &'static [&'static str],
    run: fn() -> Result<Outcome>,
) -> Part {
    Part { number, title, made: Made::Here(Experiment { traces, quick: true, run }) }
}

pub(crate) const fn elsewhere(
    number: Number,
    title: &'static str,
    command: &'static str,
    document: &'static str,
) -> Part {
    Part { number, title, made: Made::Elsewhere { command, document } }
}

pub(crate) const fn not(
    number: Number,
    title: &'static str,
    why: &'static str,
    instead: &'static str,
) -> Part {
    Part { number, title, made: Made::Not { why, instead } }
}
