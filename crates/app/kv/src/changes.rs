//! What a command changed, until the log has it.

use crate::slot::ShardId;
use vlog::Position;

/// A key, without an allocation where it is short.
pub(crate) type Key = smallvec::SmallVec<[u8; 32]>;

/// An entry that was changed.
#[derive(Clone, Debug)]
pub(crate) struct Dirty {
    pub(crate) database: u8,
    pub(crate) shard: ShardId,
    pub(crate) key: Key,
    /// The body of the record, where it is a change and not the whole.
    pub(crate) change: Option<Vec<u8>>,
}

/// All that was changed since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) dirty: Vec<Dirty>,
    /// Records of entries that are no more.
    pub(crate) graves: Vec<(ShardId, Position)>,
    /// Names of libraries that the log has to get.
    pub(crate) libraries: Vec<String>,
}

impl Changes {
    /// The log has to get an entry as a whole.
    pub(crate) fn note_whole(&mut self, database: u8, shard: ShardId, key: &[u8]) {
        self.dirty.push(Dirty {
            database,
            shard,
            key: key.into(),
            change: None,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.is_empty() && self.graves.is_empty() && self.libraries.is_empty()
    }
}
