//! docs/formats says what the code does.

use holdfast_codec::{
    FRAME_HEADER_BYTES, FrameHeader, FrameKey, Identity, OBJECT_HEADER_BYTES, crc32c, kind,
    page_sum, seal_object,
};

#[path = "support/table.rs"]
mod table;
use table::Table;

const IDENTITY: Identity = Identity {
    set: *b"0123456789abcdef",
    object: 0x1122_3344_5566_7788,
    generation: 0x99aa,
};

#[test]
fn a_sealed_object_is_laid_out_as_documented() {
    let table = Table::read("object.md", "## Header, version 1");
    assert_eq!(table.len(), OBJECT_HEADER_BYTES);
    let bytes = seal_object(0x0102, 0x0304, &IDENTITY, b"payload");
    let (header, payload) = bytes.split_at(OBJECT_HEADER_BYTES);
    let value = |field| table.value(field, header);
    assert_eq!(table.bytes("magic", header), b"HOLDFAST");
    assert_eq!(value("format"), 1);
    assert_eq!(value("kind"), 0x0102);
    assert_eq!(value("version"), 0x0304);
    assert_eq!(value("reserved"), 0);
    assert_eq!(table.bytes("set", header), IDENTITY.set);
    assert_eq!(value("object"), IDENTITY.object);
    assert_eq!(value("generation"), IDENTITY.generation);
    assert_eq!(value("payload_bytes"), payload.len() as u64);
    assert_eq!(value("payload_crc"), u64::from(crc32c(payload)));
    let header_crc = crc32c(&table.without("header_crc", header));
    assert_eq!(value("header_crc"), u64::from(header_crc));
}

#[test]
fn a_frame_is_laid_out_as_documented() {
    let table = Table::read("log.md", "## Frame, version 1");
    assert_eq!(table.len(), FRAME_HEADER_BYTES);
    let (log, segment) = (0x0123_4567_89ab_cdef_u128, 42_u64);
    let wanted = FrameHeader {
        kind: 0x0102,
        sequence: 0x1122_3344_5566,
        durable_below: 0x1122_3344_5500,
        ends_write: true,
    };
    let header = FrameKey::new(log, segment).seal(&wanted, 7, crc32c(b"payload"));
    let value = |field| table.value(field, &header);
    assert_eq!(table.bytes("magic", &header), b"HREC");
    assert_eq!(value("kind"), 0x0102);
    assert_eq!(value("flags"), 1);
    assert_eq!(value("sequence"), wanted.sequence);
    assert_eq!(value("behind"), 0x66);
    assert_eq!(value("payload_bytes"), 7);
    assert_eq!(value("payload_crc"), u64::from(crc32c(b"payload")));
    let mut covered = Vec::from(log.to_le_bytes());
    covered.extend_from_slice(&segment.to_le_bytes());
    covered.extend_from_slice(&table.without("header_crc", &header));
    assert_eq!(value("header_crc"), u64::from(crc32c(&covered)));
}

#[test]
fn a_page_checksum_covers_what_is_documented() {
    let table = Table::read("object.md", "## Page checksums");
    let page = [7; 4096];
    let mut covered = Vec::new();
    covered.extend_from_slice(&IDENTITY.set);
    covered.extend_from_slice(&IDENTITY.object.to_le_bytes());
    covered.extend_from_slice(&IDENTITY.generation.to_le_bytes());
    covered.extend_from_slice(&3u64.to_le_bytes());
    covered.extend_from_slice(&4096u64.to_le_bytes());
    assert_eq!(covered.len(), table.len());
    assert_eq!(table.bytes("set", &covered), IDENTITY.set);
    assert_eq!(table.value("object", &covered), IDENTITY.object);
    assert_eq!(table.value("generation", &covered), IDENTITY.generation);
    assert_eq!(table.value("page_index", &covered), 3);
    assert_eq!(table.value("length", &covered), 4096);
    covered.extend_from_slice(&page);
    assert_eq!(page_sum(&IDENTITY, 3, &page), crc32c(&covered));
}

#[test]
fn every_kind_is_in_the_documented_table() {
    let path = format!(
        "{}/../../../docs/formats/object.md",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    for known in (0..=u16::MAX).filter(|number| kind::name(*number) != kind::name(u16::MAX)) {
        assert!(text.contains(&format!("\n| {known} | ")), "kind {known}");
    }
}
