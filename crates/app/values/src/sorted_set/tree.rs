//! Scores and row numbers in order, in a B+ tree that counts.
//!
//! The tree knows scores; among equal scores it is told the order, because the members lie with
//! their owner. Each inner node keeps for each child how many entries are below and which is the
//! last, so that a rank, and the entry of a rank, are found on one way down.

mod node;
#[cfg(test)]
mod tests;
mod walk;

use std::cmp::Ordering;

use node::Node;
pub(super) use walk::{Walk, WalkBack};

/// An entry: a score and the number of the row that has the member.
pub(super) type Entry = (f64, u32);

#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: Node,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { root: Node::leaf() }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.root.count()
    }

    /// Adds an entry. `order` says how an entry of the tree stands to it; none is equal to it.
    pub(super) fn insert(&mut self, entry: Entry, order: impl Fn(Entry) -> Ordering) {
        if let Some(right) = self.root.insert(entry, &|own| order(own) == Ordering::Less) {
            let left = std::mem::replace(&mut self.root, Node::leaf());
            self.root = Node::above(left, right);
        }
    }

    /// Removes the entry that `order` says is equal; returns whether there was one.
    pub(super) fn remove(&mut self, order: impl Fn(Entry) -> Ordering) -> bool {
        let removed = self.root.remove(&order);
        self.root.flatten();
        removed
    }

    /// Gives the entry that `order` says is equal another row.
    pub(super) fn renumber(&mut self, row: u32, order: impl Fn(Entry) -> Ordering) {
        self.root.renumber(row, &order);
    }

    /// How many entries from the first on `before` is true for. It has to be false for all behind
    /// the first that it is false for.
    pub(super) fn rank(&self, before: impl Fn(Entry) -> bool) -> usize {
        self.root.rank(&before)
    }

    /// The entry of a rank.
    #[cfg(test)]
    pub(super) fn get(&self, rank: usize) -> Option<Entry> {
        self.walk(rank).next()
    }

    /// Entries from a rank on.
    pub(super) fn walk(&self, rank: usize) -> Walk<'_> {
        Walk::new(&self.root, rank)
    }

    /// Entries from a rank on, towards the first.
    pub(super) fn walk_back(&self, rank: usize) -> WalkBack<'_> {
        WalkBack::new(&self.root, rank)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.root.heap_bytes()
    }
}
