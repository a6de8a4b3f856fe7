//! What was measured, kept as files: a run that ended early goes on with `--resume`.

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Results by their names.
pub struct Kept {
    folder: PathBuf,
    origin: Origin,
    is_resumed: bool,
}

/// What measured, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub commit: String,
    pub machine: String,
}

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    origin: Origin,
    value: T,
}

impl Kept {
    /// In a folder; without `is_resumed` nothing is taken from it.
    pub fn open(folder: &Path, origin: Origin, is_resumed: bool) -> Result<Kept> {
        fs::create_dir_all(folder)?;
        Ok(Kept { folder: folder.to_owned(), origin, is_resumed })
    }

    /// What has this name, if this commit measured it here, without changes that no commit has.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let is_taken = self.is_resumed && !self.origin.commit.ends_with("-dirty");
        let text = fs::read_to_string(self.path(name)).ok().filter(|_| is_taken)?;
        let entry: Entry<T> = serde_json::from_str(&text).ok()?;
        (entry.origin == self.origin).then_some(entry.value)
    }

    pub fn keep<T: Serialize>(&self, name: &str, value: T) -> Result<()> {
        let text = serde_json::to_string(&Entry { origin: self.origin.clone(), value })?;
        // One that is there is whole.
        let fresh = self.path(name).with_extension("new");
        fs::write(&fresh, text)?;
        Ok(fs::rename(fresh, self.path(name))?)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name).with_extension("json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_elsewhere_is_not_taken() {
        let folder = std::env::temp_dir().join(format!("pantler-kept-{}", std::process::id()));
        let at = |commit: &str, machine: &str, is_resumed| {
            let origin = Origin { commit: commit.to_owned(), machine: machine.to_owned() };
            Kept::open(&folder, origin, is_resumed).unwrap()
        };
        let open = |commit, is_resumed| at(commit, "here", is_resumed);
        open("a", false).keep("web", [1, 2]).unwrap();
        assert_eq!(open("a", true).get("web"), Some([1, 2]));
        assert_eq!(open("b", true).get::<[i32; 2]>("web"), None);
        assert_eq!(at("a", "there", true).get::<[i32; 2]>("web"), None);
        assert_eq!(open("a", true).get::<[i32; 2]>("tier"), None);
        assert_eq!(open("a", false).get::<[i32; 2]>("web"), None, "not resumed");
        open("a", false).keep("tier", [3, 4]).unwrap();
        assert_eq!(open("a", true).get("web"), Some([1, 2]), "another row was measured anew");
        open("a-dirty", false).keep("web", [1, 2]).unwrap();
        assert_eq!(open("a-dirty", true).get::<[i32; 2]>("web"), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
