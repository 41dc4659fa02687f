use super::*;

const KEY: BlockKey = BlockKey {
    log: 7,
    file: 3,
    opening: 2,
};

fn sealed() -> Vec<u8> {
    let mut body = Vec::new();
    push_record(&mut body, 5, 10, b"one");
    push_record(&mut body, 6, 12, b"");
    let header = BlockHeader {
        segment: 3,
        records: 2,
        durable: 512,
        group: 9,
        parts: 2,
        last: true,
    };
    let mut bytes = Vec::new();
    KEY.seal(1024, &header, &[1 << 24 | 4], &body, &mut bytes);
    bytes
}

fn open(key: &BlockKey, place: u64, bytes: &[u8]) -> Result<usize, Corruption> {
    let head = key.open_head(place, bytes)?;
    let start = HEADER_BYTES + head.kills().len() * 8;
    head.open_body(&bytes[start..]).map(|records| records.len())
}

#[test]
fn a_block_is_read_as_it_was_sealed() {
    let bytes = sealed();
    let head = KEY.open_head(1024, &bytes).expect("whole");
    assert_eq!(head.kills().collect::<Vec<_>>(), [1 << 24 | 4]);
    assert_eq!((head.header.group, head.header.parts), (9, 2));
    assert!(head.header.last);
    let records = head.open_body(&bytes[72..]).expect("whole");
    assert_eq!(records[0].payload, b"one");
    assert_eq!((records[1].stream, records[1].ordinal), (6, 12));
}

#[test]
fn every_flipped_bit_and_every_other_place_is_found() {
    let whole = sealed();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&KEY, 1024, &bytes).is_err(), "bit {bit}");
    }
    assert!(open(&KEY, 1536, &whole).is_err());
    for key in [
        BlockKey { log: 8, ..KEY },
        BlockKey { file: 4, ..KEY },
        BlockKey { opening: 1, ..KEY },
    ] {
        assert!(open(&key, 1024, &whole).is_err());
    }
    for end in 0..whole.len() {
        assert!(open(&KEY, 1024, &whole[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn golden_a_block_of_version_1_does_not_change() {
    let hex: String = sealed().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN);
}

const GOLDEN: &str = concat!(
    "48564c427bcbe9ef037890a71b000000030000000000000002000000010000000002000000000000",
    "09000000000000000200000001000000000000000000000004000001000000000300000",
    "00a000000050000006f6e65000000000c00000006000000"
);
