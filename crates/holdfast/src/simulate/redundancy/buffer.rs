//! Differential pages of one layout at one bound, and what they cost and save.

use super::space::Piece;
use redundancy::encoding::{ChunkBytes, ChunkId, DifferentialPages, PageId, Share, Written};

/// Parity updates, in two units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Updates {
    /// Pages of 4 KiB.
    pub(super) pages: u64,
    /// Requests to the parity: a write, or adjacent pages of a chunk merged in a run.
    pub(super) requests: u64,
}

/// The pages and their counts.
#[derive(Debug)]
pub(super) struct Buffer {
    /// The bound B.
    pub(super) share: Share,
    /// What was merged.
    pub(super) updates: Updates,
    /// Writes that had to read the rest of a page first.
    pub(super) read_modify_writes: u64,
    pages: DifferentialPages,
    last: Option<PageId>,
}

impl Buffer {
    /// Empty, bounded by a share of a capacity.
    pub(super) fn new(share: Share, capacity_pages: u64) -> Buffer {
        Buffer {
            share,
            updates: Updates::default(),
            read_modify_writes: 0,
            pages: DifferentialPages::new(share.of(capacity_pages)),
            last: None,
        }
    }

    /// A write to an encoded chunk.
    pub(super) fn write(&mut self, piece: Piece) {
        for page in piece.pages() {
            let chunk = piece.chunk;
            let written = self.pages.write(PageId { chunk, page });
            if written == Written::New && !piece.covers(page) {
                self.read_modify_writes += 1;
            }
        }
        for due in self.pages.due(usize::MAX) {
            self.pages.merged(due);
            self.merge(due.page);
        }
    }

    /// A chunk is about to have copies again: its pages are merged first, so that a return is
    /// not taken for updates saved.
    pub(super) fn settle(&mut self, chunk: ChunkId, size: ChunkBytes) {
        if self.pages.is_empty() {
            return;
        }
        for page in 0..size.pages() as u32 {
            let page = PageId { chunk, page };
            if self.pages.forget(page) {
                self.merge(page);
            }
        }
    }

    /// Pages held at the end, and all updates with these merged too.
    pub(super) fn finish(&self) -> (u64, Updates) {
        let mut rest = Buffer {
            updates: self.updates,
            last: self.last,
            ..Buffer::new(self.share, 0)
        };
        for due in self.pages.oldest_first() {
            rest.merge(due.page);
        }
        (self.pages.len(), rest.updates)
    }

    fn merge(&mut self, page: PageId) {
        self.updates.pages += 1;
        let adjacent = self.last.is_some_and(|last| {
            last.chunk == page.chunk && last.page.checked_add(1) == Some(page.page)
        });
        if !adjacent {
            self.updates.requests += 1;
        }
        self.last = Some(page);
    }
}
