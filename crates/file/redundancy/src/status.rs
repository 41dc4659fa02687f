//! What a set says of itself: one value, of which `holdfast status` and `--json` are views.

use serde::{Deserialize, Serialize};

/// State of a store in its set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreState {
    /// Holds every copy that it should.
    InSync,
    /// Present and being brought up to date.
    Rebuilding,
    /// Not in use: missing, failed or refused; the detail says why.
    Fenced,
}

/// Progress of bringing one store up to date.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done, in a word or two.
    pub phase: String,
    /// Objects looked at.
    pub objects_done: u64,
    /// Bytes compared or copied.
    pub bytes_done: u64,
    /// Bytes to do in all, where known.
    pub bytes_total: Option<u64>,
    /// Bytes that had to be written.
    pub bytes_written: u64,
    /// Rate over the last seconds.
    pub bytes_per_s: u64,
    /// Seconds to go, where known.
    pub eta_s: Option<u64>,
}

/// The last time that a store was brought up to date and taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LastRebuild {
    /// When it ended, seconds since the epoch.
    pub finished_s: i64,
    /// Seconds it took.
    pub seconds: u64,
    /// Objects looked at.
    pub objects: u64,
    /// Bytes compared or copied.
    pub bytes: u64,
    /// Bytes that had to be written.
    pub bytes_written: u64,
}

/// One store.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Place in the set.
    pub index: u8,
    /// Where it is.
    pub path: String,
    /// Its id, 32 hexadecimal digits; empty where none is known.
    pub id: String,
    /// State.
    pub state: StoreState,
    /// Why it is not in sync, and what to do; empty where it is.
    pub detail: String,
    /// Size of the file system below.
    pub total_bytes: u64,
    /// Free bytes there.
    pub free_bytes: u64,
    /// Known changes that this store has not seen.
    pub dirty_entries: u64,
    /// Errors of the store since the start.
    pub errors: u64,
    /// Rebuild, where one runs.
    pub rebuild: Option<Progress>,
    /// The last rebuild that ended well since the start, where there was one.
    #[serde(default)]
    pub last_rebuild: Option<LastRebuild>,
    /// What it has of stripes, where the set has any.
    #[serde(default)]
    pub encoding: Option<StoreEncodingStatus>,
}

/// What is encoded.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EncodingStatus {
    /// Data and parity shards of new stripes, as `2+1`; empty where no more are made.
    pub code: String,
    /// Stripes that stand.
    pub stripes: u64,
    /// Chunks of files in them.
    pub chunks: u64,
    /// Chunks of them that cannot be read: too little of their stripes is left.
    #[serde(default)]
    pub lost_chunks: u64,
    /// Bytes of these chunks.
    pub bytes: u64,
    /// Bytes of parity that stand for their copies.
    pub parity_bytes: u64,
    /// Bytes of copies that were given up.
    pub freed_bytes: u64,
    /// Bytes of pages that were written since and are not merged into parity yet.
    #[serde(default)]
    pub differential_bytes: u64,
    /// Bytes of such pages that may wait.
    #[serde(default)]
    pub differential_limit_bytes: u64,
    /// Bytes of the logs that hold them, on all stores.
    #[serde(default)]
    pub differential_log_bytes: u64,
    /// Bytes of memory that counts of requests take.
    pub counter_bytes: u64,
    /// Share of all data that was encoded after the last round, from 0 to 1; `None` before the
    /// first.
    pub encoded_share: Option<f64>,
    /// Share of the requests of the last round that went to encoded data, from 0 to 1.
    pub load_share: Option<f64>,
    /// Bytes of headers and page checksums of shards, on all stores.
    #[serde(default)]
    pub metadata_bytes: u64,
    /// What the last round makes of these figures; `None` before the first.
    #[serde(default)]
    pub shares: Option<EncodingShares>,
}

/// Shares of bytes, each from 0 to 1, by the lengths of the files at the last round: holes count.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EncodingShares {
    /// Bytes of files for each byte that is kept of them: copies, parity, metadata and the logs of
    /// differentials (\[F\] table 4.3).
    pub capacity_efficiency: f64,
    /// The same for copies and parity alone, calculated from the code and what is encoded.
    pub capacity_formula: f64,
    /// Metadata, of all that is kept.
    pub metadata: f64,
    /// Pages that wait for their merge, of the files (B of \[F\] section 5.3).
    pub differential: f64,
}

/// What a store has of stripes.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StoreEncodingStatus {
    /// Bytes of chunks that are encoded and have their bytes here.
    pub base_bytes: u64,
    /// Bytes of parity.
    pub parity_bytes: u64,
    /// Bytes of copies that were given up here.
    pub freed_bytes: u64,
    /// Bytes of headers and page checksums of its shards.
    pub metadata_bytes: u64,
    /// Bytes of its log of differentials.
    pub differential_log_bytes: u64,
    /// Share of the requests of the last round that went to encoded data with its bytes here.
    pub load_share: Option<f64>,
}

/// The outcome of the last comparison of all copies.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// When it ended, seconds since the epoch.
    pub finished_s: i64,
    /// Objects compared.
    pub objects: u64,
    /// Differences found.
    pub differences: u64,
}

/// The scrub of what is encoded.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ScrubScheduleStatus {
    /// Seconds between two passes that begin by themselves; 0 where none does.
    pub interval_s: u64,
    /// When the next pass begins by itself, seconds since the epoch; `None` where none does, or
    /// one is under way.
    pub next_s: Option<i64>,
    /// When the last pass came to its end, seconds since the epoch; `None` before the first.
    pub last_finished_s: Option<i64>,
    /// Stripes of that pass.
    pub last_stripes: u64,
    /// Damaged pages that it made right again.
    pub last_mended: u64,
    /// What it found wrong and could not make right.
    pub last_lost: u64,
    /// The pass that is under way, or was interrupted.
    pub pass: Option<ScrubPassStatus>,
}

/// A pass of the scrub.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ScrubPassStatus {
    /// When it began, seconds since the epoch.
    pub started_s: i64,
    /// Stripes that are done, as the stores have it: a pass that is cut goes on behind these.
    pub stripes: u64,
    /// Damaged pages that it made right again.
    pub mended: u64,
    /// What it found wrong and could not make right.
    pub lost: u64,
    /// How far it is, of what was left when it began or went on; `None` while it does not run.
    pub progress: Option<Progress>,
}

/// A whole set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The set's id, 32 hexadecimal digits.
    pub set: String,
    /// Where it is mounted; empty where it is not.
    pub mount: String,
    /// Process that serves it.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Copies of each file.
    pub copies: u8,
    /// Membership generation.
    pub generation: u64,
    /// Whether every file has all its copies.
    pub redundant: bool,
    /// How many more stores may be lost without loss of data, at the present redundancy.
    pub may_lose: u8,
    /// Whether the set takes writes; the detail of the stores says why not.
    pub writable: bool,
    /// Objects and regions changed since the last checkpoint.
    pub active_entries: u64,
    /// Inodes that the kernel holds.
    pub known_inodes: u64,
    /// Data whose copies gave way to parity, where the set encodes or has encoded.
    #[serde(default)]
    pub encoding: Option<EncodingStatus>,
    /// The scrub of what is encoded, where the set encodes or has encoded.
    #[serde(default)]
    pub scrub: Option<ScrubScheduleStatus>,
    /// The last `scrub` or `check` since the start, where there was one.
    pub last_scrub: Option<ScrubStatus>,
    /// The stores.
    pub stores: Vec<StoreStatus>,
}
