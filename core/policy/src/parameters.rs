//! Parameters of policies: plain structs with fields that have a key to type, a meaning, a default
//! and a range.
//!
//! ```text
//! parameters! {
//!     /// Parameters of [`Gclock`].
//!     pub struct GclockParameters {
//!         /// References that are counted at most.
//!         "max" => max: u8 = 3, 1..=255;
//!     }
//! }
//! ```
//!
//! gives the struct with its `Default`, and what [`Spec`](crate::Spec) needs to read, write and
//! explain it.

use core::fmt;

/// What a policy can be told.
pub trait Parameters: Copy + Default + fmt::Debug + PartialEq {
    /// One entry for each field, in order.
    const KEYS: &'static [Key];

    /// Sets the parameter that is typed as `key`.
    ///
    /// # Errors
    ///
    /// Says what was expected.
    fn set(&mut self, key: &str, value: &str) -> Result<(), Refused>;

    /// Writes `key=value` for each field that is not at its default, each after `separate(f)`.
    ///
    /// # Errors
    ///
    /// Those of `f`.
    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        separate: &mut dyn FnMut(&mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result;
}

/// How one parameter is typed.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The word before the `=`.
    pub key: &'static str,
    /// What it means, with its unit.
    pub meaning: &'static str,
    /// The value unless told otherwise.
    pub default: &'static str,
    /// The values that are taken.
    pub range: &'static str,
}

/// Why a parameter is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No parameter has this key.
    Unknown,
    /// The value is no number or outside this range.
    Value(&'static str),
}

/// The parameters of a policy that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NoParameters;

impl Parameters for NoParameters {
    const KEYS: &'static [Key] = &[];

    fn set(&mut self, _key: &str, _value: &str) -> Result<(), Refused> {
        Err(Refused::Unknown)
    }

    fn write(
        &self,
        _f: &mut fmt::Formatter<'_>,
        _separate: &mut dyn FnMut(&mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        Ok(())
    }
}

/// `share` of `frames`, rounded to the nearest, ties up.
pub(crate) fn share_of(frames: u32, share: f64) -> u32 {
    // A cast saturates, and no policy is told a negative share.
    (f64::from(frames) * share + 0.5) as u32
}

/// `share` of `frames`, rounded down.
pub(crate) fn part_of(frames: u32, share: f64) -> u32 {
    (f64::from(frames) * share) as u32
}

macro_rules! parameters {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident {
            $( $(#[doc = $meaning:literal])+ $key:literal => $field:ident: $kind:ty = $default:expr, $range:expr; )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $meaning])+ pub $field: $kind, )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl $crate::Parameters for $name {
            const KEYS: &'static [$crate::Key] = &[
                $( $crate::Key {
                    key: $key,
                    meaning: concat!($($meaning),+),
                    default: stringify!($default),
                    range: stringify!($range),
                }, )+
            ];

            fn set(&mut self, key: &str, value: &str) -> Result<(), $crate::Refused> {
                match key {
                    $( $key => {
                        let value = value.parse().ok().filter(|value| ($range).contains(value));
                        self.$field = value.ok_or($crate::Refused::Value(stringify!($range)))?;
                        Ok(())
                    } )+
                    _ => Err($crate::Refused::Unknown),
                }
            }

            fn write(
                &self,
                f: &mut core::fmt::Formatter<'_>,
                separate: &mut dyn FnMut(&mut core::fmt::Formatter<'_>) -> core::fmt::Result,
            ) -> core::fmt::Result {
                $( if self.$field != $default {
                    separate(f)?;
                    write!(f, "{}={}", $key, self.$field)?;
                } )+
                Ok(())
            }
        }
    };
}
pub(crate) use parameters;
