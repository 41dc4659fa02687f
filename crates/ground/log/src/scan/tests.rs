use super::*;
use codec::{FrameHeader, crc32c};
use proptest::prelude::*;

const KEY: fn(u64) -> FrameKey = |segment| FrameKey::new(5, segment);

/// A segment of 8 blocks, frames put where a test wants them.
struct Segment(Vec<u8>);

impl Segment {
    fn new() -> Segment {
        Segment(vec![0; 8 * BLOCK_BYTES])
    }

    fn put(mut self, at: usize, key: &FrameKey, sequence: u64, start: u64, ends: bool) -> Segment {
        let header = FrameHeader {
            kind: 1,
            sequence,
            durable_below: start,
            ends_write: ends,
        };
        let payload = [sequence as u8; 8];
        let sealed = key.seal(&header, payload.len(), crc32c(&payload));
        self.0[at..at + 32].copy_from_slice(&sealed);
        self.0[at + 32..at + 40].copy_from_slice(&payload);
        self
    }

    /// One write of the records 10 and 11, then one of the record 12.
    fn sound() -> Segment {
        let key = KEY(1);
        Segment::new()
            .put(4096, &key, 10, 10, false)
            .put(4096 + 40, &key, 11, 10, true)
            .put(8192, &key, 12, 12, true)
    }

    fn scan(&self, limit: Option<u64>) -> Scan<'_> {
        scan(&self.0, &KEY(1), Sequence(10), limit.map(Sequence))
    }

    /// The next sequence and the rule that stopped the scan.
    fn stop(&self) -> (u64, &'static str) {
        let found = self.scan(None);
        match found.stop {
            Stop::Limit => (found.next.0, "limit"),
            Stop::Tail(why) => (found.next.0, why.what),
            Stop::Damage(why) => (found.next.0, why.what),
        }
    }
}

#[test]
fn frames_follow_each_other_within_a_write_and_writes_start_at_blocks() {
    let segment = Segment::sound();
    let found = segment.scan(None);
    let sequences: Vec<u64> = found.frames.iter().map(|f| f.header.sequence).collect();
    assert_eq!(sequences, [10, 11, 12]);
    assert!(matches!(found.stop, Stop::Tail(why) if why.offset == 3 * 4096));
}

#[test]
fn the_limit_ends_the_scan_and_a_stop_before_it_is_damage() {
    let segment = Segment::sound();
    assert_eq!(segment.scan(Some(11)).frames.len(), 1);
    assert_eq!(segment.scan(Some(11)).stop, Stop::Limit);
    assert_eq!(segment.scan(Some(13)).stop, Stop::Limit);
    assert!(matches!(segment.scan(Some(14)).stop, Stop::Damage(_)));
}

#[test]
fn a_frame_of_an_earlier_use_is_not_read_though_its_sequence_fits() {
    let stale = Segment::sound().put(3 * 4096, &KEY(7), 13, 13, true);
    assert_eq!(stale.stop(), (13, "header checksum"));
}

#[test]
fn a_frame_out_of_sequence_is_not_read() {
    for sequence in [12, 14, 0, u64::MAX] {
        let segment = Segment::sound().put(3 * 4096, &KEY(1), sequence, sequence, true);
        assert_eq!(segment.stop(), (13, "sequence of the record"));
    }
}

#[test]
fn a_frame_of_another_write_is_not_read() {
    // It says that its write began earlier, so it is the rest of a write whose start is lost.
    let segment = Segment::sound().put(3 * 4096, &KEY(1), 13, 12, true);
    assert_eq!(segment.stop(), (13, "start of the write"));
    // Record 11 belongs to the write that 10 began.
    let segment = Segment::sound().put(4096 + 40, &KEY(1), 11, 11, true);
    assert_eq!(segment.stop(), (11, "start of the write"));
}

#[test]
fn a_hole_is_damage_only_where_a_later_write_proves_that_it_had_been_durable() {
    let mut same_write = Segment::sound().put(8192, &KEY(1), 0, 0, true);
    same_write.0[4096] ^= 1;
    assert!(matches!(same_write.scan(None).stop, Stop::Tail(_)));
    let mut later_write = Segment::sound();
    later_write.0[4096] ^= 1;
    assert!(matches!(later_write.scan(None).stop, Stop::Damage(why) if why.offset == 4096));
    let mut other_segment = Segment::sound().put(8192, &KEY(7), 12, 12, true);
    other_segment.0[4096] ^= 1;
    assert!(matches!(other_segment.scan(None).stop, Stop::Tail(_)));
}

proptest! {
    #[test]
    fn any_change_to_a_segment_yields_a_prefix_of_its_records(
        changes in prop::collection::vec((4096usize..5 * 4096, any::<u8>()), 1..6), length in 0usize..8 * 4096,
    ) {
        let sound = Segment::sound();
        let mut changed = Segment(sound.0.clone());
        for (at, byte) in changes {
            changed.0[at] = byte;
        }
        changed.0.truncate(length);
        let (found, whole) = (changed.scan(None), sound.scan(None));
        prop_assert_eq!(&found.frames[..], &whole.frames[..found.frames.len()]);
    }
}
