//! The segments that have live records, by slot.

use crate::error::{Result, VlogError};
use crate::live::LiveSet;
use crate::position::{Name, ORDINALS_MAX, Position};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::Arc;

/// A segment in memory.
pub(crate) struct Segment {
    /// Its number on disk.
    pub(crate) number: u64,
    pub(crate) slot: u32,
    /// The lane that it is written on, where that is in this opening.
    pub(crate) lane: Option<usize>,
    pub(crate) live: Mutex<LiveSet>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Option<Arc<Segment>>>,
    /// Slots to be used again, the one that is free for longest first.
    free: VecDeque<u32>,
}

/// All segments in memory.
#[derive(Default)]
pub(crate) struct Table {
    slots: RwLock<Slots>,
}

/// A record that is to be killed.
pub(crate) struct Target {
    pub(crate) segment: Arc<Segment>,
    pub(crate) ordinal: u32,
}

impl Target {
    pub(crate) fn name(&self) -> Name {
        Name {
            segment: self.segment.number,
            ordinal: self.ordinal,
        }
    }
}

impl Table {
    /// A slot for a segment.
    pub(crate) fn add(
        &self,
        number: u64,
        lane: Option<usize>,
        live: LiveSet,
    ) -> Result<Arc<Segment>> {
        let mut slots = self.slots.write();
        let slot = match slots.free.pop_front() {
            Some(slot) => slot,
            None => {
                let next = slots.slots.len() as u32;
                if next >= ORDINALS_MAX {
                    return Err(VlogError::Segments);
                }
                slots.slots.push(None);
                next
            }
        };
        let segment = Arc::new(Segment {
            number,
            slot,
            lane,
            live: Mutex::new(live),
        });
        if let Some(place) = slots.slots.get_mut(slot as usize) {
            *place = Some(segment.clone());
        }
        Ok(segment)
    }

    /// Lets go of a segment without live records, so that no entry has a position in it.
    pub(crate) fn remove(&self, segment: &Segment) {
        assert_eq!(segment.live.lock().live(), 0, "positions in it are in use");
        let mut slots = self.slots.write();
        if let Some(place) = slots.slots.get_mut(segment.slot as usize)
            && place.take().is_some()
        {
            slots.free.push_back(segment.slot);
        }
    }

    /// The live record at a position.
    pub(crate) fn target(&self, position: Position) -> Result<Target> {
        let slots = self.slots.read();
        let segment = slots.slots.get(position.slot() as usize);
        let segment = segment.cloned().flatten().ok_or(VlogError::NotLive)?;
        drop(slots);
        let ordinal = position.ordinal();
        if !segment.live.lock().contains(ordinal) {
            return Err(VlogError::NotLive);
        }
        Ok(Target { segment, ordinal })
    }

    /// All segments, by number.
    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        let slots = self.slots.read();
        let mut all: Vec<_> = slots.slots.iter().flatten().cloned().collect();
        drop(slots);
        all.sort_unstable_by_key(|segment| segment.number);
        all
    }

    /// Bytes of memory for all that is known of records.
    pub(crate) fn heap_bytes(&self) -> usize {
        let slots = self.slots.read();
        let fixed = slots.slots.capacity() * size_of::<Option<Arc<Segment>>>();
        let segments = slots.slots.iter().flatten();
        let sets = segments.map(|segment| {
            // The counts of the Arc stand in front of it.
            size_of::<Segment>() + 16 + segment.live.lock().heap_bytes()
        });
        fixed + sets.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_when_nothing_in_its_segment_is_live_and_old_positions_are_refused() {
        let table = Table::default();
        let one = table.add(1, None, LiveSet::all(2)).unwrap();
        let old = Position::new(one.slot, 1);
        assert_eq!(table.target(old).unwrap().name().segment, 1);
        one.live.lock().kill(0);
        one.live.lock().kill(1);
        assert!(table.target(old).is_err());
        table.remove(&one);
        let two = table.add(2, None, LiveSet::all(1)).unwrap();
        assert_eq!((two.slot, one.slot), (0, 0));
        assert!(table.target(old).is_err(), "it has no such record");
        assert_eq!(table.all().len(), 1);
    }

    #[test]
    #[should_panic(expected = "positions in it are in use")]
    fn a_segment_with_live_records_is_not_let_go() {
        let table = Table::default();
        let one = table.add(1, None, LiveSet::all(1)).unwrap();
        table.remove(&one);
    }
}
