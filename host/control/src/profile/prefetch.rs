//! In which order a program reads, as a profile says it.

use derive_more::Display;
use serde_with::{DeserializeFromStr, SerializeDisplay};
use std::path::PathBuf;
use std::str::FromStr;

/// What the program of a profile reads in which order.
///
/// ```
/// use pantler_control::Prefetch;
/// assert_eq!("list:cscope.files".parse(), Ok(Prefetch::List("cscope.files".into())));
/// assert!("backwards".parse::<Prefetch>().unwrap_err().contains("expected \"sequential\""));
/// ```
#[derive(Debug, Clone, Display, PartialEq, Eq, SerializeDisplay, DeserializeFromStr)]
#[non_exhaustive]
pub enum Prefetch {
    /// Each file that it opens to read, from start to end, one after the other.
    #[display("sequential")]
    Sequential,
    /// The files that this one names, one in a line, in that order. Names are relative to
    /// where the program starts.
    #[display("list:{}", _0.display())]
    List(PathBuf),
}

impl FromStr for Prefetch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("list:") {
            None if text == "sequential" => Ok(Self::Sequential),
            Some(file) if !file.is_empty() && !file.contains('\0') => Ok(Self::List(file.into())),
            _ => Err(format!("prefetch {text:?}: expected \"sequential\" or \"list:FILE\"")),
        }
    }
}
