//! Changes within a list.

use super::{List, Place, has_room};
use crate::{listpack::Listpack, range::indices, thresholds::Thresholds};

impl List {
    /// Puts `value` before or behind the first element that is `pivot` (LINSERT). None if there is
    /// no such element.
    pub fn insert(
        &mut self,
        pivot: &[u8],
        behind: bool,
        value: &[u8],
        thresholds: &Thresholds,
    ) -> Option<usize> {
        let (node, at) = self
            .nodes
            .iter()
            .enumerate()
            .find_map(|(node, pack)| pack.find(pivot, 1).map(|at| (node, at)))?;
        self.length += 1;
        if behind {
            match self.nodes[node].next(at) {
                Some(at) => self.insert_at(Place { node, at }, value, thresholds),
                None if has_room(&self.nodes[node], value, thresholds) => {
                    self.nodes[node].push_back(value)
                }
                None => self.insert_node(node + 1, value, thresholds),
            }
        } else {
            self.insert_at(Place { node, at }, value, thresholds);
        }
        Some(self.length)
    }

    /// Removes elements that are `value`, up to `count` from the front, up to `-count` from the end
    /// below zero, all at zero (LREM). Returns how many.
    pub fn remove(&mut self, count: i64, value: &[u8]) -> usize {
        let most = match usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) {
            0 => usize::MAX,
            most => most,
        };
        let mut removed = 0;
        if count >= 0 {
            let mut node = 0;
            while node < self.nodes.len() && removed < most {
                removed += remove_from(&mut self.nodes[node], value, most - removed);
                node += usize::from(!self.drop_if_empty(node));
            }
        } else {
            for node in (0..self.nodes.len()).rev() {
                if removed == most {
                    break;
                }
                removed += remove_back(&mut self.nodes[node], value, most - removed);
                self.drop_if_empty(node);
            }
        }
        self.length -= removed;
        removed
    }

    /// Keeps the elements from `start` to `end`, both included (LTRIM).
    pub fn trim(&mut self, start: i64, end: i64) {
        let Some((start, end)) = indices(start, end, self.length) else {
            *self = Self::default();
            return;
        };
        let mut behind = self.length - 1 - end;
        while let Some(node) = self.nodes.back_mut().filter(|_| behind > 0) {
            let count = node.len();
            if count <= behind {
                self.nodes.pop_back();
                self.length -= count;
                behind -= count;
                continue;
            }
            let first = node.at(i64::try_from(count - behind).expect("an index"));
            self.length -= node.remove(first.expect("an element of the node"), behind);
            break;
        }
        let mut before = start;
        while let Some(node) = self.nodes.front_mut().filter(|_| before > 0) {
            let count = node.len();
            if count <= before {
                self.nodes.pop_front();
                self.length -= count;
                before -= count;
                continue;
            }
            let first = node.first().expect("no node is empty");
            self.length -= node.remove(first, before);
            break;
        }
        if self.nodes.capacity() > 16 && self.nodes.len() < self.nodes.capacity() / 4 {
            self.nodes.shrink_to(self.nodes.len() * 2);
        }
    }

    /// Puts an element before the one at `place`; the caller has counted it.
    pub(super) fn insert_at(&mut self, place: Place, value: &[u8], thresholds: &Thresholds) {
        let Place { node, at } = place;
        let pack = &mut self.nodes[node];
        if has_room(pack, value, thresholds) {
            pack.insert(at, value);
            return;
        }
        if pack.first() != Some(at) {
            let rest = pack.split_off(at);
            self.nodes.insert(node + 1, rest);
            self.insert_node(node + 1, value, thresholds);
            return;
        }
        self.insert_node(node, value, thresholds);
    }

    /// Puts an element between two nodes: at the end of the first or the start of the second if one
    /// has room, else into a node of its own.
    fn insert_node(&mut self, node: usize, value: &[u8], thresholds: &Thresholds) {
        if node > 0 && has_room(&self.nodes[node - 1], value, thresholds) {
            self.nodes[node - 1].push_back(value);
        } else if node < self.nodes.len() && has_room(&self.nodes[node], value, thresholds) {
            self.nodes[node].push_front(value);
        } else {
            self.nodes.insert(node, [value].into_iter().collect());
        }
    }

    pub(super) fn remove_at(&mut self, place: Place) {
        self.length -= self.nodes[place.node].remove(place.at, 1);
        self.drop_if_empty(place.node);
    }

    fn drop_if_empty(&mut self, node: usize) -> bool {
        let empty = self.nodes[node].is_empty();
        if empty {
            self.nodes.remove(node);
        }
        empty
    }
}

fn remove_from(pack: &mut Listpack, value: &[u8], most: usize) -> usize {
    let (mut removed, mut next) = (0, pack.first());
    while let Some(at) = next.filter(|_| removed < most) {
        if pack.get(at).equals(value) {
            removed += pack.remove(at, 1);
            // What was behind it is now here, if anything was.
            next = pack.element_at(at);
        } else {
            next = pack.next(at);
        }
    }
    removed
}

fn remove_back(pack: &mut Listpack, value: &[u8], most: usize) -> usize {
    let (mut removed, mut next) = (0, pack.last());
    while let Some(at) = next.filter(|_| removed < most) {
        next = pack.prev(at);
        if pack.get(at).equals(value) {
            removed += pack.remove(at, 1);
        }
    }
    removed
}
