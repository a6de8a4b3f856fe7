//! In which order a program reads, as a profile says it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What the program of a profile reads in which order.
///
/// ```
/// use pantler_control::Prefetch;
/// assert_eq!("list:cscope.files".parse(), Ok(Prefetch::List("cscope.files".into())));
/// assert!("backwards".parse::<Prefetch>().unwrap_err().contains("expected \"sequential\""));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Prefetch {
    /// Each file that it opens to read, from start to end, one after the other.
    Sequential,
    /// The files that this one names, one in a line, in that order. Names are relative to
    /// where the program starts.
    List(PathBuf),
    /// The files below the folder where the program starts that match a rule, ordered by rule, then
    /// by path.
    GlobOrder,
}

impl FromStr for Prefetch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sequential" => return Ok(Self::Sequential),
            "glob order" => return Ok(Self::GlobOrder),
            _ => {}
        }
        match text.strip_prefix("list:") {
            Some(file) if !file.is_empty() && !file.contains('\0') => Ok(Self::List(file.into())),
            _ => Err(format!("prefetch {text:?}: expected \"sequential\", \"list:FILE\" or \"glob order\"")),
        }
    }
}

impl fmt::Display for Prefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequential => f.write_str("sequential"),
            Self::List(file) => write!(f, "list:{}", file.display()),
            Self::GlobOrder => f.write_str("glob order"),
        }
    }
}

impl TryFrom<String> for Prefetch {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Prefetch> for String {
    fn from(prefetch: Prefetch) -> Self {
        prefetch.to_string()
    }
}
