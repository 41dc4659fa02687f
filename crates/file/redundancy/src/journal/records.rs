//! Records of the journal, and what a sequence of them adds up to.
//! Layout: docs/formats/intent-journal.md.

use super::dirty::{DirtySet, Entry, Place, Rename};
use crate::label::ObjectId;
use serde::{Deserialize, Serialize};

/// The log's `kind` of a record in the encoding below, version 1. A change of the encoding takes
/// another number.
pub(crate) const KIND: u16 = 1;

/// Why a record of a log cannot be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RecordError {
    /// Another version of Holdfast wrote it.
    #[error(
        "record {sequence} is of kind {kind}, and this version knows kind {KIND} only; start the version that wrote it"
    )]
    Kind {
        /// Its place in the log.
        sequence: u64,
        /// Its kind.
        kind: u16,
    },
    /// The payload does not say anything known, though its checksums hold.
    #[error("record {sequence} is whole, but not in the encoding that its kind stands for")]
    Encoding {
        /// Its place in the log.
        sequence: u64,
    },
}

/// One record. The order of variants and fields is the format.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    /// A base begins: what follows up to `BaseEnd` replaces all that came before.
    Base(ObjectId),
    /// The base is complete.
    BaseEnd,
    /// Entries that may differ, and places of objects.
    Touch(Vec<(Entry, u8)>, Vec<(ObjectId, Place)>),
    /// A rename under way.
    Rename(Rename),
    /// Objects from here on may differ; the lowest mark counts.
    Mark(ObjectId),
    /// Renames that move this object are no longer to be completed: its names change again.
    Settled(ObjectId),
    /// The number of the checkpoint that wrote the base; in a dirty log the number that the store
    /// which is away has at least.
    Checkpoint(u64),
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("a record is plain data")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
        let (record, rest) = postcard::take_from_bytes(bytes).ok()?;
        rest.is_empty().then_some(record)
    }
}

impl Record {
    /// Reads a record of a log.
    pub(crate) fn of_log(sequence: u64, kind: u16, payload: &[u8]) -> Result<Record, RecordError> {
        if kind != KIND {
            return Err(RecordError::Kind { sequence, kind });
        }
        Record::decode(payload).ok_or(RecordError::Encoding { sequence })
    }
}

/// Adds records up.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) state: DirtySet,
    pending: Option<DirtySet>,
}

impl Default for Replay {
    fn default() -> Replay {
        Replay {
            state: DirtySet::since(ObjectId(u64::MAX)),
            pending: None,
        }
    }
}

impl Replay {
    pub(crate) fn apply(&mut self, record: Record) {
        if let Record::Base(mark) = record {
            // Until the base is complete what came before still counts.
            self.pending = Some(DirtySet::since(mark));
            return;
        }
        if record == Record::BaseEnd {
            if let Some(base) = self.pending.take() {
                self.state = base;
            }
            return;
        }
        let Replay { state, pending } = self;
        for set in std::iter::once(state).chain(pending.as_mut()) {
            match &record {
                Record::Touch(entries, places) => {
                    for (entry, mask) in entries {
                        *set.entries.entry(*entry).or_insert(0) |= mask;
                    }
                    set.places.extend(places.iter().cloned());
                }
                Record::Rename(rename) => set.renames.push(rename.clone()),
                Record::Settled(id) => set.renames.retain(|r| !r.moves(*id)),
                Record::Mark(mark) => set.mark = set.mark.min(*mark),
                Record::Checkpoint(number) => set.checkpoint = *number,
                Record::Base(_) | Record::BaseEnd => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
