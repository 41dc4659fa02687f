//! The blocks that were written last: one that is written again as it is takes no room.
//!
//! Databases write the last page of their log again and again, longer each time, so that the front of it is
//! what it was: of a page of 8 KiB of PostgreSQL's log half of the writes change only one block.

use super::group::Group;
use crate::block::Block;
use crate::entry::Entry;
use crate::id::ObjectId;
use std::collections::VecDeque;
use std::ops::Range;

/// Blocks of a group that are remembered, its last ones: a page of 8 KiB.
const BLOCKS_OF_GROUP: usize = 2;

/// Blocks in memory at most: the logs of a few databases.
const BLOCKS_MAX: usize = 16;

/// Groups of more blocks are not looked through.
const GROUP_BLOCKS_MAX: usize = 8;

/// A block as the last group in the queue that changed it has it.
#[derive(Debug)]
struct Last {
    object: ObjectId,
    block: u64,
    content: Box<Block>,
}

/// What was written last, in the order of the queue.
#[derive(Debug, Default)]
pub(super) struct Recent {
    blocks: VecDeque<Last>,
    /// Whether blocks of objects that are removed or resized are forgotten; that they are not is the bug that
    /// a test plants.
    #[cfg(test)]
    pub(super) forgets: bool,
}

impl Recent {
    /// Takes blocks out of a group that say what was written last, and remembers the others.
    pub(super) fn take_in(&mut self, group: Group) -> Group {
        let small = group.data.len() <= GROUP_BLOCKS_MAX;
        let group = match small {
            true => self.without_same(group),
            false => group,
        };
        let mut last = Vec::new();
        let mut data = group.data.iter();
        for entry in &group.entries {
            match *entry {
                Entry::Write {
                    object,
                    block,
                    count,
                } => {
                    let first = u64::from(block.0);
                    self.forget(object, first..first + u64::from(count));
                    let blocks = (first..).zip(data.by_ref().take(count as usize));
                    last.extend(blocks.map(|(block, content)| (object, block, content)));
                }
                Entry::Punch {
                    object,
                    block,
                    count,
                } => {
                    let first = u64::from(block.0);
                    self.forget(object, first..first + u64::from(count));
                    last.retain(|(of, block, _)| {
                        *of != object || !(first..first + u64::from(count)).contains(block)
                    });
                }
                Entry::Grow { .. } => {}
                Entry::Resize { object, .. } | Entry::Remove { object } => {
                    #[cfg(test)]
                    if !self.forgets {
                        continue;
                    }
                    self.forget(object, 0..u64::MAX);
                    last.retain(|(of, ..)| *of != object);
                }
                // Only of the cleaner, or of flights.
                Entry::Move { .. }
                | Entry::Lost { .. }
                | Entry::Pack { .. }
                | Entry::Repack { .. } => {}
            }
        }
        if small {
            for (object, block, content) in last.into_iter().rev().take(BLOCKS_OF_GROUP) {
                // A block may be in a group twice; the last one counts, and comes first here.
                if self.find(object, block).is_none() {
                    let content = Box::new(Block(content.0));
                    self.blocks.push_back(Last {
                        object,
                        block,
                        content,
                    });
                }
            }
            while self.blocks.len() > BLOCKS_MAX {
                self.blocks.pop_front();
            }
        }
        group
    }

    /// Forgets everything: something in the log is not what was written.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
    }

    fn find(&self, object: ObjectId, block: u64) -> Option<&Last> {
        let is = |last: &&Last| last.object == object && last.block == block;
        self.blocks.iter().find(is)
    }

    fn forget(&mut self, object: ObjectId, blocks: Range<u64>) {
        self.blocks
            .retain(|last| last.object != object || !blocks.contains(&last.block));
    }

    /// Whether a block of a group says what was written last.
    fn has_same(&self, group: &Group) -> bool {
        let blocks = group.entries.iter().flat_map(|entry| {
            let (first, count) = match *entry {
                Entry::Write { block, count, .. } => (u64::from(block.0), u64::from(count)),
                _ => (0, 0),
            };
            (first..first + count).map(move |block| (entry.object(), block))
        });
        blocks.zip(&group.data).any(|((object, block), content)| {
            (self.find(object, block)).is_some_and(|last| last.content.0 == content.0)
        })
    }

    /// Only of groups that write each block once and change nothing else but lengths.
    fn without_same(&self, group: Group) -> Group {
        let plain = |entry: &Entry| matches!(entry, Entry::Write { .. } | Entry::Grow { .. });
        if self.blocks.is_empty() || !group.entries.iter().all(plain) {
            return group;
        }
        // To take a group apart copies all of it, and most have nothing to leave out.
        if !self.has_same(&group) {
            return group;
        }
        let mut kept = Group::default();
        let squeezed = (group.squeezed.into_iter()).chain(std::iter::repeat(None));
        let mut blocks = group.data.into_iter().zip(group.content_sums).zip(squeezed);
        for entry in &group.entries {
            let Entry::Write {
                object,
                block,
                count,
            } = *entry
            else {
                kept.entries.push(*entry);
                continue;
            };
            for (at, ((content, sum), squeezed)) in (0..count).zip(blocks.by_ref()) {
                let block = block.after(at);
                let last = self.find(object, block.0.into());
                if last.is_some_and(|last| last.content.0 == content.0) {
                    continue;
                }
                kept.push(object, block, content, sum, squeezed);
            }
        }
        kept
    }
}
