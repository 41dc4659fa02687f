//! How a log works.

use crate::error::{Result, VlogError};
use std::sync::Arc;
use std::time::Duration;

/// When a lane's file is synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// As soon as there is something to sync: one sync for all that came since the last began.
    Always,
    /// So often; what is younger may be lost by a power cut.
    Every(Duration),
    /// When the system likes to, but for the barriers of compactions.
    Never,
}

/// When files are compacted, and how fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compaction {
    /// A file is compacted when this many percent of it are dead, 1 to 100. With 50 the log takes
    /// at most about twice the bytes of its live records, and writes each about twice.
    pub dead_percent_min: u32,
    /// Most bytes read and written in a second, together; no bound if `None`.
    pub bytes_per_s_max: Option<u64>,
}

/// Called with the number of a lane when more of it is durable, on the thread that synced it. It has
/// to return soon: a write to an eventfd, say.
pub type Wake = Arc<dyn Fn(u32) + Send + std::marker::Sync>;

/// Called once in an opening, before the first live record is handed out, with how many there are.
pub type Expect = Arc<dyn Fn(u64) + Send + std::marker::Sync>;

/// Options of an opening; none is kept on disk.
#[derive(Clone)]
pub struct Options {
    /// Lanes: files that are appended to at the same time, each with a thread that writes and
    /// syncs it. Stream `s` goes to lane `s % lanes`. May differ in every opening. 1 to 1024.
    pub lanes: u32,
    /// Bytes of a segment file after which the next is begun, 4096 to 1 GiB. A larger record has a
    /// file of its own.
    pub segment_bytes: u64,
    /// Bytes of a lane that wait in memory before an append waits for the disk.
    pub pending_bytes_max: usize,
    /// When files are synced.
    pub sync: Sync,
    /// When files are compacted.
    pub compaction: Compaction,
    /// Whether the log has threads of its own, one for each lane and one for compactions. Without
    /// them nothing is written or compacted but by [`crate::Vlog::flush`], [`crate::Vlog::sync`]
    /// and [`crate::Vlog::compact`].
    pub threads: bool,
    /// Threads that read files at an open, 1 to 1024.
    pub recovery_threads: u32,
    /// Who is told that more is durable.
    pub wake: Option<Wake>,
    /// Who is told how many records are live, to make room for them.
    pub expect: Option<Expect>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            lanes: 1,
            segment_bytes: 64 << 20,
            pending_bytes_max: 16 << 20,
            sync: Sync::Every(Duration::from_secs(1)),
            compaction: Compaction {
                dead_percent_min: 50,
                bytes_per_s_max: None,
            },
            threads: true,
            recovery_threads: 2,
            wake: None,
            expect: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("lanes", &self.lanes)
            .field("segment_bytes", &self.segment_bytes)
            .field("pending_bytes_max", &self.pending_bytes_max)
            .field("sync", &self.sync)
            .field("compaction", &self.compaction)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let bounds = [
            ("the number of lanes", u64::from(self.lanes), 1, 1024),
            ("the size of a segment", self.segment_bytes, 4096, 1 << 30),
            (
                "the number of recovery threads",
                u64::from(self.recovery_threads),
                1,
                1024,
            ),
            (
                "the percentage of dead bytes",
                u64::from(self.compaction.dead_percent_min),
                1,
                100,
            ),
            (
                "the bytes that may wait",
                self.pending_bytes_max as u64,
                4096,
                1 << 40,
            ),
            (
                "the bytes a second of compactions",
                self.compaction.bytes_per_s_max.unwrap_or(u64::MAX),
                4096,
                u64::MAX,
            ),
        ];
        for (what, found, min, max) in bounds {
            if !(min..=max).contains(&found) {
                return Err(VlogError::Option {
                    what,
                    found,
                    min,
                    max,
                });
            }
        }
        Ok(())
    }
}
