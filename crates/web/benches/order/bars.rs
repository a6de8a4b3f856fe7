//! What the rows must show. Each bar is told when it is looked at, all once more at the end, and one that is missed fails the
//! bench.

use anyhow::{Result, bail};
use std::cell::RefCell;

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

    fn tell(&self, is_passed: bool, what: String) {
        let line = format!("{} {what}", if is_passed { "PASS" } else { "MISS" });
        println!("{line}");
        self.told.borrow_mut().push((is_passed, line));
    }

    /// Tells all of them.
    ///
    /// # Errors
    /// When one was missed.
    pub fn end(&self) -> Result<()> {
        let told = self.told.borrow();
        if !told.is_empty() {
            println!("\nBars:");
        }
        told.iter().for_each(|(_, line)| println!("{line}"));
        let missed = told.iter().filter(|(is_passed, _)| !is_passed).count();
        if missed > 0 {
            bail!("{missed} of {} bars missed", told.len());
        }
        Ok(())
    }
}
