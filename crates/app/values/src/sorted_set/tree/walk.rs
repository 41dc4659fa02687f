//! Walks over the tree in both directions.

use super::{
    Entry,
    node::{Child, Leaf, Node},
};

/// The way from the root: inner nodes, each with the index of the child that was taken.
type Way<'a> = Vec<(&'a [Child], usize)>;

/// Entries from a rank on.
#[derive(Clone)]
pub(in super::super) struct Walk<'a> {
    way: Way<'a>,
    leaf: Option<&'a Leaf>,
    index: usize,
}

/// Entries from a rank on, towards the first.
#[derive(Clone)]
pub(in super::super) struct WalkBack<'a> {
    way: Way<'a>,
    leaf: Option<&'a Leaf>,
    /// One more than the index of the next entry.
    index: usize,
}

/// Goes down to the leaf that has `rank`; returns it and the rank within.
fn descend<'a>(mut node: &'a Node, mut rank: usize, way: &mut Way<'a>) -> (&'a Leaf, usize) {
    loop {
        match node {
            Node::Leaf(leaf) => return (leaf, rank),
            Node::Inner(children) => {
                let mut index = 0;
                while index + 1 < children.len() && rank >= children[index].count {
                    rank -= children[index].count;
                    index += 1;
                }
                way.push((children, index));
                node = &children[index].node;
            }
        }
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(root: &'a Node, rank: usize) -> Self {
        let mut way = Way::new();
        let (leaf, index) = descend(root, rank, &mut way);
        Self {
            way,
            leaf: Some(leaf),
            index,
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let leaf = self.leaf?;
            if self.index < leaf.rows.len() {
                self.index += 1;
                return Some(leaf.entry(self.index - 1));
            }
            self.leaf = None;
            while let Some((children, index)) = self.way.pop() {
                if let Some(child) = children.get(index + 1) {
                    self.way.push((children, index + 1));
                    let (leaf, _) = descend(&child.node, 0, &mut self.way);
                    self.leaf = Some(leaf);
                    self.index = 0;
                    break;
                }
            }
        }
    }
}

impl<'a> WalkBack<'a> {
    pub(super) fn new(root: &'a Node, rank: usize) -> Self {
        let mut way = Way::new();
        let (leaf, index) = descend(root, rank, &mut way);
        Self {
            way,
            leaf: Some(leaf),
            index: (index + 1).min(leaf.rows.len()),
        }
    }
}

impl Iterator for WalkBack<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let leaf = self.leaf?;
            if self.index > 0 {
                self.index -= 1;
                return Some(leaf.entry(self.index));
            }
            self.leaf = None;
            while let Some((children, index)) = self.way.pop() {
                if index > 0 {
                    self.way.push((children, index - 1));
                    let child = &children[index - 1];
                    let (leaf, _) = descend(&child.node, child.count - 1, &mut self.way);
                    self.leaf = Some(leaf);
                    self.index = leaf.rows.len();
                    break;
                }
            }
        }
    }
}
