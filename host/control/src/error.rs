//! Errors of requests to a body, in kinds that survive the socket.

use serde::{Deserialize, Serialize};

/// Why a request was refused or failed.
///
/// Every kind maps to one exit status of the command line, see [`ControlError::exit_status`].
/// A refused request has had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum ControlError {
    /// A value makes no sense; the text names the value and what is allowed.
    #[error("{reason}")]
    Invalid { reason: String },
    /// The speaker may not do this; the text says which users may.
    #[error("not permitted: {reason}")]
    Denied { reason: String },
    /// A privilege or kernel feature is missing on this machine.
    #[error("{what} is missing: {remedy}")]
    Missing {
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// There is no such owner, run, mount or file.
    #[error("{what} not found")]
    NotFound { what: String },
    /// A bound on state was reached (C6); nothing changed.
    #[error("bound reached: {bound}")]
    Bound {
        /// The bound by name, with its value.
        bound: String,
    },
    /// This body cannot do that at all.
    #[error("{what} is not supported here")]
    Unsupported { what: String },
    /// An operating system call failed, or the other side of the socket broke the protocol.
    #[error("{reason}")]
    Failed { reason: String },
}

impl ControlError {
    /// A value that makes no sense: `invalid("policy \"x\": expected lru, mru, fifo or clock")`.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }

    /// The speaker may not do this.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied { reason: reason.into() }
    }

    /// There is no such thing.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    /// This body cannot do that.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into() }
    }

    /// Something broke on the way.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into() }
    }

    /// The exit status a command that met this error ends with: 1 failed, 2 usage, 3 something is
    /// missing.
    ///
    /// ```
    /// use pantler_control::ControlError;
    /// assert_eq!(ControlError::invalid("block 9 after block 3").exit_status(), 2);
    /// assert_eq!(ControlError::denied("only root or user 0").exit_status(), 3);
    /// assert_eq!(ControlError::not_found("owner \"x\"").exit_status(), 1);
    /// ```
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Invalid { .. } => 2,
            Self::Denied { .. } | Self::Missing { .. } => 3,
            _ => 1,
        }
    }
}

impl From<std::io::Error> for ControlError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<pantler_steward::HintError> for ControlError {
    /// A hint past a bound, or without sense.
    fn from(error: pantler_steward::HintError) -> Self {
        match error {
            pantler_steward::HintError::EmptyRange { .. }
            | pantler_steward::HintError::EmptyBytes { .. }
            | pantler_steward::HintError::NegativeRange { .. } => Self::invalid(error.to_string()),
            _ => Self::Bound { bound: error.to_string() },
        }
    }
}
