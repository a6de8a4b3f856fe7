//! A name that nothing has.

use alloc::string::String;

use thiserror::Error;

/// A name that was typed and that nothing has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown {what} `{name}`, expected one of {}", known.join(" "))]
pub struct UnknownName {
    pub(crate) what: &'static str,
    pub(crate) name: String,
    pub(crate) known: &'static [&'static str],
}
