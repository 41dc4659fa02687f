//! What sender and receiver say to each other, as bodies of one rpc stream.

use crate::chunks::Chunk;
use crate::entry::{Entry, TreePath};
use crate::level::Level;
use serde::{Deserialize, Serialize};

/// The version of these messages; both sides have to speak the same.
pub(crate) const VERSION: u16 = 4;

/// Bytes that one checksum covers.
pub(crate) const PAGE_BYTES: usize = codec::PAGE_BYTES;

/// Bytes of the longest range of data.
pub(crate) const RANGE_BYTES: usize = 1 << 20;

/// Most entries of one offer.
pub(crate) const OFFER_ENTRIES: usize = 256;

/// Most offers that a receiver has not answered.
pub(crate) const OFFERS_AHEAD: usize = 4;

/// Most batches that a receiver has not acknowledged.
pub(crate) const BATCHES_AHEAD: usize = 2;

/// Most lists of chunks that a receiver has not sent to their ends.
pub(crate) const LISTS_AHEAD: usize = 32;

/// Most bytes of a file that may be there without having been proved: more than all batches that are
/// under way have.
pub(crate) const HELD_BYTES: u64 = 256 << 20;

/// The number of an entry: offers count them from 0.
pub(crate) type Index = u64;

/// From the sender.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToReceiver {
    /// First of all.
    Begin {
        /// `VERSION`.
        version: u16,
        /// What is to be proved.
        level: Level,
        /// Where below the receiver's directory the tree is to go; the root where the receiver
        /// was given the destination itself.
        below: TreePath,
        /// Whether a manifest is wanted at the end.
        manifest: bool,
        /// Bytes that the write cache of the destination's device holds: for level `medium`, and
        /// for no other.
        write_cache: Option<u64>,
        /// Where it is to be deleted what the source does not have: the rules of what is left out,
        /// as `filter` reads them.
        delete: Option<Vec<String>>,
        /// Whether nothing is to be changed.
        dry: bool,
    },
    /// Entries, in order; each gets a number, from `first`.
    Offer {
        /// The number of the first.
        first: Index,
        /// At most `OFFER_ENTRIES`.
        entries: Vec<Entry>,
    },
    /// Bulk bytes of a file, from a multiple of `PAGE_BYTES`, in rising order.
    Data {
        /// Which.
        index: Index,
        /// Where in the file.
        offset: u64,
        /// The CRC-32C of each page.
        sums: Vec<u32>,
    },
    /// The chunks of the old file at this place are wanted.
    List {
        /// Which.
        index: Index,
        /// The average length of chunks.
        average: u32,
    },
    /// As `Data`, where the destination has some of the bytes already; the bulk is the others.
    Mixed {
        /// Which.
        index: Index,
        /// Where in the file.
        offset: u64,
        /// The CRC-32C of each page.
        sums: Vec<u32>,
        /// What the range is made of, in order.
        pieces: Vec<Piece>,
    },
    /// As `Data`, without the bytes: what is there already should have these sums.
    Compare {
        /// Which.
        index: Index,
        /// Where in the file.
        offset: u64,
        /// How many bytes; the rest of the file up to the next range is a hole.
        bytes: u32,
        /// The CRC-32C of each page.
        sums: Vec<u32>,
    },
    /// All of a file was compared; the receiver answers with a verdict.
    Compared {
        /// Which.
        index: Index,
    },
    /// The file has changed while it was read: what came of it counts no more, and this is it now.
    Restart {
        /// Which.
        index: Index,
        /// As it is now.
        entry: Entry,
    },
    /// The next entry in order is complete, or nothing comes of it.
    End {
        /// Which.
        index: Index,
        /// Why nothing comes of it.
        failed: Option<String>,
    },
    /// What has ended since the last batch is to be proved and put in place.
    Batch {
        /// From 0.
        number: u64,
    },
    /// All of the source is in place: what is there besides is to go.
    Sweep {
        /// Where it is more than so many objects nothing is deleted.
        max: Option<u64>,
    },
    /// All batches have been acknowledged: what waits and can be proved now is. What then reads wrong
    /// is offered anew.
    Settle {
        /// Whether to write until all can.
        scratch: bool,
    },
    /// All batches have been acknowledged: what waits for its proof gets it now, or later.
    Close {
        /// Whether to write until it can get it now.
        settle: bool,
    },
    /// Bulk bytes that were asked for again.
    Patch {
        /// Which.
        index: Index,
        /// Where.
        offset: u64,
        /// The CRC-32C of each page.
        sums: Vec<u32>,
    },
    /// All that was asked for again was sent, or cannot be.
    Patched {
        /// Which.
        index: Index,
        /// Why it cannot.
        failed: Option<String>,
    },
}

/// What a receiver wants of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Want {
    /// Nothing but what the offer said.
    Nothing,
    /// The content.
    Content {
        /// All before this offset is there and proved.
        from: u64,
        /// What is between `from` and here may be there too, from a transfer that was cut: its
        /// checksums are wanted first. `from` where nothing is.
        held: u64,
        /// The length of the old file that it replaces, of which parts may be used; zero where
        /// there is none.
        old: u64,
    },
    /// The checksums of the content.
    Compare,
}

/// What would come of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Plan {
    /// Nothing is there.
    New,
    /// What is there would be replaced.
    Replace,
    /// A file of the same length and time is there: it would be compared.
    Compare,
    /// It is there.
    Same,
    /// Something is in its way.
    InTheWay,
}

/// A piece of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Piece {
    /// The next so many of the bulk bytes.
    Sent(u32),
    /// Bytes of the old file.
    Old {
        /// Where in it.
        from: u64,
        /// How many.
        bytes: u32,
    },
}

impl Piece {
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Piece::Sent(bytes) | Piece::Old { bytes, .. } => bytes,
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// Where.
    pub path: TreePath,
    /// What, in words.
    pub what: String,
    /// Whether the object is not in place; otherwise it is, and something about it is not kept.
    pub missing: bool,
}

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Placed {
    /// Files whose content was proved and which are in place.
    pub files: u64,
    /// Of these, those that were there before.
    pub kept: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Other objects in place.
    pub others: u64,
    /// Pages that were read back different and sent again.
    pub pages_resent: u64,
    /// Files that were proved at level `medium` after they had got into place, in this transfer or
    /// an earlier one.
    pub settled: u64,
    /// Files that were right when they got into place and read wrong now: they are wanted anew. At
    /// most `PROBLEMS_MAX`; more are problems.
    pub again: Vec<TreePath>,
    /// At most `PROBLEMS_MAX`.
    pub problems: Vec<Problem>,
    /// How many there were beyond these.
    pub problems_more: u64,
}

/// Most problems that one message names.
pub(crate) const PROBLEMS_MAX: usize = 200;

/// From the receiver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToSender {
    /// The destination is ready, and the level can be reached.
    Ready,
    /// What is wanted of an offer, entry by entry.
    Wants {
        /// The number of the first.
        first: Index,
        /// One for each.
        wants: Vec<Want>,
    },
    /// What came of a comparison.
    Verdict {
        /// Which.
        index: Index,
        /// Whether the content is the same.
        same: bool,
    },
    /// What came of the checksums of what may be there: one bit for each page from `from` on, the
    /// lowest of a byte first, set where it is there.
    Held {
        /// Which.
        index: Index,
        /// Empty where none is.
        pages: Vec<u8>,
    },
    /// Chunks of an old file, in order.
    Chunks {
        /// Which.
        index: Index,
        /// At most `CHUNKS_A_MESSAGE`.
        chunks: Vec<Chunk>,
        /// Whether these are the last.
        last: bool,
    },
    /// Pages that were read back different: they are wanted again.
    Again {
        /// Which.
        index: Index,
        /// Their offsets, at most 256.
        pages: Vec<u64>,
    },
    /// A batch is in place, durably.
    Done {
        /// Which.
        number: u64,
        /// What became of it.
        placed: Placed,
    },
    /// What would come of an offer, entry by entry; in place of `Wants` in a dry run.
    Plans {
        /// The number of the first.
        first: Index,
        /// One for each.
        plans: Vec<Plan>,
    },
    /// What would be deleted, in a dry run.
    Going {
        /// Where.
        paths: Vec<TreePath>,
    },
    /// What was to be deleted is gone.
    Swept {
        /// How many objects the source does not have.
        found: u64,
        /// How many are gone.
        deleted: u64,
        /// Why nothing could be deleted.
        refused: Option<String>,
        /// What could not be deleted.
        placed: Placed,
    },
    /// What could be proved now was.
    Settled {
        /// What became of what waited.
        placed: Placed,
    },
    /// Nothing waits any more that could be proved now.
    Closed {
        /// What became of what waited.
        placed: Placed,
        /// Files that were proved at level `device` and wait for more.
        pending: u64,
        /// How many bytes of a manifest follow.
        manifest_bytes: u64,
    },
    /// Bulk bytes of the manifest, in order.
    Manifest,
    /// The receiver cannot go on.
    Failed {
        /// What kind of failure.
        kind: FailureKind,
        /// What happened, in words.
        what: String,
    },
}

/// Why a receiver cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FailureKind {
    /// The destination cannot be used.
    Destination,
    /// Another transfer works on the destination.
    Busy,
    /// The level cannot be reached there.
    Level,
    /// No room.
    Full,
    /// The medium failed.
    Medium,
    /// The sender is of another version.
    Version,
}
