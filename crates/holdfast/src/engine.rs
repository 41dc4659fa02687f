//! The one place where the binary meets the file layer that it serves.

use crate::failure::Outcome;
use redundancy::Config;
use redundancy::status::{Progress, Status};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod real;
pub mod refusal;

/// What an engine tells while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A store changed its state; the text is for people.
    Store {
        /// Place in the set.
        index: u8,
        /// What happened.
        text: String,
    },
    /// The mount was taken away from outside (`umount`).
    Unmounted,
}

/// Where events go. Called from any thread; must not block.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// One difference between copies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The file, from the root of the protected tree.
    pub path: PathBuf,
    /// Stores whose copies differ from the home copy.
    pub stores: Vec<u8>,
    /// What differs: `content at 4096`, `mode`, `missing`.
    pub detail: String,
}

/// What a comparison is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparing {
    /// To see all copies; nothing is changed.
    Check,
    /// To have a store that merely lacks copies brought up to date afterwards.
    Repair,
    /// To hold what is encoded against its checksums, and mend it.
    Scrub,
    /// To give up what is encoded and of which too little is left.
    AcceptLoss,
}

/// What a comparison of all copies found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// Objects compared.
    pub objects: u64,
    /// Bytes compared, each copy counted.
    pub bytes: u64,
    /// Encoded chunks that were not compared, because the set does not run.
    #[serde(default)]
    pub encoded_chunks: u64,
    /// Damaged pages of encoded chunks that a scrub has made right again.
    #[serde(default)]
    pub mended: u64,
    /// Stripes that a scrub had done before it was interrupted; their damage is counted here too.
    #[serde(default)]
    pub before: u64,
    /// Encoded chunks that cannot be read, or were given up: too little of them is left.
    #[serde(default)]
    pub lost_chunks: u64,
    /// Differences in all.
    pub differences: u64,
    /// The first of them, at most [`DIFFERENCES_SHOWN`].
    pub shown: Vec<Difference>,
    /// Objects on the stores that are not of this set, or have lost their label: nobody sees them
    /// through the mount.
    pub foreign: u64,
    /// Stores that were not there to be compared.
    pub absent: Vec<u8>,
    /// The store that was taken out because it lacked copies, and gets them back now.
    pub healing: Option<u8>,
}

/// Most differences that a report names; all are counted.
pub const DIFFERENCES_SHOWN: usize = 100;

/// Called now and then with how far a comparison is; `false` asks it to stop.
pub type OnProgress<'a> = &'a mut dyn FnMut(&Progress) -> bool;

/// A set of stores that serves a mount.
pub trait Engine: Send + Sync {
    /// The present state. Returns in milliseconds, whatever the stores do.
    fn status(&self) -> Status;
    /// Mounts and serves; returns once the kernel has the mount.
    fn start(&self, mount: &Path) -> Outcome<()>;
    /// Makes everything durable, unmounts and ends. Without `force` a mount that programs use is
    /// left as it is, and the failure says [`crate::exit::Exit::MountBusy`]; with it, the mount is
    /// detached.
    fn stop(&self, force: bool) -> Outcome<()>;
    /// Takes in a returned or an empty store; its place in the set.
    fn attach(&self, path: &Path) -> Outcome<u8>;
    /// Stops using a store, as if it had failed.
    fn detach(&self, index: u8) -> Outcome<()>;
    /// Compares all copies while the set runs, and changes none. With `repair` a store that merely
    /// lacks some is brought up to date afterwards.
    fn check(&self, how: Comparing, on_progress: OnProgress<'_>) -> Outcome<CheckReport>;
}

/// Opens a set.
///
/// # Errors
/// Stores of another set, without a majority, in use, or unusable.
pub fn open(config: &Config, on_event: OnEvent) -> Outcome<Arc<dyn Engine>> {
    Ok(Arc::new(real::open(config, on_event)?))
}

/// Compares all copies of a set that does not run.
///
/// # Errors
/// As [`open`].
pub fn check(config: &Config, on_progress: OnProgress<'_>) -> Outcome<CheckReport> {
    real::check(config, on_progress)
}

#[cfg(test)]
pub(crate) mod double;
