//! Traces that end early or are damaged, disks that fail, and bases that are not the one.

use super::{Memory, open, recorder};
use crate::trace::{
    Ending, Event, EventNumber, HEADER_BYTES, Loss, Recorder, Trace, TraceError, Walk, inspect,
};
use env::Disk;
use env::errno::Errno;

fn short() -> Vec<u8> {
    let (recorder, _, trace) = recorder(vec![3; 16_384]);
    recorder.write_at(100, &[1; 1001]).unwrap();
    recorder.sync().unwrap();
    recorder.mark(b"one").unwrap();
    recorder.discard(4096, 4096).unwrap();
    recorder.finish().unwrap();
    trace.content()
}

/// Events until the end, and how it ends.
fn read(bytes: &[u8]) -> (Vec<Event>, Ending) {
    let trace = Trace::open(Memory::new(bytes.to_vec())).unwrap();
    let mut reader = trace.reader();
    let mut events = Vec::new();
    while let Some(found) = reader.read_next().unwrap() {
        events.push(found.event);
    }
    (events, reader.ending().unwrap())
}

#[test]
fn a_trace_that_is_cut_off_holds_up_to_there() {
    let whole = short();
    let (events, ending) = read(&whole);
    assert_eq!((events.len(), ending), (8, Ending::Clean));
    let mut before = 0;
    for length in HEADER_BYTES as usize..whole.len() {
        let (found, ending) = read(&whole[..length]);
        assert_ne!(ending, Ending::Clean);
        assert_eq!(found, events[..found.len()]);
        assert!(found.len() >= before);
        before = found.len();
        let described = inspect(&whole[..length], length as u64).is_ok();
        assert_eq!(described, ending == Ending::Open);
        // One that was not read to its end is not damaged for that.
        let cut_off = inspect(&whole[..length], length as u64 + 1);
        assert!(cut_off.is_ok(), "{length}: {cut_off:?}");
    }
    assert_eq!(before, 7);
    assert!(inspect(&whole, whole.len() as u64).is_ok());
}

#[test]
fn every_flipped_bit_behind_the_header_ends_the_trace_there() {
    let whole = short();
    let (events, _) = read(&whole);
    // Zeros behind a payload or content are not covered; all else is.
    let mut unseen = 0;
    for at in HEADER_BYTES as usize..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        let (found, ending) = read(&bytes);
        assert_eq!(found, events[..found.len()]);
        match ending {
            Ending::Clean => unseen += 1,
            Ending::Open => panic!("byte {at}"),
            Ending::Broken(_) => assert!(inspect(&bytes, bytes.len() as u64).is_err()),
        }
    }
    assert_eq!(unseen, 7 + 5, "padding of the content and of the mark");
    for at in 0..80 {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let opened = Trace::open(Memory::new(bytes));
        assert!(matches!(opened, Err(TraceError::NotATrace(_))), "byte {at}");
    }
}

#[test]
fn a_base_that_is_not_the_one_is_refused() {
    let trace = open(&Memory::new(short()));
    let walk = |base| Walk::new(&trace, Memory::new(base)).map(drop);
    assert_eq!(walk(vec![3; 16_384]), Ok(()));
    let mut other = vec![3; 16_384];
    other[9000] = 4;
    assert_eq!(walk(other), Err(TraceError::OtherBase));
    let length = TraceError::BaseLength {
        expected: 16_384,
        found: 8192,
    };
    assert_eq!(walk(vec![3; 8192]), Err(length));
}

#[test]
fn after_a_failure_nothing_more_is_recorded_and_what_failed_may_be_there() {
    let (recorder, image, trace) = recorder(vec![3; 16_384]);
    recorder.write_at(0, &[1; 512]).unwrap();
    *image.fails.lock() = Some(Errno::IO);
    assert_eq!(recorder.write_at(512, &[1; 512]), Err(Errno::IO));
    *image.fails.lock() = None;
    assert_eq!(recorder.write_at(1024, &[1; 512]), Err(Errno::IO));
    assert_eq!(recorder.sync(), Err(Errno::IO));
    assert_eq!(recorder.discard(0, 512), Err(Errno::IO));
    assert!(recorder.finish().is_err());
    let mut walk = Walk::new(&open(&trace), Memory::new(vec![3; 16_384])).unwrap();
    walk.advance(EventNumber(4)).unwrap();
    assert_eq!(walk.step(), Ok(None));
    let cut = walk.cut(&Loss::Everything).unwrap();
    assert_eq!(cut.fates.len(), 2);
}

#[test]
fn a_flush_that_failed_makes_nothing_durable() {
    let (recorder, image, trace) = recorder(vec![3; 16_384]);
    recorder.write_at(0, &[1; 512]).unwrap();
    *image.fails.lock() = Some(Errno::IO);
    assert_eq!(recorder.sync(), Err(Errno::IO));
    let mut walk = Walk::new(&open(&trace), Memory::new(vec![3; 16_384])).unwrap();
    walk.advance(EventNumber(4)).unwrap();
    assert_eq!(walk.in_flight(), 1);
}

#[test]
fn a_trace_that_cannot_be_written_stops_the_writes() {
    let (recorder, image, trace) = recorder(vec![3; 16_384]);
    *trace.fails.lock() = Some(Errno::NOSPC);
    assert_eq!(recorder.write_at(0, &[1; 512]), Err(Errno::NOSPC));
    *trace.fails.lock() = None;
    assert_eq!(recorder.write_at(0, &[1; 512]), Err(Errno::NOSPC));
    assert_eq!(image.content(), vec![3; 16_384]);
}

#[test]
fn what_is_outside_the_disk_is_refused_and_not_recorded() {
    let (recorder, _, _) = recorder(vec![3; 16_384]);
    assert_eq!(recorder.write_at(16_000, &[1; 512]), Err(Errno::INVAL));
    assert_eq!(recorder.write_at(u64::MAX, &[1; 2]), Err(Errno::INVAL));
    assert_eq!(recorder.mark(&[0; 4097]), Err(Errno::INVAL));
    assert_eq!(recorder.events(), 0);
    assert_eq!(Disk::len(&recorder), Ok(16_384));
    let disk = Memory::new(vec![0; 8192]);
    let second = Recorder::start(disk.clone(), disk, 1);
    assert!(second.is_ok());
}
