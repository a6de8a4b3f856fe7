//! What rows of a benchmark must show: included by the benches of several crates. Each bar is told
//! when it is looked at, all once more at the end, and one that is missed fails the bench.
#![allow(dead_code, reason = "each bench has bars of its kinds")]

use std::cell::RefCell;
use std::fmt;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Bars {
    told: RefCell<Vec<(bool, String)>>,
}

impl Bars {
    /// A figure that must not be less. One that could not be found is missed.
    pub fn at_least(&self, what: &str, figure: f64, bar: f64) {
        self.tell(figure >= bar, format!("{what}: {figure:.3}, at least {bar}"));
    }

    /// A figure that must not be more.
    pub fn at_most(&self, what: &str, figure: f64, bar: f64) {
        self.tell(figure <= bar, format!("{what}: {figure:.3}, at most {bar}"));
    }

    /// Something to compare with that is not there: nothing is known about it.
    pub fn missing(&self, rival: &str) {
        self.tell(false, format!("{rival} is not there to compare with; --without-rivals does without"));
    }

    fn tell(&self, is_passed: bool, what: String) {
        let line = format!("{} {what}", if is_passed { "ok  " } else { "MISS" });
        println!("{line}");
        self.told.borrow_mut().push((is_passed, line));
    }

    /// Tells all of them.
    ///
    /// # Errors
    /// When one was missed.
    pub fn end(&self) -> Result<(), Missed> {
        let told = self.told.borrow();
        if !told.is_empty() {
            println!("\nBars:");
        }
        told.iter().for_each(|(_, line)| println!("{line}"));
        let missed = told.iter().filter(|(is_passed, _)| !is_passed).count();
        if missed > 0 { Err(Missed { missed, bars: told.len() }) } else { Ok(()) }
    }
}

/// How many of how many bars were missed.
#[derive(Debug)]
pub struct Missed {
    missed: usize,
    bars: usize,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bars missed", self.missed, self.bars)
    }
}

impl std::error::Error for Missed {}
