use super::*;
use proptest::prelude::*;

const HEADER: FrameHeader = FrameHeader {
    kind: 0x0102,
    sequence: 1000,
    durable_below: 997,
    ends_write: true,
};

fn sealed(key: FrameKey, header: &FrameHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = key.seal(header, payload.len(), crc32c(payload)).to_vec();
    bytes.extend_from_slice(payload);
    bytes.resize(frame_bytes(payload.len()), 0);
    bytes
}

/// Written by version 1; must be read for ever. The checksums were computed bit by bit from the
/// polynomial, not by this code.
const GOLDEN: &str = "4852454302010100e8030000000000000300000006000000";

#[test]
fn the_bytes_of_version_1_do_not_change() {
    let bytes = sealed(FrameKey::new(7, 1), &HEADER, b"record");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(&hex[..48], GOLDEN);
    assert_eq!(&hex[48..], "d4ac9679e25300347265636f72640000");
}

#[test]
fn another_log_or_segment_is_refused() {
    let bytes = sealed(FrameKey::new(7, 1), &HEADER, b"record");
    assert!(FrameKey::new(7, 1).open(&bytes).is_ok());
    for key in [FrameKey::new(7, 2), FrameKey::new(8, 1)] {
        assert_eq!(key.open(&bytes).unwrap_err().what, "header checksum");
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let key = FrameKey::new(7, 1);
    let bytes = sealed(key, &HEADER, b"whole blk");
    let used = FRAME_HEADER_BYTES + 9;
    for bit in 0..used * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(key.open(&bad).is_err(), "bit {bit}");
    }
    for length in 0..used {
        assert!(key.open(&bytes[..length]).is_err(), "length {length}");
    }
}

proptest! {
    #[test]
    fn what_was_sealed_opens(log: u128, segment: u64, kind: u16, sequence: u64, behind: u32, ends_write: bool,
                             payload in prop::collection::vec(any::<u8>(), 0..300)) {
        let key = FrameKey::new(log, segment);
        let header = FrameHeader { kind, sequence, durable_below: sequence.saturating_sub(behind.into()), ends_write };
        let bytes = sealed(key, &header, &payload);
        let frame = key.open(&bytes).unwrap();
        prop_assert_eq!(frame.header, header);
        prop_assert_eq!(key.peek(&bytes).unwrap(), header);
        prop_assert_eq!(frame.payload, &payload[..]);
    }
}
