//! What stands on the disks of a volume.

use codec::{Identity, kind, seal_object};
use volume::checkpoint::{self, sheet};
use volume::flight::Header;
use volume::id::{Segment, Use};
use volume::superblock::Superblock;
use volume::{VolumeId, inspect, pack, table};

const VOLUME: VolumeId = VolumeId(0x1122);

/// Any bytes are refused or read back as the same; then the input is taken as the payload of a
/// sound object of each kind, so that the checks behind the checksums are reached.
pub(crate) fn check(bytes: &[u8]) {
    check_one(bytes);
    let number = |at: usize| {
        let field = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
        field.map_or(0, u64::from_le_bytes)
    };
    for (kind, object, generation) in [
        (kind::VOLUME, number(0) & 3, 0),
        (kind::VOLUME_FLIGHT, number(8) & 0xffff, number(0).max(1)),
        (kind::VOLUME_TABLE, 3, 9),
        (kind::VOLUME_CHECKPOINT, 1, 5),
        (kind::VOLUME_SHEET, 2, 7),
    ] {
        let identity = Identity {
            set: VOLUME.bytes(),
            object,
            generation,
        };
        for version in [1, 2] {
            check_one(&seal_object(kind, version, &identity, bytes));
        }
    }
}

fn check_one(bytes: &[u8]) {
    if let Ok(superblock) = Superblock::decode(bytes, 1 << 40) {
        assert_eq!(
            Superblock::decode(&superblock.encode(), 1 << 40),
            Ok(superblock)
        );
    }
    if let Ok(header) = Header::decode(bytes) {
        let blocks = header.data_blocks() as usize + header.packs().count();
        assert!(blocks == header.sums.len());
        assert!(Header::blocks_from_start(bytes).is_some());
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
    if let Ok(members) = pack::decode(bytes) {
        let again = pack::encode(&members);
        assert_eq!(bytes.get(..again.len()), Some(&again[..]));
        for member in members {
            // The library decides; whatever it says, it is one block or none.
            let whole = member.expand(&mut [0; volume::BLOCK_BYTES]);
            assert!(whole.is_ok() || member.squeezed.len() <= pack::SQUEEZED_BYTES_MAX);
        }
    }
    if let Ok(header) = checkpoint::Header::decode(bytes) {
        assert_eq!(checkpoint::Header::decode(&header.encode()), Ok(header));
    }
    if let Ok(rows) = table::decode(bytes, VOLUME, Segment(3), Use(9), 4096) {
        let again = table::encode(VOLUME, Segment(3), Use(9), &rows);
        assert_eq!(
            table::decode(&again, VOLUME, Segment(3), Use(9), 4096),
            Ok(rows)
        );
    }
    if let Ok(records) = sheet::decode(bytes, VOLUME, 7, 2) {
        for record in records {
            if let sheet::Record::Leaf { leaf, .. } = record {
                let runs = leaf.runs();
                assert_eq!(runs.is_empty(), leaf.is_empty());
                let blocks: u32 = runs.iter().map(|run| u32::from(run.length)).sum();
                assert!(blocks <= 512);
            }
        }
    }
    drop(inspect::inspect(bytes, bytes.len() as u64));
}
