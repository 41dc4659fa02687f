//! Log segments.

use codec::{FrameHeader, FrameKey, crc32c, frame_bytes};
use log::{BLOCK_BYTES, SegmentHeader, Sequence, Stop, inspect, scan};

/// Any bytes are scanned without a panic; then the input is taken as a list of frames with
/// checksums that fit, so that the rules behind the checksums are reached.
pub(crate) fn check(bytes: &[u8]) {
    let decoded = SegmentHeader::decode(bytes);
    assert_eq!(decoded.is_ok(), inspect(bytes).is_ok());
    if let Ok(header) = decoded {
        assert_eq!(bytes[..BLOCK_BYTES], header.encode());
        check_scan(
            bytes,
            &FrameKey::new(header.log.0, header.number),
            header.first,
        );
    }
    check_scan(bytes, &FrameKey::new(7, 1), Sequence(1));
    check_scan(&laid_out(bytes), &FrameKey::new(7, 1), Sequence(1));
}

/// Six bytes of input make a frame: where it goes, sequence, distance of its write's start, flags
/// and segment, payload length.
fn laid_out(bytes: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; 5 * BLOCK_BYTES];
    let mut at = BLOCK_BYTES;
    for part in bytes.chunks_exact(6) {
        let &[place, sequence, behind, flags, length, fill] = part else {
            return segment;
        };
        match place % 4 {
            0 => at = at.next_multiple_of(BLOCK_BYTES),
            1 => at = BLOCK_BYTES + usize::from(place) * 64,
            _ => {}
        }
        let payload = vec![fill; usize::from(length)];
        let header = FrameHeader {
            kind: fill.into(),
            sequence: sequence.into(),
            durable_below: sequence.saturating_sub(behind % 8).into(),
            ends_write: flags & 1 != 0,
        };
        let key = FrameKey::new(7, if flags & 0xf0 == 0xf0 { 2 } else { 1 });
        let sealed = key.seal(&header, payload.len(), crc32c(&payload));
        let Some(room) = segment.get_mut(at..at + frame_bytes(payload.len())) else {
            break;
        };
        room[..sealed.len()].copy_from_slice(&sealed);
        room[sealed.len()..][..payload.len()].copy_from_slice(&payload);
        at += frame_bytes(payload.len());
        if header.ends_write {
            at = at.next_multiple_of(BLOCK_BYTES);
        }
    }
    segment
}

fn check_scan(bytes: &[u8], key: &FrameKey, first: Sequence) {
    let whole = scan(bytes, key, first, None);
    for (expected, frame) in (first.0..).zip(&whole.frames) {
        assert_eq!(frame.header.sequence, expected);
        assert!((first.0..=expected).contains(&frame.header.durable_below));
    }
    assert_eq!(whole.next.0, first.0 + whole.frames.len() as u64);
    // A limit cuts the same list.
    let half = whole.frames.len() / 2;
    let limited = scan(bytes, key, first, Some(Sequence(first.0 + half as u64)));
    assert_eq!(limited.stop, Stop::Limit);
    assert_eq!(limited.frames, whole.frames[..half]);
}
