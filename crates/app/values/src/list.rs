//! Lists: a deque of listpacks.

mod edit;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::{
    element::Element, error::ValueError, listpack::Listpack, range::indices, thresholds::Thresholds,
};

/// A list. Its ends are reached in constant time; an index costs a step for each node before it and
/// each element of its node before it.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// None of them is empty.
    nodes: VecDeque<Listpack>,
    length: usize,
}

/// Which end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its first element.
    Front,
    /// Its last element.
    Back,
}

/// A place of an element: node and offset within.
#[derive(Clone, Copy)]
struct Place {
    node: usize,
    at: usize,
}

impl List {
    /// Without elements.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Elements (LLEN).
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none: the key has to go.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds an element (LPUSH, RPUSH).
    pub fn push(&mut self, end: End, value: &[u8], thresholds: &Thresholds) {
        let node = match end {
            End::Front => self.nodes.front_mut(),
            End::Back => self.nodes.back_mut(),
        };
        self.length += 1;
        if let Some(node) = node.filter(|node| has_room(node, value, thresholds)) {
            match end {
                End::Front => node.push_front(value),
                End::Back => node.push_back(value),
            }
            return;
        }
        self.reserve();
        let node: Listpack = [value].into_iter().collect();
        match end {
            End::Front => self.nodes.push_front(node),
            End::Back => self.nodes.push_back(node),
        }
    }

    /// Removes and returns an element (LPOP, RPOP).
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        let index = match end {
            End::Front => 0,
            End::Back => self.nodes.len().checked_sub(1)?,
        };
        let node = self.nodes.get_mut(index)?;
        let at = match end {
            End::Front => node.first()?,
            End::Back => node.last()?,
        };
        let value = node.get(at).to_vec();
        self.remove_at(Place { node: index, at });
        Some(value)
    }

    /// The element of an index, negative ones counted from the end (LINDEX).
    #[must_use]
    pub fn get(&self, index: i64) -> Option<Element<'_>> {
        let place = self.place(index)?;
        Some(self.nodes[place.node].get(place.at))
    }

    /// Replaces the element of an index (LSET).
    ///
    /// # Errors
    /// [`ValueError::IndexOutOfRange`].
    pub fn set(
        &mut self,
        index: i64,
        value: &[u8],
        thresholds: &Thresholds,
    ) -> Result<(), ValueError> {
        let place = self.place(index).ok_or(ValueError::IndexOutOfRange)?;
        let node = &mut self.nodes[place.node];
        if node.len() == 1
            || fits(
                0,
                node.bytes().len() + Listpack::bytes_of(value),
                thresholds,
            )
        {
            node.replace(place.at, value);
            return Ok(());
        }
        self.length += 1;
        self.insert_at(place, value, thresholds);
        // The old element is behind the new one, which may have split its node.
        let place = self.place(if index < 0 { index } else { index + 1 });
        self.remove_at(place.expect("one element more than before"));
        Ok(())
    }

    /// The elements from `start` to `end`, both included, negative ones counted from the end
    /// (LRANGE).
    pub fn range(&self, start: i64, end: i64) -> impl Iterator<Item = Element<'_>> + Clone {
        let (start, count) = indices(start, end, self.length)
            .map_or((0, 0), |(start, end)| (start, end - start + 1));
        // What is nearer to the end is found from the end; the elements come in order either way.
        let place = self
            .place(i64::try_from(start).unwrap_or(i64::MAX))
            .filter(|_| count > 0);
        let first = place.into_iter().flat_map(move |place| {
            let node = &self.nodes[place.node];
            std::iter::successors(Some(place.at), |&at| node.next(at)).map(|at| node.get(at))
        });
        let rest = place.map_or(self.nodes.len(), |place| place.node + 1);
        first
            .chain(self.nodes.range(rest..).flat_map(Listpack::iter))
            .take(count)
    }

    /// The elements from the first one on.
    pub fn iter(&self) -> impl Iterator<Item = Element<'_>> + Clone {
        self.nodes.iter().flat_map(Listpack::iter)
    }

    /// The elements from the last one on.
    pub fn iter_back(&self) -> impl Iterator<Item = Element<'_>> + Clone {
        self.nodes.iter().rev().flat_map(Listpack::iter_back)
    }

    /// Indices of elements that are `value` (LPOS). `rank` 1 begins with the first match from the
    /// front, -1 with the first from the end, 2 with the second, and so on; 0 is taken for 1. At
    /// most `count` of them (0: all), comparing at most `compare_max` elements (0: all).
    #[must_use]
    pub fn positions(
        &self,
        value: &[u8],
        rank: i64,
        count: usize,
        compare_max: usize,
    ) -> Vec<usize> {
        let skip = usize::try_from(rank.unsigned_abs().saturating_sub(1)).unwrap_or(usize::MAX);
        let count = if count == 0 { usize::MAX } else { count };
        let compared = if compare_max == 0 {
            usize::MAX
        } else {
            compare_max
        };
        let matches =
            |(index, element): (usize, Element<'_>)| element.equals(value).then_some(index);
        if rank < 0 {
            let found = self
                .iter_back()
                .take(compared)
                .enumerate()
                .filter_map(matches);
            return found
                .skip(skip)
                .take(count)
                .map(|index| self.length - 1 - index)
                .collect();
        }
        let found = self.iter().take(compared).enumerate().filter_map(matches);
        found.skip(skip).take(count).collect()
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> &'static str {
        "quicklist"
    }

    /// Bytes of memory behind it.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(Listpack::heap_bytes).sum();
        self.nodes.capacity() * size_of::<Listpack>() + nodes
    }

    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = &Listpack> {
        self.nodes.iter()
    }

    /// Takes a whole node, of a dump.
    pub(crate) fn push_node(&mut self, node: Listpack) {
        self.length += node.len();
        if !node.is_empty() {
            self.reserve();
            self.nodes.push_back(node);
        }
    }

    /// A first node alone takes no more room than it has to.
    fn reserve(&mut self) {
        if self.nodes.is_empty() {
            self.nodes.reserve_exact(1);
        }
    }

    fn place(&self, index: i64) -> Option<Place> {
        let length = i64::try_from(self.length).ok()?;
        let index = if index < 0 {
            length.checked_add(index)?
        } else {
            index
        };
        if !(0..length).contains(&index) {
            return None;
        }
        let wanted = usize::try_from(index).ok()?;
        if wanted <= self.length / 2 {
            let mut before = 0;
            for (node, pack) in self.nodes.iter().enumerate() {
                let count = pack.len();
                if wanted < before + count {
                    let at = pack.at(i64::try_from(wanted - before).ok()?)?;
                    return Some(Place { node, at });
                }
                before += count;
            }
            return None;
        }
        let mut behind = self.length;
        for (node, pack) in self.nodes.iter().enumerate().rev() {
            behind -= pack.len();
            if wanted >= behind {
                let at = pack.at(i64::try_from(wanted - behind).ok()?)?;
                return Some(Place { node, at });
            }
        }
        None
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.iter().eq(other.iter())
    }
}

impl Eq for List {}

/// Whether a node may take one more element.
fn has_room(node: &Listpack, value: &[u8], thresholds: &Thresholds) -> bool {
    fits(
        node.len() + 1,
        node.bytes().len() + Listpack::bytes_of(value),
        thresholds,
    )
}

fn fits(count: usize, bytes: usize, thresholds: &Thresholds) -> bool {
    /// What a node limited by a number of elements may take, as in Redis.
    const BYTES_MAX: usize = 8192;
    match thresholds.list_max_listpack_size {
        0 => count <= 1,
        limit @ 1.. => count <= limit.unsigned_abs() as usize && bytes <= BYTES_MAX,
        limit => bytes <= 2048 << limit.unsigned_abs().min(5),
    }
}
