//! docs/formats/vlog.md says what the code does.

use crate::block::{BlockHeader, BlockKey, push_record};
use crate::live::LiveSet;
use crate::manifest::{FileEntry, Manifest, SegmentEntry, State};
use crate::segment::{Origin, SegmentHeader};
use crate::validity;
use codec::{Checksum, crc32c};

#[path = "../../../../ground/codec/tests/support/table.rs"]
mod table;
use table::Table;

#[test]
fn a_block_is_laid_out_as_documented() {
    let key = BlockKey {
        log: 0x0123_4567,
        file: 42,
        opening: 3,
    };
    let mut body = Vec::new();
    push_record(&mut body, 0x0a0b_0c0d, 0x0010_2030, b"payload");
    let header = BlockHeader {
        segment: 42,
        records: 1,
        durable: 0x1122,
        group: 0x3344,
        parts: 5,
        last: true,
    };
    let mut bytes = Vec::new();
    key.seal(4096, &header, &[9 << 24 | 8], &body, &mut bytes);
    let table = Table::read("vlog.md", "### Block");
    let value = |field| table.value(field, &bytes);
    assert_eq!(table.len(), 64);
    assert_eq!(table.bytes("magic", &bytes), b"HVLB");
    let head = Checksum::new()
        .with(&0x0123_4567_u128.to_le_bytes())
        .with(&42u64.to_le_bytes())
        .with(&3u64.to_le_bytes())
        .with(&4096u64.to_le_bytes())
        .with(&bytes[8..72])
        .finish();
    assert_eq!(value("head_crc"), u64::from(head));
    assert_eq!(value("body_crc"), u64::from(crc32c(&body)));
    assert_eq!(value("body_bytes"), body.len() as u64);
    assert_eq!(value("segment"), 42);
    assert_eq!((value("records"), value("kills")), (1, 1));
    assert_eq!((value("durable"), value("group")), (0x1122, 0x3344));
    assert_eq!((value("parts"), value("flags")), (5, 1));
    assert_eq!(value("reserved"), 0);
    assert!(table.without("magic", &bytes).starts_with(&[0; 4]));

    let table = Table::read("vlog.md", "### Record");
    assert_eq!(table.len(), 12);
    assert_eq!(bytes[72..], body);
    assert_eq!(table.value("length", &body), 7);
    assert_eq!(table.value("ordinal", &body), 0x0010_2030);
    assert_eq!(table.value("stream", &body), 0x0a0b_0c0d);
    assert_eq!(&body[table.len()..], b"payload");
}

#[test]
fn the_small_files_are_laid_out_as_documented() {
    let header = SegmentHeader {
        log: 1,
        number: 2,
        opening: 3,
        lane: 4,
        origin: Origin::Compacted,
    };
    let sector = header.encode();
    let object = codec::open_object(&sector, 16, None).unwrap();
    let (set, number) = (object.identity.set, object.identity.object);
    assert_eq!((set, number), (1u128.to_le_bytes(), 2));
    assert_eq!(object.identity.generation, 3);
    let table = Table::read("vlog.md", "## Segment file, version 1");
    assert_eq!(object.payload.len(), table.len());
    assert_eq!(table.value("lane", object.payload), 4);
    assert_eq!(table.value("origin", object.payload), 1);

    let mut manifest = Manifest {
        opening: 1,
        next_number: 20,
        validity: 3,
        group_floor: 4,
        directories: 6,
        ..Manifest::default()
    };
    let file = FileEntry {
        bytes: 8,
        opening: 9,
        directory: 5,
        lane: 11,
        state: State::Compacted,
        kills: 13,
    };
    manifest.files.insert(7, file);
    let segment = SegmentEntry {
        file: 7,
        records: 15,
    };
    manifest.segments.insert(14, segment);
    let bytes = manifest.encode();
    let table = Table::read("vlog.md", "## Manifest, version 1");
    let (head, rest) = bytes.split_at(table.len());
    let value = |field| table.value(field, head);
    assert_eq!((value("opening"), value("next_number")), (1, 20));
    assert_eq!((value("validity"), value("group_floor")), (3, 4));
    assert_eq!((value("directories"), value("files")), (6, 1));
    assert_eq!((value("segments"), value("reserved")), (1, 0));
    let table = Table::read("vlog.md", "A file entry");
    let (entry, rest) = rest.split_at(table.len());
    let value = |field| table.value(field, entry);
    assert_eq!((value("number"), value("bytes")), (7, 8));
    assert_eq!((value("opening"), value("directory")), (9, 5));
    assert_eq!((value("lane"), value("state"), value("kills")), (11, 3, 13));
    let table = Table::read("vlog.md", "A segment entry");
    assert_eq!(rest.len(), table.len());
    let value = |field| table.value(field, rest);
    assert_eq!((value("number"), value("file")), (14, 7));
    assert_eq!((value("records"), value("reserved")), (15, 0));
    assert_eq!(Manifest::decode(&bytes), Ok(manifest));
}

#[test]
fn a_validity_file_is_laid_out_as_documented() {
    let mut live = LiveSet::all(65536 + 5);
    live.kill(65536);
    let mut bytes = Vec::new();
    validity::push(&mut bytes, 9, &live, true);
    let table = Table::read("vlog.md", "## Validity, version 1");
    let value = |field| table.value(field, &bytes);
    assert_eq!((value("number"), value("records")), (9, 65541));
    assert_eq!(value("finished"), 1);
    // All of the first piece; of the second four are listed.
    assert_eq!(bytes[table.len()..], [0, 3, 4, 0, 1, 0, 2, 0, 3, 0, 4, 0]);
    let table = Table::read("vlog.md", "## Directory, version 1");
    assert_eq!(table.len(), 8);
}
