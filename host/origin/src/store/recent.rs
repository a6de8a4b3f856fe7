//! What was found out recently about names.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::object::Found;

/// Names in each of the two halves.
const NAMES_MAX: usize = 65_536;

/// Answers that are young enough to be given again. When the newer half is full the older one is
/// forgotten.
#[derive(Debug)]
pub(super) struct Recent {
    age_max: Duration,
    newer: HashMap<String, (Instant, Found)>,
    older: HashMap<String, (Instant, Found)>,
}

impl Recent {
    pub(super) fn new(age_max: Duration) -> Self {
        Self { age_max, newer: HashMap::new(), older: HashMap::new() }
    }

    pub(super) fn get(&self, path: &str, now: Instant) -> Option<Found> {
        let (at, found) = self.newer.get(path).or_else(|| self.older.get(path))?;
        (now.saturating_duration_since(*at) < self.age_max).then(|| found.clone())
    }

    /// `at` is when it was asked for: it may have changed since.
    pub(super) fn put(&mut self, path: String, at: Instant, found: Found) {
        if self.newer.len() >= NAMES_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(path, (at, found));
    }

    pub(super) fn forget(&mut self, path: &str) {
        self.newer.remove(path);
        self.older.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_answers_grow_old() {
        let mut recent = Recent::new(Duration::from_secs(1));
        let start = Instant::now();
        for number in 0..3 * NAMES_MAX {
            recent.put(number.to_string(), start, Found::Directory);
        }
        assert!(recent.newer.len() + recent.older.len() <= 2 * NAMES_MAX);
        let last = (3 * NAMES_MAX - 1).to_string();
        assert_eq!(recent.get(&last, start), Some(Found::Directory));
        assert_eq!(recent.get("0", start), None);
        assert_eq!(recent.get(&last, start + Duration::from_secs(1)), None);
        recent.forget(&last);
        assert_eq!(recent.get(&last, start), None);
    }
}
