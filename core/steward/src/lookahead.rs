//! Lookahead by name: what is fetched because a neighbour was referenced (docs/RULES.md, W).

use core::fmt;
use core::str::FromStr;

use alloc::string::String;

mod fetch;

/// What is brought in beside blocks that a reader waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lookahead {
    /// Nothing.
    None,
    /// After every reference to i, i+1 into the one list, as if it had been referenced: SA-W2R's
    /// baseline.
    Obl,
    /// After a reference to i that follows one to i−1, i+1 into the one list: the baseline of ACFS.
    Obl2,
    /// After every reference to i, i+1 into a waiting room of fixed size.
    W2r,
    /// The same with a room that adjusts its size (rules W1 to W4).
    SaW2r,
    /// The same with a room that is as large as it is worth, and that closes where nothing is
    /// sequential (rules V1 to V5, see [`rooms`](crate::rooms)).
    #[default]
    EvenW2r,
    /// Blocks after a stream of references, as far as the stream has shown to go, into the one
    /// list; at most one block in 256 in vain (rules V6 to V9, see [`rooms`](crate::rooms)).
    Streams,
}

impl Lookahead {
    /// All of them, in the order in which help texts list them.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Obl, Self::Obl2, Self::W2r, Self::SaW2r, Self::EvenW2r, Self::Streams];

    /// The name as typed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Obl => "obl",
            Self::Obl2 => "obl-2",
            Self::W2r => "w2r",
            Self::SaW2r => "sa-w2r",
            Self::EvenW2r => "even-w2r",
            Self::Streams => "streams",
        }
    }

    /// Whether blocks that lookahead brought in wait in a room of their own.
    pub const fn has_waiting_room(self) -> bool {
        matches!(self, Self::W2r | Self::SaW2r | Self::EvenW2r)
    }
}

impl fmt::Display for Lookahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Lookahead {
    type Err = UnknownLookahead;

    fn from_str(name: &str) -> Result<Self, UnknownLookahead> {
        let found = Self::ALL.into_iter().find(|lookahead| lookahead.as_str() == name);
        found.ok_or_else(|| UnknownLookahead { name: name.into() })
    }
}

/// A name that is no lookahead's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLookahead {
    name: String,
}

impl fmt::Display for UnknownLookahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown lookahead `{}`, expected one of", self.name)?;
        for lookahead in Lookahead::ALL {
            write!(f, " {lookahead}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownLookahead {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_round_trip_and_strangers_are_told_what_exists() {
        for lookahead in Lookahead::ALL {
            assert_eq!(lookahead.to_string().parse(), Ok(lookahead));
        }
        let error = "two".parse::<Lookahead>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown lookahead `two`, expected one of none obl obl-2 w2r sa-w2r even-w2r streams"
        );
    }
}
