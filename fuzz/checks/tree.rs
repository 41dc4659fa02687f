//! What a directory tree on a volume is made of.

use codec::{Identity, kind, seal_object};
use volume::directory::{TABLE, attributes, inode, page};
use volume::{ObjectId, VolumeId, inspect};

const VOLUME: VolumeId = VolumeId(0x1122);
const PAGE: u32 = 3;
const OBJECT: ObjectId = ObjectId(2 << 56 | 77);

/// Any bytes are refused or read back as the same; then the input is taken as the payload of a
/// sound object of each kind, at the length that it has to have and as it is.
pub(crate) fn check(bytes: &[u8]) {
    check_one(bytes);
    let mut whole = bytes.to_vec();
    whole.resize(4096 - codec::OBJECT_HEADER_BYTES, 0);
    for (kind, object, generation) in [
        (kind::VOLUME_INODES, TABLE, PAGE),
        (kind::VOLUME_DIRECTORY, OBJECT, PAGE),
        (kind::VOLUME_ATTRIBUTES, OBJECT, 0),
    ] {
        let identity = Identity {
            set: VOLUME.bytes(),
            object: object.0,
            generation: generation.into(),
        };
        for payload in [bytes, &whole] {
            check_one(&seal_object(kind, 1, &identity, payload));
        }
    }
}

fn check_one(bytes: &[u8]) {
    if let Ok(inodes) = inode::decode(bytes, VOLUME, PAGE) {
        let again = inode::encode(VOLUME, PAGE, &inodes);
        assert_eq!(inode::decode(&again, VOLUME, PAGE), Ok(inodes));
    }
    if let Ok(entries) = page::decode(bytes, VOLUME, OBJECT, PAGE) {
        let again = page::encode(VOLUME, OBJECT, PAGE, entries.iter().cloned());
        assert_eq!(page::decode(&again, VOLUME, OBJECT, PAGE), Ok(entries));
    }
    if let Ok(list) = attributes::decode(bytes, VOLUME, OBJECT)
        && let Some(again) = attributes::encode(VOLUME, OBJECT, &list)
    {
        assert_eq!(attributes::decode(&again, VOLUME, OBJECT), Ok(list));
    }
    drop(inspect::inspect(bytes, bytes.len() as u64));
}
