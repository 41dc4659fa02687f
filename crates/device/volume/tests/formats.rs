//! docs/formats/volume.md says what the code does, and old bytes stay readable.

extern crate holdfast_volume as volume;

use codec::{OBJECT_HEADER_BYTES, kind};
use env::real::RealDir;
use env::sim::World;
use env::{Dir, Disk, Open};
use std::sync::Arc;
use volume::checkpoint::{Header as Checkpoint, sheet};
use volume::directory::{self, attributes, inode, page};
use volume::entry::Entry;
use volume::flight::{Header, Stream};
use volume::geometry::Geometry;
use volume::id::{BlockIndex, Flight, Place, Segment, Use};
use volume::pack::{self, Member};
use volume::superblock::Superblock;
use volume::table::{self as segment_table, Row};
use volume::trace::Recorder;
use volume::{Change, ObjectId, Options, Volume, VolumeId};

#[path = "../../../ground/codec/tests/support/table.rs"]
mod table;
use table::Table;

const VOLUME: VolumeId = VolumeId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);

/// The payload of a sealed object of this kind and identity.
fn payload(bytes: &[u8], kind: u16, object: u64, generation: u64) -> &[u8] {
    let found = codec::open_object(bytes, kind, None).unwrap();
    let identity = found.identity;
    assert_eq!((identity.object, identity.generation), (object, generation));
    assert_eq!(identity.set, VOLUME.bytes());
    &bytes[OBJECT_HEADER_BYTES..OBJECT_HEADER_BYTES + found.payload.len()]
}

fn geometry() -> Geometry {
    Geometry::fit(&[64 << 20, 64 << 20], 64).unwrap()
}

#[test]
fn a_superblock_is_laid_out_as_documented() {
    let superblock = Superblock {
        version: 2,
        volume: VOLUME,
        disk: 1,
        geometry: geometry(),
    };
    let bytes = superblock.encode();
    let payload = payload(&bytes, kind::VOLUME, 1, 0);
    let table = Table::read("volume.md", "## Superblock, version 2");
    assert_eq!(table.len(), payload.len());
    assert_eq!(table.value("block_bytes", payload), 4096);
    assert_eq!(table.value("segment_blocks", payload), 64);
    let segments = u64::from(geometry().segments_per_disk);
    assert_eq!(table.value("segments_per_disk", payload), segments);
    assert_eq!(
        table.value("slot_blocks", payload),
        u64::from(geometry().slot_blocks)
    );
    assert_eq!(table.value("disks", payload), 2);
}

fn flight() -> Header {
    Header {
        volume: VOLUME,
        place: Place(640),
        flight: Flight((3 << 40) + 9),
        segment_use: Use((3 << 40) + 7),
        durable_below: Flight((3 << 40) + 8),
        checkpoint: 12,
        stream: Stream::Cleaner,
        entries: vec![
            (
                Entry::Write {
                    object: ObjectId(5),
                    block: BlockIndex(6),
                    count: 2,
                },
                true,
            ),
            (
                Entry::Move {
                    object: ObjectId(7),
                    block: BlockIndex(8),
                    count: 1,
                    from: Place(0x99),
                },
                false,
            ),
        ],
        packs: 0,
        sums: vec![0x11, 0x22, 0x33],
        inline: Vec::new(),
    }
}

#[test]
fn a_trace_is_laid_out_as_documented() {
    let home = tempfile::tempdir().unwrap();
    let dir = RealDir::open(home.path()).unwrap();
    let image = dir.open("image", Open::Create(16_384)).unwrap();
    image.write_at(5000, b"base").unwrap();
    let file = dir.make("trace").unwrap();
    let recorder = Recorder::start(image.clone(), file.clone(), VOLUME.0).unwrap();
    recorder.write_at(700, b"content").unwrap();
    recorder.discard(4096, 8192).unwrap();
    recorder.sync().unwrap();
    recorder.mark(b"a mark").unwrap();
    recorder.finish().unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();

    let payload = payload(&bytes[..4096], kind::TRACE, 0, 0);
    let header = Table::read("trace.md", "## Header, version 1");
    assert_eq!(header.len(), payload.len());
    assert_eq!(header.value("disk_bytes", payload), 16_384);
    let mut block = [0; 4096];
    block[904..908].copy_from_slice(b"base");
    let base = [&4096_u64.to_le_bytes()[..], &block].concat();
    let sum = header.value("base_sum", payload);
    assert_eq!(sum, u64::from(codec::crc32c(&base)));

    let frame = Table::read("log.md", "## Frame, version 1");
    let range = Table::read("trace.md", "### A range");
    let answer = Table::read("trace.md", "### An answer");
    let mut at = 4096;
    let mut next = |kind: u64, number: u64, content: usize| {
        let head = &bytes[at..];
        assert_eq!(frame.value("kind", head), kind);
        assert_eq!(frame.value("sequence", head), number);
        assert_eq!(frame.value("flags", head) + frame.value("behind", head), 0);
        let length = frame.value("payload_bytes", head) as usize;
        let rest = &head[frame.len()..];
        at += (frame.len() + length).next_multiple_of(8) + content.next_multiple_of(8);
        (
            rest[..length].to_vec(),
            rest[length..length + content].to_vec(),
        )
    };
    let ranged = |(payload, content): (Vec<u8>, Vec<u8>)| {
        assert_eq!(payload.len(), range.len());
        let values = ["offset", "length", "detail", "reserved"];
        (values.map(|name| range.value(name, &payload)), content)
    };
    let answered = |(payload, _): (Vec<u8>, Vec<u8>)| {
        assert_eq!(payload.len(), answer.len());
        ["request", "errno", "reserved"].map(|name| answer.value(name, &payload))
    };
    let (write, content) = ranged(next(1, 1, 7));
    assert_eq!(write, [700, 7, codec::crc32c(b"content").into(), 0]);
    assert_eq!(content, b"content");
    assert_eq!(answered(next(4, 2, 0)), [1, 0, 0]);
    assert_eq!(ranged(next(2, 3, 0)).0, [4096, 8192, 1, 0]);
    assert_eq!(answered(next(4, 4, 0)), [3, 0, 0]);
    assert_eq!(next(3, 5, 0).0, b"");
    assert_eq!(answered(next(4, 6, 0)), [5, 0, 0]);
    assert_eq!(next(5, 7, 0).0, b"a mark");
    assert_eq!(next(6, 8, 0).0, b"");
    assert_eq!(at, bytes.len());
    let golden: &[u8] = include_bytes!("golden/trace-v1");
    assert_eq!(bytes, golden, "golden, version 1");
}

#[test]
fn a_flight_is_laid_out_as_documented() {
    let bytes = flight().encode();
    let payload = payload(&bytes, kind::VOLUME_FLIGHT, 640, (3 << 40) + 9);
    let table = Table::read("volume.md", "## Flight, version 2");
    assert_eq!(table.value("segment_use", payload), (3 << 40) + 7);
    assert_eq!(table.value("durable_below", payload), (3 << 40) + 8);
    assert_eq!(table.value("checkpoint", payload), 12);
    assert_eq!(table.value("data_blocks", payload), 3);
    assert_eq!(table.value("entries", payload), 2);
    assert_eq!(table.value("stream", payload), 1);
    let entries = &payload[table.len()..];
    let entry = Table::read("volume.md", "## Entry");
    let (first, rest) = entries.split_at(entry.len());
    let (second, sums) = rest.split_at(entry.len());
    let values = |bytes: &[u8]| {
        ["operation", "ends", "slot", "count", "object", "argument"]
            .map(|name| entry.value(name, bytes))
    };
    assert_eq!(values(first), [1, 1, 0, 2, 5, 6]);
    assert_eq!(entry.without("slot", first), first);
    assert_eq!(values(second), [2, 0, 0, 1, 7, 8 | 0x99 << 32]);
    assert_eq!(sums, [0x11, 0, 0, 0, 0x22, 0, 0, 0, 0x33, 0, 0, 0]);
    assert_eq!(Header::decode(&bytes), Ok(flight()));
    assert_eq!(codec::crc32c(&bytes), 362_638_902, "golden, version 1");
}

#[test]
fn a_flight_with_packs_is_laid_out_as_documented() {
    let members = [
        Member {
            object: ObjectId(5),
            block: BlockIndex(9),
            squeezed: &[0xaa, 0xbb],
        },
        Member {
            object: ObjectId(6),
            block: BlockIndex(10),
            squeezed: &[0xcc],
        },
    ];
    let packed = |block, slot| Entry::Pack {
        object: ObjectId(5),
        block: BlockIndex(block),
        count: 1,
        slot,
    };
    let repacked = Entry::Repack {
        object: ObjectId(6),
        block: BlockIndex(10),
        from: Place(0x77),
        slot: 0,
    };
    let mut header = flight();
    header.packs = 1;
    header.sums.push(0x44);
    header.inline = pack::encode(&members);
    let more = [
        (packed(9, 0), false),
        (packed(20, 1), false),
        (repacked, true),
    ];
    header.entries.extend(more);
    let bytes = header.encode();
    let payload = payload(&bytes, kind::VOLUME_FLIGHT, 640, (3 << 40) + 9);
    let table = Table::read("volume.md", "## Flight, version 2");
    let entry = Table::read("volume.md", "## Entry");
    let number = |name| table.value(name, payload);
    assert_eq!((number("data_blocks"), number("packs")), (3, 1));
    let rest = &payload[table.len() + 2 * entry.len()..];
    let values = |at: usize| {
        let bytes = &rest[at * entry.len()..];
        ["operation", "ends", "slot", "count", "object", "argument"]
            .map(|name| entry.value(name, bytes))
    };
    assert_eq!(values(0), [8, 0, 0, 1, 5, 9]);
    assert_eq!(values(1), [8, 0, 1, 1, 5, 20]);
    assert_eq!(values(2), [9, 1, 0, 1, 6, 10 | 0x77 << 32]);
    let packed = &rest[3 * entry.len() + 4 * 4..];
    let head = Table::read("volume.md", "## Pack");
    let member = Table::read("volume.md", "A member:");
    assert_eq!(
        ["members", "bytes"].map(|name| head.value(name, packed)),
        [2, 43]
    );
    let value = |at: usize| {
        let bytes = &packed[head.len() + at * member.len()..];
        ["object", "block", "bytes"].map(|name| member.value(name, bytes))
    };
    assert_eq!((value(0), value(1)), ([5, 9, 2], [6, 10, 1]));
    assert_eq!(packed[head.len() + 2 * member.len()..], [0xaa, 0xbb, 0xcc]);
    assert_eq!(Header::decode(&bytes), Ok(header));
    assert_eq!(codec::crc32c(&bytes), 2_972_370_828, "golden, version 2");
}

#[test]
fn a_segment_table_is_laid_out_as_documented() {
    let row = Row::Block {
        object: ObjectId(5),
        block: BlockIndex(6),
        sum: 7,
    };
    let bytes = segment_table::encode(VOLUME, Segment(3), Use(9), &vec![None, Some(row)]);
    let first = payload(&bytes, kind::VOLUME_TABLE, 3, 9);
    let table = Table::read("volume.md", "## Segment table, version 2");
    let (first, second) = first.split_at(table.len());
    let values = |bytes: &[u8]| ["object", "block", "sum"].map(|name| table.value(name, bytes));
    assert_eq!(values(first), [u64::MAX, 0, 0]);
    assert_eq!(values(second), [5, 6, 7]);
    assert_eq!(codec::crc32c(&bytes), 1_555_900_000, "golden, version 1");
    let rows = vec![Some(Row::Header), Some(Row::Pack { sum: 8 }), Some(row)];
    let bytes = segment_table::encode(VOLUME, Segment(3), Use(9), &rows);
    let payload = payload(&bytes, kind::VOLUME_TABLE, 3, 9);
    let values = |at: usize| {
        let bytes = &payload[at * table.len()..];
        ["object", "block", "sum"].map(|name| table.value(name, bytes))
    };
    assert_eq!(values(0), [u64::MAX - 2, 0, 0]);
    assert_eq!(values(1), [u64::MAX - 1, 0, 8]);
    assert_eq!(values(2), [5, 6, 7]);
    let again = segment_table::decode(&bytes, VOLUME, Segment(3), Use(9), 16);
    assert_eq!(again, Ok(rows));
    assert_eq!(codec::crc32c(&bytes), 2_039_126_574, "golden, version 2");
}

#[test]
fn a_checkpoint_is_laid_out_as_documented() {
    let header = Checkpoint {
        volume: VOLUME,
        number: 5,
        replay_from: Flight((3 << 40) + 2),
        complete_below: Flight((3 << 40) + 4),
        sheets: 6,
    };
    let bytes = header.encode();
    let payload = payload(&bytes, kind::VOLUME_CHECKPOINT, 1, 5);
    let table = Table::read("volume.md", "## Checkpoint, version 1");
    assert_eq!(table.len(), payload.len());
    assert_eq!(table.value("replay_from", payload), (3 << 40) + 2);
    assert_eq!(table.value("complete_below", payload), (3 << 40) + 4);
    assert_eq!(table.value("sheets", payload), 6);
    assert_eq!(codec::crc32c(&bytes), 2_656_458_419, "golden, version 1");
}

/// Bytes of the disk of [`golden`].
const GOLDEN_BYTES: u64 = 2 << 20;

/// The disk of a small volume, as version 1 left it after a crash: pairs of the number of a block
/// (4 bytes) and its content; all others are zeros.
const GOLDEN: &[u8] = include_bytes!("golden/v1.blocks");

/// The same of version 2, with packs.
const PACKED: &[u8] = include_bytes!("golden/v2.blocks");

fn golden() -> (World, Arc<dyn Disk>) {
    stored(GOLDEN)
}

fn stored(stored: &[u8]) -> (World, Arc<dyn Disk>) {
    let world = World::new(0);
    let disk: Arc<dyn Disk> = world.disk("disk", GOLDEN_BYTES);
    for pair in stored.chunks(4 + 4096) {
        let (number, content) = pair.split_at(4);
        let number = u32::from_le_bytes(number.try_into().unwrap());
        disk.write_at(u64::from(number) * 4096, content).unwrap();
    }
    (world, disk)
}

/// A checkpoint, then a group of two objects behind it.
fn fill(volume: &Volume) {
    volume
        .atomic_write(&[
            (ObjectId(1), 0, &[1; 3 * 4096]),
            (ObjectId(2), 5000, b"part"),
        ])
        .unwrap();
    let punch = Change::Discard {
        object: ObjectId(1),
        offset: 4096,
        length: 4096,
    };
    volume.commit(&[punch]).unwrap();
    volume.checkpoint().unwrap();
    let resize = Change::Resize {
        object: ObjectId(9),
        size: 700,
    };
    let write = Change::Write {
        object: ObjectId(2),
        offset: 0,
        bytes: b"behind the checkpoint",
    };
    volume.commit(&[resize, write]).unwrap();
    volume.sync().unwrap();
}

#[test]
fn a_volume_of_version_1_can_be_read() {
    let (_world, disk) = golden();
    let volume = Volume::open(vec![disk], Options::default()).unwrap();
    has_what_was_filled_in(&volume);
}

#[test]
fn a_volume_of_version_1_stays_one() {
    let (_world, disk) = golden();
    let superblock = |disk: &dyn Disk| {
        let mut block = vec![0; 4096];
        disk.read_at(0, &mut block).unwrap();
        block
    };
    let before = superblock(disk.as_ref());
    let volume = Volume::open(vec![disk.clone()], Options::default()).unwrap();
    let text = b"this compresses well ".repeat(600);
    volume.atomic_write(&[(ObjectId(3), 0, &text)]).unwrap();
    assert_eq!(volume.stats().counters.spared_blocks, 0);
    volume.close().unwrap();
    assert!(superblock(disk.as_ref()) == before);
    let volume = Volume::open(vec![disk], Options::default()).unwrap();
    let mut found = vec![0; text.len()];
    volume.read(ObjectId(3), 0, &mut found).unwrap();
    assert!(found == text);
}

#[test]
fn a_volume_of_version_2_with_packs_can_be_read() {
    let (_world, disk) = stored(PACKED);
    // The first flight: three blocks of object 1 and one of object 2, all in its header.
    let geometry = Geometry::fit(&[GOLDEN_BYTES], 16).unwrap();
    let mut head = vec![0; 4096];
    disk.read_at(geometry.locate(Place(0)).1, &mut head)
        .unwrap();
    let header = Header::decode(&head).unwrap();
    assert_eq!((header.packs, header.data_blocks()), (0, 0));
    assert_eq!(pack::decode(&header.inline).unwrap().len(), 4);
    let volume = Volume::open(vec![disk], Options::default()).unwrap();
    has_what_was_filled_in(&volume);
    assert!(volume.check(&mut |_, _| {}).unwrap().damaged.is_empty());
}

fn has_what_was_filled_in(volume: &Volume) {
    let sizes = [
        (ObjectId(1), 12_288),
        (ObjectId(2), 5004),
        (ObjectId(9), 700),
    ];
    assert_eq!(volume.objects(), sizes);
    let read = |object, offset, length| {
        let mut buffer = vec![0xff; length];
        volume.read(ObjectId(object), offset, &mut buffer).unwrap();
        buffer
    };
    assert_eq!(
        read(1, 0, 12_288),
        [[1; 4096], [0; 4096], [1; 4096]].concat()
    );
    assert_eq!(read(2, 0, 21), b"behind the checkpoint");
    assert_eq!(read(2, 4999, 5), b"\0part");
    assert_eq!(read(9, 0, 700), [0; 700]);
}

#[test]
fn what_is_written_now_is_what_version_1_wrote() {
    let world = World::new(0);
    let disk: Arc<dyn Disk> = world.disk("disk", GOLDEN_BYTES);
    let options = |packs| Options {
        segment_blocks: 16,
        packs,
        ..Options::default()
    };
    fill(&Volume::create(vec![disk.clone()], VOLUME, options(false)).unwrap());
    // But for the superblocks, the first and the last block: new volumes have version 2.
    let (first, behind) = GOLDEN.split_at(4 + 4096);
    let between = &behind[..behind.len() - first.len()];
    let now = blocks(disk.as_ref());
    assert!(now[first.len()..now.len() - first.len()] == *between);
    if let Ok(path) = std::env::var("HOLDFAST_WRITE_GOLDEN") {
        let world = World::new(0);
        let disk: Arc<dyn Disk> = world.disk("disk", GOLDEN_BYTES);
        fill(&Volume::create(vec![disk.clone()], VOLUME, options(true)).unwrap());
        std::fs::write(path, blocks(disk.as_ref())).unwrap();
    }
}

/// The blocks of a disk that are not zeros, each behind its number.
fn blocks(disk: &dyn Disk) -> Vec<u8> {
    let mut now = Vec::new();
    for number in 0..(GOLDEN_BYTES / 4096) as u32 {
        let mut block = [0; 4096];
        disk.read_at(u64::from(number) * 4096, &mut block).unwrap();
        if block != [0; 4096] {
            now.extend_from_slice(&number.to_le_bytes());
            now.extend_from_slice(&block);
        }
    }
    now
}

#[test]
fn records_of_a_sheet_are_laid_out_as_documented() {
    let (_world, disk) = golden();
    let geometry = Geometry::fit(&[GOLDEN_BYTES], 16).unwrap();
    // Checkpoint 2 is in slot 0, which begins behind the superblock; its sheets behind its header.
    let mut bytes = vec![0; 16 << 10];
    disk.read_at(2 * 4096, &mut bytes).unwrap();
    let payload = payload(&bytes, kind::VOLUME_SHEET, 0, 2);
    let table = Table::read("volume.md", "Each has a head:");
    let value = |name, at: usize| table.value(name, &payload[at..]);
    let segments = u64::from(geometry.segments());
    assert_eq!((value("form", 0), value("count", 0)), (1, segments));
    let next = table.len() + 8 * segments as usize;
    let object = ["object", "number", "form", "count"].map(|name| value(name, next));
    assert_eq!(object, [1, 0, 2, 1]);
    let next = next + table.len() + 8;
    assert_eq!((value("object", next), value("form", next)), (1, 3));
    let run = &payload[next + table.len()..][..8];
    let records = sheet::decode(&bytes, VOLUME, 2, 0).unwrap();
    let Some(sheet::Record::Leaf { leaf, .. }) = records.get(2) else {
        panic!("the third record is a leaf");
    };
    let first = leaf.runs()[0];
    let volume::map::Mapped::At(place) = first.mapped() else {
        panic!("the first run has a place");
    };
    let mut expected = Vec::from(first.start.to_le_bytes());
    expected.extend_from_slice(&first.length.to_le_bytes());
    expected.extend_from_slice(&place.0.to_le_bytes());
    assert_eq!(run, expected);
}

#[test]
fn a_block_checksum_covers_what_is_documented() {
    let (_world, disk) = golden();
    let geometry = Geometry::fit(&[GOLDEN_BYTES], 16).unwrap();
    // The first flight: its header is one block, blocks of object 1 follow.
    let mut bytes = vec![0; 2 * 4096];
    disk.read_at(geometry.locate(Place(0)).1, &mut bytes)
        .unwrap();
    let (head, block) = bytes.split_at(4096);
    let header = Header::decode(head).unwrap();
    let mut covered = Vec::from(VOLUME.bytes());
    covered.extend_from_slice(&1u64.to_le_bytes());
    covered.extend_from_slice(&0u32.to_le_bytes());
    covered.extend_from_slice(&1u32.to_le_bytes());
    covered.extend_from_slice(&header.segment_use.0.to_le_bytes());
    covered.extend_from_slice(&codec::crc32c(block).to_le_bytes());
    let table = Table::read("volume.md", "## Checksum of a block");
    assert_eq!(table.len(), covered.len());
    let value = |name| table.value(name, &covered);
    assert_eq!((value("object"), value("block"), value("place")), (1, 0, 1));
    assert_eq!(value("segment_use"), header.segment_use.0);
    assert_eq!(value("content"), u64::from(codec::crc32c(block)));
    assert_eq!(header.sums[0], codec::crc32c(&covered));
}

#[test]
fn a_page_of_inodes_is_laid_out_as_documented() {
    let time = |sec, nsec| mount::Timestamp { sec, nsec };
    let mut inodes = [None; inode::INODES_PER_PAGE as usize];
    inodes[41] = Some(inode::Inode {
        kind: mount::Kind::Dir,
        perm: 0o1755,
        links: 3,
        uid: 4,
        gid: 5,
        device: 6,
        parent: mount::Ino(7),
        attributes: true,
        capability: true,
        atime: time(-8, 9),
        mtime: time(10, 11),
        ctime: time(12, 13),
    });
    let bytes = inode::encode(VOLUME, 2, &inodes);
    assert_eq!(bytes.len(), 4096);
    let payload = payload(&bytes, kind::VOLUME_INODES, directory::TABLE.0, 2);
    let table = Table::read("volume.md", "## Page of the table of inodes, version 1");
    assert_eq!(table.len() * inodes.len(), payload.len());
    let (free, record) = payload.split_at(41 * table.len());
    assert!(free.iter().all(|byte| *byte == 0));
    let value = |name| table.value(name, record);
    assert_eq!(value("ino"), 2 * 42 + 42);
    assert_eq!((value("type"), value("flags")), (2, 3));
    assert_eq!((value("permissions"), value("links")), (0o1755, 3));
    assert_eq!((value("uid"), value("gid"), value("device")), (4, 5, 6));
    assert_eq!(value("parent"), 7);
    assert_eq!(
        (value("atime"), value("atime_nsec")),
        ((-8_i64).cast_unsigned(), 9)
    );
    assert_eq!((value("mtime"), value("mtime_nsec")), (10, 11));
    assert_eq!((value("ctime"), value("ctime_nsec")), (12, 13));
    assert_eq!(inode::decode(&bytes, VOLUME, 2), Ok(inodes));
    assert!(inode::decode(&bytes, VOLUME, 3).is_err());
    assert_eq!(inode::locate(mount::Ino(126)), Some((2, 41)));
}

#[test]
fn a_page_of_a_directory_is_laid_out_as_documented() {
    let object = directory::content_of(mount::Ino(9));
    assert_eq!(object.0, 2 << 56 | 9);
    let entries = [
        page::Entry {
            ino: mount::Ino(77),
            kind: mount::Kind::Symlink,
            name: b"a name",
        },
        page::Entry {
            ino: mount::Ino(78),
            kind: mount::Kind::File,
            name: &[0xff],
        },
    ];
    let bytes = page::encode(VOLUME, object, 5, entries.iter().cloned());
    assert_eq!(bytes.len(), 4096);
    let payload = payload(&bytes, kind::VOLUME_DIRECTORY, object.0, 5);
    let head = Table::read("volume.md", "## Page of a directory, version 1");
    assert_eq!(
        (head.value("count", payload), head.value("used", payload)),
        (2, 27)
    );
    let entry = Table::read("volume.md", "An entry:");
    let first = &payload[head.len()..];
    let values = ["ino", "type", "name_bytes"].map(|name| entry.value(name, first));
    assert_eq!(values, [77, 3, 6]);
    assert_eq!(&first[entry.len()..entry.len() + 6], b"a name");
    let second = &first[entry.len() + 6..];
    let values = ["ino", "type", "name_bytes"].map(|name| entry.value(name, second));
    assert_eq!(values, [78, 1, 1]);
    assert!(second[entry.len() + 1..].iter().all(|byte| *byte == 0));
    assert_eq!(
        page::decode(&bytes, VOLUME, object, 5),
        Ok(entries.to_vec())
    );
    assert!(page::decode(&bytes, VOLUME, object, 6).is_err());
    assert_eq!(page::ENTRY_BYTES_MAX, payload.len() - head.len());
}

#[test]
fn extended_attributes_are_laid_out_as_documented() {
    let object = directory::attributes_of(mount::Ino(9));
    let list: attributes::Attributes = [
        (b"user.b".to_vec(), b"".to_vec()),
        (b"user.a".to_vec(), b"value".to_vec()),
    ]
    .into();
    let bytes = attributes::encode(VOLUME, object, &list).unwrap();
    let payload = payload(&bytes, kind::VOLUME_ATTRIBUTES, object.0, 0);
    let table = Table::read("volume.md", "## Extended attributes, version 1");
    let value =
        |at: usize| ["name_bytes", "value_bytes"].map(|name| table.value(name, &payload[at..]));
    assert_eq!(value(0), [6, 5]);
    assert_eq!(&payload[table.len()..table.len() + 11], b"user.avalue");
    assert_eq!(value(table.len() + 11), [6, 0]);
    assert_eq!(attributes::decode(&bytes, VOLUME, object), Ok(list));
}

#[test]
fn numbers_of_objects_say_what_they_are_as_documented() {
    use directory::{Role, role};
    let text = include_str!("../../../../docs/formats/volume.md");
    let (_, table) = text.split_once("| upper 8 bits | the object |").unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let numbers: Vec<u64> = rows
        .map(|row| row.split('|').nth(1).unwrap().trim().parse().unwrap())
        .collect();
    let ino = mount::Ino(5);
    let of = |upper: u64, lower: u64| role(ObjectId(upper << 56 | lower));
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(of(0, 1), Role::Device);
    assert_eq!(of(1, 0), Role::Table);
    assert_eq!(
        (of(2, 5), of(3, 5)),
        (Role::Content(ino), Role::Attributes(ino))
    );
    assert_eq!(of(4, 0), Role::Orphans);
    assert_eq!(
        [of(1, 5), of(4, 5), of(5, 0), of(255, 1)],
        [Role::Unknown; 4]
    );
}
