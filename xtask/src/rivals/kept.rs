//! What was measured, kept as files: a run that ended early goes on with `--resume`.

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Results by their names, of one commit.
pub struct Kept {
    folder: PathBuf,
    commit: String,
}

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    commit: String,
    value: T,
}

impl Kept {
    /// In a folder; without `is_resumed` what is there is forgotten.
    pub fn open(folder: &Path, commit: &str, is_resumed: bool) -> Result<Kept> {
        if !is_resumed {
            let _ = fs::remove_dir_all(folder);
        }
        fs::create_dir_all(folder)?;
        Ok(Kept { folder: folder.to_owned(), commit: commit.to_owned() })
    }

    /// What has this name, if this commit measured it, without changes that no commit has.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let text = fs::read_to_string(self.path(name)).ok()?;
        let entry: Entry<T> = serde_json::from_str(&text).ok()?;
        (entry.commit == self.commit && !self.commit.ends_with("-dirty")).then_some(entry.value)
    }

    pub fn keep<T: Serialize>(&self, name: &str, value: T) -> Result<()> {
        let text = serde_json::to_string(&Entry { commit: self.commit.clone(), value })?;
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
    fn what_another_commit_measured_is_not_taken() {
        let folder = std::env::temp_dir().join(format!("pantler-kept-{}", std::process::id()));
        let open = |commit, is_resumed| Kept::open(&folder, commit, is_resumed).unwrap();
        open("a", false).keep("web-nginx", [1, 2]).unwrap();
        assert_eq!(open("a", true).get("web-nginx"), Some([1, 2]));
        assert_eq!(open("b", true).get::<[i32; 2]>("web-nginx"), None);
        assert_eq!(open("a", true).get::<[i32; 2]>("web-apache"), None);
        open("a-dirty", false).keep("web-nginx", [1, 2]).unwrap();
        assert_eq!(open("a-dirty", true).get::<[i32; 2]>("web-nginx"), None);
        open("a", false).keep("web-nginx", [1, 2]).unwrap();
        assert_eq!(open("a", false).get::<[i32; 2]>("web-nginx"), None, "not resumed");
        fs::remove_dir_all(folder).unwrap();
    }
}
