//! What the notes of a merge say, and what is remembered of merges whose stores were not all there.

use super::{Result, Site, StripeError};
use crate::label::StoreMask;
use filemeta::SystemName;
use serde::{Deserialize, Serialize};

/// The note of a store that takes part: what it is to write.
pub(super) const PREPARE: u16 = 1;
/// The note that makes it so.
pub(super) const COMMIT: u16 = 2;

/// One page of a shard as it is to be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Redo {
    pub(super) page: u32,
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Prepare {
    pub(super) merge: u64,
    pub(super) stripe: u64,
    /// The shard of the store that has this note.
    pub(super) shard: u8,
    /// Stores that take part.
    pub(super) stores: StoreMask,
    pub(super) pages: Vec<Redo>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Commit {
    pub(super) merge: u64,
}

/// What was decided of a merge while some of its stores were away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Decision {
    pub(super) merge: u64,
    pub(super) committed: bool,
    /// Stores that have not heard of it.
    pub(super) away: StoreMask,
}

pub(super) fn encode<T: Serialize>(note: &T) -> Result<Vec<u8>> {
    postcard::to_allocvec(note).map_err(|_| StripeError::Misuse("a note that cannot be written"))
}

/// `None` for bytes that are no note of this version.
pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((note, [])) => Some(note),
        _ => None,
    }
}

/// The system object that keeps decisions.
fn decisions_name() -> SystemName {
    SystemName::new("merge-decisions").expect("a plain name")
}

impl Site {
    pub(super) fn decisions(&self) -> Result<Vec<Decision>> {
        let doing = "reading decisions on merges";
        match self.notes.system(&decisions_name()) {
            Ok(bytes) if bytes.is_empty() => Ok(Vec::new()),
            Ok(bytes) => decode(&bytes).ok_or(StripeError::Misuse("decisions of another version")),
            Err(filemeta::MetaError::NoSuchEntry) => Ok(Vec::new()),
            Err(error) => Err(StripeError::notes(self.store, doing)(error)),
        }
    }

    /// Replaces the decisions, durably.
    pub(super) fn set_decisions(&self, decisions: &[Decision]) -> Result<()> {
        let bytes = encode(&decisions)?;
        let mut request = self.notes.request();
        request.put_system(&decisions_name(), &bytes);
        let done = request.commit();
        done.map(drop).map_err(StripeError::notes(
            self.store,
            "writing a decision on a merge",
        ))
    }
}
