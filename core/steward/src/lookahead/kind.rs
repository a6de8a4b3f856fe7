//! Which lookahead there is.

use strum::{Display, EnumString, VariantNames};

use crate::UnknownName;

/// What is brought in beside blocks that a reader waits for.
#[derive(Clone, Copy, Debug, Display, EnumString, VariantNames, PartialEq, Eq, Hash)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownName, parse_err_fn = unknown)]
#[non_exhaustive]
pub enum Lookahead {
    /// Nothing.
    None,
    /// After every reference to i, i+1 into the one list, as if it had been referenced: SA-W2R's
    /// baseline.
    Obl,
    /// After a reference to i that follows one to i−1, i+1 into the one list: the baseline of ACFS.
    #[strum(to_string = "obl-2")]
    Obl2,
    /// After every reference to i, i+1 into a waiting room of fixed size.
    W2r,
    /// The same with a room that adjusts its size (rules W1 to W4).
    SaW2r,
    /// Blocks after a stream of references, as far as the stream has shown to go, into the one
    /// list; at most one block in 256 in vain (rules V6 to V11).
    Streams,
}

impl Lookahead {
    /// All of them, in the order in which help texts list them.
    pub const ALL: [Self; 6] = [Self::None, Self::Obl, Self::Obl2, Self::W2r, Self::SaW2r, Self::Streams];

    /// Whether blocks that lookahead brought in wait in a room of their own.
    pub const fn has_waiting_room(self) -> bool {
        matches!(self, Self::W2r | Self::SaW2r)
    }

    /// Whether that room grows and shrinks.
    pub(crate) const fn adjusts_waiting_room(self) -> bool {
        matches!(self, Self::SaW2r)
    }
}

fn unknown(name: &str) -> UnknownName {
    UnknownName { what: "lookahead", name: name.into(), known: Lookahead::VARIANTS }
}

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
            "unknown lookahead `two`, expected one of none obl obl-2 w2r sa-w2r streams"
        );
    }
}
