//! A file to be written at the end, opened at the beginning.

use anyhow::{Context, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file that can be written. Its old content stays until there is a new one.
pub struct Written {
    path: PathBuf,
    file: File,
    /// Whether it is there only because of this, and nothing is in it.
    is_void: bool,
}

impl Written {
    /// Opens it, or makes it where there is none.
    pub fn create(path: &Path) -> Result<Self> {
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        let is_void = made.is_ok();
        let file = match made {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // It may be a link to a file that is not there yet.
                OpenOptions::new().write(true).create(true).truncate(false).open(path)
            }
            made => made,
        };
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, is_void })
    }

    /// One that is open already.
    pub fn over(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), file, is_void: false }
    }

    /// Puts what `write` writes in the place of what it held.
    pub fn fill(mut self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        self.put(write).with_context(|| format!("cannot write {}", self.path.display()))?;
        self.is_void = false;
        Ok(())
    }

    fn put(&self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        // Pipes and terminals have no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        let mut file = BufWriter::new(&self.file);
        write(&mut file)?;
        Ok(file.flush()?)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if self.is_void {
            // Nothing is lost with it, so a failure to remove it is ignored.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_what_it_held_until_it_is_filled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it");
        drop(Written::create(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "long ago").unwrap();
        drop(Written::create(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "long ago");
        Written::create(&path).unwrap().fill(|file| Ok(file.write_all(b"now")?)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "now");
    }

    #[test]
    fn what_could_not_be_filled_goes_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it");
        let error = Written::create(&path).unwrap().fill(|_| anyhow::bail!("no more")).unwrap_err();
        assert!(format!("{error:#}").contains("no more") && !path.exists(), "{error:#}");
        assert!(Written::create(&folder.path().join("no/it")).is_err());
        // A pipe has no length to cut.
        Written::create(Path::new("/dev/null")).unwrap().fill(|file| Ok(file.write_all(b"x")?)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        Written::create(&link).unwrap().fill(|file| Ok(file.write_all(b"there")?)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "there");
    }
}
