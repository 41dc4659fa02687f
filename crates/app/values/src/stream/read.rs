//! Reading entries.

use std::collections::BTreeMap;

use super::{
    Stream, StreamId,
    node::{Place, Walk},
};
use crate::{element::Element, listpack::Listpack};

/// An entry.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEntry<'a> {
    /// Its id.
    pub id: StreamId,
    /// Its fields with their values, in the order they were given.
    pub fields: Vec<(Element<'a>, Element<'a>)>,
}

impl Stream {
    /// Entries from `start` to `end`, both included (XRANGE, XREAD).
    pub fn iter(&self, start: StreamId, end: StreamId) -> impl Iterator<Item = StreamEntry<'_>> {
        // The node that may have `start` is the last one whose id is not above it.
        let first = self
            .nodes
            .range(..=start)
            .next_back()
            .map_or(start, |(id, _)| *id);
        // A start above the end is a range without entries, which a map would panic on.
        let nodes = (first <= end).then(|| self.nodes.range(first..=end));
        nodes.into_iter().flatten().flat_map(move |(master, pack)| {
            let walk = Walk::new(*master, pack);
            let inside =
                move |place: &Place| !place.deleted && place.id >= start && place.id <= end;
            walk.clone()
                .filter(inside)
                .map(move |place| entry(&walk, place))
        })
    }

    /// The same from `end` down to `start` (XREVRANGE).
    pub fn iter_back(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = StreamEntry<'_>> {
        let first = self
            .nodes
            .range(..=start)
            .next_back()
            .map_or(start, |(id, _)| *id);
        let nodes = (first <= end).then(|| self.nodes.range(first..=end).rev());
        nodes.into_iter().flatten().flat_map(move |(master, pack)| {
            let walk = Walk::new(*master, pack);
            let inside = |place: &Place| !place.deleted && place.id >= start && place.id <= end;
            let places: Vec<Place> = walk.clone().filter(inside).collect();
            places
                .into_iter()
                .rev()
                .map(move |place| entry(&walk, place))
        })
    }

    /// The entry of an id.
    #[must_use]
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        let (master, pack) = self.nodes.range(..=id).next_back()?;
        let mut walk = Walk::new(*master, pack);
        let place = walk.find(|place| place.id == id && !place.deleted)?;
        Some(entry(&walk, place))
    }

    /// Whether the entry of an id is there.
    #[must_use]
    pub fn contains(&self, id: StreamId) -> bool {
        has(&self.nodes, id)
    }
}

/// The node and the place of an entry.
pub(super) fn find(
    nodes: &BTreeMap<StreamId, Listpack>,
    id: StreamId,
) -> Option<(StreamId, Place)> {
    let (master, pack) = nodes.range(..=id).next_back()?;
    let place = Walk::new(*master, pack).find(|place| place.id == id && !place.deleted)?;
    Some((*master, place))
}

pub(super) fn has(nodes: &BTreeMap<StreamId, Listpack>, id: StreamId) -> bool {
    find(nodes, id).is_some()
}

fn entry<'a>(walk: &Walk<'a>, place: Place) -> StreamEntry<'a> {
    StreamEntry {
        id: place.id,
        fields: walk.fields(place),
    }
}
