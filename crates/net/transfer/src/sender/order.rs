//! When a batch is closed, and what goes on beside its proof.

use super::{BATCH_BYTES, BATCH_ENTRIES, Batch};
use crate::entry::What;
use crate::message::BATCHES_AHEAD;
use std::str::FromStr;

/// What of a transfer goes on beside what. The last two are those with which the source of verified
/// transfer compares its own: they are there to be measured, for files up to 16 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Batches of [`BATCH_BYTES`] or [`BATCH_ENTRIES`]: the proof of one goes on beside the transfer
    /// of the next two, within a file too.
    #[default]
    Batches,
    /// A batch for each file: its proof goes on beside the transfer of the next file.
    Files,
    /// A batch for each file, and nothing beside its proof.
    Sequential,
}

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<Order, UnknownOrder> {
        match text {
            "batches" => Ok(Order::Batches),
            "files" => Ok(Order::Files),
            "sequential" => Ok(Order::Sequential),
            _ => Err(UnknownOrder),
        }
    }
}

/// An order that there is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it is batches, files or sequential")]
pub struct UnknownOrder;

impl Order {
    /// Whether a batch is closed within a file.
    pub(super) fn ends_within_a_file(self, batch: &Batch) -> bool {
        self == Order::Batches && batch.bytes >= BATCH_BYTES
    }

    /// Whether a batch is closed behind an entry of this kind.
    pub(super) fn ends_behind(self, what: &What, batch: &Batch) -> bool {
        let full = batch.entries >= BATCH_ENTRIES;
        match self {
            Order::Batches => full || batch.bytes >= BATCH_BYTES,
            Order::Files | Order::Sequential => full || matches!(what, What::File(_)),
        }
    }

    /// Most batches that are not acknowledged while the next is sent.
    pub(super) fn ahead(self) -> u64 {
        match self {
            Order::Batches => BATCHES_AHEAD as u64,
            Order::Files => 1,
            Order::Sequential => 0,
        }
    }
}
