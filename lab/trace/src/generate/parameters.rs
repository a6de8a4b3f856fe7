//! The part of a specification after its name: `name=value`, separated by commas; values may be
//! specifications in parentheses.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::{TraceError, nearest, perhaps};

/// Names with their parameters and one line about each, for help texts.
pub const GENERATORS: &[(&str, &str, &str)] = &[
    ("zipf", "ids, requests, alpha=1, order=rank|shuffled, seed=1", "rank k as often as k^-alpha"),
    ("uniform", "ids, requests, seed=1", "every block as often"),
    ("loop", "ids, requests", "blocks in order, over and over"),
    ("scan", "ids", "blocks in order, once"),
    ("two-pool", "requests, small=100, large=10000, seed=1", "from a small and a large pool in turn (LRU-K)"),
    (
        "stack-distance",
        "ids, requests, alpha=1, seed=1",
        "by distance in the LRU stack, as often as d^-alpha",
    ),
    ("phases", "(SPECIFICATION),(SPECIFICATION)..., repeat=1", "one after the other"),
    (
        "mix",
        "NAME=(SPECIFICATION),NAME=(SPECIFICATION)..., burst=1, turns=random|round, seed=1",
        "processes at once, each an owner with a file of its own",
    ),
];

/// Values by name, taken out one by one so that what is left over is known to be wrong.
pub struct Parameters<'a> {
    /// The whole specification, for messages.
    text: &'a str,
    left: Vec<(Option<&'a str>, &'a str)>,
    /// Names that were asked for.
    known: Vec<&'static str>,
}

impl<'a> Parameters<'a> {
    /// Splits `rest` at commas outside of parentheses.
    pub fn new(text: &'a str, rest: &'a str) -> Result<Parameters<'a>, TraceError> {
        let mut parameters = Parameters { text, left: Vec::new(), known: Vec::new() };
        let (mut depth, mut start) = (0_u32, 0);
        for (at, byte) in rest.bytes().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 0 => return Err(parameters.wrong("as many ( as )")),
                b')' => depth -= 1,
                b',' if depth == 0 => {
                    parameters.push(&rest[start..at])?;
                    start = at + 1;
                }
                _ => {}
            }
        }
        if depth > 0 {
            return Err(parameters.wrong("as many ( as )"));
        }
        if !rest.is_empty() {
            parameters.push(&rest[start..])?;
        }
        Ok(parameters)
    }

    fn push(&mut self, part: &'a str) -> Result<(), TraceError> {
        let part = part.trim();
        let assigned = part.find('=').filter(|&at| !part[..at].contains('('));
        match assigned {
            Some(at) => self.left.push((Some(part[..at].trim()), part[at + 1..].trim())),
            None if part.starts_with('(') => self.left.push((None, part)),
            None => return Err(self.wrong_part(part, "name=value")),
        }
        Ok(())
    }

    /// A number within bounds.
    pub fn number<T: FromStr + PartialOrd + Display>(
        &mut self,
        name: &'static str,
        default: Option<T>,
        bounds: RangeInclusive<T>,
    ) -> Result<T, TraceError> {
        let Some(value) = self.take(name) else {
            return default.ok_or_else(|| self.missing(name));
        };
        let number = value.replace('_', "").parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| {
            let expected = format!("{name} from {} to {}", bounds.start(), bounds.end());
            self.wrong_part(&format!("{name}={value}"), &expected)
        })
    }

    /// One of some words.
    pub fn word(&mut self, name: &'static str, words: &[&'static str]) -> Result<&'static str, TraceError> {
        let Some(value) = self.take(name) else { return Ok(words[0]) };
        let found = words.iter().find(|word| **word == value);
        let expected = || self.wrong_part(&format!("{name}={value}"), &words.join(" or "));
        found.copied().ok_or_else(expected)
    }

    /// What is in parentheses, with an unknown name or none.
    pub fn parts(&mut self) -> Vec<(Option<&'a str>, &'a str)> {
        let inner = |value: &'a str| value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
        let (parts, left) = self.left.drain(..).partition(|(_, value)| inner(value).is_some());
        self.left = left;
        let parts: Vec<(Option<&str>, &str)> = parts;
        parts.into_iter().filter_map(|(name, value)| Some((name, inner(value)?))).collect()
    }

    /// Fails if something is left over.
    pub fn finish(self) -> Result<(), TraceError> {
        match self.left.first() {
            None => Ok(()),
            Some((name, value)) => {
                let part = name.map_or((*value).to_owned(), |name| format!("{name}={value}"));
                let near = name.map(|name| perhaps(name, self.known.iter().copied())).unwrap_or_default();
                Err(self.wrong_part(&part, &format!("one of {}, each once{near}", self.known.join(", "))))
            }
        }
    }

    /// A parameter that must be there is not, unless by another name.
    fn missing(&self, name: &'static str) -> TraceError {
        let generator = self.text.split_once(':').map_or(self.text, |(generator, _)| generator);
        let takes = GENERATORS.iter().find(|known| known.0 == generator).map_or("", |known| known.1);
        let is_known = |other: &str| takes.split(", ").any(|key| key.split('=').next() == Some(other));
        let is_typo = |other: &str| !is_known(other) && nearest(other, [name]).is_some();
        let typo = self.left.iter().find(|(other, _)| other.is_some_and(is_typo));
        if let Some((Some(other), value)) = typo {
            return self
                .wrong_part(&format!("{other}={value}"), &format!("{name}=NUMBER (did you mean {name:?}?)"));
        }
        self.wrong(&format!("{name}=NUMBER in it: {generator} takes {takes}"))
    }

    /// The specification is not as expected.
    pub fn wrong(&self, expected: &str) -> TraceError {
        self.wrong_part(self.text, expected)
    }

    fn wrong_part(&self, part: &str, expected: &str) -> TraceError {
        let value = part.chars().take(200).collect();
        TraceError::Option { name: "trace specification", value, remedy: expected.to_owned() }
    }

    fn take(&mut self, name: &'static str) -> Option<&'a str> {
        self.known.push(name);
        let at = self.left.iter().position(|(other, _)| *other == Some(name))?;
        Some(self.left.remove(at).1)
    }
}
