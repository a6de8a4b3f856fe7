//! Requests and answers on the control socket: one JSON object per line, each at most
//! [`MESSAGE_BYTES_MAX`].
//!
//! ```text
//! > {"version":1,"ask":"hint","on":"/mnt/data","owner":"user-default",
//!    "hint":{"do":"set-policy","priority":0,"policy":"mru"}}
//! < {"version":1,"answer":{"hint":"done"}}
//! ```
//!
//! A descriptor that belongs to a request travels with its line as `SCM_RIGHTS`.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

use crate::{
    BodyInfo, BodyStat, ControlError, FileExplanation, FileNumber, Hint, HintAnswer, OwnerSelector, RunSpec,
};

/// Version of the words on the socket. Both sides refuse any other.
pub const VERSION: u32 = 1;
/// Longest line in either direction. An answer that would be longer is refused by its sender.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What can be asked of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum Request {
    /// Which bodies does this host have?
    List,
    /// A hint for an owner on the body called `on`. A hint about a file comes with its descriptor.
    Hint {
        on: String,
        owner: OwnerSelector,
        hint: Hint,
        /// Entries of a ring of the speaker name the file by this number from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<FileNumber>,
    },
    /// From now on the body called `on` takes hints of the speaking process from a ring, which
    /// comes as a descriptor.
    OpenRing { on: String },
    /// Counters of the body called `on`.
    Stat { on: String },
    /// The story of a file, which comes as a descriptor.
    Explain {
        on: String,
        /// The file, as the speaker named it.
        #[serde(serialize_with = "crate::text::path")]
        path: PathBuf,
    },
    /// The speaking process is the leader of a run on every body of this host that takes runs,
    /// until this connection ends.
    BeginRun {
        /// The run; the host replaces its leader by the attested speaker.
        run: RunSpec,
    },
    /// A process that runs already, with all that it started and will start, belongs to the run
    /// that this connection began.
    TakeIn { pid: u32 },
    /// Programs that were attached leave the body called `on`: a process with all that it started,
    /// or all of an owner.
    Detach { on: String, owner: OwnerSelector },
    /// Which processes were detached from the run that this connection began?
    Detachments,
    /// Host a new body. What is launched, and with which options, is between command and host.
    Launch { launch: serde_json::Value },
    /// End the body called `on`.
    Stop { on: String },
}

/// What a host answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Answer {
    /// The bodies.
    Bodies(Vec<BodyInfo>),
    /// What the hint came back with.
    Hint(HintAnswer),
    /// The same, but the file got no number: the ring has ended.
    NotNumbered(HintAnswer),
    /// Hints are taken from the ring.
    RingOpened,
    /// The counters.
    Stat(Box<BodyStat>),
    /// The story.
    Explanation(Box<FileExplanation>),
    /// Bodies that took the run.
    Run(Vec<BodyInfo>),
    /// How many processes belong to the run because of it.
    TakenIn(usize),
    /// How many processes left.
    Detached(usize),
    /// Those that were detached since the last question; none once the run is over.
    Detachments(Option<Vec<u32>>),
    /// The body that was launched.
    Launched(Box<BodyInfo>),
    /// The body is ending.
    Stopping,
    /// Refused or failed.
    Error(ControlError),
}

/// A line in either direction.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope<T> {
    pub version: u32,
    #[serde(flatten)]
    pub content: T,
}

/// An answer has no name for its content to flatten into; it sits in a field.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AnswerField {
    pub answer: Answer,
}

pub(crate) fn encode<T: Serialize>(content: T) -> Result<Vec<u8>, ControlError> {
    let mut line = serde_json::to_vec(&Envelope { version: VERSION, content })
        .map_err(|error| ControlError::failed(format!("cannot write a message: {error}")))?;
    line.push(b'\n');
    if line.len() > MESSAGE_BYTES_MAX {
        return Err(ControlError::failed(format!(
            "message of {} bytes: at most {MESSAGE_BYTES_MAX}",
            line.len()
        )));
    }
    Ok(line)
}

pub(crate) fn decode<T: for<'a> Deserialize<'a>>(line: &[u8]) -> Result<T, ControlError> {
    #[derive(Deserialize)]
    struct VersionOnly {
        version: u32,
    }
    let broken = |error: serde_json::Error| ControlError::invalid(format!("message: {error}"));
    // The version first: a message of another version need not have our shape.
    let VersionOnly { version } = serde_json::from_slice(line).map_err(broken)?;
    if version != VERSION {
        return Err(ControlError::invalid(format!("message version {version}: expected {VERSION}")));
    }
    Ok(serde_json::from_slice::<Envelope<T>>(line).map_err(broken)?.content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_back() {
        let request = Request::Hint {
            on: "/mnt/data".into(),
            owner: OwnerSelector::Name("job".into()),
            hint: Hint::GetPriority { path: "a".into() },
            number: None,
        };
        let line = encode(&request).unwrap();
        assert_eq!(
            std::str::from_utf8(&line).unwrap(),
            "{\"version\":1,\"ask\":\"hint\",\"on\":\"/mnt/data\",\"owner\":{\"name\":\"job\"},\
             \"hint\":{\"do\":\"get-priority\",\"path\":\"a\"}}\n"
        );
        assert_eq!(decode::<Request>(&line).unwrap(), request);
    }

    #[test]
    fn other_versions_and_nonsense_are_refused() {
        for text in [
            "",
            "{}",
            "[1]",
            r#"{"version":2,"ask":"list"}"#,
            r#"{"version":1,"ask":"dance"}"#,
            r#"{"version":1,"ask":"stat"}"#,
        ] {
            assert_eq!(decode::<Request>(text.as_bytes()).unwrap_err().exit_status(), 2, "{text}");
        }
        assert_eq!(decode::<Request>(br#"{"version":1,"ask":"list"}"#).unwrap(), Request::List);
    }
}
