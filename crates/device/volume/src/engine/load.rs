//! What a flight takes: groups from the queue, and which of their blocks share a block of the log.

use super::group::Group;
use super::state::Queued;
use crate::block::BLOCK_BYTES;
use crate::entry::Entry;
use crate::flight::{DATA_BLOCKS_MAX, ENTRIES_MAX, header_blocks, inline_room};
use crate::id::{BlockIndex, ObjectId, Place};
use crate::pack::{self, Member};
use std::ops::Range;
use std::sync::Arc;

/// Packs that are looked at for room for one more block, the newest ones.
const OPEN_PACKS: usize = 8;

/// A load that grows.
pub(super) struct Load {
    /// Blocks of the segment that are left.
    room: u32,
    groups: Vec<Arc<Group>>,
    items: Vec<(Item, bool)>,
    /// Entries that these are at most.
    entries: usize,
    /// Blocks that they take at most.
    blocks: u32,
    /// Whether the last block is one that is not packed, so that the next belongs to its entry.
    goes_on: bool,
}

enum Item {
    Change(Entry),
    Block(Piece),
}

/// A block of a group.
struct Piece {
    object: ObjectId,
    block: BlockIndex,
    /// Its place before, where the cleaner moves it.
    from: Option<Place>,
    source: Source,
    /// Bytes of it compressed, where it may be packed.
    squeezed: Option<usize>,
    slot: Option<u16>,
}

/// Where a block's content is.
#[derive(Clone, Copy)]
struct Source {
    group: usize,
    index: usize,
}

/// What a flight is to have.
pub(super) struct Loaded {
    pub(super) entries: Vec<(Entry, bool)>,
    /// The pack in the header; without blocks where there is none.
    pub(super) inline: Packing,
    pub(super) packs: Vec<Packing>,
    /// Whose blocks, in order.
    pub(super) parts: Vec<(Arc<Group>, Range<usize>)>,
    pub(super) data_blocks: u32,
    /// Blocks of callers or the cleaner that it has.
    pub(super) blocks: u32,
}

/// Blocks of groups that become one pack.
#[derive(Default)]
pub(super) struct Packing(Vec<(Arc<Group>, usize, ObjectId, BlockIndex)>);

impl Packing {
    /// As it stands in the log; nothing where it has no blocks.
    pub(super) fn encode(&self) -> Vec<u8> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let member = |(group, index, object, block): &(Arc<Group>, usize, ObjectId, BlockIndex)| {
            (*object, *block, group.squeezed(*index))
        };
        let members: Vec<_> = self.0.iter().map(member).collect();
        let members: Vec<Member<'_>> = (members.iter())
            .filter_map(|(object, block, squeezed)| {
                Some(Member {
                    object: *object,
                    block: *block,
                    squeezed: squeezed.as_deref()?,
                })
            })
            .collect();
        assert_eq!(members.len(), self.0.len(), "what is packed is compressed");
        pack::encode(&members)
    }
}

/// A pack that is being filled.
struct Open {
    room: usize,
    /// Items.
    members: Vec<usize>,
}

impl Load {
    pub(super) fn new(room: u32) -> Load {
        Load {
            room,
            groups: Vec::new(),
            items: Vec::new(),
            entries: 0,
            blocks: 0,
            goes_on: false,
        }
    }

    /// Takes as much of a group as there is room for, were none of it packed; whether that is all.
    pub(super) fn take(&mut self, queued: &mut Queued) -> bool {
        let group = queued.group.clone();
        let source = self.groups.len();
        self.groups.push(group.clone());
        while let Some(entry) = group.entries.get(queued.entry) {
            self.goes_on = false;
            let total = entry.data_blocks();
            if total == 0 {
                if !self.fits(1, 0) {
                    return false;
                }
                self.items.push((Item::Change(*entry), false));
                self.entries += 1;
            }
            while queued.blocks_of_entry < total {
                let squeezed = group.squeezed(queued.blocks);
                let more = usize::from(squeezed.is_some() || !self.goes_on);
                if !self.fits(more, 1) {
                    return false;
                }
                let (block, from) = nth(entry, queued.blocks_of_entry);
                let piece = Piece {
                    object: entry.object(),
                    block,
                    from,
                    source: Source {
                        group: source,
                        index: queued.blocks,
                    },
                    squeezed: squeezed.as_ref().map(|squeezed| squeezed.len()),
                    slot: None,
                };
                self.items.push((Item::Block(piece), false));
                self.entries += more;
                self.blocks += 1;
                self.goes_on = squeezed.is_none();
                queued.blocks += 1;
                queued.blocks_of_entry += 1;
            }
            queued.entry += 1;
            queued.blocks_of_entry = 0;
        }
        if let Some((_, ends)) = self.items.last_mut() {
            *ends = true;
        }
        true
    }

    fn fits(&self, entries: usize, blocks: u32) -> bool {
        let (entries, blocks) = (self.entries + entries, self.blocks + blocks);
        entries <= ENTRIES_MAX
            && blocks <= DATA_BLOCKS_MAX
            && header_blocks(entries, blocks) + blocks <= self.room
    }

    /// Decides what is packed.
    pub(super) fn loaded(mut self) -> Loaded {
        let packs = self.fill_packs();
        let mut loaded = Loaded {
            entries: Vec::with_capacity(self.entries),
            inline: Packing::default(),
            packs: packs.iter().map(|_| Packing::default()).collect(),
            parts: Vec::new(),
            data_blocks: 0,
            blocks: self.blocks,
        };
        let mut apart = true;
        for (item, ends) in &self.items {
            let piece = match item {
                Item::Change(entry) => {
                    loaded.entries.push((*entry, *ends));
                    apart = true;
                    continue;
                }
                Item::Block(piece) => piece,
            };
            let entry = piece.entry();
            let joined = (loaded.entries.last())
                .filter(|_| !apart)
                .and_then(|(last, _)| joined(last, &entry));
            match (joined, loaded.entries.last_mut()) {
                (Some(joined), Some(last)) => *last = (joined, *ends),
                _ => loaded.entries.push((entry, *ends)),
            }
            apart = *ends;
            let Some(group) = self.groups.get(piece.source.group) else {
                continue;
            };
            let index = piece.source.index;
            match piece.slot {
                Some(slot) => {
                    let packing = match slot.checked_sub(1) {
                        None => Some(&mut loaded.inline),
                        Some(at) => loaded.packs.get_mut(usize::from(at)),
                    };
                    if let Some(packing) = packing {
                        let member = (group.clone(), index, piece.object, piece.block);
                        packing.0.push(member);
                    }
                }
                None => {
                    loaded.data_blocks += 1;
                    match loaded.parts.last_mut() {
                        Some((last, range)) if Arc::ptr_eq(last, group) && range.end == index => {
                            range.end += 1;
                        }
                        _ => loaded.parts.push((group.clone(), index..index + 1)),
                    }
                }
            }
        }
        loaded
    }

    /// Gives blocks their slots; the packs behind the header.
    fn fill_packs(&mut self) -> Vec<Open> {
        let room = inline_room(self.entries, self.blocks);
        let mut header = Open {
            room: room.saturating_sub(pack::HEAD_BYTES),
            members: Vec::new(),
        };
        let mut packs: Vec<Open> = Vec::new();
        for at in 0..self.items.len() {
            let Some((Item::Block(piece), _)) = self.items.get(at) else {
                continue;
            };
            let Some(squeezed) = piece.squeezed else {
                continue;
            };
            let bytes = pack::MEMBER_BYTES + squeezed;
            let newest = packs.len().saturating_sub(OPEN_PACKS);
            let open = packs.get_mut(newest..).unwrap_or_default();
            let mut all = std::iter::once(&mut header).chain(open);
            // A reader finds a block by its name, and a group that comes later may not be there after a
            // crash: so no pack has a block twice.
            let takes = |open: &&mut Open| open.room >= bytes && !self.has(open, piece);
            match all.find(takes) {
                Some(open) => {
                    open.room -= bytes;
                    open.members.push(at);
                }
                None => packs.push(Open {
                    room: BLOCK_BYTES - pack::HEAD_BYTES - bytes,
                    members: vec![at],
                }),
            }
        }
        // One block alone takes as much room as it is.
        packs.retain(|pack| pack.members.len() > 1);
        for (slot, pack) in (0..).zip(std::iter::once(&header).chain(&packs)) {
            for at in &pack.members {
                if let Some((Item::Block(piece), _)) = self.items.get_mut(*at) {
                    piece.slot = Some(slot);
                }
            }
        }
        packs
    }

    fn has(&self, pack: &Open, piece: &Piece) -> bool {
        pack.members.iter().any(|at| match self.items.get(*at) {
            Some((Item::Block(other), _)) => {
                (other.object, other.block) == (piece.object, piece.block)
            }
            _ => false,
        })
    }
}

impl Piece {
    fn entry(&self) -> Entry {
        let (object, block) = (self.object, self.block);
        match (self.slot, self.from) {
            (None, None) => Entry::Write {
                object,
                block,
                count: 1,
            },
            (None, Some(from)) => Entry::Move {
                object,
                block,
                count: 1,
                from,
            },
            (Some(slot), None) => Entry::Pack {
                object,
                block,
                count: 1,
                slot,
            },
            (Some(slot), Some(from)) => Entry::Repack {
                object,
                block,
                from,
                slot,
            },
        }
    }
}

/// A block of an entry, and its place before.
fn nth(entry: &Entry, at: u32) -> (BlockIndex, Option<Place>) {
    match entry {
        Entry::Write { block, .. } => (block.after(at), None),
        Entry::Move { block, from, .. } => (block.after(at), Some(from.after(at))),
        _ => (BlockIndex(0), None),
    }
}

/// Both as one, where `next` goes on where `last` ends.
fn joined(last: &Entry, next: &Entry) -> Option<Entry> {
    let mut joined = *last;
    match (&mut joined, next) {
        (
            Entry::Write {
                object,
                block,
                count,
            },
            Entry::Write {
                object: of,
                block: at,
                ..
            },
        ) if object == of && block.after(*count) == *at => *count += 1,
        (
            Entry::Move {
                object,
                block,
                count,
                from,
            },
            Entry::Move {
                object: of,
                block: at,
                from: next,
                ..
            },
        ) if object == of && block.after(*count) == *at && from.after(*count) == *next => {
            *count += 1;
        }
        (
            Entry::Pack {
                object,
                block,
                count,
                slot,
            },
            Entry::Pack {
                object: of,
                block: at,
                slot: same,
                ..
            },
        ) if object == of && block.after(*count) == *at && slot == same => *count += 1,
        _ => return None,
    }
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    /// A group of blocks of object 1 that all compress well.
    fn queued(blocks: &[u32]) -> Queued {
        let mut group = Group::default();
        for number in blocks {
            let content = Block([*number as u8; BLOCK_BYTES]);
            let squeezed = pack::squeeze(&content);
            group.push(ObjectId(1), BlockIndex(*number), content, 0, squeezed);
        }
        Queued {
            group: Arc::new(group),
            ticket: 1,
            entry: 0,
            blocks_of_entry: 0,
            blocks: 0,
            promised: 0,
        }
    }

    fn pack_of(block: u32, count: u32, slot: u16) -> Entry {
        Entry::Pack {
            object: ObjectId(1),
            block: BlockIndex(block),
            count,
            slot,
        }
    }

    #[test]
    fn what_fits_in_the_header_takes_no_block() {
        let mut load = Load::new(100);
        assert!(load.take(&mut queued(&[3, 4, 9])));
        let loaded = load.loaded();
        let entries = [(pack_of(3, 2, 0), false), (pack_of(9, 1, 0), true)];
        assert_eq!(loaded.entries, entries);
        assert_eq!(
            (loaded.packs.len(), loaded.data_blocks, loaded.blocks),
            (0, 0, 3)
        );
        let inline = loaded.inline.encode();
        assert_eq!(pack::decode(&inline).unwrap().len(), 3);
    }

    #[test]
    fn a_block_of_two_groups_is_never_twice_in_a_pack() {
        let mut load = Load::new(100);
        assert!(load.take(&mut queued(&[3])));
        assert!(load.take(&mut queued(&[3, 5])));
        let loaded = load.loaded();
        // The second writing of block 3 would be alone in a pack, so it is none.
        let again = Entry::Write {
            object: ObjectId(1),
            block: BlockIndex(3),
            count: 1,
        };
        let entries = [
            (pack_of(3, 1, 0), true),
            (again, false),
            (pack_of(5, 1, 0), true),
        ];
        assert_eq!(loaded.entries, entries);
        assert_eq!((loaded.packs.len(), loaded.data_blocks), (0, 1));
    }

    #[test]
    fn many_blocks_fill_packs_and_a_group_may_go_on_in_the_next_flight() {
        let blocks: Vec<u32> = (0..60).collect();
        let mut queued = queued(&blocks);
        let mut load = Load::new(50);
        assert!(!load.take(&mut queued));
        let loaded = load.loaded();
        assert_eq!(loaded.blocks, queued.blocks as u32);
        assert!(
            loaded.blocks > 40 && loaded.data_blocks == 0,
            "{}",
            loaded.blocks
        );
        assert!(loaded.packs.len() <= 1);
        assert!(loaded.entries.iter().all(|(_, ends)| !ends));
        let mut rest = Load::new(50);
        assert!(rest.take(&mut queued));
        assert_eq!(loaded.blocks + rest.loaded().blocks, 60);
    }
}
