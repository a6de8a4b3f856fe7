//! What is asked of an experiment on its command line.

use anyhow::{Context, Result, bail};

/// How often, and which part.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Each row so often.
    pub repeats: usize,
    /// One of the names; all without one.
    pub only: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// Reads the arguments of a command whose parts have these names.
    ///
    /// # Errors
    /// What it does not know.
    pub fn of(command: &str, names: &[&str], repeats: usize, arguments: &[&'a str]) -> Result<Wanted<'a>> {
        let mut wanted = Wanted { repeats, only: None };
        for pair in arguments.chunks(2) {
            match pair {
                ["--repeats", count] => wanted.repeats = count.parse().context("--repeats: a number")?,
                ["--only", name] if names.contains(name) => wanted.only = Some(name),
                _ => bail!("{command}: expected --repeats N, --only {}", names.join("|")),
            }
        }
        Ok(wanted)
    }

    /// Whether this part is asked for.
    pub fn has(&self, name: &str) -> bool {
        self.only.is_none_or(|only| only == name)
    }
}
