//! How much is proved of what was transferred.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is proved of each file; each includes those before it. The sentences are those of
/// `docs/decisions/0018-transfer.md`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The bytes had the sender's checksums when they arrived in memory, and were synced.
    Wire,
    /// The kernel returned the same bytes after they were synced, perhaps from its page cache.
    Cache,
    /// The device returned them: the kernel had none of the file's pages in memory.
    Device,
    /// They did so after more newer data had been written to it than its write cache is stated to
    /// hold.
    Medium,
}

impl Level {
    /// All, from the weakest.
    pub const ALL: [Level; 4] = [Level::Wire, Level::Cache, Level::Device, Level::Medium];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Wire => "wire",
            Level::Cache => "cache",
            Level::Device => "device",
            Level::Medium => "medium",
        }
    }

    /// What is proved of a file before it gets its name: what `medium` needs beyond `device` comes
    /// later.
    pub(crate) fn before_place(self) -> Level {
        self.min(Level::Device)
    }

    /// What is claimed, in one sentence.
    pub fn claim(self) -> &'static str {
        match self {
            Level::Wire => {
                "the bytes arrived as they were sent and were synced; what was stored was not read"
            }
            Level::Cache => {
                "the kernel returned the right bytes after they were synced, perhaps from its page cache"
            }
            Level::Device => {
                "the device returned the right bytes after they were synced and dropped from the page cache"
            }
            Level::Medium => {
                "the device returned the right bytes after more newer data was written to it than its write cache was stated to hold"
            }
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        let found = Level::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or(UnknownLevel)
    }
}

/// A level that there is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the levels are wire, cache, device and medium")]
pub struct UnknownLevel;
