//! Outcomes of trials in a file, so that a run goes on where the last one was interrupted.
//!
//! ```text
//!   1 52e5cc8 noise-2 100 3 17 lru lru 93 93 2411 180
//!   seed commit | scenario, capacity, trial, policy | truth, said, frames, capacity, accesses, ms
//! ```
//!
//! A line counts only for the seed and the commit that it names: what other sources say is measured
//! anew.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;

use pantler_dust::{Known, Verdict};

/// Words of a line.
const MADE_WORDS: usize = 2;
const KEY_WORDS: usize = 4;

/// Outcome of a trial, as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The policy that was asked, in one word.
    pub truth: String,
    /// The family that was named, or `unknown`.
    pub said: String,
    /// Blocks that it had.
    pub frames: u32,
    /// Blocks that it was said to have.
    pub capacity: u32,
    /// Accesses made.
    pub accesses: usize,
    /// Time of a processor.
    pub took_ms: u64,
}

impl Outcome {
    /// What a verdict says of a truth, without its time.
    pub fn of(truth: &str, frames: u32, verdict: &Verdict) -> Self {
        let known = verdict.verdict == Known::Known;
        let said = if known { verdict.family.clone() } else { "unknown".into() };
        let (capacity, accesses) = (verdict.capacity, verdict.accesses);
        Self { truth: truth.replace(' ', "-"), said, frames, capacity, accesses, took_ms: 0 }
    }

    fn line(&self) -> String {
        let Self { truth, said, frames, capacity, accesses, took_ms } = self;
        format!("{truth} {said} {frames} {capacity} {accesses} {took_ms}")
    }

    fn from(words: &[&str]) -> Option<Self> {
        let [truth, said, frames, capacity, accesses, took_ms] = words else { return None };
        Some(Self {
            truth: (*truth).into(),
            said: (*said).into(),
            frames: frames.parse().ok()?,
            capacity: capacity.parse().ok()?,
            accesses: accesses.parse().ok()?,
            took_ms: took_ms.parse().ok()?,
        })
    }
}

/// What is there already, and the file that keeps what comes.
#[derive(Debug)]
pub struct Kept<W> {
    made: String,
    outcomes: HashMap<String, Outcome>,
    others: usize,
    file: W,
}

impl Kept<std::fs::File> {
    /// Opens the file of outcomes, or makes it. `commit` is what `git describe --always --dirty`
    /// says of the sources.
    ///
    /// # Errors
    ///
    /// When it cannot be read or written.
    pub fn open(path: &Path, seed: u64, commit: &str) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Self::go_on(&text, file, seed, commit)
    }
}

impl<W: Write> Kept<W> {
    /// Goes on behind a text, in whatever keeps it.
    fn go_on(text: &str, mut file: W, seed: u64, commit: &str) -> io::Result<Self> {
        let made = format!("{seed} {}", if commit.is_empty() { "unknown" } else { commit });
        // Sources that are being changed have no name: what was kept may be of others.
        let has_name = !commit.is_empty() && !commit.ends_with("-dirty");
        let (mut outcomes, mut others) = (HashMap::new(), 0);
        for line in text.split_inclusive('\n') {
            let own = has_name.then(|| own(line, &made)).flatten();
            others += usize::from(own.is_none());
            outcomes.extend(own);
        }
        if !text.is_empty() && !text.ends_with('\n') {
            // Its writer was interrupted.
            writeln!(file)?;
        }
        Ok(Self { made, outcomes, others, file })
    }

    /// Lines that do not count: of another seed or commit, or torn.
    pub fn of_others(&self) -> usize {
        self.others
    }

    /// What is kept of a trial.
    pub fn outcome(&self, key: &str) -> Option<&Outcome> {
        self.outcomes.get(key)
    }

    /// Keeps the outcome of a trial; its key is four words.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn keep(&mut self, key: String, outcome: Outcome) -> io::Result<()> {
        writeln!(self.file, "{} {key} {}", self.made, outcome.line())?;
        self.outcomes.insert(key, outcome);
        Ok(())
    }
}

/// Key and outcome of a whole line that was made so.
fn own(line: &str, made: &str) -> Option<(String, Outcome)> {
    let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
    let (by, rest) = words.split_at_checked(MADE_WORDS)?;
    let (key, outcome) = rest.split_at_checked(KEY_WORDS)?;
    Some((key.join(" "), Outcome::from(outcome)?)).filter(|_| by.join(" ") == made)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "noise-2 100 3 17";

    fn outcome(said: &str) -> Outcome {
        let (truth, said) = ("lru".into(), said.into());
        Outcome { truth, said, frames: 93, capacity: 94, accesses: 2411, took_ms: 180 }
    }

    fn written(seed: u64, commit: &str, said: &str) -> String {
        let mut text = Vec::new();
        let mut kept = Kept::go_on("", &mut text, seed, commit).unwrap();
        kept.keep(KEY.into(), outcome(said)).unwrap();
        drop(kept);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn only_what_the_same_sources_and_seed_made_counts() {
        let text = written(1, "52e5cc8", "lru");
        assert_eq!(text, format!("1 52e5cc8 {KEY} lru lru 93 94 2411 180\n"));
        let kept = Kept::go_on(&text, io::sink(), 1, "52e5cc8").unwrap();
        assert_eq!((kept.outcome(KEY), kept.of_others()), (Some(&outcome("lru")), 0));
        // As it was before lines named their maker.
        let older = text.strip_prefix("1 52e5cc8 ").unwrap().to_owned();
        let dirty = written(1, "52e5cc8-dirty", "fifo");
        for (text, seed, commit) in [
            (&text, 2, "52e5cc8"),
            (&text, 1, "69efcf6"),
            (&text, 1, "52e5cc8-dirty"),
            (&text, 1, ""),
            (&dirty, 1, "52e5cc8-dirty"),
            (&dirty, 1, "52e5cc8"),
            (&older, 1, "52e5cc8"),
            (&text.trim_end().to_owned(), 1, "52e5cc8"),
        ] {
            let kept = Kept::go_on(text, io::sink(), seed, commit).unwrap();
            assert_eq!((kept.outcome(KEY), kept.of_others()), (None, 1), "{text} {seed} {commit}");
        }
        // One file may hold those of several.
        let all = [written(2, "52e5cc8", "fifo"), text, written(1, "69efcf6", "arc")].concat();
        let kept = Kept::go_on(&all, io::sink(), 1, "52e5cc8").unwrap();
        assert_eq!((kept.outcome(KEY), kept.of_others()), (Some(&outcome("lru")), 2));
    }

    #[test]
    fn what_comes_after_a_torn_line_is_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        std::fs::write(&path, "1 52e5cc8 noise-2 10").unwrap();
        Kept::open(&path, 1, "52e5cc8").unwrap().keep(KEY.into(), outcome("lru")).unwrap();
        let kept = Kept::open(&path, 1, "52e5cc8").unwrap();
        assert_eq!((kept.outcome(KEY), kept.of_others()), (Some(&outcome("lru")), 1));
    }
}
