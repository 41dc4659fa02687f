//! What a crash left: the newest checkpoint, and the flights behind it that are whole.

use super::Volume;
#[cfg(test)]
use super::apply;
use super::read::read_header;
use super::state::Lane;
use crate::block::{BLOCK_BYTES, Block, bytes};
use crate::checkpoint::sheet::{self, Record, SegmentRow};
use crate::checkpoint::{COPIES, Header, SHEET_BLOCKS, copy_offset, sheet_offset, sheets_max};
use crate::corrupt::{equal, wrong};
use crate::error::{Result, VolumeError};
use crate::flight;
use crate::id::{Flight, Segment, Use};
use crate::map::{Map, Mapped};
use crate::segments::{Phase, Segments};
use codec::Corruption;
use std::collections::BTreeMap;

/// A flight that was found, and whether all its blocks are as it says.
struct Found {
    header: flight::Header,
    whole: bool,
}

/// What was durable and is given up, because a flight before it is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenUp {
    /// The flight that is gone: the volume is what it was before it.
    pub from: Flight,
    /// Flights below were durable.
    pub durable_below: Flight,
}

impl GivenUp {
    /// How many flights are given up at least: each is one write to the log, of one or more groups.
    pub fn flights(&self) -> u64 {
        self.durable_below.0.saturating_sub(self.from.0)
    }
}

impl Volume {
    /// Finds the state that the disks hold; unless the volume is read only, a new checkpoint says
    /// so, and what lies behind it is void for ever.
    ///
    /// Where a flight that was durable is gone, that is an error; with `give_up` it goes back to what
    /// was before that flight, and says so. It can as long as no change behind that may be in the
    /// checkpoint; nothing else that the state then refers to was overwritten, for segments are
    /// taken again only after a newer checkpoint.
    pub(super) fn recover(&self, give_up: bool) -> Result<Option<GivenUp>> {
        let checkpoint = self.newest_checkpoint()?;
        let (map, rows) = self.load(&checkpoint)?;
        let found = self.find_flights(&checkpoint, &rows)?;
        let durable_below = (found.values())
            .map(|found| found.header.durable_below)
            .fold(checkpoint.complete_below, Flight::max);
        let mut next = checkpoint.replay_from;
        let mut flights = Vec::new();
        while let Some(found) = found.get(&next) {
            #[cfg(test)]
            let trusted = self.planted(super::Plant::TrustTail);
            #[cfg(not(test))]
            let trusted = false;
            // Below `durable_below` a block that does not verify is damage, and a read will say so.
            if !found.whole && next >= durable_below && !trusted {
                break;
            }
            flights.push(&found.header);
            next = next.next();
        }
        let given_up = (next < durable_below).then_some(GivenUp {
            from: next,
            durable_below,
        });
        if given_up.is_some() && (!give_up || next < checkpoint.complete_below) {
            return Err(VolumeError::FlightLost {
                flight: next,
                durable_below,
            });
        }
        let (map, segments) = self.replayed(map, &rows, &flights);
        let opening = checkpoint.replay_from.opening() + 1;
        let first = Flight::first_of(opening).ok_or(VolumeError::WornOut)?;
        self.start(map, segments, first, checkpoint.number);
        if self.read_only {
            return Ok(given_up);
        }
        let _upkeep = self.upkeep.lock();
        self.save().map(|()| given_up)
    }

    /// The checkpoint with the highest number that has a whole header.
    fn newest_checkpoint(&self) -> Result<Header> {
        let mut newest: Option<Header> = None;
        let mut complaint = None;
        for slot in 0..2 {
            for copy in COPIES {
                let mut block = Block::zeros(1);
                let offset = copy_offset(&self.geometry, slot, copy);
                self.read_disk(0, offset, &mut block, "reading a checkpoint")?;
                match Header::decode(bytes(&block)) {
                    Ok(header) if header.volume == self.id && header.number % 2 == slot => {
                        let newer = newest.is_none_or(|newest| newest.number < header.number);
                        newest = if newer { Some(header) } else { newest };
                    }
                    Ok(_) => {}
                    Err(corruption) => complaint = complaint.or(Some(corruption.moved(offset))),
                }
            }
        }
        newest.ok_or(VolumeError::CheckpointCorrupt {
            number: 1,
            corruption: complaint.unwrap_or(wrong("checkpoint of this volume", 0, 1, 0)),
        })
    }

    /// The map and the segments of a checkpoint.
    fn load(&self, checkpoint: &Header) -> Result<(Map, Vec<SegmentRow>)> {
        let corrupt = |corruption| VolumeError::CheckpointCorrupt {
            number: checkpoint.number,
            corruption,
        };
        let max = sheets_max(&self.geometry);
        if checkpoint.sheets > max {
            let (max, found) = (max.into(), checkpoint.sheets.into());
            return Err(corrupt(wrong("sheets of the checkpoint", 80, max, found)));
        }
        let mut map = Map::default();
        let mut rows = Vec::new();
        for number in 0..checkpoint.sheets {
            for record in self.load_sheet(checkpoint.number, number)? {
                self.take_record(record, &mut map, &mut rows)
                    .map_err(corrupt)?;
            }
        }
        let segments = u64::from(self.geometry.segments());
        equal("segments of the checkpoint", 0, segments, rows.len() as u64).map_err(corrupt)?;
        Ok((map, rows))
    }

    fn load_sheet(&self, checkpoint: u64, number: u32) -> Result<Vec<Record>> {
        let mut complaint = None;
        for copy in COPIES {
            let mut blocks = Block::zeros(SHEET_BLOCKS as usize);
            let offset = sheet_offset(&self.geometry, checkpoint, copy, number);
            // A sector that cannot be read is no worse than one that is damaged.
            let read = self.read_disk(0, offset, &mut blocks, "reading a checkpoint");
            match sheet::decode(bytes(&blocks), self.id, checkpoint, number) {
                Ok(records) if read.is_ok() => return Ok(records),
                Ok(_) => {}
                Err(corruption) => complaint = complaint.or(Some(corruption.moved(offset))),
            }
        }
        Err(VolumeError::CheckpointCorrupt {
            number: checkpoint,
            corruption: complaint.unwrap_or(wrong("sheet", number.into(), 1, 0)),
        })
    }

    fn take_record(
        &self,
        record: Record,
        map: &mut Map,
        rows: &mut Vec<SegmentRow>,
    ) -> core::result::Result<(), Corruption> {
        let twice = wrong("record that stands twice, or before its object", 0, 0, 1);
        match record {
            Record::Segments { first, rows: more } => {
                equal("first segment", 0, rows.len() as u64, first.0)?;
                rows.extend(more);
                Ok(())
            }
            Record::Object { object, size } => match map.restore(object, size) {
                true => Ok(()),
                false => Err(twice),
            },
            Record::Leaf {
                object,
                number,
                leaf,
            } => {
                for run in leaf.runs() {
                    if let Mapped::At(place) = run.mapped() {
                        let index = self.geometry.index(place);
                        let inside = self.geometry.segment(place).0 < self.geometry.segments()
                            && index + u32::from(run.length) <= self.geometry.flight_blocks();
                        if !inside {
                            let max = u64::from(self.geometry.flight_blocks());
                            return Err(wrong("place of a block", 0, max, place.0.into()));
                        }
                    }
                }
                match map.restore_leaf(object, number, leaf) {
                    true => Ok(()),
                    false => Err(twice),
                }
            }
        }
    }

    /// Every flight from `replay_from` on of the checkpoint's opening, by number.
    fn find_flights(
        &self,
        checkpoint: &Header,
        rows: &[SegmentRow],
    ) -> Result<BTreeMap<Flight, Found>> {
        let opening = checkpoint.replay_from.opening();
        let wanted = |header: &flight::Header| {
            header.flight >= checkpoint.replay_from && header.flight.opening() == opening
        };
        let mut found = BTreeMap::new();
        for (segment, row) in (0..).map(Segment).zip(rows) {
            if row.segment_use != 0 && !row.replayed {
                continue;
            }
            if row.segment_use == 0 && !self.starts_with(segment, &wanted)? {
                continue;
            }
            let blocks = self.read_segment(segment)?;
            for header in self.scan(segment, &blocks).filter(wanted) {
                let whole = self.is_whole(&header, &blocks);
                found.insert(header.flight, Found { header, whole });
            }
        }
        Ok(found)
    }

    /// Whether a segment that was free begins with a flight that is wanted.
    fn starts_with(
        &self,
        segment: Segment,
        wanted: &impl Fn(&flight::Header) -> bool,
    ) -> Result<bool> {
        let mut blocks = Block::zeros(flight::HEADER_BLOCKS_MAX);
        let place = self.geometry.place(segment, 0);
        let (disk, offset) = self.geometry.locate(place);
        self.read_disk(disk, offset, &mut blocks, "reading a segment")?;
        let header = read_header(&blocks, 0);
        Ok(header.is_some_and(|header| {
            header.volume == self.id && header.place == place && wanted(&header)
        }))
    }

    /// Whether the blocks of a flight are what it says; `blocks` are those of its segment.
    fn is_whole(&self, header: &flight::Header, blocks: &[Block]) -> bool {
        let packs = (header.packs()).map(|(place, sum)| (header.pack_key(place), sum));
        #[cfg(test)]
        let packs = packs.take(match self.planted(super::Plant::TrustPacks) {
            true => 0,
            false => usize::MAX,
        });
        packs.chain(header.blocks()).all(|(key, sum)| {
            let index = self.geometry.index(key.place) as usize;
            let content = blocks.get(index).map(std::slice::from_ref);
            content.is_some_and(|content| key.check(bytes(content), sum).is_ok())
        })
    }

    /// The map with the groups whose end is among the flights, and the segments that it refers to.
    fn replayed(
        &self,
        map: Map,
        rows: &[SegmentRow],
        flights: &[&flight::Header],
    ) -> (Map, Segments) {
        let mut uses: Vec<Use> = rows.iter().map(|row| Use(row.segment_use)).collect();
        for header in flights {
            let segment = self.geometry.segment(header.place);
            if let Some(segment_use) = uses.get_mut(segment.0 as usize) {
                *segment_use = header.segment_use;
            }
        }
        let mut segments = Segments::recovered(self.geometry, &uses);
        for (.., count, place) in map.places() {
            segments.of(place).live += count;
        }
        let mut state = self.state.lock();
        state.map = map;
        state.segments = segments;
        for header in flights {
            let spots = header.spots();
            state.replay(header.stream, header.flight, &header.entries, spots);
        }
        #[cfg(test)]
        if self.planted(super::Plant::HalfGroup) {
            let super::state::State {
                lanes,
                map,
                segments,
                ..
            } = &mut *state;
            for lane in lanes {
                for (entry, place) in lane.run.drain(..) {
                    apply::change(map, segments, entry, place);
                }
            }
        }
        // What has no end never was.
        state.lanes = [Lane::default(), Lane::default()];
        let map = std::mem::take(&mut state.map);
        let segments = std::mem::replace(&mut state.segments, Segments::new(self.geometry));
        debug_assert!(segments.all().all(|(_, of)| of.phase != Phase::Open));
        (map, segments)
    }
}

const _: () = assert!(BLOCK_BYTES == 4096 && size_of::<Block>() == BLOCK_BYTES);
