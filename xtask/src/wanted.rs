//! What is asked of an experiment on its command line.

use anyhow::{Context, Result, bail};

/// How often, and which part.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// Each row so often.
    pub repeats: usize,
    /// Some of the names; all without one.
    only: Vec<&'a str>,
}

impl<'a> Wanted<'a> {
    /// Reads the arguments of a command whose parts have these names.
    ///
    /// # Errors
    /// What it does not know.
    pub fn of(command: &str, names: &[&str], repeats: usize, arguments: &[&'a str]) -> Result<Wanted<'a>> {
        let mut wanted = Wanted { repeats, only: Vec::new() };
        for pair in arguments.chunks(2) {
            match pair {
                ["--repeats", count] => wanted.repeats = count.parse().context("--repeats: a number")?,
                ["--only", name] if names.contains(name) => wanted.only.push(name),
                _ => bail!("{command}: expected --repeats N, --only {}", names.join("|")),
            }
        }
        Ok(wanted)
    }

    /// Whether this part is asked for.
    pub fn has(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.contains(&name)
    }

    /// Whether this part of `all` is asked for, when there are parts of several kinds.
    pub fn has_of(&self, all: &[&str], name: &str) -> bool {
        self.only.contains(&name) || !self.only.iter().any(|only| all.contains(only))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_without_a_named_part_is_wanted_as_a_whole() {
        let (rows, rivals) = (["a", "b"], ["x", "y"]);
        let words = ["--only", "a", "--repeats", "2", "--only", "b"];
        let wanted = Wanted::of("test", &[&rows[..], &rivals[..]].concat(), 5, &words).unwrap();
        assert_eq!(wanted.repeats, 2);
        assert!(wanted.has_of(&rows, "b") && wanted.has_of(&rivals, "x") && !wanted.has("x"));
        assert!(!Wanted::of("test", &rows, 5, &["--only", "a"]).unwrap().has_of(&rows, "b"));
        assert!(Wanted::of("test", &rows, 5, &["--only", "x"]).is_err());
    }
}
