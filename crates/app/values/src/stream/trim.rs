//! Removing entries.

use super::{
    Stream, StreamId,
    node::{self, Place, Walk},
    read,
};

/// Up to where XTRIM removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrimBy {
    /// MAXLEN: until so many entries are left.
    Length(usize),
    /// MINID: entries below this id.
    Id(StreamId),
}

impl Stream {
    /// Removes the oldest entries (XTRIM, XADD's trimming); returns how many. With `approximate`
    /// only whole nodes go; `limit`, if it is not 0, bounds how many entries. (Where a command gives
    /// no LIMIT, Redis takes a hundred times `stream-node-max-entries` for an approximate trim.)
    pub fn trim(&mut self, by: TrimBy, approximate: bool, limit: usize) -> usize {
        let mut removed = 0;
        while let Some(first) = self.nodes.first_entry() {
            if matches!(by, TrimBy::Length(most) if self.length <= most) {
                break;
            }
            let count = node::present(first.get());
            if limit > 0 && removed + count > limit {
                break;
            }
            let whole = match by {
                TrimBy::Length(most) => self.length - count >= most,
                TrimBy::Id(id) => {
                    let last = Walk::new(*first.key(), first.get()).last();
                    last.is_none_or(|last| last.id < id)
                }
            };
            if whole {
                first.remove();
                self.length -= count;
                removed += count;
                continue;
            }
            if !approximate {
                removed += self.trim_first(by);
            }
            break;
        }
        removed
    }

    /// Removes entries of the first node, of which some stay.
    fn trim_first(&mut self, by: TrimBy) -> usize {
        let Some(mut first) = self.nodes.first_entry() else {
            return 0;
        };
        let master = *first.key();
        let goes = |removed: usize, place: &Place| match by {
            TrimBy::Length(most) => self.length - removed > most,
            TrimBy::Id(id) => place.id < id,
        };
        let mut places = Vec::new();
        for place in Walk::new(master, first.get()).filter(|place| !place.deleted) {
            if !goes(places.len(), &place) {
                break;
            }
            places.push(place);
        }
        let removed = places.len();
        node::delete(first.get_mut(), &places);
        self.length -= removed;
        removed
    }

    /// Removes an entry (XDEL); returns whether it was there.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some((master, place)) = read::find(&self.nodes, id) else {
            return false;
        };
        if let Some(pack) = self.nodes.get_mut(&master) {
            if node::present(pack) == 1 {
                self.nodes.remove(&master);
            } else {
                node::delete(pack, &[place]);
            }
        }
        self.length -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        true
    }
}
