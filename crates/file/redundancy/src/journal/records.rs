//! Records of the journal, and what a sequence of them adds up to.

use super::dirty::{DirtySet, Entry, Place, Rename};
use crate::label::ObjectId;
use serde::{Deserialize, Serialize};

/// One record.
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
                Record::Mark(mark) => set.mark = set.mark.min(*mark),
                Record::Base(_) | Record::BaseEnd => {}
            }
        }
    }
}
