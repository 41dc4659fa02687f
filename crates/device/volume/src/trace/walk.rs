//! A trace walked through, with what a power cut may leave at each event.

use super::base;
use super::cut::{self, Fate, Judge, Loss};
use super::error::{Result, TraceError};
use super::event::{Event, EventNumber};
use super::image::Image;
use super::pieces::{Pieces, Source};
use super::reader::{Ending, Found, Reader, Trace};
use crate::corrupt::wrong;
use env::Disk;
use std::ops::Range;
use std::sync::Arc;

/// A write or range of zeros that nothing has made durable.
#[derive(Clone, Debug)]
struct Pending {
    number: EventNumber,
    range: Range<u64>,
    source: Source,
    /// The event of its answer.
    done: Option<EventNumber>,
}

/// A trace on the way from its start to its end. What is durable is kept as a map into base and trace, so
/// a walk writes nothing, and a cut costs what is in flight.
pub struct Walk {
    trace: Trace,
    reader: Reader,
    base: Arc<dyn Disk>,
    durable: Pieces,
    /// In the order in which they came in.
    pending: Vec<Pending>,
    /// Flushes without an answer.
    syncs: Vec<EventNumber>,
}

/// The image of a cut.
pub struct Cut {
    /// What is on the disk.
    pub image: Image,
    /// What became of each write that was in flight.
    pub fates: Vec<Fate>,
}

impl Walk {
    /// Begins before the first event. `base` is what the disk was then; it is read for its checksum.
    ///
    /// # Errors
    /// [`TraceError::BaseLength`], [`TraceError::OtherBase`], and of the disks.
    pub fn new(trace: &Trace, base: Arc<dyn Disk>) -> Result<Walk> {
        let expected = trace.header().disk_bytes;
        let found = base
            .len()
            .map_err(TraceError::io("the length of the base"))?;
        if expected != found {
            return Err(TraceError::BaseLength { expected, found });
        }
        if base::sum(base.as_ref())? != trace.header().base_sum {
            return Err(TraceError::OtherBase);
        }
        Ok(Walk {
            trace: trace.clone(),
            reader: trace.reader(),
            base,
            durable: Pieces::default(),
            pending: Vec::new(),
            syncs: Vec::new(),
        })
    }

    /// The last event that is behind it.
    pub fn at(&self) -> EventNumber {
        self.reader.last()
    }

    /// How the trace ends, once it is there.
    pub fn ending(&self) -> Option<Ending> {
        self.reader.ending()
    }

    /// Writes and ranges of zeros that nothing has made durable here.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Bytes of these writes; ranges of zeros do not count.
    pub fn in_flight_bytes(&self) -> u64 {
        let writes = self.pending.iter();
        let writes = writes.filter(|change| change.source != Source::Zeros);
        writes
            .map(|change| change.range.end - change.range.start)
            .sum()
    }

    /// Goes over the next event and gives it; `None` at the end.
    ///
    /// # Errors
    /// [`TraceError::Senseless`], and of the disk.
    pub fn step(&mut self) -> Result<Option<Found>> {
        let Some(found) = self.reader.read_next()? else {
            return Ok(None);
        };
        let number = found.number;
        let mut arrived = |offset: u64, length: u64, source| {
            self.pending.push(Pending {
                number,
                range: offset..offset.saturating_add(length),
                source,
                done: None,
            });
        };
        match found.event {
            Event::Write { offset, length, .. } => {
                arrived(offset, length, Source::Trace(found.content));
            }
            Event::Zero { offset, length, .. } => arrived(offset, length, Source::Zeros),
            Event::Sync => self.syncs.push(number),
            Event::Done { request, errno } => self.answered(number, request, errno)?,
            Event::Mark(_) | Event::End => {}
        }
        Ok(Some(found))
    }

    fn answered(&mut self, number: EventNumber, request: EventNumber, errno: u32) -> Result<()> {
        if let Some(place) = self.syncs.iter().position(|sync| *sync == request) {
            self.syncs.swap_remove(place);
            if errno == 0 {
                self.settle(request);
            }
            return Ok(());
        }
        let mut pending = self.pending.iter_mut();
        let change = pending.find(|change| change.number == request);
        let change = change.ok_or(TraceError::Senseless {
            event: number,
            corruption: wrong("request of an answer", 32, 0, request.0),
        })?;
        if errno == 0 {
            change.done = Some(number);
        }
        Ok(())
    }

    /// A flush that came in as event `sync` has succeeded: what was answered before is durable.
    fn settle(&mut self, sync: EventNumber) {
        let durable = &mut self.durable;
        self.pending.retain(|change| {
            let covered = change.done.is_some_and(|done| done < sync);
            if covered {
                durable.put(change.range.clone(), change.source);
            }
            !covered
        });
    }

    /// Goes on until behind this event.
    ///
    /// # Errors
    /// [`TraceError::NoEvent`] where the trace ends before, or where it is behind that event already.
    pub fn advance(&mut self, until: EventNumber) -> Result<()> {
        while self.at() < until {
            if self.step()?.is_none() {
                break;
            }
        }
        let last = self.at();
        match last == until {
            true => Ok(()),
            false => Err(TraceError::NoEvent {
                wanted: until,
                last,
            }),
        }
    }

    /// What a power cut here leaves. The image can be changed; this stays as it is.
    ///
    /// # Errors
    /// [`TraceError::NotInFlight`].
    pub fn cut(&self, loss: &Loss) -> Result<Cut> {
        cut::check(loss, |event| {
            self.pending.iter().any(|change| change.number == event)
        })?;
        let mut judge = Judge::new(loss, self.at(), self.pending.len());
        let mut pieces = self.durable.clone();
        let mut fates = Vec::new();
        for (index, change) in self.pending.iter().enumerate() {
            let kept = judge.kept(index, change.number, &change.range);
            for part in &kept {
                let source = change.source.after(part.start - change.range.start);
                pieces.put(part.clone(), source);
            }
            fates.push(Fate {
                write: change.number,
                offset: change.range.start,
                length: change.range.end - change.range.start,
                kept: cut::summary(&change.range, &kept),
            });
        }
        let image = Image::new(self.base.clone(), self.trace.disk().clone(), pieces);
        Ok(Cut {
            image: image.map_err(TraceError::io("the length of the base"))?,
            fates,
        })
    }
}
