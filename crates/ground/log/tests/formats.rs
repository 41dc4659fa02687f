//! docs/formats/log.md says what the code does.

use holdfast_log::{BLOCK_BYTES, LogId, SegmentHeader, Sequence};

#[path = "../../codec/tests/support/table.rs"]
mod table;
use table::Table;

#[test]
fn a_segment_begins_as_documented() {
    let header = SegmentHeader {
        log: LogId(0x0123_4567),
        number: 42,
        first: Sequence(0x1122_3344_5566),
        segment_bytes: 1 << 20,
    };
    let block = header.encode();
    assert_eq!(block.len(), BLOCK_BYTES);
    let object = codec::open_object(&block, codec::kind::LOG_SEGMENT, None).unwrap();
    assert_eq!((object.kind, object.version), (1, 1));
    assert_eq!(object.identity.set, 0x0123_4567_u128.to_le_bytes());
    assert_eq!(
        (object.identity.object, object.identity.generation),
        (42, 0)
    );

    let table = Table::read("log.md", "Payload of the sealed object");
    assert_eq!(object.payload.len(), table.len());
    assert_eq!(table.value("first", object.payload), header.first.0);
    assert_eq!(table.value("segment_bytes", object.payload), 1 << 20);
    // The rest of the reader is used by the other formats.
    assert!(
        table
            .without("first", object.payload)
            .starts_with(table.bytes("first", &[0; 16]))
    );
}

#[test]
fn golden_the_first_block_of_version_1_does_not_change() {
    let header = SegmentHeader {
        log: LogId(7),
        number: 1,
        first: Sequence(1),
        segment_bytes: 12288,
    };
    let block = header.encode();
    let hex: String = block[..80]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        hex,
        "484f4c44464153540100010001000000070000000000000000000000000000000100000000000000000000000000000010000000000000000fee7c11457c4a3901000000000000000030000000000000"
    );
    assert!(block[80..].iter().all(|byte| *byte == 0));
    assert_eq!(SegmentHeader::decode(&block), Ok(header));
}
