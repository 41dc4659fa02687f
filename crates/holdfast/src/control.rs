//! How a command talks to the holdfast that serves a mount: one request line and one answer
//! line, both JSON, over a Unix socket that only root can reach.

use crate::engine::{CheckReport, Comparing};
use crate::failure::{Failure, Outcome};
use redundancy::status::{Progress, Status};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

pub mod client;
mod guard;
pub mod place;
pub mod server;
#[cfg(test)]
mod tests;

/// Version of the lines. A server answers only its own.
pub const VERSION: u32 = 1;

/// Longest request in bytes, the newline included.
pub const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// Longest answer in bytes, the newline included: 64 stores and 100 differences with paths of
/// 4 KiB fit.
pub const ANSWER_BYTES_MAX: u64 = 2 << 20;

/// Longest wait for the other side's next bytes. Nothing but `down` takes longer to answer.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The state of the set.
    Status,
    /// Stop; answered when it is done, or refused.
    Down {
        /// Also where programs use the mount.
        force: bool,
    },
    /// Take in a store.
    Attach {
        /// Where it is.
        path: PathBuf,
    },
    /// Stop using a store.
    Detach {
        /// Its place.
        index: u8,
    },
    /// Start to compare; a check joins a comparison that runs already.
    Check {
        /// What for.
        how: Comparing,
    },
    /// How far the comparison is.
    CheckProgress,
}

/// What is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// Done.
    Done,
    /// To [`Request::Attach`]: the place of the store.
    Attached {
        /// Its place.
        index: u8,
    },
    /// To [`Request::Check`] and [`Request::CheckProgress`]: it runs.
    Checking(Progress),
    /// To [`Request::CheckProgress`]: it has ended.
    Checked(CheckReport),
    /// It could not be done.
    Failed(Failure),
}

/// A line: version and content.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Line<T> {
    pub(crate) version: u32,
    pub(crate) body: T,
}

/// Writes one line.
pub(crate) fn send<T: Serialize>(to: &mut impl Write, body: &T) -> std::io::Result<()> {
    let mut text = serde_json::to_string(&Line {
        version: VERSION,
        body,
    })?;
    text.push('\n');
    to.write_all(text.as_bytes())
}

/// Reads one line of at most `limit` bytes; `None` where the other side said nothing at all.
pub(crate) fn receive(from: impl Read, limit: u64) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    BufReader::new(from.take(limit)).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some('\n') {
        return Err(std::io::Error::other("the line is cut short or too long"));
    }
    Ok(Some(line))
}

/// The content of a line of our version.
pub(crate) fn parse<T: for<'a> Deserialize<'a>>(line: &str) -> Outcome<T> {
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let head: Head =
        serde_json::from_str(line).map_err(|error| Failure::unexpected("control line", &error))?;
    if head.version != VERSION {
        return Err(Failure::refuse(
            crate::exit::Exit::NoAnswer,
            format!(
                "the other side speaks version {} of the control lines, this one version {VERSION}",
                head.version
            ),
            "use the `holdfast` that started it, or restart it with this one",
        ));
    }
    let line: Line<T> =
        serde_json::from_str(line).map_err(|error| Failure::unexpected("control line", &error))?;
    Ok(line.body)
}
