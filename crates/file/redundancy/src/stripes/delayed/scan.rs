//! What a log holds at a start.

use super::LogSite;
use super::journal::{Journal, Segment};
use super::record::{
    ALIGNMENT, Content, HEAD_BYTES, HEAD_BYTES_MAX, Head, SEGMENT_HEADER_BYTES, SegmentHeader,
    SegmentKey, Spot, name, parse,
};
use crate::set::SetId;
use crate::stripes::shard::identity;
use crate::stripes::{Result, StripeError};
use codec::page_sum;
use env::Open;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that are looked through at a time for the next record.
const WINDOW_BYTES: u64 = 64 << 10;

/// A record of a log.
pub(super) struct Record {
    pub(super) segment: Arc<Segment>,
    /// Where its head begins.
    pub(super) at: u32,
    pub(super) head: Head,
    pub(super) sums: Vec<u32>,
}

impl Record {
    fn spot(&self) -> Spot {
        Spot {
            segment: self.segment.number,
            offset: self.at,
        }
    }

    /// Where its content begins.
    pub(super) fn content_at(&self) -> u32 {
        self.at + self.head.content.head_bytes() as u32
    }
}

/// A part of a segment that is no record.
struct Gap {
    segment: Arc<Segment>,
    from: u64,
    to: u64,
}

/// A log as it is found.
pub(super) struct Scan {
    site: LogSite,
    set: SetId,
    segments: VecDeque<Arc<Segment>>,
    pub(super) records: Vec<Record>,
    gaps: Vec<Gap>,
    /// Segments whose header is to be written.
    headless: Vec<Arc<Segment>>,
    /// Everything before it was durable once.
    durable: Spot,
    /// Segments at the end that hold nothing: made ahead.
    empty: Vec<u64>,
    /// Where a segment has to go on at least, as the header of the next says.
    ends: Vec<(u64, u32)>,
}

impl Scan {
    /// Reads the heads of all records.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn of(set: SetId, site: LogSite) -> Result<Scan> {
        let io = |doing| StripeError::io(site.store, doing);
        let files = site.dir.list().map_err(io("listing differentials"))?;
        let numbers: std::collections::BTreeSet<u64> =
            files.iter().filter_map(|f| parse(f)).collect();
        let mut scan = Scan {
            site,
            set,
            segments: VecDeque::new(),
            records: Vec::new(),
            gaps: Vec::new(),
            headless: Vec::new(),
            empty: Vec::new(),
            durable: Spot::default(),
            ends: Vec::new(),
        };
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
            return Ok(scan);
        };
        for number in *first..=*last {
            scan.segment(number, numbers.contains(&number))?;
        }
        scan.durable = scan
            .records
            .iter()
            .map(|record| record.head.durable)
            .max()
            .unwrap_or_default();
        scan.drop_empty();
        Ok(scan)
    }

    /// Leaves out the segments at the end that hold nothing and never had to.
    fn drop_empty(&mut self) {
        while let Some(last) = self.segments.back() {
            let number = last.number;
            let is_used = self
                .records
                .last()
                .is_some_and(|r| r.segment.number == number);
            let begin = Spot {
                segment: number,
                offset: SEGMENT_HEADER_BYTES,
            };
            if is_used || begin < self.durable {
                break;
            }
            self.segments.pop_back();
            self.gaps.retain(|gap| gap.segment.number != number);
            self.headless.retain(|segment| segment.number != number);
            self.ends.retain(|(next, _)| *next != number);
            self.empty.push(number);
        }
    }

    fn key(&self, number: u64) -> SegmentKey {
        SegmentKey {
            set: self.set,
            store: self.site.store,
            number,
        }
    }

    fn segment(&mut self, number: u64, is_there: bool) -> Result<()> {
        let store = self.site.store;
        let io = |doing| StripeError::io(store, doing);
        let file = name(number);
        let disk = if is_there {
            self.site.dir.open(&file, Open::Write)
        } else {
            self.site.dir.make(&file)
        };
        let disk = disk.map_err(io("opening differentials"))?;
        let length = disk.len().map_err(io("measuring differentials"))?;
        let segment = Segment::new(store, number, disk, length);
        self.segments.push_back(segment.clone());
        let mut header = vec![0; SEGMENT_HEADER_BYTES as usize];
        let there = header.len().min(length as usize);
        let read = segment.disk.read_at(0, &mut header[..there]);
        read.map_err(io("reading differentials"))?;
        match SegmentHeader::decode(&header) {
            Ok(found) if found.key == self.key(number) => {
                self.ends.push((number, found.previous_end));
            }
            _ => self.headless.push(segment.clone()),
        }
        let key = self.key(number);
        let mut at = u64::from(SEGMENT_HEADER_BYTES);
        while at < length {
            match read_head(&key, &segment, at, length)? {
                Some((head, sums)) => {
                    let bytes = u64::from(head.content.bytes());
                    self.records.push(Record {
                        segment: segment.clone(),
                        at: at as u32,
                        head,
                        sums,
                    });
                    at += bytes;
                }
                None => {
                    let from = at;
                    at = next_record(&key, &segment, from + u64::from(ALIGNMENT), length)?;
                    let segment = segment.clone();
                    self.gaps.push(Gap {
                        segment,
                        from,
                        to: at,
                    });
                }
            }
        }
        Ok(())
    }

    /// The first place at which something is missing that was durable.
    pub(super) fn damage(&self) -> Option<Spot> {
        let spot = |segment: &Segment, offset: u64| Spot {
            segment: segment.number,
            offset: offset as u32,
        };
        let gaps = self.gaps.iter().map(|gap| spot(&gap.segment, gap.from));
        let headless = self.headless.iter().map(|segment| spot(segment, 0));
        let by_number = |number: u64| self.segments.iter().find(|s| s.number == number);
        let cut = self.ends.iter().filter_map(|(next, end)| {
            let before = by_number(next.checked_sub(1)?)?;
            (before.end() < u64::from(*end)).then(|| spot(before, before.end()))
        });
        let last = by_number(self.durable.segment)
            .filter(|segment| segment.end() < u64::from(self.durable.offset))
            .map(|segment| spot(segment, segment.end()));
        gaps.chain(headless)
            .chain(cut)
            .chain(last)
            .filter(|spot| *spot < self.durable)
            .min()
    }

    /// Drops what a crash has cut, so that it is never looked at again, and makes all that counts
    /// durable. `believes`: bytes are not looked at, a bug for tests to plant.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn settle(&mut self, believes: bool) -> Result<()> {
        let store = self.site.store;
        let io = |doing| StripeError::io(store, doing);
        let durable = self.durable;
        let (set, mut touched) = (self.set, Vec::new());
        let key = |number| SegmentKey { set, store, number };
        let void = |segment: &Segment, from: u64, to: u64| {
            let bytes = (to - from).next_multiple_of(ALIGNMENT.into()) as u32;
            let head = Head {
                sequence: 0,
                durable: Spot::default(),
                content: Content::Void(bytes),
            };
            let mut record = [0; HEAD_BYTES];
            head.seal(&key(segment.number), from as u32, &mut record);
            let written = segment.disk.write_at(from, &record);
            written.map_err(io("dropping what a crash has cut"))?;
            let end = from + u64::from(bytes);
            if end > segment.end() {
                // The record is to lie in the file as a whole.
                let written = segment.disk.write_at(end - 1, &[0]);
                written.map_err(io("dropping what a crash has cut"))?;
                segment.set_end(end);
            }
            Ok::<(), StripeError>(())
        };
        for number in &self.empty {
            let removed = self.site.dir.remove(&name(*number));
            removed.map_err(io("dropping what a crash has cut"))?;
        }
        for segment in &self.headless {
            let header = SegmentHeader {
                key: key(segment.number),
                previous_end: 0,
            };
            let written = segment.disk.write_at(0, &header.encode());
            written.map_err(io("dropping what a crash has cut"))?;
            segment.set_end(segment.end().max(SEGMENT_HEADER_BYTES.into()));
            touched.push(segment.number);
        }
        for gap in &self.gaps {
            void(&gap.segment, gap.from, gap.to)?;
            touched.push(gap.segment.number);
        }
        for (next, end) in &self.ends {
            let before = self.segments.iter().find(|s| s.number + 1 == *next);
            if let Some(before) = before.filter(|before| before.end() < u64::from(*end)) {
                // Else it would look as if something durable had been cut off.
                void(before, before.end(), u64::from(*end))?;
                touched.push(before.number);
            }
        }
        let mut kept = Vec::with_capacity(self.records.len());
        for record in std::mem::take(&mut self.records) {
            if record.spot() >= durable {
                touched.push(record.segment.number);
                if !believes && !is_whole(set, &record)? {
                    let from = u64::from(record.at);
                    let to = from + u64::from(record.head.content.bytes());
                    void(&record.segment, from, to)?;
                    continue;
                }
            }
            kept.push(record);
        }
        self.records = kept;
        let of_names = !touched.is_empty() || !self.empty.is_empty();
        for segment in &self.segments {
            if touched.contains(&segment.number) {
                segment.disk.sync().map_err(io("syncing differentials"))?;
            }
        }
        if of_names {
            let synced = self.site.dir.sync();
            synced.map_err(io("syncing differentials"))?;
        }
        Ok(())
    }

    /// The log, to be gone on with in a new segment, and its records.
    pub(super) fn into_journal(self, segment_bytes: u32) -> (Journal, Vec<Record>) {
        let durable = self.segments.back().map_or(Spot::default(), |last| Spot {
            segment: last.number,
            offset: last.end() as u32,
        });
        let place = (self.set, self.site.store);
        let journal = Journal::new(place, self.site.dir, segment_bytes, self.segments, durable);
        (journal, self.records)
    }

    /// The store and its directory, for a log that is thrown away.
    pub(super) fn into_site(self) -> LogSite {
        self.site
    }
}

/// The head of the record at a place, `None` where there is none, or not all of it.
fn read_head(
    key: &SegmentKey,
    segment: &Segment,
    at: u64,
    length: u64,
) -> Result<Option<(Head, Vec<u32>)>> {
    let mut bytes = [0; HEAD_BYTES_MAX];
    let there = bytes.len().min((length - at) as usize);
    let read = segment.disk.read_at(at, &mut bytes[..there]);
    read.map_err(StripeError::io(segment.store, "reading differentials"))?;
    let head = Head::open(key, at as u32, &bytes[..there]).ok();
    Ok(head.filter(|(head, _)| at + u64::from(head.content.bytes()) <= length))
}

/// Where the next record begins, or the end.
fn next_record(key: &SegmentKey, segment: &Segment, from: u64, length: u64) -> Result<u64> {
    let mut at = from;
    let mut window = vec![0; WINDOW_BYTES as usize];
    while at < length {
        let there = WINDOW_BYTES.min(length - at) as usize;
        let window = &mut window[..there];
        let read = segment.disk.read_at(at, window);
        read.map_err(StripeError::io(segment.store, "reading differentials"))?;
        for (step, bytes) in (0..).zip(window.chunks(ALIGNMENT as usize)) {
            let place = at + step * u64::from(ALIGNMENT);
            let is_one = bytes.starts_with(&super::record::MAGIC)
                && read_head(key, segment, place, length)?.is_some();
            if is_one {
                return Ok(place);
            }
        }
        at += WINDOW_BYTES;
    }
    Ok(length)
}

/// Whether all bytes of a record are what was to be written.
fn is_whole(set: SetId, record: &Record) -> Result<bool> {
    let Content::Write(span) = record.head.content else {
        return Ok(true);
    };
    let identity = identity(set, span.stripe, span.shard);
    let mut bytes = vec![0; span.length as usize];
    let at = u64::from(record.content_at());
    let read = record.segment.disk.read_at(at, &mut bytes);
    let store = record.segment.store;
    read.map_err(StripeError::io(store, "reading differentials"))?;
    let mut parts = span.parts().zip(&record.sums);
    Ok(parts.all(|(part, sum)| {
        let bytes = bytes.get(part.at as usize..).unwrap_or_default();
        let bytes = bytes.get(..part.bytes()).unwrap_or_default();
        page_sum(&identity, part.page.into(), bytes) == *sum
    }))
}
