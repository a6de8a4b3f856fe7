//! Paths as text. Names are bytes and JSON is text: what is no UTF-8 shows as U+FFFD.
//!
//! Fit for paths that are shown. What a path stands for arrives as a descriptor beside it.

use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

pub(crate) fn path<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&path.to_string_lossy())
}

pub(crate) fn optional<S: Serializer>(path: &Option<PathBuf>, out: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(Path::to_string_lossy).serialize(out)
}
